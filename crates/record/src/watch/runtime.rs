//! A language's runtime within a watched program: its pauses, the roles of its threads, and what
//! made the ticks of the program's own threads late.

use serde::{Deserialize, Serialize};

use super::WatchedTask;
use crate::bounds::{Broken, at_most, ensure};
use crate::explanation::{Wait, WaitRow, check_ancestors};

/// A runtime with marks of its own.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum Runtime {
    /// A Java virtual machine (HotSpot).
    Jvm,
    /// CPython.
    Python,
    /// Go.
    Go,
}

impl Runtime {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Jvm, Self::Python, Self::Go];
}

/// What a thread is to its runtime.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum ThreadRole {
    /// It stops the others, and lets them continue.
    Pauses,
    /// It collects garbage.
    Collects,
    /// It compiles.
    Compiles,
    /// It does other work of the runtime.
    Serves,
    /// It runs the program.
    Program,
}

/// The runtime of a watched program.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct WatchedRuntime {
    /// Which.
    pub runtime: Runtime,
    /// The name of the mark that is measured from the start of each pause to its end: it counts
    /// them.
    pub pause: String,
    /// How much of all pauses the threads that passed that mark were ready and had no CPU; absent
    /// if the kernel doesn't count that.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pause_waited_ns: Option<u64>,
    /// What each watched thread is, in the order of `watch.threads`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub roles: Vec<ThreadRole>,
    /// A tick is late if it begins later than this; absent if ticks can't be told from other
    /// wake-ups in this runtime.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub late_above_ns: Option<u64>,
    /// The program's threads that a timer woke.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub ticks: Vec<Ticks>,
    /// Ticks that are in none of these, for lack of space.
    #[serde(default, skip_serializing_if = "crate::is_zero")]
    pub beyond: u64,
    /// The latest ticks, each with what made it late; the latest first. None of a sum of runs.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub bills: Vec<TickBill>,
}

impl WatchedRuntime {
    /// Threads whose ticks are kept separately.
    pub const THREADS: usize = 256;
    /// The latest ticks that are kept.
    pub const BILLS: usize = 16;
}

/// The ticks of a thread: its wake-ups by a timer. A tick that wakes in a pause begins when the
/// pause lets the thread continue.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Ticks {
    /// The thread.
    pub task: WatchedTask,
    /// How many.
    pub count: u64,
    /// How many of them began late.
    pub late: u64,
    /// How many of the late ones waited for the end of a pause.
    pub held: u64,
    /// What made the late ones late.
    pub spent: TickTimes,
    /// The latest.
    pub worst_ns: u64,
}

/// Where the time from a tick's instant to its beginning went: no part counts twice.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct TickTimes {
    /// In a pause.
    pub paused_ns: u64,
    /// Of that, the time for which the thread that ran the pause had no CPU: at least this. Only
    /// its sum over a pause is known, and a tick may see a part of the pause.
    pub pause_waited_ns: u64,
    /// Outside of pauses: the thread was ready and had no CPU.
    pub ready_ns: u64,
    /// The rest: its timer expired late, or it ran.
    pub rest_ns: u64,
}

impl TickTimes {
    /// All of it.
    #[must_use]
    pub fn total_ns(&self) -> u64 {
        self.paused_ns
            .saturating_add(self.ready_ns)
            .saturating_add(self.rest_ns)
    }

    /// Adds other times.
    pub fn add(&mut self, other: &Self) {
        for (sum, term) in [
            (&mut self.paused_ns, other.paused_ns),
            (&mut self.pause_waited_ns, other.pause_waited_ns),
            (&mut self.ready_ns, other.ready_ns),
            (&mut self.rest_ns, other.rest_ns),
        ] {
            *sum = sum.saturating_add(term);
        }
    }
}

/// A late tick, and what made it late.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct TickBill {
    /// The thread.
    pub task: WatchedTask,
    /// The instant for which it waited, CLOCK_MONOTONIC.
    pub due_ns: u64,
    /// How much later it began.
    pub late_ns: u64,
    /// Where that time went.
    pub spent: TickTimes,
    /// The same by thread: what it waited for, and what that thread did. They sum to `late_ns`.
    /// None if wake-ups are not explained.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub rows: Vec<TickRow>,
}

/// What one thread did in the time before a late tick.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct TickRow {
    /// Whether that was in a pause.
    pub paused: bool,
    /// What it was.
    pub row: WaitRow,
}

