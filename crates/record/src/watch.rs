//! What was watched, and what its threads went through beside their wake-ups.

mod budget;
mod killed;
mod marks;
mod runtime;
mod threads;
mod waits;

use crate::{KernelCall, is_zero};
use punctual_stats::histogram::{Histogram, HistogramRecord};
use punctual_stats::skips::{Skip, Skips};
use serde::{Deserialize, Serialize};

use super::bounds::{Bounds, Broken, Extent, at_most, ensure, histogram};
pub use budget::{Budget, BudgetWindow};
pub use killed::KilledProgram;
pub(crate) use marks::find_room;
pub use marks::{MarkedThread, WatchedMark, WorstLength};
pub use runtime::{Runtime, ThreadRole, TickBill, TickRow, TickTimes, Ticks, WatchedRuntime};
pub use waits::{OffCpu, OffCpuPlace, OffCpuWhy, QueueTimes, RunQueue, RunQueueThread, TimesSum};

/// What was watched of a machine that was left as it is.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Watch {
    /// Whose wake-ups.
    pub subject: Subject,
    /// One entry for each thread of the run, in their order; none for a whole system.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub threads: Vec<WatchedThread>,
    /// Threads that were not recorded for lack of space.
    #[serde(default)]
    pub beyond: u64,
    /// Switches of threads that the kernel's side had no room for: how many threads these
    /// were isn't known.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub unfollowed: u64,
    /// The most child processes that the program had at once; they were not followed.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub children: u64,
    /// The most threads of ordinary priority at once; they were not followed.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub ordinary: u64,
    /// The worst wake-ups of a whole system, the worst first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub worst: Vec<WorstWakeUp>,
    /// Threads of a whole system that were ready as it ended and had not run since they were woken, the one that waited
    /// longest first: of those that waited longer than the deadline, or, without one, than any other.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub waiting: Vec<WaitingThread>,
    /// The longest time between two readings of a whole system in which wake-ups were late: so much earlier than
    /// their row of the timeline they may have been.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub reading_ns: u64,
    /// What the programs in the kernel took, measured for a part of the time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cost: Option<WatchCost>,
    /// The wake-up above the break value that ended the watch.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub breach: Option<Breach>,
    /// Where the threads were while they were off the CPU, if that was requested.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub off_cpu: Option<OffCpu>,
    /// How long threads waited for a CPU, if that was requested.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub run_queue: Option<RunQueue>,
    /// Places of the program that its threads passed.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub marks: Vec<WatchedMark>,
    /// The runtime of the program's language, if its pauses were measured.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub runtime: Option<WatchedRuntime>,
}

impl Watch {
    /// Calls of one thread that are distinguished.
    pub const CALLS: usize = 1024;
    /// Worst wake-ups of a system that are kept.
    pub const WORST: usize = 256;
    /// Lengths of a system's wake-ups are rounded up by less than this part of them.
    pub const SYSTEM_RESOLUTION: u64 = 64;

    /// Threads that still wait which are kept.
    pub const WAITING: usize = 256;

    /// Wake-ups of its threads that went unseen, and those that were still waited for.
    #[must_use]
    pub fn unseen(&self) -> u64 {
        let each = self.threads.iter().map(|thread| thread.unseen);
        each.fold(self.waiting.len() as u64, u64::saturating_add)
    }

    /// Those of one thread of the run: how many, and by how much they were late at most, if that is known. Those
    /// that are waited for are the first one's: it isn't known on which CPU they will run.
    pub(crate) fn unseen_of(&self, index: usize) -> (u64, Option<u64>) {
        match (self.threads.get(index), index) {
            (Some(thread), _) => (thread.unseen, thread.unseen_most_ns),
            (None, 0) => {
                let longest_ns = self.waiting.first().map(|it| it.waited_ns);
                (self.waiting.len() as u64, longest_ns)
            }
            (None, _) => (0, None),
        }
    }

    /// Whether threads without real-time priority are followed too.
    #[must_use]
    pub fn follows_every_thread(&self) -> bool {
        match &self.subject {
            Subject::Program { all_threads, .. } | Subject::Programs { all_threads, .. } => {
                *all_threads
            }
            Subject::System => false,
        }
    }

    /// Whether it is required of a mark that it takes no longer than a time.
    #[must_use]
    pub fn limits(&self) -> bool {
        self.marks.iter().any(|mark| mark.limit_ns.is_some())
    }
}

