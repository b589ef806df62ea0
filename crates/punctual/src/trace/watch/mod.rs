//! What the threads of a running program go through: counted in the kernel, where no count is
//! lost, and read here. The program is left as it is: nothing is added to it, it isn't
//! stopped, and its threads make no system call more.
//!
//! The events behind a bill come from [`super::capture`].

pub mod calls;
#[cfg(feature = "trace")]
mod kernel;
pub mod rhythm;

#[cfg(not(feature = "trace"))]
mod kernel {
    //! A program that was built without tracing.
    use super::{Call, Options, Sleeper, Wake};
    use crate::trace::capture::Unavailable;

    /// There is none.
    pub enum Watching {}

    impl Watching {
        pub fn start(_: &Options) -> Result<Self, Unavailable> {
            Err(Unavailable::new(
                "this punctual was built without tracing (--no-default-features)",
                "build it anew: make",
            ))
        }
        pub fn drain(&mut self) -> Vec<Wake> {
            match *self {}
        }
        pub fn threads(&self) -> Vec<Sleeper> {
            match *self {}
        }
        pub fn calls(&self) -> Vec<(u32, Call)> {
            match *self {}
        }
        pub fn forget(&mut self, _: u32) {
            match *self {}
        }
    }
}

pub use kernel::Watching;

/// What to watch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Options {
    /// The program, as the kernel numbers it.
    pub pid: u32,
    /// Its threads of ordinary priority too.
    pub every: bool,
    /// Wake-ups that each CPU's ring holds; rounded up to a power of two.
    pub ring: usize,
}

/// One wake-up of a thread.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Wake {
    /// The thread.
    pub tid: u32,
    /// When it ran again; for one that had not gone to sleep yet, when its timer expired.
    pub end_ns: u64,
    /// On which CPU.
    pub cpu: u32,
    /// The instant that its timer was to expire; absent where something else woke it.
    pub due_ns: Option<u64>,
    /// When it was made ready.
    pub waking_ns: u64,
    /// On which CPU that was.
    pub waking_cpu: u32,
    /// When it armed the timer, where that was seen.
    pub armed_ns: Option<u64>,
    /// What it slept in: see [`calls::name`].
    pub call: u32,
    /// Whether it slept at all.
    pub slept: bool,
}

impl Wake {
    /// The instant that its latency counts from.
    #[must_use]
    pub fn from_ns(&self) -> u64 {
        self.due_ns.unwrap_or(self.waking_ns)
    }
}

/// A task that was in a thread's way: by number, name, policy and priority.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Other {
    /// Its number.
    pub tid: u32,
    /// Its name.
    pub name: String,
    /// SCHED_OTHER 0, FIFO 1, RR 2, BATCH 3, IDLE 5, DEADLINE 6.
    pub policy: u32,
    /// The kernel's own priority, without what locks lend it.
    pub priority: i32,
}

/// The counts of one thread, since it was seen first.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Sleeper {
    /// Itself.
    pub task: Other,
    /// When it began to live, on a clock of the kernel's: tells it from a later one.
    pub started_ns: u64,
    /// The CPU that it ran on last.
    pub cpu: Option<u32>,
    /// Whether it has ended.
    pub ended: bool,
    /// Wake-ups that were handed over, or lost on the way.
    pub wake_ups: u64,
    /// Switches to it.
    pub switches: u64,
    /// Involuntary switches away from it.
    pub preempted: u64,
    /// Switches to it on another CPU than the one before.
    pub migrations: u64,
    /// Page faults that needed no disk.
    pub minor_faults: u64,
    /// Page faults that did.
    pub major_faults: u64,
    /// Jobs under SCHED_DEADLINE that ended.
    pub jobs: u64,
    /// Those that ended after their deadline.
    pub late_jobs: u64,
    /// The most that one was late by, in ns.
    pub worst_job_ns: u64,
    /// How often the kernel put a job's deadline off, because its runtime was used up.
    pub postponed: u64,
    /// Sleeps for which no room was left among the calls.
    pub beyond: u64,
}

/// What a thread slept in, and how often.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Call {
    /// See [`calls::name`].
    pub call: u32,
    /// How often it slept in it.
    pub count: u64,
    /// From the switch away to the switch back, all together, in ns.
    pub total_ns: u64,
    /// The longest.
    pub worst_ns: u64,
    /// When that ended.
    pub worst_at_ns: u64,
    /// How many were ended by a timer.
    pub by_timer: u64,
    /// How many ended by, or waited for, a thread of lower priority.
    pub inversions: u64,
    /// Who held the lock, or who woke the thread, the longest time.
    pub other: Option<Other>,
    /// Whether that one held a lock of the kernel's knowledge, rather than woke the thread.
    pub held: bool,
}
