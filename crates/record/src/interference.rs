//! Operations of real-time threads beside threads of the same program that map memory: which of them
//! wait for the lock of the address space (`mmap_lock`), how long, and for whom.

use std::fmt;

use punctual_stats::histogram::HistogramRecord;
use serde::{Deserialize, Serialize};

use super::explanation::Wait;
use super::is_zero;

/// What a real-time thread does.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum Operation {
    /// It waits on a futex, with a timeout.
    Futex,
    /// It waits on a condition variable, with a timeout.
    Condvar,
    /// It locks a mutex that another thread holds, until that one unlocks it.
    Mutex,
    /// It touches a page for the first time.
    Fault,
    /// It maps a page, and unmaps it.
    Mmap,
    /// It reads its own `/proc/self/maps`.
    Proc,
}

impl Operation {
    /// All of them.
    pub const ALL: [Self; 6] = [
        Self::Futex,
        Self::Condvar,
        Self::Mutex,
        Self::Fault,
        Self::Mmap,
        Self::Proc,
    ];
}

impl fmt::Display for Operation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Futex => "futex",
            Self::Condvar => "condvar",
            Self::Mutex => "mutex",
            Self::Fault => "fault",
            Self::Mmap => "mmap",
            Self::Proc => "proc",
        })
    }
}

/// What was measured.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Interference {
    /// Threads that map memory.
    pub mappers: u32,
    /// How much each of them maps at a time.
    pub map_bytes: u64,
    /// How often they mapped, touched and unmapped it.
    pub maps: u64,
    /// The real-time priority (SCHED_FIFO) of the threads that are measured.
    pub priority: u32,
    /// How often each of them begins an operation.
    pub period_ns: u64,
    /// When it began, CLOCK_MONOTONIC.
    pub begin_ns: u64,
    /// How long it was measured.
    pub measured_ns: u64,
    /// Operations that began while the mappers were about to pause: they count on neither side.
    pub between: u64,
    /// Sleeps of operations of which it isn't known where they were: any of them may have been for the lock.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub unplaced: u64,
    /// Each operation, in a thread of its own.
    pub operations: Vec<OperationTimes>,
}

/// How long an operation took, from before it to after it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct OperationTimes {
    /// Which.
    pub operation: Operation,
    /// While nobody maps memory.
    pub alone: HistogramRecord,
    /// While the mappers do.
    pub beside: HistogramRecord,
    /// Its sleeps for `mmap_lock`.
    #[serde(default)]
    pub waits: LockWaits,
    /// The longest wait that another thread ended, back from waker to waker.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub longest: Option<Wait>,
}

/// Sleeps for a lock.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct LockWaits {
    /// How many.
    pub count: u64,
    /// How long, all together.
    pub total_ns: u64,
    /// The longest.
    pub longest_ns: u64,
}
