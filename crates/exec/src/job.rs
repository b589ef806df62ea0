//! What is known of a job.

use crate::chain::Passed;

/// A job that has ended. Instants are CLOCK_MONOTONIC.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Job {
    /// Its arrival: by the timer of the task, or of the task that set off its chain.
    pub arrival_ns: u64,
    /// When it was released: its arrival, or the end of the job before it; later by its jitter.
    pub released_ns: u64,
    /// When the task ran.
    pub started_ns: u64,
    /// When it had done its work.
    pub ended_ns: u64,
    /// How much longer than the task's deadline its phase allows it.
    pub more_ns: u64,
    /// Whether the task was ready for it in time: it had ended the job before.
    pub waited: bool,
    /// Jobs after it that were never started, because their deadline had passed.
    pub skipped: u64,
}

impl Job {
    /// From its arrival to its end.
    #[inline]
    #[must_use]
    pub fn taken_ns(&self) -> u64 {
        self.ended_ns.saturating_sub(self.arrival_ns)
    }

    /// From its arrival to its end, as it counts against the task's deadline: without what its phase allows more.
    #[inline]
    #[must_use]
    pub fn response_ns(&self) -> u64 {
        self.taken_ns().saturating_sub(self.more_ns)
    }
}

/// Takes what a task finds out. All are called by the task's own thread, between two jobs: none may
/// allocate, wait or call the kernel.
pub trait Sink: Send + 'static {
    /// A job has ended.
    fn job(&mut self, job: Job);
    /// These jobs, at about this instant, will never be started: as many releases were pending as may be, or the set
    /// has ended and their deadline has passed.
    fn dropped(&mut self, at_ns: u64, jobs: u64);
    /// A value came out of a chain.
    fn passed(&mut self, passed: Passed);
}
