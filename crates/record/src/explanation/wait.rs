//! What a thread waited for that another thread woke: the way back from waker to waker.

use serde::{Deserialize, Serialize};

use super::{Cause, Culprit};
use crate::KernelCall;

/// The longest wait of a thread in one system call that one other thread ended, and who it
/// waited for.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Wait {
    /// Who waited.
    pub thread: Culprit,
    /// In what.
    pub call: KernelCall,
    /// The thread that ended it, by name; empty where an interrupt did, or nobody was seen.
    pub ended_by: String,
    /// When it left its CPU, CLOCK_MONOTONIC.
    pub from_ns: u64,
    /// In a sum of runs, in which of them that was, counted from 1: `from_ns` is by its clock.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub run: Option<u64>,
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
    /// Kinds of waits that are distinguished.
    pub const KINDS: usize = 256;

    /// What tells waits of different runs apart.
    fn kind(&self) -> (Option<&str>, &KernelCall, &str) {
        (self.thread.name.as_deref(), &self.call, &self.ended_by)
    }

    fn add(&mut self, other: Self) {
        let count = self.count.saturating_add(other.count);
        let total_ns = self.total_ns.saturating_add(other.total_ns);
        if other.wait_ns > self.wait_ns {
            *self = other;
        }
        (self.count, self.total_ns) = (count, total_ns);
    }

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

/// Adds the waits of a run to those of the `before` runs before it, and says whether there was room
/// for all. Waits of one kind are one: the longest of them, and how many there were. Numbers of
/// threads are others in each run: a kind is known by the names.
pub(crate) fn add_up(sum: &mut Vec<Wait>, waits: &[Wait], before: u64) -> bool {
    let mut all = true;
    let mut taken: Vec<usize> = Vec::new();
    for wait in waits {
        let wait = Wait {
            run: Some(before.saturating_add(wait.run.unwrap_or(1))),
            ..wait.clone()
        };
        // The second of a kind in one run, of another thread, joins the second of that kind.
        let same = |at: &usize| sum[*at].kind() == wait.kind() && !taken.contains(at);
        match (0..sum.len()).find(same) {
            Some(at) => {
                taken.push(at);
                sum[at].add(wait);
            }
            None if sum.len() < Wait::KINDS => {
                taken.push(sum.len());
                sum.push(wait);
            }
            None => all = false,
        }
    }
    all
}

/// What one thread of the chain did meanwhile.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct WaitRow {
    /// How much of the wait, in ns, counted nowhere else.
    pub ns: u64,
    /// How many wakers back: 0 is who waited, 1 who woke it, 2 who woke that one.
    pub depth: u32,
    /// Which thread; absent where rows stand together that were not recorded for lack of space.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub thread: Option<Culprit>,
    /// What it did.
    pub doing: Doing,
}

impl WaitRow {
    /// The threads of the row.
    pub(crate) fn threads(&self) -> impl Iterator<Item = &Culprit> {
        let behind = match &self.doing {
            Doing::Ready { behind } => behind.as_ref(),
            _ => None,
        };
        self.thread.iter().chain(behind)
    }
}

/// What a thread did while another waited for it.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
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
    /// Rows that were not recorded for lack of space.
    Other,
}