impl Subject {
    /// The processes that were watched, as far as they are known; none of a system.
    #[must_use]
    pub fn pids(&self) -> Vec<u32> {
        match self {
            Self::Program { pid, .. } => vec![*pid],
            Self::Programs { programs, .. } => programs.iter().map(|it| it.pid).collect(),
            Self::System => Vec::new(),
        }
    }
}

/// Whose wake-ups were watched.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(tag = "kind", rename_all = "kebab-case")]
pub enum Subject {
    /// One program's.
    Program {
        /// Its number.
        pid: u32,
        /// Its name, as the kernel keeps it (15 bytes).
        name: String,
        /// The command line that it was started with.
        command: Vec<String>,
        /// Whether threads of ordinary priority were watched too.
        all_threads: bool,
        /// Whether it ended while it was watched.
        ended: bool,
        /// The signal that ended it.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        killed_by: Option<i32>,
    },
    /// Those of several programs, which come and go.
    Programs {
        /// By what they are watched.
        following: Following,
        /// The program whose children they are, their name, or the directory of their group.
        wanted: String,
        /// The programs, in the order in which they were seen.
        programs: Vec<WatchedProgram>,
        /// More programs that were watched, and aren't among these: they came and ended between
        /// two looks, or there was no room for their names.
        #[serde(default, skip_serializing_if = "is_zero")]
        unnamed: u64,
        /// Programs that weren't watched: there was no room, or they can't be seen from the
        /// container that the watch runs in.
        #[serde(default, skip_serializing_if = "is_zero")]
        refused: u64,
        /// Whether threads of ordinary priority were watched too.
        all_threads: bool,
    },
    /// Every real-time thread's of the machine.
    System,
}

/// By what programs are watched.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum Following {
    /// A program, its children, and theirs.
    Children,
    /// All of a name.
    Name,
    /// All in a control group and below it.
    Cgroup,
}

/// One of several programs.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct WatchedProgram {
    /// Its number.
    pub pid: u32,
    /// Its name, as the kernel keeps it (15 bytes).
    pub name: String,
    /// Whether it ended, or was no longer of those that are watched, before the watch ended.
    pub gone: bool,
    /// The signal that ended it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub killed_by: Option<i32>,
}

impl WatchedProgram {
    /// How many are named.
    pub const MOST: usize = 1024;
}

/// What a thread of a program went through. Page faults and involuntary switches stand in
/// `faults` and `preemptions` of the run's own threads.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct WatchedThread {
    /// Itself, as it was seen last.
    pub task: WatchedTask,
    /// The program that it is of, where several are watched.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub program: Option<u32>,
    /// Whether it ended while it was watched.
    pub ended: bool,
    /// Its period, found in the instants of its own timer, or the shortest of several; absent where these are on no
    /// grid.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub period_ns: Option<u64>,
    /// What it waits for by timers.
    #[serde(default, skip_serializing_if = "Timing::is_unknown")]
    pub timing: Timing,
    /// The periods that it skipped, with how late they were. Records of before 0.2 have none.
    #[serde(default, skip_serializing_if = "Skips::is_empty")]
    pub skips: Skips,
    /// How many of them it skipped though it was woken in time: it was busy, or waited for
    /// something else.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub skipped_itself: u64,
    /// Wake-ups by a timer: counted from the instant that the timer was requested.
    pub by_timer: HistogramRecord,
    /// Other wake-ups: counted from the moment at which another thread or an interrupt began to wake it.
    pub by_others: HistogramRecord,
    /// Waits that began when their instant had passed, and instants that passed while it was awake: the work before
    /// took too long.
    pub overruns: u64,
    /// The most that one of them was begun late by.
    pub worst_overrun_ns: u64,
    /// Switches to it.
    pub switches: u64,
    /// Switches to it on another CPU than the one before.
    pub migrations: u64,
    /// Jobs under SCHED_DEADLINE; absent where there were none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub jobs: Option<Jobs>,
    /// What these used of the budgets that the thread had, in the order of their first jobs.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub budgets: Vec<Budget>,
    /// Jobs that had further budgets.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub budgets_beyond: u64,
    /// What it slept in, the most time first.
    pub calls: Vec<WatchedCall>,
    /// Sleeps in calls that were not recorded for lack of space.
    #[serde(default)]
    pub calls_beyond: u64,
    /// Wake-ups that the kernel did not show, and instants that passed while the thread was awake for which
    /// it came back at some time before its next wait: each may have been late, and the verdict takes that
    /// into account.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub unseen: u64,
    /// By how much each of them was late at most, if that is known: limits above it do not depend on them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unseen_most_ns: Option<u64>,
    /// Threads of its name, but for numbers, that ended before it and are in this entry as well, for want of
    /// room: what names one thread is of the last.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub others: u64,
    /// It slept all the time, and ran only to be stopped and to go on sleeping: that it was never
    /// woken says nothing against the run.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub slept_but_for_stops: bool,
}

