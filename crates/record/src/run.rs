//! What stands in `run.json`: plain data, written by the measuring half of the
//! tool and read by the reporting half.
//!
//! Times are nanoseconds. An instant ending in `_ns` is CLOCK_MONOTONIC unless
//! its name says otherwise; `at_ns` counts from the start of the measurement.

use std::collections::BTreeMap;

use crate::{Beginning, RunSource};
use punctual_stats::analysis::Analysis;
use punctual_stats::evidence::RunPart;
use punctual_stats::histogram::HistogramRecord;
use punctual_stats::peaks::Peak;
use punctual_stats::requirement::Requirement;
use punctual_stats::verdict::{Outcome, Verdict};
use serde::{Deserialize, Serialize};

use super::blocks::Blocks;
use super::condition::Demand;
use super::conditions::Difference;
use super::cross::CrossCheck;
use super::event::{Event, State};
use super::experiment::Experiment;
use super::explanation::Explanation;
use super::field::Field;
use super::finding::RunFindings;
use super::gaps::Gaps;
use super::invalid::InvalidReason;
use super::laboratory::{GuestTime, Laboratory};
use super::load::{LoadFailure, WorkCheck};
use super::path::PathRun;
use super::placement::Placement;
use super::stops::Stops;
use super::system::SystemState;
use super::taskset::TaskRun;
use super::tuning::Tuned;
use super::watch::{Watch, WatchedThread};

/// One run: what was asked, under which conditions, what was measured and what
/// follows from it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Run {
    /// Always that of [`crate::Document`].
    #[cfg_attr(feature = "schema", schemars(extend("const" = <Run as crate::Document>::FORMAT)))]
    pub format: String,
    /// As above.
    #[cfg_attr(feature = "schema", schemars(extend("const" = <Run as crate::Document>::VERSION)))]
    pub version: u32,
    /// The program that wrote the record.
    pub tool: Tool,
    /// The verb: `qualify`, `measure`, `merge` or `import`.
    pub verb: String,
    /// The command line as it was given.
    pub command: Vec<String>,
    /// When the run was begun, RFC 3339 in UTC.
    pub started: String,
    /// The instant from which the measurement counts; absent where the record
    /// doesn't say, as with merged and imported runs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub start_ns: Option<u64>,
    /// Whether the record is whole.
    pub state: State,
    /// What was requested.
    pub request: Request,
    /// Where the parts of the run were placed; absent where the record doesn't say.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub placement: Option<Placement>,
    /// The machine as it was found.
    pub system: SystemState,
    /// The bad findings of the machine before the run; absent where it was not checked.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub findings: Option<RunFindings>,
    /// The settings that were changed for the run and restored after it, in the order of the
    /// changes. Findings and demands were read after the change.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tuned: Vec<Tuned>,
    /// What was requested of the kernel and what was read back.
    pub demands: Vec<Demand>,
    /// Time measured so far, warm-up excluded.
    pub measured_ns: u64,
    /// One entry for each probe thread.
    pub threads: Vec<Thread>,
    /// Maximum, count and misses over time, all threads together.
    pub timeline: Timeline,
    /// Latencies by stretches of time; absent where the record doesn't say, as with
    /// imported runs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub blocks: Option<Blocks>,
    /// The loads and the work that they did.
    pub loads: Vec<Load>,
    /// What happened during the run that a reader must know.
    pub events: Vec<Event>,
    /// What the tool itself used.
    pub own_cost: OwnCost,
    /// What the statistics say; absent until there are samples.
    pub analysis: Option<Analysis>,
    /// The verdict; absent where no requirement was given.
    pub verdict: Option<Verdict>,
    /// For figures of another tool: what it states and what it doesn't.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub imported: Option<Imported>,
    /// For a merged record: what went into it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub merged: Option<Merged>,
    /// For a run made in the laboratory: on what, and all that it depends on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub laboratory: Option<Laboratory>,
    /// Who stole the time of the late wake-ups; absent where the run was not traced.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub explanation: Option<Explanation>,
    /// For a run that looked for gaps and not for wake-ups: how, and how much it watched.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gaps: Option<Gaps>,
    /// The same by the kernel's own tracer; absent where it was not requested.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cross_check: Option<CrossCheck>,
    /// For a watch: whose threads these are, and what else they went through.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub watch: Option<Watch>,
    /// Stops of the measuring process; absent where there was none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stops: Option<Stops>,
    /// For an experiment: which settings were switched, and what that changed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub experiment: Option<Experiment>,
    /// For a set of tasks that was executed: the set, and what each task did.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tasks: Option<TaskRun>,
    /// For a run that measured the path to another machine.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub path: Option<PathRun>,
}

