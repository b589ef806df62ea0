//! The threads of a running program: their events are counted in the kernel, where no count is
//! lost, and read here. The program is not changed: nothing is added to it, it isn't
//! stopped, and its threads make no additional system call.
//!
//! The events of a bill come from [`super::capture`].

#[cfg(feature = "kernel")]
mod away;
#[cfg(feature = "kernel")]
mod counts;
#[cfg(feature = "kernel")]
mod kernel;
#[cfg(feature = "kernel")]
mod lengths;
mod mappings;
pub mod marks;
#[cfg(feature = "kernel")]
mod queue;
#[cfg(not(feature = "kernel"))]
mod queue {
    //! For a program that was built without tracing.
    #![allow(missing_docs, reason = "the functions of the module that traces")]
    use std::convert::Infallible;
    use std::marker::PhantomData;

    use super::QueuedThread;

    /// They can't exist.
    pub struct RunQueues<'p>(Infallible, PhantomData<&'p ()>);

    impl RunQueues<'_> {
        pub fn read(&self) -> Vec<QueuedThread> {
            match self.0 {}
        }
        pub fn forget(&mut self, _: u32, _: u64) -> bool {
            match self.0 {}
        }
        pub fn lost(&self) -> u64 {
            match self.0 {}
        }
    }
}
pub mod rhythm;
pub mod user_symbols;
mod waits;
#[cfg(feature = "kernel")]
mod wakeups;

#[cfg(not(feature = "kernel"))]
mod wakeups {
    //! For a program that was built without tracing.
    #![allow(missing_docs, reason = "the functions of the module that traces")]
    use super::{BpfCost, CpuWakeUps, RunQueues};
    use crate::capture::Unavailable;

    /// It can't exist.
    pub enum ActiveSystemWatch {}

    impl ActiveSystemWatch {
        pub fn start(_: Option<u64>, _: bool) -> Result<Self, Unavailable> {
            Err(super::built_without())
        }
        pub fn cpu(&self, _: usize) -> Option<CpuWakeUps> {
            match *self {}
        }
        pub fn counting(&self) -> std::iter::Empty<usize> {
            match *self {}
        }
        pub fn take_longest(&mut self, _: usize) -> u64 {
            match *self {}
        }
        pub fn run_queues(&mut self) -> RunQueues<'_> {
            match *self {}
        }
        pub fn measure_cost(&mut self) {
            match *self {}
        }
        pub fn cost(&mut self) -> BpfCost {
            match *self {}
        }
    }
}

#[cfg(not(feature = "kernel"))]
fn built_without() -> crate::capture::Unavailable {
    crate::capture::Unavailable::BuiltWithout
}

#[cfg(not(feature = "kernel"))]
mod kernel {
    //! For a program that was built without tracing.
    #![allow(missing_docs, reason = "the functions of the module that traces")]
    use super::{Call, OffCpuCount, OffCpuLost, Options, ProgramEvent, RunQueues, Sleeper};
    use crate::capture::Unavailable;

    /// It can't exist.
    pub enum ActiveWatch {}

    impl ActiveWatch {
        pub fn start(_: &Options) -> Result<Self, Unavailable> {
            Err(super::built_without())
        }
        pub fn drain(&mut self) -> Vec<ProgramEvent> {
            match *self {}
        }
        pub fn threads(&self) -> Vec<Sleeper> {
            match *self {}
        }
        pub fn calls(&self) -> Vec<(u32, Call)> {
            match *self {}
        }
        pub fn aways(&self) -> Vec<OffCpuCount> {
            match *self {}
        }
        pub fn away_frames(&self) -> u32 {
            match *self {}
        }
        pub fn away_stack(&self, _: u32) -> Vec<u64> {
            match *self {}
        }
        pub fn away_lost(&self) -> OffCpuLost {
            match *self {}
        }
        pub fn run_queues(&mut self) -> RunQueues<'_> {
            match *self {}
        }
        pub fn forget(&mut self, _: u32) {
            match *self {}
        }
        pub fn unfollowed(&self) -> u64 {
            match *self {}
        }
        pub fn follow(&mut self, _: u32) {
            match *self {}
        }
        pub fn unfollow(&mut self, _: u32) {
            match *self {}
        }
        pub fn departed_ns(&self, _: u32) -> Option<u64> {
            match *self {}
        }
        pub fn followed(&self) -> Vec<u32> {
            match *self {}
        }
        pub fn refused(&self) -> u64 {
            match *self {}
        }
    }
}