/// What a thread waits for by timers. Without a period none can be skipped: then its wake-ups
/// are judged, each from the instant at which its timer was to expire, and its cycles are not.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum Timing {
    /// Not known, or too few waits to tell.
    #[default]
    Unknown,
    /// Instants on a grid: it has a period.
    Periodic,
    /// Lengths of time, that begin when its work is done.
    Lengths,
    /// Instants on no grid.
    Irregular,
    /// Instants on a grid for a while, and on none at the end.
    Lost,
    /// No timer woke it.
    None,
}

impl Timing {
    fn is_unknown(&self) -> bool {
        *self == Self::Unknown
    }
}

/// A task by number, name, policy and priority.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct WatchedTask {
    /// Its number.
    pub tid: u32,
    /// Its name.
    pub name: String,
    /// `fifo`, `rr`, `deadline`, `other`, ...
    pub policy: String,
    /// Its real-time priority, 1-99; 0 where the policy has none.
    pub priority: u32,
}

impl WatchedTask {
    /// Whether its policy is a real-time one.
    #[must_use]
    pub fn has_real_time_policy(&self) -> bool {
        matches!(&*self.policy, "fifo" | "rr" | "deadline")
    }
}

/// Jobs of a thread under SCHED_DEADLINE: from its wake-up to its next sleep.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Jobs {
    /// Those that ended.
    pub count: u64,
    /// Those that ended after their deadline.
    pub late: u64,
    /// The most that one was late by.
    pub worst_ns: u64,
    /// How often a deadline was put off by the kernel, because the runtime was used up.
    pub postponed: u64,
    /// How often the thread was throttled: the runtime was used up, and it had to wait for the
    /// next period.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub throttled: u64,
    /// For how long, all together; of those that are over.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub throttled_ns: u64,
    /// The longest of them.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub worst_throttled_ns: u64,
}

/// What a thread slept in.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct WatchedCall {
    /// The system call, or that it was none.
    pub name: KernelCall,
    /// How often it slept in it. A call that sleeps twice counts twice.
    pub count: u64,
    /// From the switch away to the switch back, all together.
    pub total_ns: u64,
    /// The longest of them.
    pub worst_ns: u64,
    /// How many were ended by a timer.
    pub by_timer: u64,
    /// How many waited for a lock whose holder had a lower priority; where the kernel knows
    /// no holder, how many were ended by a thread of lower priority.
    pub inversions: u64,
    /// Who held the lock, or who ended the longest of them; absent for a timer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub other: Option<WatchedTask>,
    /// Whether that one held the lock.
    #[serde(default)]
    pub held: bool,
}

/// One of the worst wake-ups of a whole system.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct WorstWakeUp {
    /// How long it took.
    pub latency_ns: u64,
    /// When the thread ran, CLOCK_MONOTONIC.
    pub at_ns: u64,
    /// On which CPU.
    pub cpu: u32,
    /// Who was woken.
    pub task: WatchedTask,
    /// Who had the CPU longest meanwhile; absent where it was idle.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub before: Option<WatchedTask>,
    /// Whether it counts from the instant that a timer was requested.
    pub by_timer: bool,
}

/// A thread that was woken and had not run when the watch ended.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct WaitingThread {
    /// How long it had waited by then.
    pub waited_ns: u64,
    /// In whose queue.
    pub cpu: u32,
    /// Who waits.
    pub task: WatchedTask,
}

/// The first wake-up above the break value.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Breach {
    /// Who was woken.
    pub task: WatchedTask,
    /// On which CPU it ran again.
    pub cpu: u32,
    /// How long it took.
    pub latency_ns: u64,
    /// When the thread ran, CLOCK_MONOTONIC.
    pub at_ns: u64,
}

/// What the programs in the kernel took.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct WatchCost {
    /// How long it was measured.
    pub measured_ns: u64,
    /// Calls of the programs within that time.
    pub calls: u64,
    /// Time that they took, on all CPUs together.
    pub spent_ns: u64,
}