impl Run {
    /// How many runs it is the sum of; 1 where it is none.
    #[must_use]
    pub fn parts(&self) -> u64 {
        self.merged.as_ref().map_or(1, |merged| merged.runs)
    }

    /// The deadline that late wake-ups were counted by: the first requirement's limit.
    #[must_use]
    pub fn deadline_ns(&self) -> Option<u64> {
        self.request.requirements.first().map(Requirement::limit_ns)
    }

    /// Whether anything was required: of wake-ups or gaps, or of a program's marks.
    #[must_use]
    pub fn is_judged(&self) -> bool {
        let limits = self.watch.as_ref().is_some_and(Watch::limits);
        limits || self.tasks.is_some() || !self.request.requirements.is_empty()
    }

    /// Keeps what the statistics say, and the verdict where something was required
    /// or the run is not valid.
    pub fn conclude(&mut self, analysis: Analysis) {
        let wanted = self.is_judged() || analysis.verdict.outcome == Outcome::Invalid;
        self.verdict = wanted.then(|| analysis.verdict.clone());
        self.analysis = Some(analysis);
    }

    /// Whether the same run gives the same figures: it was made in virtual time.
    #[must_use]
    pub fn repeats(&self) -> bool {
        let laboratory = self.laboratory.as_ref();
        laboratory.is_some_and(|laboratory| laboratory.time == GuestTime::Virtual)
    }

    /// The step that latencies were rounded down to: 1 for our own figures.
    #[must_use]
    pub fn resolution_ns(&self) -> u64 {
        self.imported
            .as_ref()
            .map_or(1, |imported| imported.resolution_ns.max(1))
    }

    /// Whether a fact about the run is known.
    #[must_use]
    pub fn knows(&self, field: Field) -> bool {
        // What is watched has its own, and a task: each thread another.
        const OF_THREADS: [Field; 4] =
            [Field::Interval, Field::Policy, Field::Priority, Field::Load];
        let each_its_own = self.watch.is_some() || self.tasks.is_some();
        if each_its_own && OF_THREADS.contains(&field) {
            return false;
        }
        self.imported
            .as_ref()
            .is_none_or(|imported| !imported.unknown.contains(&field))
    }

    /// What is known of a thread that was watched.
    #[must_use]
    pub fn watched(&self, index: usize) -> Option<&WatchedThread> {
        self.watch.as_ref()?.threads.get(index)
    }

    /// What to call a thread: `CPU 3`, `thread 0` where its CPU isn't known, or by name and
    /// number if it was watched.
    #[must_use]
    pub fn thread_label(&self, index: usize) -> String {
        if let Some(thread) = self.watched(index) {
            return format!("{}/{}", thread.task.name, thread.task.tid);
        }
        let tasks = self.tasks.as_ref();
        if let Some(task) = tasks.and_then(|tasks| tasks.set.tasks.get(index)) {
            return task.name.clone();
        }
        match self.threads.get(index) {
            Some(Thread { cpu: Some(cpu), .. }) => format!("CPU {cpu}"),
            _ => format!("thread {index}"),
        }
    }
}

/// What is known of figures that another tool measured.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Imported {
    /// `cyclictest`, `rt-tests-json`, `jitterdebugger` or `rtla-timerlat`.
    pub format: String,
    /// Latencies were rounded down to multiples of this.
    pub resolution_ns: u64,
    /// What the tool doesn't state.
    pub unknown: Vec<Field>,
    /// What the tool itself states of each thread, in the order of `threads`.
    pub threads: Vec<ImportedThread>,
    /// Where a latency of any thread was not kept: all that lie below this were. Nothing is
    /// known of the distribution from here on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kept_below_ns: Option<u64>,
}

/// The summary that another tool gave of a thread.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ImportedThread {
    /// Samples that it counted.
    pub count: u64,
    /// Its minimum.
    pub min_ns: u64,
    /// Its maximum.
    pub max_ns: u64,
    /// Its mean.
    pub mean_ns: Option<f64>,
    /// Samples whose latency it did not keep, the maximum apart. They stand in
    /// `lost` of the thread too: no percentile above them is known.
    pub beyond: u64,
    /// Where `beyond` is not 0: every latency below this was kept, and none that was not
    /// kept lies below it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kept_below_ns: Option<u64>,
}