pub use kernel::ActiveWatch;
use punctual_record::StopCause;
pub use queue::RunQueues;
pub use waits::{AWAY_FRAMES, OffCpuCount, OffCpuLost, OffCpuReason, QueueTimes, QueuedThread};
pub use wakeups::ActiveSystemWatch;

/// What to watch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Options {
    /// Whose threads.
    pub programs: Programs,
    /// Threads of ordinary priority too.
    pub every: bool,
    /// Also record where threads are while they are off the CPU.
    pub off_cpu: bool,
    /// Also record how long threads wait for a CPU.
    pub run_queue: bool,
    /// Wake-ups that each CPU's ring holds; rounded up to a power of two.
    pub ring: usize,
}

/// Whose threads are watched.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Programs {
    /// Those of one program, by the kernel's own number ([`super::capture::numbers`]).
    One(u32),
    /// Those of programs that come and go: announced by [`ActiveWatch::follow`]; the kernel
    /// side adds and drops others when they are created, renamed or moved.
    Several(JoinRules),
}

/// How programs become watched without being announced.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct JoinRules {
    /// As the child of a watched program.
    pub children: bool,
    /// By its name, padded with zeros; all zero: any name.
    pub name: [u8; 16],
    /// By its control group: the group's number, and the mount's hierarchy.
    pub group: Option<(u64, i32)>,
}

/// Programs that are watched at the same time.
pub const MOST_PROGRAMS: u32 = 4096;

/// What the kernel reports of a thread as it happens.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ProgramEvent {
    /// It woke up.
    Woke(Wake),
    /// It was stopped, and runs again.
    Stopped(StoppedThread),
    /// A job of it under SCHED_DEADLINE ended.
    JobEnded(Job),
    /// The kernel arms a timer of it again and again.
    Repeats(RepeatingTimer),
}

impl ProgramEvent {
    /// The thread.
    #[must_use]
    pub fn tid(&self) -> u32 {
        match self {
            Self::Woke(wake) => wake.tid,
            Self::Stopped(stop) => stop.tid,
            Self::JobEnded(job) => job.tid,
            Self::Repeats(timer) => timer.tid,
        }
    }

    /// When the thread ran again, its job ended, or it was reported.
    #[must_use]
    pub fn end_ns(&self) -> u64 {
        match self {
            Self::Woke(wake) => wake.end_ns,
            Self::Stopped(stop) => stop.end_ns,
            Self::JobEnded(job) => job.end_ns,
            Self::Repeats(timer) => timer.at_ns,
        }
    }
}

/// One stop of a thread, by a signal, a debugger or a freezer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StoppedThread {
    /// The thread.
    pub tid: u32,
    /// When it left its CPU stopped; before the watch if it was already stopped then.
    pub from_ns: u64,
    /// When it was made ready again.
    pub to_ns: u64,
    /// When it ran again.
    pub end_ns: u64,
    /// What stopped it.
    pub cause: StopCause,
}

/// One job of a thread under SCHED_DEADLINE: from its wake-up to its next sleep, or `sched_yield`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Job {
    /// The thread.
    pub tid: u32,
    /// When it ended.
    pub end_ns: u64,
    /// What the kernel subtracted from the thread's budget for it.
    pub used_ns: u64,
    /// How often the thread was throttled during it.
    pub throttles: u64,
    /// The thread's reservation when it ended.
    pub of: Reservation,
}