pub(super) fn check(runtime: Option<&WatchedRuntime>, threads: usize) -> Result<(), Broken> {
    let Some(runtime) = runtime else {
        return Ok(());
    };
    let roles = runtime.roles.len();
    ensure(
        roles == 0 || roles == threads,
        "watch.runtime.roles",
        format!("{roles} entries for {threads} threads"),
    )?;
    let (ticks, bills) = (runtime.ticks.len(), runtime.bills.len());
    at_most(ticks, WatchedRuntime::THREADS, "watch.runtime.ticks")?;
    at_most(bills, WatchedRuntime::BILLS, "watch.runtime.bills")?;
    for (index, ticks) in runtime.ticks.iter().enumerate() {
        ensure(
            ticks.held <= ticks.late && ticks.late <= ticks.count,
            format!("watch.runtime.ticks[{index}]"),
            "more held ticks than late ones, or more late ones than there are",
        )?;
        spent(&ticks.spent, format!("watch.runtime.ticks[{index}].spent"))?;
    }
    for (index, bill) in runtime.bills.iter().enumerate() {
        let place = format!("watch.runtime.bills[{index}]");
        spent(&bill.spent, format!("{place}.spent"))?;
        ensure(
            bill.spent.total_ns() == bill.late_ns,
            format!("{place}.spent"),
            "its parts don't sum to how late the tick was",
        )?;
        at_most(bill.rows.len(), Wait::ROWS, format!("{place}.rows"))?;
        let threads = bill.rows.iter().flat_map(|it| it.row.threads());
        check_ancestors(threads, &place)?;
        let rows = bill.rows.iter().map(|it| it.row.ns);
        let sum = rows.fold(0, u64::saturating_add);
        ensure(
            bill.rows.is_empty() || sum == bill.late_ns,
            format!("{place}.rows"),
            "they don't sum to how late the tick was",
        )?;
    }
    Ok(())
}

fn spent(times: &TickTimes, place: String) -> Result<(), Broken> {
    ensure(
        times.pause_waited_ns <= times.paused_ns,
        place,
        "more time without a CPU in pauses than in pauses",
    )
}

/// Adds the runtime of a watch to that of those before: threads by their names. Runs of different
/// runtimes have no sum.
pub(super) fn add_up(sum: &mut Option<WatchedRuntime>, other: Option<&WatchedRuntime>) {
    let same = |a: &WatchedRuntime, b: &WatchedRuntime| {
        (a.runtime, a.late_above_ns, &a.pause) == (b.runtime, b.late_above_ns, &b.pause)
    };
    let (Some(all), Some(other)) = (&mut *sum, other) else {
        *sum = None;
        return;
    };
    if !same(all, other) {
        *sum = None;
        return;
    }
    let waited = all.pause_waited_ns.zip(other.pause_waited_ns);
    all.pause_waited_ns = waited.map(|(a, b)| a.saturating_add(b));
    all.beyond = all.beyond.saturating_add(other.beyond);
    let mut taken: Vec<usize> = Vec::new();
    for ticks in &other.ticks {
        // The second of a name joins the second of that name.
        let of_name =
            |at: &usize| all.ticks[*at].task.name == ticks.task.name && !taken.contains(at);
        match (0..all.ticks.len()).find(of_name) {
            Some(at) => {
                taken.push(at);
                all.ticks[at].add(ticks);
            }
            None if all.ticks.len() < WatchedRuntime::THREADS => {
                taken.push(all.ticks.len());
                all.ticks.push(ticks.clone());
            }
            None => all.beyond = all.beyond.saturating_add(ticks.count),
        }
    }
}

/// Leaves out what belongs to one run alone. `roles` is in the order of one run's threads.
pub(super) fn of_sum(runtime: &mut Option<WatchedRuntime>) {
    if let Some(runtime) = runtime {
        runtime.bills.clear();
        runtime.roles.clear();
    }
}

impl Ticks {
    fn add(&mut self, other: &Self) {
        for (sum, term) in [
            (&mut self.count, other.count),
            (&mut self.late, other.late),
            (&mut self.held, other.held),
        ] {
            *sum = sum.saturating_add(term);
        }
        self.spent.add(&other.spent);
        self.worst_ns = self.worst_ns.max(other.worst_ns);
    }
}
