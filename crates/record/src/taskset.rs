//! A set of real-time tasks: what each of them waits for and does.
//!
//! Tasks, locks and chains name each other by index. Times are nanoseconds.

pub mod analysis;
mod bill;
mod check;
mod run;
mod split;

use std::path::PathBuf;

use crate::is_zero;
use serde::{Deserialize, Serialize};

pub use bill::{JobBill, JobBills, JobCause};
pub(crate) use check::check;
pub use run::{ChainFigures, CpuSpeed, TaskFault, TaskFigures, TaskRun};
pub use split::{ChainHop, ChainSplit, SPLIT, Times};

/// The most tasks of a set.
pub const TASKS: usize = 512;
/// The most locks.
pub const LOCKS: usize = 64;
/// The most chains.
pub const CHAINS: usize = 16;
/// The most tasks of a chain.
pub const HOPS: usize = 32;
/// The most phases of a task.
pub const PHASES: usize = 64;
/// The most steps of a phase, those within locks among them.
pub const STEPS: usize = 256;
/// Locks that a job may hold at once.
pub const NESTED: usize = 8;

/// A task set, as it was read.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct TaskSet {
    /// What it is called.
    pub name: String,
    /// The tasks.
    pub tasks: Vec<Task>,
    /// The locks that tasks share.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub locks: Vec<Lock>,
    /// The chains, from an input to an output.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub chains: Vec<Chain>,
    /// How long the file says that the set runs; absent where it doesn't.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub duration_ns: Option<u64>,
}

/// A task: one thread that is woken, executes a job, and waits again.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Task {
    /// What it is called; no other task of the set has this name. The thread's name is its first
    /// 15 bytes.
    pub name: String,
    /// How it is scheduled.
    pub policy: TaskPolicy,
    /// The CPUs on which it may run; empty for all.
    pub cpus: Vec<usize>,
    /// What wakes it.
    pub wake: Wake,
    /// A job must end this long after it arrives, unless its phase says that it may take longer. A job that
    /// another task releases arrives when that one's job arrived.
    pub deadline_ns: u64,
    /// Each job is released at most this long after its arrival, or after the end of the job that releases it,
    /// evenly distributed.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub jitter_ns: u64,
    /// The longest execution time of a job, for the analysis; absent where it follows from the work.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub execution_ns: Option<u64>,
    /// What the jobs do: as many jobs as the first phase says, then the second; after the last one
    /// the first again.
    pub phases: Vec<Phase>,
}

/// How a task is scheduled.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(tag = "policy", rename_all = "kebab-case")]
pub enum TaskPolicy {
    /// `SCHED_FIFO`.
    Fifo {
        /// 1 to 99.
        priority: u8,
    },
    /// `SCHED_RR`.
    Rr {
        /// 1 to 99.
        priority: u8,
    },
    /// `SCHED_DEADLINE`.
    Deadline {
        /// Of the reservation.
        runtime_ns: u64,
        /// Of the reservation.
        deadline_ns: u64,
        /// Of the reservation.
        period_ns: u64,
    },
    /// `SCHED_OTHER`.
    Other {
        /// -20 to 19.
        nice: i8,
    },
}

/// What wakes a task.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(tag = "wake", rename_all = "kebab-case")]
pub enum Wake {
    /// A timer.
    Timer {
        /// Which one.
        timer: Timer,
        /// The distance of two arrivals.
        period_ns: u64,
        /// The first arrival, after the start of the set.
        #[serde(default)]
        offset_ns: u64,
    },
    /// Another task, at the end of its job.
    After {
        /// The other task.
        task: usize,
        /// Only each such job of it releases one.
        every: u32,
        /// By what.
        means: Means,
    },
}

/// A timer that wakes a task.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum Timer {
    /// `clock_nanosleep` until an absolute time.
    Absolute,
    /// `clock_nanosleep` for a length of time: arrivals drift.
    Relative,
    /// `read` of a timerfd.
    Timerfd,
    /// A POSIX timer and `sigwaitinfo`.
    Signal,
}

/// By what a task wakes another one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum Means {
    /// A futex.
    Futex,
    /// A POSIX semaphore.
    Semaphore,
    /// A condition variable with a priority-inheriting mutex.
    Condvar,
    /// A signal, sent to the thread.
    Signal,
    /// An eventfd.
    Eventfd,
    /// A POSIX message queue.
    Mqueue,
    /// A pipe.
    Pipe,
    /// A datagram socket of the Unix domain.
    Socket,
}