/// A timer of a thread that the kernel arms again, at a distance that was not reported before.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RepeatingTimer {
    /// The thread.
    pub tid: u32,
    /// When it was armed.
    pub at_ns: u64,
    /// Its number: [`Timer::Object`].
    pub timer: u32,
    /// The distance; 0 if it is not known.
    pub interval_ns: u64,
}

/// The reservation of a thread under SCHED_DEADLINE.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Reservation {
    /// How long it may run in each period: its budget.
    pub runtime_ns: u64,
    /// The job must end within this time from the beginning of the period.
    pub deadline_ns: u64,
    /// The period.
    pub period_ns: u64,
}

/// One wake-up of a thread.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Wake {
    /// The thread.
    pub tid: u32,
    /// When it ran again; if it had not gone to sleep yet, when its timer expired.
    pub end_ns: u64,
    /// The CPU.
    pub cpu: u32,
    /// The instant at which its timer was to expire; absent if something else woke it.
    pub due_ns: Option<u64>,
    /// When it was made ready.
    pub waking_ns: u64,
    /// The CPU on which that happened.
    pub waking_cpu: u32,
    /// Whether the thread was not followed for a while before: it had no real-time priority.
    pub afresh: bool,
    /// Unrecorded wake-ups of the thread between the previous one and this.
    pub unseen: u64,
    /// When it armed the timer, if that was recorded.
    pub armed_ns: Option<u64>,
    /// When it went to sleep.
    pub left_ns: Option<u64>,
    /// The timer that woke it; meaningless if none did.
    pub timer: Timer,
    /// Whether the kernel armed the timer, for the next period, when the thread took the instants before: it read
    /// a timerfd, or a signal was delivered. So it does after an instant that passed while it was awake.
    pub rearmed: bool,
    /// Whether the timer has never woken the thread: it may not wait for it.
    pub unsure: bool,
    /// What it slept in: see [`super::calls::name`].
    pub call: u32,
    /// Whether it slept at all.
    pub slept: bool,
    /// If it was awake when the timer expired: the instant for which it armed it next. It had come back
    /// for the one that had passed by `end_ns`.
    pub next_ns: Option<u64>,
}

/// What kind of timer a thread waited for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Timer {
    /// A length of time: of its own sleep (0: `usleep`, a timeout of `poll`), or of a timer of its
    /// own, by number, that is armed again each time. The next one begins when it is armed, so it has
    /// no period.
    Length(u32),
    /// Its own sleep, until an absolute instant.
    Instant,
    /// A timer of its own, a timerfd or a POSIX timer, by number.
    Object(u32),
}

impl Wake {
    /// The instant from which its latency counts.
    #[must_use]
    pub fn from_ns(&self) -> u64 {
        self.due_ns.unwrap_or(self.waking_ns)
    }

    /// How long it slept before.
    #[must_use]
    pub fn slept_ns(&self) -> u64 {
        let left_ns = self.left_ns.filter(|_| self.slept);
        left_ns.map_or(0, |it| self.waking_ns.saturating_sub(it))
    }
}

/// A task that delayed a thread: by number, name, policy and priority.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Other {
    /// Its number.
    pub tid: u32,
    /// Its name.
    pub name: String,
    /// SCHED_OTHER 0, FIFO 1, RR 2, BATCH 3, IDLE 5, DEADLINE 6.
    pub policy: u32,
    /// The kernel's priority, without priority inheritance.
    pub priority: i32,
}

