//! What the kernel's side counts on request: where threads are off the CPU, and how long they wait
//! for one.

use super::Other;

/// Functions that a stack of a thread off the CPU has at most.
pub const AWAY_FRAMES: u32 = 64;

/// Why a thread was off the CPU: `enum why` of `bpf/away.h`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Why {
    /// It slept, and a signal could have ended that.
    Asleep,
    /// It slept for something that no signal ends: a disk, a lock of the kernel.
    Uninterruptible,
    /// It could run: it was preempted.
    Runnable,
    /// Its budget under SCHED_DEADLINE was used up.
    Throttled,
    /// It was stopped, traced or frozen.
    Held,
    /// It had called `sched_yield`.
    Yielded,
}

impl Why {
    /// As the kernel's side counts them.
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
pub struct Away {
    /// The thread.
    pub tid: u32,
    /// Why it left.
    pub why: Why,
    /// The stack in the kernel, by number; absent where it could not be taken.
    pub kernel: Option<u32>,
    /// The program's.
    pub user: Option<u32>,
    /// How often it came back.
    pub count: u64,
    /// From the switch away to the switch back, all together, in ns.
    pub total_ns: u64,
    /// The longest.
    pub longest_ns: u64,
    /// When that ended.
    pub longest_at_ns: u64,
}

/// Times off the CPU that found no room.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct AwayLost {
    /// How many.
    pub count: u64,
    /// All together, in ns.
    pub total_ns: u64,
    /// Times with a place of their own, of whose stack another one had the room.
    pub stackless: u64,
}

/// How long a thread waited for a CPU.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct QueuedThread {
    /// Itself.
    pub task: Other,
    /// When it began to live, on a clock of the kernel's: tells it from a later one.
    pub started_ns: u64,
    /// The program that it is of, by the kernel's number.
    pub program: u32,
    /// Whether it has ended.
    pub ended: bool,
    /// Times whose end the kernel did not show.
    pub unseen: u64,
    /// From a wake-up on.
    pub woken: QueueTimes,
    /// From a preemption on, or from `sched_yield`.
    pub preempted: QueueTimes,
}

/// Times from ready to running.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct QueueTimes {
    /// How many.
    pub count: u64,
    /// All together, in ns.
    pub total_ns: u64,
    /// The longest.
    pub longest_ns: u64,
    /// When that ended.
    pub longest_at_ns: u64,
    /// How many were how long: least and most of a place, in ns, and the count.
    pub lengths: Vec<((u64, u64), u64)>,
}
