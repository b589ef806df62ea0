//! Which thread it was: names are shared, numbers are not.

use serde::{Deserialize, Serialize};

use super::{Bill, BillRow, RowNote};
use crate::run::Run;

/// A thread that took time. What the events say is always there: also process, command line and group of
/// a thread that began during the recording. Of others, these are read from `/proc` soon after, and
/// absent of a thread that had ended or can't be seen.
#[derive(Debug, Clone, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Culprit {
    /// How much of the row, in ns.
    pub ns: u64,
    /// The thread, as the kernel numbers it.
    pub tid: u32,
    /// Its name, where the cause is no thread: who sent an interprocessor interrupt.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// Its policy, e.g. `SCHED_OTHER`.
    pub policy: String,
    /// Its real-time priority, 1-99; 0 where the policy has none.
    pub priority: u32,
    /// Its nice value, of an ordinary thread that has one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub nice: Option<i32>,
    /// Its process, as `/proc` numbers it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pid: Option<u32>,
    /// The command line of the process; empty of a kernel thread.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub command: Option<String>,
    /// Its number in `/proc`, where that is another one: punctual ran in a PID namespace.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub here: Option<u32>,
    /// When it started, in ticks since boot: its number is used again.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub start: Option<u64>,
    /// Whether its process is punctual, or a load that punctual ran.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub own: bool,
    /// Its control group, without those at the root.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub group: Option<String>,
    /// The weight of that group among its siblings, of an ordinary thread, if it isn't the default, 100.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub weight: Option<u32>,
    /// Whether it had ended, or another program had its number, when `/proc` was read.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub ended: bool,
    /// Who created it, and who created that, of a thread that began during the recording: the nearest
    /// first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub parents: Vec<Ancestor>,
}

/// A thread that created another one, as it was at that time.
#[derive(Debug, Clone, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Ancestor {
    /// Its name.
    pub name: String,
    /// The thread, as `/proc` numbers it; absent if it is not visible there.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tid: Option<u32>,
    /// When it started, in ticks since boot, of a parent that could be moved: it lived when `/proc` was
    /// read, and is a program of the machine.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub start: Option<u64>,
}

impl Culprit {
    /// Threads of one row that are distinguished.
    pub const MOST: usize = 4;
    /// Ancestors that are named.
    pub const PARENTS: usize = 4;

    /// Its number in `/proc`.
    #[must_use]
    pub fn tid_here(&self) -> u32 {
        self.here.unwrap_or(self.tid)
    }

    /// Whether it is a thread that the run measured: a probe, a task, a watched thread.
    #[must_use]
    pub fn is_of(&self, run: &Run) -> bool {
        run.threads
            .iter()
            .any(|thread| u32::try_from(thread.tid) == Ok(self.tid_here()))
    }
}

impl Bill {
    /// Takes over what `/proc` said of these threads when an earlier bill of the same wake-up was
    /// made: the events don't tell it.
    pub fn learn_threads(&mut self, earlier: &Self) {
        for culprit in self.rows.iter_mut().flat_map(|row| &mut row.by) {
            let mut known = earlier.rows.iter().flat_map(|row| &row.by);
            let looked_up = |it: &&Culprit| it.pid.is_some() || it.ended;
            if let Some(known) = known.find(|it| it.tid == culprit.tid && looked_up(it)) {
                let Culprit {
                    ns,
                    policy,
                    priority,
                    nice,
                    ..
                } = culprit.clone();
                *culprit = Culprit {
                    ns,
                    policy,
                    priority,
                    nice,
                    ..known.clone()
                };
            }
        }
        for row in &mut self.rows {
            let same = |it: &&BillRow| it.cause == row.cause && it.stage == row.stage;
            let Some(known) = earlier.rows.iter().find(same) else {
                continue;
            };
            let is_of_thread = |note: &RowNote| note.thread().is_some();
            row.notes.retain(|note| !is_of_thread(note));
            let notes = known.notes.iter().filter(|note| is_of_thread(note));
            row.notes.extend(notes.cloned());
        }
    }
}
