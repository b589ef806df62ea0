//! Latency statistics that say how far they can be trusted.
//!
//! Pure: no I/O, no clock, no `unsafe`, and no sentence: what follows from the figures is data.
//! Every time is in nanoseconds. Where something is drawn at random, the generator is seeded: one
//! record, one answer.
//!
//! A collector fills a [`Histogram`] and [`Peaks`] per thread and counts late
//! samples and skipped periods. [`RunEvidence`] points at these, and [`analyse`]
//! says all there is to say, or [`judge`] the verdict alone:
//!
//! ```
//! use punctual_stats::{Histogram, Outcome, Peak, Peaks, Requirement, RunEvidence, Skipped, ThreadEvidence, judge};
//!
//! let (mut histogram, mut peaks) = (Histogram::new(), Peaks::new());
//! for cycle in 0..100_000u64 {
//!     let latency_ns = 3_000 + cycle * 2_654_435_761 % 4_001;
//!     histogram.record(latency_ns);
//!     peaks.offer(Peak::new(cycle, cycle * 1_000_000, latency_ns));
//! }
//! let thread = ThreadEvidence {
//!     cpu: Some(0), histogram: &histogram, late: 0, missed: 0, missed_late: 0, lost: 0, unseen: 0,
//!     unseen_most_ns: None, rounded_up: None, interval_ns: Some(1_000_000), may_be_empty: false, skipped: Skipped::Alone, peaks: &peaks,
//! };
//! let run = RunEvidence {
//!     parts: Vec::new(),
//!     threads: vec![thread],
//!     duration_ns: 100_000_000_000,
//!     deadline_ns: Some(100_000),
//!     seconds: 100,
//!     seconds_with_miss: 0,
//!     rows: None,
//!     halves: None,
//! };
//! let required = Requirement::MissProbability { deadline_ns: 100_000, allowed: 1e-3 };
//! let verdict = judge(&[required], &run, 0.95);
//! assert_eq!(verdict.outcome, Outcome::Pass);
//! assert!(verdict.requirements[0].bound.upper <= 1e-3);
//! ```
//!
//! | module | what it knows |
//! |---|---|
//! | [`histogram`] | every sample, to three digits; exact minimum, maximum, sum |
//! | [`peaks`] | the highest samples with their time |
//! | [`skips`] | the periods that a thread skipped, with how late they were |
//! | [`binomial`] | exact bounds for independent cycles |
//! | [`extremal`] | how far high samples come in bursts |
//! | [`miss`] | bounds on the probability of a miss that hold in bursts |
//! | [`mod@stationarity`] | whether the run stayed the same |
//! | [`tail`] | the level exceeded once in 10⁹ cycles, or why it can't be said |
//! | [`mod@compare`] | two distributions |
//! | [`experiment`] | which knob helped: pairs of blocks in random order |
//! | [`cost`] | what a treatment costs a command: pairs of runs, judged against identical ones |
//! | [`budget`] | the sum of several times, independent or under any dependence |
//! | [`gaps`] | the verdict where gaps were looked for and not wake-ups |
//! | [`lengths`] | the same for what parts of a program took |
//! | [`requirement`], [`verdict`] | what is asked, and the answer |
//! | [`mod@format`], [`shares`] | figures as people read them |
#![forbid(unsafe_code)]

pub mod analysis;
pub mod binomial;
pub mod budget;
pub mod compare;
pub mod cost;
pub mod evidence;
pub mod experiment;
pub mod extremal;
pub mod format;
pub mod gaps;
pub mod histogram;
pub mod lengths;
pub mod miss;
pub mod peaks;
pub mod requirement;
pub mod shares;
pub mod skips;
pub mod stationarity;
pub mod tail;
pub mod tasks;
pub mod verdict;

mod golden;
mod pareto;
mod random;
mod special;

pub use analysis::{Analysis, Settings, analyse};
pub use evidence::{HalfEvidence, RunEvidence, Skipped, ThreadEvidence};
pub use histogram::{Histogram, HistogramRecord};
pub use peaks::{Peak, Peaks};
pub use requirement::Requirement;
pub use skips::{Skip, Skips};
pub use verdict::{InvalidEvidence, Outcome, Verdict, judge};