/// The counts of one thread, since it was first seen.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Sleeper {
    /// The thread.
    pub task: Other,
    /// When it was started, on a kernel clock: distinguishes it from a later thread.
    pub started_ns: u64,
    /// The CPU that it ran on last.
    pub cpu: Option<u32>,
    /// When it ended.
    pub ended_ns: Option<u64>,
    /// Since when it is not followed, whether it has ended or not: it has no real-time priority any more.
    pub unfollowed_ns: Option<u64>,
    /// The signal that ended it, and its program.
    pub killed_by: Option<i32>,
    /// Wake-ups that were written to the ring, including lost ones.
    pub wake_ups: u64,
    /// Switches to it.
    pub switches: u64,
    /// Involuntary switches away from it.
    pub preempted: u64,
    /// Switches to it on another CPU than the previous one.
    pub migrations: u64,
    /// Page faults that needed no disk.
    pub minor_faults: u64,
    /// Page faults that needed the disk.
    pub major_faults: u64,
    /// Jobs under SCHED_DEADLINE that ended.
    pub jobs: u64,
    /// Those that ended after their deadline.
    pub late_jobs: u64,
    /// The greatest lateness of a job, in ns.
    pub worst_job_ns: u64,
    /// How often the kernel postponed a job's deadline because its runtime was used up.
    pub postponed: u64,
    /// How often it was throttled: the runtime was used up, and it had to wait for the next period.
    pub throttles: u64,
    /// The total time of the throttles that are over, in ns.
    pub throttled_ns: u64,
    /// The longest of them, in ns.
    pub worst_throttle_ns: u64,
    /// Sleeps that exceeded the map of calls.
    pub no_room: u64,
    /// Sleeps whose end or waking the kernel did not show.
    pub unseen: u64,
    /// The program that it belongs to, by the kernel's number.
    pub program: u32,
    /// Whether it is asleep.
    pub asleep: bool,
    /// If it is stopped: since when, and by what.
    pub stopped: Option<(u64, StopCause)>,
    /// If it was made ready and has not run since.
    pub pending: Option<PendingWake>,
}

/// A wake-up that has not ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PendingWake {
    /// The instant at which its timer was to expire; absent if something else woke it.
    pub due_ns: Option<u64>,
    /// When it was made ready.
    pub waking_ns: u64,
}

impl Sleeper {
    /// Whether it has ended.
    #[must_use]
    pub fn has_ended(&self) -> bool {
        self.ended_ns.is_some()
    }
}

/// What a thread slept in, and how often.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Call {
    /// See [`super::calls::name`].
    pub call: u32,
    /// How often it slept in it.
    pub count: u64,
    /// From the switch away to the switch back, the total in ns.
    pub total_ns: u64,
    /// The longest.
    pub worst_ns: u64,
    /// When that ended.
    pub worst_at_ns: u64,
    /// How many were ended by a timer.
    pub by_timer: u64,
    /// How many were ended by, or waited for, a thread of lower priority.
    pub inversions: u64,
    /// The holder of the lock, or the waker, of the longest one.
    pub other: Option<Other>,
    /// Whether that thread held a lock that the kernel knows, rather than woke the thread.
    pub held: bool,
}

/// The wake-ups of real-time threads on one CPU.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct CpuWakeUps {
    /// The histogram: a bucket's smallest and greatest length in ns, and its count.
    pub lengths: Vec<((u64, u64), u64)>,
    /// All.
    pub count: u64,
    /// Their sum, in ns.
    pub sum_ns: u64,
    /// The shortest; 0 where there is none.
    pub least_ns: u64,
    /// The longest.
    pub most_ns: u64,
    /// Those longer than the deadline.
    pub late: u64,
    /// A longer one is among the worst.
    pub threshold_ns: u64,
    /// Wakings that exceeded the map: their wake-ups are not counted.
    pub lost: u64,
    /// The worst, in no order, each of them counted.
    pub worst: Vec<SystemWorst>,
}

/// One of the worst wake-ups of the system.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SystemWorst {
    /// How long it took.
    pub latency_ns: u64,
    /// When the thread ran.
    pub at_ns: u64,
    /// Whether it counts from the expiry that a timer was armed for.
    pub by_timer: bool,
    /// The woken thread.
    pub woken: Option<Other>,
    /// The thread that had the CPU until then; absent for the idle task.
    pub before: Option<Other>,
}

/// The cost of BPF programs.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct BpfCost {
    /// How long it was measured, in ns.
    pub measured_ns: u64,
    /// How often they were called within that time.
    pub calls: u64,
    /// How long they ran, on all CPUs together, in ns.
    pub spent_ns: u64,
}
