//! A run while it goes, as data: what drives the run fills it, and the report draws it.
//! None of it is kept.

use crate::KernelCall;
use crate::explanation::Cause;
use crate::taskset::TaskPolicy;
use crate::{Demand, Event, KernelTracer};

/// Buckets of a sparkline: four per decade from 1 µs to 1 s.
pub const SPARK_BUCKETS: usize = 24;

/// The bucket of a sparkline that a latency falls into; what lies outside goes
/// to the first or the last.
#[must_use]
pub fn spark_bucket(latency_ns: u64) -> usize {
    // 10^(3 + i/4), rounded: no logarithm is wanted where samples come in.
    const QUARTERS: [u64; 4] = [1_000, 1_778, 3_162, 5_623];
    let mut bucket = 0;
    let mut scale = 1;
    loop {
        for quarter in QUARTERS {
            if latency_ns < quarter * scale || bucket == SPARK_BUCKETS {
                return bucket.saturating_sub(1);
            }
            bucket += 1;
        }
        scale *= 10;
    }
}

/// What a reader must know at once.
#[derive(Debug, Clone, PartialEq)]
pub enum Note {
    /// What was requested and is not in force.
    Unmet(Demand),
    /// What happened last.
    Happened(Event),
    /// No thread that is watched has run yet.
    NothingRan {
        /// Threads of ordinary priority are watched too.
        every: bool,
    },
}

/// A step before or after the measurement.
#[derive(Debug, Clone, PartialEq)]
pub enum Step {
    /// The machine's settings are read.
    ReadSettings,
    /// The machine is checked.
    CheckMachine,
    /// The settings that were changed are restored.
    RestoreSettings,
    /// Tracing is set up.
    SetUpTracing,
    /// The probe threads are set up.
    SetUpProbes,
    /// The speed of the CPUs is measured.
    MeasureSpeed,
    /// The responder on the other machine is asked.
    Connect {
        /// Which machine.
        host: String,
    },
    /// The tasks of a set are set up.
    SetUpTasks,
    /// The load is started.
    StartLoad {
        /// Its label.
        load: String,
    },
    /// The same is measured with the kernel's own tracer.
    CrossCheck {
        /// Which.
        tracer: KernelTracer,
        /// For how long.
        length_ns: u64,
    },
    /// The run is ended.
    EndRun,
    /// The watch is ended.
    EndWatch,
    /// The record is analysed.
    Analyse,
}

/// What the rows of a table are.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum RowsAre {
    /// A row for each CPU.
    #[default]
    Cpus,
    /// A row for each thread.
    Threads,
}

/// What is watched.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum LiveSubject {
    /// The whole machine.
    #[default]
    System,
    /// A program.
    Program {
        /// Its name.
        name: String,
        /// Its process.
        pid: u32,
    },
    /// Several programs, or a control group.
    Several {
        /// As they were requested.
        name: String,
    },
}

/// A run as it stands, filled by what drives it.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct LiveView {
    /// What runs, e.g. `qualify`.
    pub verb: String,
    /// Time measured so far.
    pub elapsed_ns: u64,
    /// Requested time, where it is known.
    pub total_ns: Option<u64>,
    /// The deadline, where there is one: maxima above it stand out.
    pub deadline_ns: Option<u64>,
    /// One entry for each probe thread.
    pub threads: Vec<LiveThread>,
    /// The loads.
    pub loads: Vec<LiveLoad>,
    /// Latencies in cyclictest's lines are in ns rather than µs.
    pub nanoseconds: bool,
    /// What a reader must know at once: a demand not in force, a save that failed.
    pub notes: Vec<Note>,
    /// Gaps are counted, and not wake-ups.
    pub gaps: bool,
    /// Messages to another machine are counted.
    pub messages: bool,
}

/// A probe thread as it stands. Latencies are in ns; without samples they are 0.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct LiveThread {
    /// Its CPU.
    pub cpu: usize,
    /// Its thread id.
    pub tid: i32,
    /// Its real-time priority.
    pub priority: u32,
    /// Its nominal interval.
    pub interval_ns: u64,
    /// Samples so far.
    pub count: u64,
    /// Lowest.
    pub min_ns: u64,
    /// Latest.
    pub act_ns: u64,
    /// Mean.
    pub avg_ns: f64,
    /// p99.9, where the sample supports it.
    pub p999_ns: Option<u64>,
    /// Highest.
    pub max_ns: u64,
    /// Wake-ups later than the deadline.
    pub late: u64,
    /// Missed periods.
    pub missed: u64,
    /// Lost samples.
    pub lost: u64,
    /// Samples per [`spark_bucket`].
    pub spark: [u64; SPARK_BUCKETS],
}

