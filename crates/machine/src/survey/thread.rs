//! The kernel's view of one thread's scheduling.

use std::error::Error;
use std::fmt;
use std::io;
use std::sync::Arc;

use punctual_record::Scheduling;
use punctual_record::proc_stat::Stat;
use punctual_rt::sys::task::scheduling;

use crate::root::Root;

/// Why the scheduling of a thread is not known.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub enum ReadBackError {
    /// The thread has no ID: it did not start.
    NoThread,
    /// The kernel refused it.
    Kernel(Arc<io::Error>),
}

impl fmt::Display for ReadBackError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoThread => f.write_str("the thread did not start"),
            Self::Kernel(error) => error.fmt(f),
        }
    }
}

impl Error for ReadBackError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        match self {
            Self::NoThread => None,
            Self::Kernel(error) => Some(&**error),
        }
    }
}

impl From<io::Error> for ReadBackError {
    fn from(error: io::Error) -> Self {
        Self::Kernel(Arc::new(error))
    }
}

/// A scheduling policy.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Policy {
    /// SCHED_OTHER.
    Other,
    /// SCHED_FIFO.
    Fifo,
    /// SCHED_RR.
    RoundRobin,
    /// SCHED_BATCH.
    Batch,
    /// SCHED_IDLE.
    Idle,
    /// SCHED_DEADLINE.
    Deadline,
    /// SCHED_EXT, where a BPF scheduler is loaded.
    Extensible,
    /// A policy that this program doesn't know.
    Unknown(u32),
}

impl Policy {
    /// The policy with a kernel number.
    #[must_use]
    pub fn from_number(number: u32) -> Self {
        match number {
            0 => Self::Other,
            1 => Self::Fifo,
            2 => Self::RoundRobin,
            3 => Self::Batch,
            5 => Self::Idle,
            6 => Self::Deadline,
            7 => Self::Extensible,
            unknown => Self::Unknown(unknown),
        }
    }

    /// Its name in the record.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Other => "other",
            Self::Fifo => "fifo",
            Self::RoundRobin => "rr",
            Self::Batch => "batch",
            Self::Idle => "idle",
            Self::Deadline => "deadline",
            Self::Extensible => "ext",
            Self::Unknown(_) => "unknown",
        }
    }

    /// The policy with a name of the record.
    #[must_use]
    pub fn from_name(name: &str) -> Option<Self> {
        [
            Self::Other,
            Self::Fifo,
            Self::RoundRobin,
            Self::Batch,
            Self::Idle,
            Self::Deadline,
            Self::Extensible,
        ]
        .into_iter()
        .find(|policy| policy.name() == name)
    }

    /// In the record's form, with a priority if the policy has one.
    #[must_use]
    pub fn with_priority(self, priority: u32) -> Scheduling {
        match self {
            Self::Other => Scheduling::Other,
            Self::Fifo => Scheduling::Fifo { priority },
            Self::RoundRobin => Scheduling::Rr { priority },
            Self::Batch => Scheduling::Batch,
            Self::Idle => Scheduling::Idle,
            Self::Deadline => Scheduling::Deadline,
            Self::Extensible => Scheduling::Ext,
            Self::Unknown(number) => Scheduling::Unknown { number },
        }
    }

    /// Whether it precedes all ordinary tasks.
    #[must_use]
    pub fn is_real_time(self) -> bool {
        matches!(self, Self::Fifo | Self::RoundRobin | Self::Deadline)
    }
}

/// The kernel's view of one thread's scheduling.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ThreadScheduling {
    /// Its policy.
    pub policy: Policy,
    /// Its real-time priority, 1-99; 0 without one.
    pub priority: u32,
    /// The CPUs that it may run on, ascending.
    pub cpus: Vec<usize>,
    /// Its timer slack; absent if it can't be read. The kernel uses no slack
    /// for `fifo`, `rr` and `deadline`, whatever this value is.
    pub timer_slack_ns: Option<u64>,
}

impl ThreadScheduling {
    /// Policy and priority, in the record's form.
    #[must_use]
    pub fn to_record(&self) -> Scheduling {
        self.policy.with_priority(self.priority)
    }
}

/// The policy of a thread; absent once it has ended.
pub(super) fn scheduling_policy(tid: i32) -> Option<Policy> {
    let attributes = scheduling(tid).ok()?;
    Some(Policy::from_number(attributes.policy))
}

/// The process that traces a thread (a debugger, strace), if there is one.
#[must_use]
pub fn tracer(tid: i32) -> Option<i32> {
    let status = Root::live().text(&format!("/proc/{tid}/status")).ok()?;
    let tracer = punctual_record::proc_status::value(&status, "TracerPid")?;
    let pid = tracer.parse().ok()?;
    (pid > 0).then_some(pid)
}

/// The CPU that a thread runs on, or ran on last.
#[must_use]
pub fn last_cpu(root: &Root, tid: u32) -> Option<u32> {
    let line = root.text(&format!("/proc/{tid}/stat")).ok()?;
    let cpu = Stat::parse(&line)?.count(39)?;
    u32::try_from(cpu).ok()
}

/// Reads a thread's scheduling back from the kernel; `tid` is that of any thread
/// of this machine.
///
/// # Errors
/// The kernel's error, ESRCH if the thread has ended; or `tid` is not positive.
pub fn read_back(tid: i32) -> Result<ThreadScheduling, ReadBackError> {
    if tid <= 0 {
        return Err(ReadBackError::NoThread);
    }
    let attributes = scheduling(tid)?;
    Ok(ThreadScheduling {
        policy: Policy::from_number(attributes.policy),
        priority: attributes.priority,
        cpus: punctual_rt::affinity::get(tid)?,
        timer_slack_ns: Root::live()
            .text(&format!("/proc/{tid}/timerslack_ns"))
            .ok()
            .and_then(|text| text.parse().ok()),
    })
}
