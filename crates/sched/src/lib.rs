//! Whether a set of real-time tasks meets its deadlines on Linux, by analysis: bounds on response
//! times that hold for every run of a set that is what it was said to be.
//!
//! Pure: no I/O, no clock, no `unsafe`, and no sentence: results are data. Every time is in
//! nanoseconds. Where something is drawn at random, the generator is seeded. A hostile set can't
//! overflow anything, nor keep an analysis from ending: it says [`Unbounded::TooManySteps`].
//!
//! ```
//! use punctual_sched::{Policy, Task, TaskSet, analyse};
//!
//! // Lehoczky 1990: the worst job of the lower task is its fifth, not its first.
//! let mut low = Task::new("low", Policy::Fixed { priority: 10 }, 100_000, 62_000);
//! low.deadline_ns = 200_000;
//! let high = Task::new("high", Policy::Fixed { priority: 20 }, 70_000, 26_000);
//! let set = TaskSet { tasks: vec![high, low], ..TaskSet::default() };
//! let analysis = analyse(&set).unwrap();
//! let bound = analysis.tasks[1].as_ref().unwrap();
//! assert_eq!((bound.response_ns, bound.job), (118_000, 4));
//! assert!(analysis.all_meet(&set));
//! ```
//!
//! | module | what it knows |
//! |---|---|
//! | [`model`] | tasks, locks, interference, the kernel's overheads, and what a set must not have |
//! | [`mod@analysis`] | all tasks of all CPUs: fixed priorities below `SCHED_DEADLINE` |
//! | [`bound`] | what an analysis finds of a task, or why there is no bound |
//! | [`demand`] | earliest deadline first, by processor demand |
//! | [`admission`] | what the kernel admits, which is no guarantee |
//! | [`sensitivity`] | how much longer jobs may take |
//! | [`server`] | where ordinary tasks may take time from real-time tasks |
//! | [`chain`] | reaction time and data age from end to end |
//! | [`simulate`] | the same sets, executed: no simulated job is later than its bound |
#![forbid(unsafe_code)]

pub mod admission;
pub mod analysis;
pub mod bound;
pub mod chain;
pub mod demand;
pub mod model;
pub mod sensitivity;
pub mod server;
pub mod simulate;

mod blocking;
mod curve;
mod offsets;
mod reservation;
mod response;
mod steps;

pub use analysis::{Analysis, analyse};
pub use bound::{Bound, Outcome, Part, Source, Unbounded};
pub use model::{
    Arrivals, Fault, Interference, Lock, Overheads, Policy, Protocol, Rank, Section, Server,
    Suspension, Task, TaskSet, Tick,
};
pub use offsets::{coincide, is_one_group};
