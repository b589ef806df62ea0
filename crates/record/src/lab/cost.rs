//! Instructions per operation, as data.

use crate::is_zero;
use serde::{Deserialize, Serialize};

/// What a guest executed for each operation.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct LabCost {
    /// The operations, in the order of the table.
    pub operations: Vec<LabOperation>,
    /// Processes that the user's program left running: they were ended, and aren't counted.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub left: u64,
    /// Words of the kernel's command line that the kernel doesn't know: they changed nothing.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub unknown: Vec<String>,
}

/// An operation that was made again and again.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct LabOperation {
    /// Which.
    pub operation: Operation,
    /// How often each batch made it.
    pub count: u64,
    /// Instructions of each batch, which are its virtual ns, in the order of time.
    pub batches: Vec<u64>,
    /// Page faults without input in all batches, of the process that made it and of those that it waited
    /// for.
    pub faults: u64,
    /// Context switches of the same.
    pub switches: u64,
}

impl LabOperation {
    /// Instructions of the median batch, of which there is one as their number is odd; of an even number the
    /// lower one. Nothing without batches.
    #[must_use]
    pub fn median(&self) -> Option<u64> {
        let sorted = self.sorted();
        let middle = sorted.len().checked_sub(1)? / 2;
        sorted.get(middle).copied()
    }

    /// Instructions of one, rounded.
    #[must_use]
    pub fn each(&self) -> Option<u64> {
        let count = self.count.max(1);
        Some(self.median()?.saturating_add(count / 2) / count)
    }

    /// By how much batches differ from the median, at most, if half of them, the farthest, are left out.
    #[must_use]
    pub fn spread(&self) -> u64 {
        let (sorted, median) = (self.sorted(), self.median().unwrap_or(0));
        let quarter = sorted.len() / 4;
        let inner = sorted.len().saturating_sub(2 * quarter);
        let inner = sorted.iter().skip(quarter).take(inner);
        inner.map(|it| it.abs_diff(median)).max().unwrap_or(0)
    }

    fn sorted(&self) -> Vec<u64> {
        let mut sorted = self.batches.clone();
        sorted.sort_unstable();
        sorted
    }
}

/// What is made again and again, so that its instructions can be counted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum Operation {
    /// 500 passes of a loop in user space.
    User,
    /// `getppid`: a system call that does almost nothing.
    Call,
    /// 4 KiB read from a file in memory.
    Read,
    /// 4 KiB written to a file in memory.
    Write,
    /// The first write to a page of anonymous memory.
    Fault,
    /// A page that is mapped, written to and unmapped.
    Mmap,
    /// A file in memory that is created and removed.
    File,
    /// A signal that a process sends to itself, with its handler.
    Signal,
    /// Two threads that each yield the processor to the other.
    Yield,
    /// Two threads that wake each other by a futex: there and back.
    Futex,
    /// The same at one real-time priority: neither preempts the other.
    FutexFifo,
    /// A byte through a pipe to another process and back.
    Pipe,
    /// The same at one real-time priority.
    PipeFifo,
    /// The same over UDP and the loopback device.
    Udp,
    /// The same over TCP.
    Tcp,
    /// The same at one real-time priority.
    TcpFifo,
    /// A thread with a real-time priority that sleeps until a timer wakes it.
    Sleep,
    /// A process that is forked, ends, and is waited for.
    Fork,
    /// A program that is started, ends, and is waited for.
    Exec,
    /// One run of the user's program, from its start until its end is known.
    Run,
    /// The part of it in which a processor executed it or the kernel for it.
    Processor,
}

impl Operation {
    /// Those that can be chosen, in the order of the table.
    pub const ALL: [Self; 19] = [
        Self::User,
        Self::Call,
        Self::Read,
        Self::Write,
        Self::Fault,
        Self::Mmap,
        Self::File,
        Self::Signal,
        Self::Yield,
        Self::Futex,
        Self::FutexFifo,
        Self::Pipe,
        Self::PipeFifo,
        Self::Udp,
        Self::Tcp,
        Self::TcpFifo,
        Self::Sleep,
        Self::Fork,
        Self::Exec,
    ];

    /// Its name.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::User => "user",
            Self::Call => "call",
            Self::Read => "read",
            Self::Write => "write",
            Self::Fault => "fault",
            Self::Mmap => "mmap",
            Self::File => "file",
            Self::Signal => "signal",
            Self::Yield => "yield",
            Self::Futex => "futex",
            Self::FutexFifo => "futex-fifo",
            Self::Pipe => "pipe",
            Self::PipeFifo => "pipe-fifo",
            Self::Udp => "udp",
            Self::Tcp => "tcp",
            Self::TcpFifo => "tcp-fifo",
            Self::Sleep => "sleep",
            Self::Fork => "fork",
            Self::Exec => "exec",
            Self::Run => "run",
            Self::Processor => "processor",
        }
    }

    /// The one of this name that can be chosen.
    #[must_use]
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|it| it.name() == name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn operation(count: u64, batches: &[u64]) -> LabOperation {
        LabOperation {
            operation: Operation::Pipe,
            count,
            batches: batches.to_vec(),
            faults: 0,
            switches: 0,
        }
    }

    #[test]
    fn the_median_is_that_of_a_batch_and_the_spread_that_of_the_middle_half() {
        let of = operation(10, &[900, 100, 110, 95, 105, 1, 2, 104, 107, 103, 101]);
        // 1 2 95 100 101 103 104 105 107 110 900
        assert_eq!(of.median(), Some(103));
        assert_eq!(of.spread(), 8);
        assert_eq!(of.each(), Some(10));
        assert_eq!(operation(10, &[105]).each(), Some(11));
        assert_eq!(operation(10, &[4, 3]).median(), Some(3));
        let none = operation(0, &[]);
        assert_eq!((none.median(), none.spread(), none.each()), (None, 0, None));
        assert_eq!(operation(0, &[7]).each(), Some(7));
    }

    #[test]
    fn each_operation_that_can_be_chosen_has_a_name() {
        for operation in Operation::ALL {
            assert_eq!(Operation::named(operation.name()), Some(operation));
            let json = serde_json::to_value(operation).unwrap();
            assert_eq!(json, operation.name());
        }
        assert_eq!(Operation::named("run"), None);
    }
}