/// A load as it stands.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct LiveLoad {
    /// Its name.
    pub name: String,
    /// The unit of its work.
    pub unit: String,
    /// Work per second.
    pub rate: f64,
    /// Whether it failed.
    pub failed: bool,
}

/// A watch as it stands, filled by what drives it.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct LiveWatch {
    /// What is watched.
    pub subject: LiveSubject,
    /// Time watched so far.
    pub elapsed_ns: u64,
    /// Requested time, where it is known.
    pub total_ns: Option<u64>,
    /// The deadline, where there is one.
    pub deadline_ns: Option<u64>,
    /// What the rows are.
    pub rows_are: RowsAre,
    /// One entry for each thread, or for each CPU of a system.
    pub rows: Vec<LiveRow>,
    /// One entry for each mark of a program.
    pub marks: Vec<LiveMark>,
    /// What a reader must know at once.
    pub notes: Vec<Note>,
}

/// A set of tasks while it is executed.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct LiveTasks {
    /// What the set is called.
    pub name: String,
    /// Time so far.
    pub elapsed_ns: u64,
    /// Requested time, where it is known.
    pub total_ns: Option<u64>,
    /// One entry for each task, in the order of the set.
    pub tasks: Vec<LiveTask>,
    /// What a reader must know at once.
    pub notes: Vec<Note>,
}

/// A task as it stands. Times are from the arrival of a job to its end, in ns; absent without jobs.
#[derive(Debug, Clone, PartialEq)]
pub struct LiveTask {
    /// Its name.
    pub name: String,
    /// How it is scheduled.
    pub policy: TaskPolicy,
    /// Its CPUs; empty for all.
    pub cpus: Vec<usize>,
    /// A job must end within this time.
    pub deadline_ns: u64,
    /// Jobs so far.
    pub jobs: u64,
    /// Of the last job.
    pub current_ns: Option<u64>,
    /// The shortest.
    pub best_ns: Option<u64>,
    /// The 99.9th percentile, where there are jobs enough.
    pub p999_ns: Option<u64>,
    /// The longest.
    pub worst_ns: Option<u64>,
    /// What the analysis bounds it by.
    pub bound_ns: Option<u64>,
    /// The latest start after a release.
    pub wake_up_ns: Option<u64>,
    /// Jobs that ended after their deadlines.
    pub late: u64,
    /// Jobs that were never started.
    pub skipped: u64,
    /// What took most of the longest job, but its own work.
    pub taken_by: Option<Cause>,
}

/// A mark as it stands, all threads together.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct LiveMark {
    /// What it is called.
    pub name: String,
    /// Passes, or lengths that came to their end.
    pub count: u64,
    /// Whether it isn't seen.
    pub refused: bool,
    /// From one pass to the next; else from one place to another.
    pub point: bool,
    /// Mean length in ns; 0 without any.
    pub avg_ns: f64,
    /// p99 in ns, where there are enough for it.
    pub p99_ns: Option<u64>,
    /// The longest in ns.
    pub max_ns: Option<u64>,
}

/// A thread as it stands. Latencies are in ns; without wake-ups they are 0.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct LiveRow {
    /// What to call it.
    pub label: String,
    /// Wake-ups so far.
    pub count: u64,
    /// Its period, where it has one.
    pub period_ns: Option<u64>,
    /// Mean.
    pub avg_ns: f64,
    /// p99.9, where the wake-ups support it.
    pub p999_ns: Option<u64>,
    /// Highest.
    pub max_ns: u64,
    /// Wake-ups later than the deadline.
    pub late: u64,
    /// Missed periods, and jobs after their deadline.
    pub missed: u64,
    /// Involuntary switches away from it.
    pub preempted: u64,
    /// Page faults.
    pub faults: u64,
    /// Switches to another CPU.
    pub migrations: u64,
    /// What stands out.
    pub notable: Option<Notable>,
}

/// What stands out of a row of a watch.
#[derive(Debug, Clone, PartialEq)]
pub enum Notable {
    /// The call with the longest sleep that no timer ended.
    Sleep {
        /// The system call.
        call: KernelCall,
        /// Sleeps in it.
        count: u64,
        /// The longest, in ns.
        worst_ns: u64,
    },
    /// The worst wake-up.
    WakeUp {
        /// Who was woken.
        woken: Option<String>,
        /// Who ran before; absent for an idle CPU.
        before: Option<String>,
    },
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spark_buckets_are_quarters_of_a_decade() {
        assert_eq!(spark_bucket(0), 0);
        assert_eq!(spark_bucket(999), 0);
        assert_eq!(spark_bucket(1_000), 0);
        assert_eq!(spark_bucket(1_778), 1);
        assert_eq!(spark_bucket(10_000), 4);
        assert_eq!(spark_bucket(1_000_000), 12);
        assert_eq!(spark_bucket(u64::MAX), SPARK_BUCKETS - 1);
    }
}
