//! Executes a task set, event by event, in whole nanoseconds.
//!
//! Fixed priorities (equal ones in the order in which they became ready), `SCHED_DEADLINE` with its
//! server, locks with all protocols, jitter, suspension, interference, the tick and the interrupts
//! of releases. Not simulated: round robin within a priority, switching for a contended lock, times
//! in which the kernel isn't preemptible, servers of ordinary tasks, the tick by which a reservation
//! overruns, and the new deadline that Linux gives a `SCHED_DEADLINE` task that has waited for a lock.
//!
//! A simulation shows what can happen, not the worst that can: [`analyse`](crate::analyse) bounds it.

use crate::model::{Fault, TaskSet};

mod job;
mod machine;
mod order;
mod random;
mod server;

pub use job::Job;
pub use random::Random;

use machine::Machine;

/// How a set is executed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Options {
    /// The seed of all that is random.
    pub seed: u64,
    /// No job arrives later.
    pub until_ns: u64,
    /// How long jobs, sections and suspensions are, up to what the set says.
    pub execution: Times,
    /// How late jobs and interference are released, up to their jitter.
    pub jitter: Lateness,
    /// Interference and tick begin at random phases, not at 0.
    pub random_phases: bool,
    /// How many jobs are kept, beside the worst of each task.
    pub keep: usize,
    /// The simulation ends after this many events.
    pub most_events: u64,
}

impl Options {
    /// Jobs of full length, with random jitter, one million events, no jobs kept.
    #[must_use]
    pub fn new(seed: u64, until_ns: u64) -> Self {
        Options {
            seed,
            until_ns,
            execution: Times::Most,
            jitter: Lateness::Random,
            random_phases: false,
            keep: 0,
            most_events: 1_000_000,
        }
    }
}

/// How long something takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Times {
    /// The longest that it may.
    Most,
    /// Uniform from 0 to that.
    Random,
}

/// How late a release is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Lateness {
    /// Uniform from 0 to the jitter.
    Random,
    /// The first by the whole jitter, all others not at all: they come as close as they can.
    FirstOnly,
}

/// What happened.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Simulation {
    /// The first finished jobs, in the order of their ends.
    pub jobs: Vec<Job>,
    /// Of each task, the job with the longest response.
    pub worst: Vec<Option<Job>>,
    /// Of each task, how many jobs finished.
    pub finished: Vec<u64>,
    /// When the simulation ended: later than asked for where jobs were late, and earlier where it
    /// had too many events.
    pub ended_ns: u64,
}

/// Executes a set.
///
/// # Errors
/// What is wrong with the set.
pub fn simulate(set: &TaskSet, options: &Options) -> Result<Simulation, Vec<Fault>> {
    let faults = set.faults();
    if !faults.is_empty() {
        return Err(faults);
    }
    let mut machine = Machine::new(set, options);
    for _ in 0..options.most_events {
        if !machine.step() {
            break;
        }
    }
    Ok(machine.ended())
}
