//! What an analysis finds of a task.

/// A bound on the response times of a task, or why there is none.
pub type Outcome = Result<Bound, Unbounded>;

/// No job of the task takes longer, as long as the set is what it was said to be.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Bound {
    /// From the arrival of a job to its end. With [`after`](crate::Task::after), from the arrival
    /// of the first task of the chain.
    pub response_ns: u64,
    /// From the release of a job, which comes up to the jitter later, to its end.
    pub from_release_ns: u64,
    /// Which job of the longest busy window responds last, from 0.
    pub job: u64,
    /// The jitter that was counted: the task's own, and that of what releases it.
    pub jitter_ns: u64,
    /// When that job arrives: so long after the beginning of the window, or before it.
    pub arrival_in_window_ns: i64,
    /// The window is the longest with the tasks' offsets; otherwise with all tasks arriving together.
    pub at_offsets: bool,
    /// What the time until the end of that job consists of, from the beginning of the window.
    /// The parts sum to `response_ns + arrival_in_window_ns`. Empty for `SCHED_DEADLINE`, whose
    /// bound follows from a test of the whole CPU.
    pub parts: Vec<Part>,
}

/// Some of the time of a [`Bound`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Part {
    /// Who takes it.
    pub source: Source,
    /// How long.
    pub ns: u64,
}

/// Who takes time from a job.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[non_exhaustive]
pub enum Source {
    /// The task's own execution, of this job and of those before it in the window.
    Itself,
    /// The task's own suspensions.
    Suspension,
    /// The execution of the task with this index.
    Task(usize),
    /// Waiting for holders of locks of lower rank.
    Blocking,
    /// The kernel while it can't be preempted.
    Nonpreemptible,
    /// The interrupts that release the jobs of the task with this index, or end suspensions of it.
    ReleaseInterrupt(usize),
    /// The interference with this index.
    Interference(usize),
    /// The scheduler's tick.
    Tick,
    /// Ordinary tasks, by the server with this index.
    Server(usize),
}

/// Why a task has no bound.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Unbounded {
    /// `SCHED_OTHER` and its like promise nothing.
    NoGuarantee,
    /// This task and those above it ask for more than the CPU has. The task's own suspensions count
    /// as execution, and with them what may delay it after each.
    Overload,
    /// A task below holds this lock, which has no protocol, while others run.
    PlainLock {
        /// Its index.
        lock: usize,
    },
    /// This lock has users on several CPUs, which isn't modelled.
    LockAcrossCpus {
        /// Its index.
        lock: usize,
    },
    /// This lock has a `SCHED_DEADLINE` user beside others: waiting for it, the kernel takes the
    /// task for one that sleeps, and gives it a new deadline; holding it, it may be throttled.
    LockWithDeadlineTask {
        /// Its index.
        lock: usize,
    },
    /// The task that releases this one, or one above it on its CPU, has no bound.
    After {
        /// Its index.
        task: usize,
    },
    /// A task that suspends itself has no bound: one of the same or a higher rank, or of any where interrupts end the
    /// suspensions.
    Suspending {
        /// Its index.
        task: usize,
    },
    /// A job needs more than the runtime of its reservation: it is throttled in the middle.
    Throttled {
        /// What a job needs within the deadline, with all that is charged to it.
        needed_ns: u64,
    },
    /// The jobs of this `SCHED_DEADLINE` task arrive more often than its reservation's period.
    FasterThanReservation,
    /// A `SCHED_DEADLINE` task that suspends itself loses its deadline.
    SuspendingDeadlineTask,
    /// The `SCHED_DEADLINE` tasks of the CPU need more than there is.
    Demand {
        /// In an interval of this length,
        interval_ns: u64,
        /// this much must be done.
        demand_ns: u64,
    },
    /// The bound is longer than 2^60 ns.
    TooLong,
    /// The analysis was ended after 2 * 10^7 terms.
    TooManySteps,
}