/// What a merged record was made of.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Merged {
    /// Runs that went into it.
    pub runs: u64,
    /// Samples of each run, in their order.
    pub samples: Vec<u64>,
    /// Maximum of each run, in their order.
    pub max_ns: Vec<u64>,
    /// Instant of the earliest and the latest beginning, RFC 3339 in UTC.
    pub first_started: String,
    /// The latest beginning.
    pub last_started: String,
    /// In what the runs differ although they were merged.
    pub differences: Vec<Difference>,
    /// Which runs these were, as far as they say: none is to be counted twice.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub begun: Vec<Beginning>,
    /// Each in the time of this record: no burst and no episode extends from one into the next. Absent from older
    /// records, which have silence between them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub parts: Vec<RunPart>,
    /// What made one of them invalid, and does not show in the sums: the first of each kind.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub invalid: Vec<InvalidReason>,
}

impl Merged {
    /// Differences that are kept.
    pub const DIFFERENCES: usize = 100;
}

/// The program that wrote a record.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Tool {
    /// `punctual`, or the name of the foreign tool for imported figures.
    pub name: String,
    /// Its version.
    pub version: String,
}

/// What was requested.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Request {
    /// What was measured: the wait source of the probes, or threads that run anyway.
    pub source: RunSource,
    /// The interval.
    pub interval: Interval,
    /// CPUs of the probe threads, one thread each, in their order.
    pub cpus: Vec<usize>,
    /// `fifo`, `rr` or `other`.
    pub policy: String,
    /// Real-time priority 1-99; 0 under `other`.
    pub priority: u32,
    /// Requested duration; absent where only loops or Ctrl-C end the run.
    pub duration_ns: Option<u64>,
    /// Requested cycles of each thread.
    pub loops: Option<u64>,
    /// `-b`: stop at the first latency above.
    pub break_ns: Option<u64>,
    /// Label of the load, e.g. `standard load v1`.
    pub load: String,
    /// Scheduling class of the load: `other`, `batch` or `idle`.
    pub load_class: String,
    /// What must hold.
    pub requirements: Vec<Requirement>,
    /// Level of confidence, in (0, 1).
    #[cfg_attr(
        feature = "schema",
        schemars(extend("exclusiveMinimum" = 0, "exclusiveMaximum" = 1))
    )]
    pub confidence: f64,
    /// True: nothing about the machine was changed for the run.
    pub as_deployed: bool,
    /// True: conditions not in force are stated, and don't make the run invalid.
    pub best_effort: bool,
}

/// The interval between two wake-ups.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(tag = "kind", rename_all = "kebab-case")]
pub enum Interval {
    /// Every interval the same.
    Fixed {
        /// Its length.
        interval_ns: u64,
    },
    /// Each drawn from a table of primes, so that no train of samples locks
    /// onto a periodic disturbance.
    Primes {
        /// The intervals' scale: the table stands around it.
        interval_ns: u64,
        /// The seed of the draw; thread k draws with `seed + k`.
        seed: u64,
        /// The table itself.
        table_ns: Vec<u64>,
    },
}

impl Interval {
    /// The nominal length in nanoseconds.
    #[must_use]
    pub fn nominal_ns(&self) -> u64 {
        match self {
            Self::Fixed { interval_ns } | Self::Primes { interval_ns, .. } => *interval_ns,
        }
    }

    /// The shortest length in nanoseconds.
    #[must_use]
    pub fn shortest_ns(&self) -> u64 {
        match self {
            Self::Fixed { interval_ns } => *interval_ns,
            Self::Primes { table_ns, .. } => table_ns.iter().copied().min().unwrap_or(0),
        }
    }
}

/// What one probe thread measured.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Thread {
    /// Its CPU; absent where another tool doesn't state it.
    pub cpu: Option<usize>,
    /// Its thread id while it lived.
    pub tid: i32,
    /// Every latency; the exact minimum, maximum, sum and count.
    pub latency: HistogramRecord,
    /// Wake-ups later than the first requested deadline.
    pub late: u64,
    /// Periods that were skipped because the thread was late.
    pub missed: u64,
    /// Those of them that miss the deadline, as docs/measurement.md defines it. Absent where all
    /// do.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub missed_late: Option<u64>,
    /// Samples that found the ring full; above zero the run is not valid.
    pub lost: u64,
    /// Wake-ups before the requested instant; counted as a latency of zero.
    pub early: u64,
    /// Warm-up cycles before time counted.
    pub warm_up: u64,
    /// The highest latencies, kept whole, in order of time: all of them above
    /// `peaks_above_ns`. `asked_ns` is CLOCK_MONOTONIC.
    #[serde(with = "super::peaks")]
    #[cfg_attr(
        feature = "schema",
        schemars(with = "Vec<Vec<u64>>", length(max = 131_072))
    )]
    pub peaks: Vec<Peak>,
    /// Every latency above this stands in `peaks`; 0 where all of them do.
    pub peaks_above_ns: u64,
    /// Measured time of this thread, from its first to its last asked-for instant.
    pub measured_ns: u64,
    /// Page faults inside the measuring loop; absent where they can't be read.
    pub faults: Option<Faults>,
    /// Involuntary context switches inside the measuring loop.
    pub preemptions: Option<u64>,
    /// First half of the run, for the statement on stationarity.
    pub first_half: Option<HistogramRecord>,
    /// Misses of the deadline in the first half.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub first_half_misses: Option<u64>,
    /// Why the thread did not measure until the end, if so.
    pub fault: Option<ThreadFault>,
}