impl Means {
    /// How many releases may be pending; those beyond are skipped.
    #[must_use]
    pub fn most_pending(self) -> u32 {
        match self {
            Self::Mqueue | Self::Pipe | Self::Socket => 9,
            Self::Futex | Self::Semaphore | Self::Condvar | Self::Signal | Self::Eventfd => 1023,
        }
    }
}

/// What the jobs of a task do for a while.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Phase {
    /// For how many jobs, at least 1.
    pub jobs: u64,
    /// The period meanwhile, where it is another one than the task's: only with a timer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub period_ns: Option<u64>,
    /// How long after its arrival a job must end meanwhile, where that is longer than [`Task::deadline_ns`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub deadline_ns: Option<u64>,
    /// The work of each job, in order.
    pub work: Vec<Step>,
}

/// Some of the work of a job.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(tag = "do", rename_all = "kebab-case")]
pub enum Step {
    /// Execute for this long, by a loop whose speed is measured beforehand.
    Run {
        /// How long.
        ns: u64,
    },
    /// Execute this many instructions.
    Instructions {
        /// How many.
        count: u64,
    },
    /// Read and write each cache line of an area of the task's own.
    Memory {
        /// Its size.
        bytes: u64,
    },
    /// Make a system call that does nothing (`getppid`).
    Calls {
        /// How often.
        count: u64,
    },
    /// `sched_yield`.
    Yield,
    /// Wait in the middle of the job: `clock_nanosleep`.
    Sleep {
        /// How long.
        ns: u64,
    },
    /// Hold a lock.
    Lock {
        /// Which one.
        lock: usize,
        /// The work meanwhile.
        work: Vec<Step>,
    },
    /// Call a function of a shared object.
    Library {
        /// The object.
        path: PathBuf,
        /// Its function: `int NAME(void *)`, with a place for a pointer of the task's own.
        function: String,
    },
    /// Start a command, with the policy and the CPUs of the task, and wait for its end.
    Command {
        /// The program and its arguments.
        command: Vec<String>,
    },
}

/// A lock that tasks share.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Lock {
    /// What it is called.
    pub name: String,
    /// What its holder inherits.
    pub protocol: LockProtocol,
}

/// How a lock limits priority inversion.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(tag = "protocol", rename_all = "kebab-case")]
pub enum LockProtocol {
    /// `PTHREAD_PRIO_INHERIT`.
    Inherit,
    /// `PTHREAD_PRIO_PROTECT`.
    Protect {
        /// The priority of every holder, 1 to 99.
        ceiling: u8,
    },
    /// `PTHREAD_PRIO_NONE`.
    Plain,
}

/// Tasks from an input to an output: each takes what the one before it wrote last.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Chain {
    /// What it is called.
    pub name: String,
    /// The tasks, at least two. A hop is triggered where a task is released by the one before it,
    /// and otherwise sampled.
    pub tasks: Vec<usize>,
    /// From an input to the first output that reflects it, at most; absent where nothing is required.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reaction_ns: Option<u64>,
    /// From the arrival of the job that read an input to the last output made of it, at most.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub age_ns: Option<u64>,
}

impl Task {
    /// Requires that each job ends before the next one arrives: after the period of its phase or of the timer, or
    /// after `period_ns` where other tasks release it.
    pub fn end_before_next_arrival(&mut self, period_ns: u64) {
        let period_ns = match self.wake {
            Wake::Timer { period_ns, .. } => period_ns,
            Wake::After { .. } => period_ns,
        };
        self.deadline_ns = self.shortest_period_ns(period_ns);
        for phase in &mut self.phases {
            let own_ns = phase.period_ns.unwrap_or(period_ns);
            phase.deadline_ns = Some(own_ns).filter(|it| *it > self.deadline_ns);
        }
    }

    /// The least distance of two arrivals, where phases without a period of their own have this one.
    fn shortest_period_ns(&self, period_ns: u64) -> u64 {
        self.periods_ns(period_ns).min().unwrap_or(period_ns)
    }

    /// The greatest distance of two arrivals, where phases without a period of their own have this one.
    fn longest_period_ns(&self, period_ns: u64) -> u64 {
        self.periods_ns(period_ns).max().unwrap_or(period_ns)
    }

    fn periods_ns(&self, period_ns: u64) -> impl Iterator<Item = u64> {
        let phases = self.phases.iter();
        phases.map(move |phase| phase.period_ns.unwrap_or(period_ns))
    }

