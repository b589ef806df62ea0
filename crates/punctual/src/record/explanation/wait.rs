//! What a thread waited for that another thread woke: the way back from waker to waker.

use serde::{Deserialize, Serialize};

use super::{Cause, Culprit};

/// The longest wait of a thread in one system call that one other thread ended, and who it
/// waited for.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Wait {
    /// Who waited.
    pub thread: Culprit,
    /// In which system call, e.g. `futex`.
    pub call: String,
    /// The thread that ended it, by name; empty where an interrupt did, or nobody was seen.
    pub ended_by: String,
    /// When it left its CPU, CLOCK_MONOTONIC.
    pub from_ns: u64,
    /// Until it ran again: what the rows sum to.
    pub wait_ns: u64,
    /// Waits of this thread in this call that such a thread ended.
    pub count: u64,
    /// How long they were together.
    pub total_ns: u64,
    /// What the wait went to: by depth, the dearest first.
    pub rows: Vec<WaitRow>,
}

impl Wait {
    /// Rows of one wait.
    pub const ROWS: usize = 64;

    /// How long the threads of the chain were seen to be at it: all but sleeps that a timer ended.
    #[must_use]
    pub fn worked_ns(&self) -> u64 {
        let at_it = |row: &&WaitRow| !matches!(row.doing, Doing::Timer | Doing::Unseen);
        let worked = self.rows.iter().filter(at_it);
        worked.fold(0, |sum, row| sum.saturating_add(row.ns))
    }

    /// All threads in it, the dearest first.
    pub fn threads(&mut self) -> Vec<&mut Culprit> {
        let mut threads = vec![&mut self.thread];
        for row in &mut self.rows {
            threads.extend(&mut row.thread);
            if let Doing::Ready { behind } = &mut row.doing {
                threads.extend(behind);
            }
        }
        threads.sort_by_key(|thread| std::cmp::Reverse(thread.ns));
        threads
    }
}

/// What one thread of the chain did meanwhile.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct WaitRow {
    /// How much of the wait, in ns, counted nowhere else.
    pub ns: u64,
    /// How many wakers back: 0 is who waited, 1 who woke it, 2 who woke that one.
    pub depth: u32,
    /// Which thread; absent where rows stand together that there was no room for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub thread: Option<Culprit>,
    /// What it did.
    pub doing: Doing,
}

/// What a thread did while another waited for it.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "kebab-case")]
pub enum Doing {
    /// It ran.
    Ran,
    /// It was ready, and another had its CPU.
    Ready {
        /// Who; absent where the CPU was idle or on its way to the thread.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        behind: Option<Culprit>,
    },
    /// It had the CPU or was about to, and an interrupt ran over that.
    Interrupted {
        /// Which.
        cause: Cause,
    },
    /// It slept until a timer expired.
    Timer,
    /// It slept until an interrupt woke it: a disk, the network.
    Device {
        /// Which.
        cause: Cause,
    },
    /// It was stopped, by a signal or a debugger.
    Stopped,
    /// Who woke it was not seen, or events are missing.
    Unseen,
    /// Rows that there was no room for.
    Other,
}
