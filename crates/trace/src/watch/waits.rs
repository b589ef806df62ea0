//! What the kernel side counts on request: where threads are off the CPU, and how long they wait
//! for one.

use super::Other;

/// The greatest depth of the stack of a thread off the CPU.
pub const AWAY_FRAMES: u32 = 64;

/// Why a thread was off the CPU: `enum why` of `bpf/away.h`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum OffCpuReason {
    /// It slept, and a signal could have ended that.
    Asleep,
    /// Uninterruptible sleep: a disk, a lock of the kernel.
    Uninterruptible,
    /// It was ready: it was preempted.
    Runnable,
    /// Its budget under SCHED_DEADLINE was used up.
    Throttled,
    /// It was stopped, traced or frozen.
    Held,
    /// It had called `sched_yield`.
    Yielded,
}

impl OffCpuReason {
    /// From the kernel side's number.
    #[must_use]
    pub fn from_number(number: u32) -> Option<Self> {
        Some(match number {
            1 => Self::Asleep,
            2 => Self::Uninterruptible,
            3 => Self::Runnable,
            4 => Self::Throttled,
            5 => Self::Held,
            6 => Self::Yielded,
            _ => return None,
        })
    }
}

/// One place at which a thread left the CPU.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OffCpuCount {
    /// The thread.
    pub tid: u32,
    /// Why it left.
    pub why: OffCpuReason,
    /// The stack in the kernel, by number; absent where it could not be taken.
    pub kernel: Option<u32>,
    /// The stack in the program.
    pub user: Option<u32>,
    /// How often it returned from there.
    pub count: u64,
    /// From the switch away to the switch back, the total in ns.
    pub total_ns: u64,
    /// The longest.
    pub longest_ns: u64,
    /// When that ended.
    pub longest_at_ns: u64,
}

/// Times off the CPU that exceeded the map.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct OffCpuLost {
    /// The number of times.
    pub count: u64,
    /// The total in ns.
    pub total_ns: u64,
    /// Times that have an entry, but whose stack's slot was taken by another stack.
    pub stackless: u64,
}

/// How long a thread waited for a CPU.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct QueuedThread {
    /// The thread.
    pub task: Other,
    /// When it was started, on a kernel clock: distinguishes it from a later thread.
    pub started_ns: u64,
    /// The program that it belongs to, by the kernel's number.
    pub program: u32,
    /// Whether it has ended.
    pub ended: bool,
    /// Times whose end the kernel did not show.
    pub unseen: u64,
    /// After a wake-up.
    pub woken: QueueTimes,
    /// After a preemption, or after `sched_yield`.
    pub preempted: QueueTimes,
}

/// Times from ready to running.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct QueueTimes {
    /// The number of times.
    pub count: u64,
    /// The total in ns.
    pub total_ns: u64,
    /// The longest.
    pub longest_ns: u64,
    /// When that ended.
    pub longest_at_ns: u64,
    /// The histogram: a bucket's smallest and greatest length in ns, and its count.
    pub lengths: Vec<((u64, u64), u64)>,
}