/// Why a probe thread did not measure until the end.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(tag = "is", rename_all = "kebab-case")]
pub enum ThreadFault {
    /// It could not wait.
    WaitFailed {
        /// The operating system's text.
        error: String,
    },
    /// It did not end in time: it waits for an instant far ahead.
    StillWaiting,
}

/// Page faults of a thread.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Faults {
    /// Without I/O.
    pub minor: u64,
    /// With I/O.
    pub major: u64,
}

/// What happened over time, in rows of equal width. The width doubles when a
/// long run would take more than [`Timeline::ROWS`] rows.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Timeline {
    /// Width of a row.
    pub row_ns: u64,
    /// The rows, from the start of the measurement, without gaps.
    pub rows: Vec<TimelineRow>,
    /// Seconds measured; the last one takes what remains, half a second to one and a half.
    pub seconds: u64,
    /// Seconds in which at least one deadline was missed.
    pub seconds_with_miss: u64,
}

impl Timeline {
    /// The most rows that are kept.
    pub const ROWS: usize = 2048;
}

/// One row of the timeline: all threads together.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct TimelineRow {
    /// Samples.
    pub count: u64,
    /// Lowest latency; 0 where there is no sample.
    pub min_ns: u64,
    /// Sum of latencies.
    pub sum_ns: u64,
    /// Highest latency.
    pub max_ns: u64,
    /// Wake-ups later than the deadline.
    pub late: u64,
    /// Skipped periods.
    pub missed: u64,
    /// Misses of the deadline: late wake-ups, and skipped periods that miss it.
    #[serde(default, skip_serializing_if = "is_none_missed")]
    pub misses: u64,
}

/// Whether a row is without a miss, and says nothing of them.
fn is_none_missed(misses: &u64) -> bool {
    *misses == 0
}

impl TimelineRow {
    /// Adds samples: how many, the sum of their latencies, the lowest and the highest.
    #[inline]
    pub fn add(&mut self, count: u64, sum_ns: u64, (min_ns, max_ns): (u64, u64)) {
        self.min_ns = match self.count {
            0 => min_ns,
            _ => self.min_ns.min(min_ns),
        };
        self.max_ns = self.max_ns.max(max_ns);
        self.count += count;
        self.sum_ns = self.sum_ns.wrapping_add(sum_ns);
    }
}

/// One load and the work that it did.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Load {
    /// Its name, e.g. `hackbench`.
    pub name: String,
    /// Its parameters.
    pub parameters: BTreeMap<String, String>,
    /// Processes that it started with.
    pub processes: u64,
    /// Work done, in `unit`.
    pub work: u64,
    /// e.g. `messages`.
    pub unit: String,
    /// Work per second.
    pub rate: f64,
    /// Why it failed, if it did.
    pub failed: Option<LoadFailure>,
    /// Whether it went on working; absent where it was not checked.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub check: Option<WorkCheck>,
    /// Of a merged record: what was seen in the first of its runs in which the load was without
    /// work for too long.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub idle_run: Option<WorkCheck>,
}

/// What the tool itself used during the run.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct OwnCost {
    /// Processor time of the collector and the saver.
    pub collector_cpu_ns: u64,
    /// Processor time of the probe threads.
    pub probes_cpu_ns: u64,
    /// Highest resident memory of the process, in bytes.
    pub peak_resident_bytes: u64,
    /// Median cost of one reading of the clock.
    pub clock_read_ns: u64,
    /// What tracing the kernel took; absent where it was off.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tracer: Option<TracerCost>,
}

/// What tracing the kernel took.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct TracerCost {
    /// Processor time of the thread that copies events out and makes bills.
    pub cpu_ns: u64,
    /// Events that the kernel recorded: each takes it 0.1 to 0.5 us.
    pub events: u64,
    /// Those that were overwritten before they were copied out.
    pub lost: u64,
    /// The longest time for which they were not copied out then.
    #[serde(default)]
    pub unread_ns: u64,
}