pub(super) fn check(watch: &Watch, threads: usize, extent: &Extent) -> Result<(), Broken> {
    let count = watch.threads.len();
    ensure(
        count == 0 || count == threads,
        "watch.threads",
        format!("{count} entries for {threads} threads"),
    )?;
    at_most(watch.worst.len(), Watch::WORST, "watch.worst")?;
    at_most(watch.waiting.len(), Watch::WAITING, "watch.waiting")?;
    let is_longest_first = |pair: &[WaitingThread]| pair[0].waited_ns >= pair[1].waited_ns;
    ensure(
        watch.waiting.windows(2).all(is_longest_first),
        "watch.waiting",
        "not the longest first",
    )?;
    if let Subject::Program { command, .. } = &watch.subject {
        at_most(command.len(), Bounds::SHORT_LIST, "watch.subject.command")?;
    }
    if let Subject::Programs { programs, .. } = &watch.subject {
        let most = WatchedProgram::MOST;
        at_most(programs.len(), most, "watch.subject.programs")?;
    }
    for (index, thread) in watch.threads.iter().enumerate() {
        let place = format!("watch.threads[{index}]");
        histogram(&thread.by_timer, &format!("{place}.by_timer"))?;
        histogram(&thread.by_others, &format!("{place}.by_others"))?;
        at_most(thread.calls.len(), Watch::CALLS, format!("{place}.calls"))?;
        at_most(thread.skips.len(), Skips::MOST, format!("{place}.skips"))?;
        budget::check(&thread.budgets, &place, extent)?;
        let sound = |skip: &Skip| skip.count > 0 && skip.least_ns <= skip.most_ns;
        ensure(
            thread.skips.iter().all(sound),
            format!("{place}.skips"),
            "an entry without a period, or with a minimum above its maximum",
        )?;
    }
    let (off_cpu, run_queue) = (watch.off_cpu.as_ref(), watch.run_queue.as_ref());
    waits::check(off_cpu, run_queue, threads, extent)?;
    runtime::check(watch.runtime.as_ref(), threads)?;
    marks::check(&watch.marks)
}

/// Adds a watch to those before, its threads by their names, and says where each of them
/// stands in the sum. Its time, that began at `shift.0`, begins at `shift.1`; it is of `runs` runs.
pub(super) fn add_up(
    sum: &mut Option<Watch>,
    watch: &Watch,
    shift: (u64, u64),
    runs: u64,
) -> Vec<usize> {
    let mut watch = watch.clone();
    waits::of_runs(&mut watch, runs);
    runtime::of_sum(&mut watch.runtime);
    for thread in &mut watch.threads {
        thread.skips = thread.skips.shifted(shift.0, shift.1);
    }
    let Some(sum) = sum else {
        let count = watch.threads.len();
        *sum = Some(watch);
        return (0..count).collect();
    };
    sum.beyond = sum.beyond.saturating_add(watch.beyond);
    sum.unfollowed = sum.unfollowed.saturating_add(watch.unfollowed);
    sum.children = sum.children.max(watch.children);
    sum.ordinary = sum.ordinary.max(watch.ordinary);
    sum.reading_ns = sum.reading_ns.max(watch.reading_ns);
    sum.worst.extend(watch.worst.iter().cloned());
    sum.worst
        .sort_by_key(|worst| std::cmp::Reverse(worst.latency_ns));
    sum.worst.truncate(Watch::WORST);
    sum.waiting.extend(watch.waiting.iter().cloned());
    sum.waiting
        .sort_by_key(|it| std::cmp::Reverse(it.waited_ns));
    sum.waiting.truncate(Watch::WAITING);
    sum.cost = sum.cost.zip(watch.cost).map(|(a, b)| WatchCost {
        measured_ns: a.measured_ns.saturating_add(b.measured_ns),
        calls: a.calls.saturating_add(b.calls),
        spent_ns: a.spent_ns.saturating_add(b.spent_ns),
    });
    sum.breach = sum.breach.take().or_else(|| watch.breach.clone());
    marks::add_up(&mut sum.marks, &watch.marks);
    runtime::add_up(&mut sum.runtime, watch.runtime.as_ref());
    let taken = threads::add_threads(&mut sum.threads, &watch.threads);
    // Those of one run alone are not of the sum.
    let budgets = sum.threads.iter_mut().flat_map(|it| &mut it.budgets);
    budgets.for_each(|budget| budget.windows.clear());
    if let Some(off_cpu) = &watch.off_cpu {
        sum.off_cpu.get_or_insert_default().add(off_cpu, &taken);
    }
    if let Some(run_queue) = &watch.run_queue {
        sum.run_queue.get_or_insert_default().add(run_queue);
    }
    taken
}

/// A record that was read holds sound histograms.
fn add_histogram(sum: &mut HistogramRecord, term: &HistogramRecord) {
    if let (Ok(mut all), Ok(more)) = (Histogram::try_from(&*sum), Histogram::try_from(term)) {
        all.merge(&more);
        *sum = HistogramRecord::from(&all);
    }
}