    /// The mean distance of two arrivals, where phases without a period of their own have this one.
    fn mean_period_ns(&self, period_ns: u64) -> u64 {
        let (mut jobs, mut passed) = (0u128, 0u128);
        for phase in &self.phases {
            let each = phase.period_ns.unwrap_or(period_ns);
            jobs += u128::from(phase.jobs);
            passed += u128::from(phase.jobs) * u128::from(each);
        }
        let mean = passed
            .checked_div(jobs)
            .and_then(|it| u64::try_from(it).ok());
        mean.unwrap_or(period_ns)
    }

    /// How much longer than [`Task::deadline_ns`] after its arrival a job of a phase may end.
    #[must_use]
    pub fn more_ns(&self, phase: usize) -> u64 {
        let own = self.phases.get(phase).and_then(|phase| phase.deadline_ns);
        own.map_or(0, |own| own.saturating_sub(self.deadline_ns))
    }
}

impl TaskSet {
    /// The least distance of two arrivals of a task: of one that others release, through them. Absent
    /// where the tasks release each other in a circle, or name one that isn't there.
    #[must_use]
    pub fn period_ns(&self, task: usize) -> Option<u64> {
        self.distance_ns(task, Task::shortest_period_ns)
    }

    /// The greatest distance of two arrivals of a task, as [`TaskSet::period_ns`].
    #[must_use]
    pub fn longest_period_ns(&self, task: usize) -> Option<u64> {
        self.distance_ns(task, Task::longest_period_ns)
    }

    /// The mean distance of two arrivals of a task, as [`TaskSet::period_ns`].
    #[must_use]
    pub fn mean_period_ns(&self, task: usize) -> Option<u64> {
        self.distance_ns(task, Task::mean_period_ns)
    }

    /// When the first job of a task may arrive after the start of the set: of one that others release, with that of
    /// their jobs which does.
    #[must_use]
    pub fn first_arrival_ns(&self, task: usize) -> u64 {
        let Some((it, times)) = self.timer_of(task) else {
            return 0;
        };
        let Wake::Timer {
            offset_ns,
            period_ns,
            ..
        } = it.wake
        else {
            return 0;
        };
        let later_ns = it.shortest_period_ns(period_ns).saturating_mul(times - 1);
        offset_ns.saturating_add(later_ns)
    }

    fn distance_ns(&self, task: usize, of: fn(&Task, u64) -> u64) -> Option<u64> {
        let (it, times) = self.timer_of(task)?;
        match it.wake {
            Wake::Timer { period_ns, .. } => Some(of(it, period_ns).saturating_mul(times)),
            Wake::After { .. } => None,
        }
    }

    /// Whether the arrivals of a task wait for the ends of jobs: by a relative timer, its own or that of the task
    /// that releases it.
    #[must_use]
    pub fn drifts(&self, task: usize) -> bool {
        let timer = self.timer_of(task).map(|(it, _)| it.wake);
        let relative = Timer::Relative;
        matches!(timer, Some(Wake::Timer { timer, .. }) if timer == relative)
    }

    /// The task with a timer that releases a task, itself or through others, and how many of its jobs release one.
    #[must_use]
    pub fn timer_of(&self, task: usize) -> Option<(&Task, u64)> {
        let (mut at, mut times) = (task, 1u64);
        for _ in 0..=self.tasks.len() {
            let it = self.tasks.get(at)?;
            match it.wake {
                Wake::Timer { .. } => return Some((it, times)),
                Wake::After { task, every, .. } => {
                    times = times.saturating_mul(u64::from(every));
                    at = task;
                }
            }
        }
        None
    }

    /// Whether the response times of a task count from the arrivals of another one, which releases it, or one that
    /// does.
    #[must_use]
    pub fn counts_from(&self, task: usize, other: usize) -> bool {
        let mut at = task;
        for _ in 0..self.tasks.len() {
            match self.tasks.get(at).map(|it| it.wake) {
                Some(Wake::After { task, .. }) if task == other => return true,
                Some(Wake::After { task, .. }) => at = task,
                _ => return false,
            }
        }
        false
    }

    /// Whether a task is released by the jobs of another one.
    #[must_use]
    pub fn is_released_by(&self, task: usize, other: usize) -> bool {
        let wake = self.tasks.get(task).map(|task| task.wake);
        matches!(wake, Some(Wake::After { task, .. }) if task == other)
    }
}
