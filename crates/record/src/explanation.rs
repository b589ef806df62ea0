//! Who stole the time: the stages of the wake-ups, the bills of the worst of them, and
//! who cost how much over the whole run.
//!
//! A bill's rows sum to its latency exactly, and so do its stages. No nanosecond stands
//! in two rows.

mod cause;
mod check;
mod culprit;
mod limit;
mod not_seen;
mod note;
mod picture;
mod wait;

use std::cmp::Reverse;
use std::collections::BTreeMap;

use punctual_stats::histogram::HistogramRecord;
use serde::{Deserialize, Serialize};

pub use cause::{Cause, EARLIER_TIMER, Meanwhile, SLEPT_EARLIER, general_name, softirq_name};
pub(super) use check::check;
pub(crate) use check::{ancestors as check_ancestors, picture as check_picture};
pub use culprit::{Ancestor, Culprit};
pub use limit::{GroupLimit, GroupThrottling, Keeper, OrdinaryTime, RT_RUNTIME};
pub use not_seen::{NoBlockedStacks, NoKernelNames, NotSeen, RecordedEvents};
pub use note::RowNote;
pub use picture::{Lane, Mark, MarkLabel, Picture, Span, SpanLabel};
pub(crate) use wait::add_up as add_waits;
pub use wait::{Doing, Wait, WaitRow};

/// Who stole the time of a run.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Explanation {
    /// Wake-ups later than this were to be explained; absent where the worst alone were.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub above_ns: Option<u64>,
    /// Bills that were made: of the outliers, and of the worst below the limit.
    pub examined: u64,
    /// Wake-ups above the limit: those explained, those not, and those whose events were lost.
    pub outliers: u64,
    /// Outliers with a bill that leaves at most a tenth of the latency unexplained or blind.
    pub explained: u64,
    /// Outliers with a bill that leaves more.
    pub unexplained: u64,
    /// Outliers without a bill: their events were lost.
    pub lost: u64,
    /// Time of all bills: what the totals of `ranking` sum to.
    pub examined_ns: u64,
    /// Time of the outliers' bills: what the tails of `ranking` sum to.
    pub tail_ns: u64,
    /// The stages of every wake-up that was seen, in their order.
    pub stages: Vec<StageHistogram>,
    /// Who cost how much, the dearest first.
    pub ranking: Vec<Ranked>,
    /// The bills of the worst wake-ups, the worst first.
    pub bills: Vec<Bill>,
    /// Outliers whose events are kept beside the record, in `outliers.jsonl.gz`, each of which can be
    /// opened: those of `bills` aside. Absent where nothing is kept so.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kept: Option<KeptWindows>,
    /// Limits on the CPU time of the control groups of the probes or watched threads, with what
    /// the kernel counted over the run.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub limits: Vec<GroupLimit>,
    /// What keeps CPU time for ordinary threads on this machine.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub ordinary_time: Vec<OrdinaryTime>,
    /// The longest waits of watched threads that others ended, those first in which others had most
    /// to do.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub waits: Vec<Wait>,
    /// What could not be seen.
    #[serde(
        default,
        skip_serializing_if = "Vec::is_empty",
        deserialize_with = "crate::earlier::list"
    )]
    pub missing: Vec<NotSeen>,
}

/// What is kept of outliers beside the record.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct KeptWindows {
    /// How many outliers.
    pub windows: u64,
    /// Bytes of the file.
    pub bytes: u64,
    /// The most that it may have.
    pub budget_bytes: u64,
    /// Outliers with a bill that were left out, the least bad of them: there was no room.
    pub dropped: u64,
}

impl Explanation {
    /// Bills that are kept.
    pub const BILLS: usize = 32;
    /// Causes that a ranking distinguishes.
    pub const CAUSES: usize = 1024;
    /// Rows of one bill.
    pub const ROWS: usize = 512;
    /// Limits of control groups.
    pub const LIMITS: usize = 64;
    /// Waits for other threads.
    pub const WAITS: usize = 64;
    /// Return addresses of one row's stack.
    pub const FRAMES: usize = 64;
    /// Notes on one row.
    pub const NOTES: usize = 16;
    /// Bytes of a name.
    pub const TEXT: usize = 512;

    /// Whether wake-ups were late, so that shares are those of their time.
    #[must_use]
    pub fn are_of_outliers(&self) -> bool {
        self.above_ns.is_some() && self.outliers > 0
    }

    /// The rows of the bills in which a cause stands, whichever of its kind.
    pub fn rows(&self, cause: &Cause) -> impl Iterator<Item = &BillRow> {
        let wanted = cause.general();
        let rows = self.bills.iter().flat_map(|bill| &bill.rows);
        rows.filter(move |row| row.cause.general() == wanted)
    }

    /// The threads that the bills name for a cause, each once, the dearest first.
    #[must_use]
    pub fn culprits(&self, cause: &Cause) -> Vec<&Culprit> {
        let its = self.rows(cause);
        // A number is used again: with its start it is one thread.
        let mut threads: BTreeMap<(u32, Option<u64>), (u64, &Culprit)> = BTreeMap::new();
        for by in its.flat_map(|row| &row.by) {
            let known = threads.entry((by.tid, by.start)).or_insert((0, by));
            known.0 = known.0.saturating_add(by.ns);
        }
        let mut threads: Vec<(u64, &Culprit)> = threads.into_values().collect();
        threads.sort_by_key(|(ns, by)| (Reverse(*ns), by.tid));
        threads.into_iter().map(|(_, by)| by).collect()
    }

    /// A cause's part of the time of all late wake-ups, or of all bills where none was late or no
    /// limit says which are.
    #[must_use]
    pub fn part_ns(&self, ranked: &Ranked) -> u64 {
        if self.are_of_outliers() {
            ranked.tail_ns
        } else {
            ranked.total_ns
        }
    }
}

/// A part of a wake-up.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum Stage {
    /// From the instant that was requested to the interrupt.
    Interrupt,
    /// From the interrupt to the timer's callback.
    Callback,
    /// From the callback to the waking of the thread.
    Waking,
    /// From the waking to the end of the interrupt.
    Exit,
    /// From the end of the interrupt to the switch to the thread.
    Switch,
    /// From the switch to the reading of the clock in the program.
    User,
}

impl Stage {
    /// All of them, in their order.
    pub const ALL: [Self; 6] = [
        Self::Interrupt,
        Self::Callback,
        Self::Waking,
        Self::Exit,
        Self::Switch,
        Self::User,
    ];
}

/// The instants at which a wake-up went from one stage to the next, CLOCK_MONOTONIC.
/// What did not happen, or was not seen, is absent: its time goes to the next stage.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Instants {
    /// The requested instant.
    pub due_ns: u64,
    /// The timer's interrupt began; before `due_ns` where an interrupt was at work already.
    pub irq_ns: Option<u64>,
    /// The timer's callback began.
    pub callback_ns: Option<u64>,
    /// The thread was made ready.
    pub waking_ns: Option<u64>,
    /// The interrupt that made it ready ended.
    pub exit_ns: Option<u64>,
    /// The CPU went over to the thread.
    pub switch_ns: Option<u64>,
    /// The program read the clock.
    pub woken_ns: u64,
}

/// How long each stage took.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(transparent)]
pub struct StageTimes {
    /// In the order of [`Stage::ALL`], in nanoseconds; absent for a stage that did not exist.
    pub ns: [Option<u64>; 6],
}

impl StageTimes {
    /// The stages between these instants. They sum to the latency: an instant that lies
    /// outside the wake-up, or before the one before it, is moved to the nearest that does not.
    #[must_use]
    pub fn between(instants: &Instants) -> Self {
        let bounds = [
            instants.irq_ns,
            instants.callback_ns,
            instants.waking_ns,
            instants.exit_ns,
            instants.switch_ns,
            Some(instants.woken_ns),
        ];
        let end = instants.woken_ns.max(instants.due_ns);
        let mut before = instants.due_ns;
        Self {
            ns: bounds.map(|bound| {
                let at = bound?.clamp(before, end);
                let length = at - before;
                before = at;
                Some(length)
            }),
        }
    }

    /// The time of a stage.
    #[must_use]
    pub fn get(&self, stage: Stage) -> Option<u64> {
        self.ns[stage as usize]
    }

    /// The latency.
    #[must_use]
    pub fn total_ns(&self) -> u64 {
        self.ns
            .iter()
            .flatten()
            .fold(0, |sum, ns| sum.saturating_add(*ns))
    }
}

/// The distribution of one stage over the run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct StageHistogram {
    /// Which.
    pub stage: Stage,
    /// Its times.
    pub times: HistogramRecord,
}

/// What one cause cost over the run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Ranked {
    /// Who or what.
    pub cause: Cause,
    /// Bills in which it stands.
    pub count: u64,
    /// Its time in all of them.
    pub total_ns: u64,
    /// Its time in those of outliers.
    pub tail_ns: u64,
    /// The most in one of them.
    pub worst_ns: u64,
}

/// Who stole the time of one wake-up.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Bill {
    /// The probe's CPU.
    pub cpu: u32,
    /// The requested instant, CLOCK_MONOTONIC.
    pub due_ns: u64,
    /// The latency: what the rows sum to, and the stages.
    pub latency_ns: u64,
    /// Events that were lost in its window.
    pub lost: u64,
    /// How long each stage took.
    pub stages: StageTimes,
    /// Who took how much of which stage: in the order of the stages, the dearest first.
    pub rows: Vec<BillRow>,
    /// What ran when.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub picture: Option<Picture>,
}

impl Bill {
    /// The time that nothing is known of.
    #[must_use]
    pub fn residue_ns(&self) -> u64 {
        let rows = self.rows.iter().filter(|row| row.cause.is_residue());
        rows.fold(0, |sum, row| sum.saturating_add(row.ns))
    }

    /// Whether at most a tenth of the latency is unexplained or blind.
    #[must_use]
    pub fn is_explained(&self) -> bool {
        self.residue_ns() <= self.latency_ns / 10
    }

    /// The time of each cause, all stages together, the dearest first.
    #[must_use]
    pub fn causes(&self) -> Vec<(&Cause, u64)> {
        let mut causes: Vec<(&Cause, u64)> = Vec::new();
        for row in &self.rows {
            match causes.iter_mut().find(|(cause, _)| *cause == &row.cause) {
                Some((_, ns)) => *ns = ns.saturating_add(row.ns),
                None => causes.push((&row.cause, row.ns)),
            }
        }
        causes.sort_by(|a, b| b.1.cmp(&a.1).then(a.0.cmp(b.0)));
        causes
    }
}

/// What one cause took of one stage.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct BillRow {
    /// Of which stage.
    pub stage: Stage,
    /// Who or what.
    pub cause: Cause,
    /// How much, in nanoseconds, counted nowhere else.
    pub ns: u64,
    /// What ran, innermost first, where a stack was caught.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub stack: Vec<String>,
    /// The threads that took it, the one that took most first; at most [`Culprit::MOST`].
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub by: Vec<Culprit>,
    /// What a reader must know of this row.
    #[serde(
        default,
        skip_serializing_if = "Vec::is_empty",
        alias = "note",
        deserialize_with = "crate::earlier::list"
    )]
    pub notes: Vec<RowNote>,
}
