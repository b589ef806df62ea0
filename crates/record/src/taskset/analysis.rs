//! What an analysis finds of a task set, without running it.
//!
//! Tasks and locks are named by their index in the set.

use serde::{Deserialize, Serialize};

use super::TaskPolicy;

/// An analysed task set.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct SetAnalysis {
    /// That of [`crate::document::Printed`].
    pub version: u32,
    /// What the set is called.
    pub name: String,
    /// The CPUs of the machine.
    pub cpus: u32,
    /// What was counted for the kernel.
    pub overheads: SetOverheads,
    /// The tasks, in the order of the set.
    pub tasks: Vec<TaskAnalysis>,
    /// The names of the locks, in the order of the set.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub locks: Vec<String>,
    /// The CPUs to which real-time tasks are bound.
    pub loads: Vec<CpuLoad>,
    /// The chains, in the order of the set.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub chains: Vec<ChainAnalysis>,
    /// All deadlines are met as long as jobs take at most this much as long as the set says, in parts
    /// per million; absent where a task has no bound, or `SCHED_DEADLINE` tasks share CPUs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub largest_factor_ppm: Option<u64>,
    /// What it comes to.
    pub outcome: AnalysisOutcome,
}

/// What an analysis comes to, for all real-time tasks and the chains that have limits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum AnalysisOutcome {
    /// Every bound is within its deadline.
    Met,
    /// A bound is beyond its deadline, and counts only what may come together, or a CPU has more to do than it can.
    NotMet,
    /// Some have no bound, or none that proves anything, and the others meet their deadlines; or there is none to
    /// judge.
    Unbounded,
}

impl AnalysisOutcome {
    /// The exit status: 0, 2 and 3, as of a verdict.
    #[must_use]
    pub fn exit_code(self) -> u8 {
        match self {
            AnalysisOutcome::Met => 0,
            AnalysisOutcome::NotMet => 2,
            AnalysisOutcome::Unbounded => 3,
        }
    }
}

/// What the kernel takes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct SetOverheads {
    /// How it was measured; absent where nothing is counted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub measured: Option<OverheadsMeasured>,
    /// The timer interrupt that releases a job.
    pub release_interrupt_ns: u64,
    /// From the end of that interrupt to the job, and from the end of the job to the next task.
    pub wake_and_sleep_ns: u64,
    /// The tick.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tick: Option<TickOverhead>,
    /// The fair server of each CPU; absent where there is none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fair_server: Option<ServerTime>,
    /// What RT throttling leaves to ordinary tasks; absent where it is off.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rt_throttling: Option<ServerTime>,
}

/// Time of each CPU that the kernel keeps for ordinary tasks while real-time tasks would take all of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ServerTime {
    /// So much,
    pub runtime_ns: u64,
    /// in each such time.
    pub period_ns: u64,
    /// How much more it may be until the kernel notices: one tick.
    #[serde(default)]
    pub overrun_ns: u64,
    /// The machine doesn't show it: what kernels have where nobody changed it.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub assumed: bool,
}

/// The scheduler's tick.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct TickOverhead {
    /// The distance of two ticks.
    pub period_ns: u64,
    /// How long one takes.
    pub execution_ns: u64,
}

/// How overheads were measured: 95 % of the gaps in a loop that reads the clock are no longer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct OverheadsMeasured {
    /// On this CPU.
    pub cpu: usize,
    /// Gaps by timers of a thread below.
    pub interrupts: u32,
    /// Gaps by wake-ups of a thread above.
    pub wake_ups: u32,
    /// Gaps by the tick.
    pub ticks: u32,
}

/// What is known of a task.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct TaskAnalysis {
    /// Its name.
    pub name: String,
    /// How it is scheduled.
    pub policy: TaskPolicy,
    /// The CPUs on which it may run; empty for all.
    pub cpus: Vec<usize>,
    /// The least distance of two arrivals.
    pub period_ns: u64,
    /// A job must end this long after it arrives.
    pub deadline_ns: u64,
    /// The longest execution time of a job; absent where the set doesn't say it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub execution_ns: Option<u64>,
    /// The bound on its response times.
    pub response: Response,
    /// Whether it counts what need not come together: sleeps within jobs as execution, or each phase as the
    /// longest job at the shortest distance. That a bound of it is too long then proves nothing.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub counts_worst: bool,
    /// How much longer its jobs may take while all tasks meet their deadlines; absent where not all
    /// do, or where it wasn't computed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub may_take_longer_ns: Option<u64>,
    /// What the kernel answers to its reservation.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub admission: Option<Admission>,
}

/// The response times of a task: from the arrival of a job to its end.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(tag = "kind", rename_all = "kebab-case")]
pub enum Response {
    /// No job takes longer.
    Bounded {
        /// From arrival to end.
        response_ns: u64,
        /// Which job of the longest busy window it is, from 0.
        job: u64,
        /// How late it may be released.
        jitter_ns: u64,
        /// When that job arrives, after the beginning of the window, or before it: where the window is
        /// the longest with the tasks' offsets. Absent where all tasks may arrive together.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        arrival_in_window_ns: Option<i64>,
        /// What the time from the beginning of that window to the end of that job consists of; empty
        /// for `SCHED_DEADLINE`, where the bound follows from a test of all tasks.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        parts: Vec<BoundPart>,
    },
    /// There is no bound.
    Unbounded {
        /// Why.
        why: NoBound,
    },
    /// An ordinary task: nothing is promised to it, and no deadline is judged.
    BestEffort,
}

/// Some of the time of a bound.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct BoundPart {
    /// Who takes it.
    pub source: BoundSource,
    /// How long.
    pub ns: u64,
}

/// Who takes time from a job.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(tag = "source", rename_all = "kebab-case")]
pub enum BoundSource {
    /// The task's own execution, and the kernel's paths from and to its sleep.
    Itself,
    /// The task's own sleep within jobs.
    Sleep,
    /// Another task.
    Task {
        /// Its index.
        task: usize,
    },
    /// Waiting for holders of locks.
    Blocking,
    /// The interrupts that release the jobs of a task.
    ReleaseInterrupt {
        /// Its index.
        task: usize,
    },
    /// The tick.
    Tick,
    /// Ordinary tasks, by the fair server.
    FairServer,
    /// RT throttling.
    RtThrottling,
    /// Anything else.
    Other,
}

/// A step of work whose time a set doesn't say.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum UntimedStep {
    /// A function of a shared object.
    Library,
    /// A command.
    Command,
    /// A number of instructions.
    Instructions,
    /// Memory.
    Memory,
    /// System calls.
    Calls,
    /// `sched_yield`.
    Yield,
}

/// Why a task has no bound.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(tag = "reason", rename_all = "kebab-case")]
pub enum NoBound {
    /// It may run on several CPUs.
    SeveralCpus,
    /// The set doesn't say how long this takes.
    Untimed {
        /// The first such step.
        step: UntimedStep,
    },
    /// The task that releases it has no bound.
    After {
        /// Its index.
        task: usize,
    },
    /// A task of the same or a higher rank, which may run on its CPU, has no bound.
    Interferer {
        /// Its index.
        task: usize,
    },
    /// A holder of this lock can't be bounded.
    LockUser {
        /// The lock.
        lock: usize,
        /// The holder.
        task: usize,
    },
    /// Sections of this lock and another one are nested, without ceilings.
    NestedLocks {
        /// The lock.
        lock: usize,
        /// The task that nests them.
        task: usize,
    },
    /// A task sleeps while it holds this lock.
    SleepsInLock {
        /// The lock.
        lock: usize,
        /// The task that sleeps.
        task: usize,
    },
    /// `sched_yield` ends the runtime of its reservation.
    YieldsReservation,
    /// This task and those above it need more than the CPU has.
    Overload,
    /// A task below holds this lock, which has no protocol.
    PlainLock {
        /// The lock.
        lock: usize,
    },
    /// This lock has users on several CPUs.
    LockAcrossCpus {
        /// The lock.
        lock: usize,
    },
    /// This lock has a `SCHED_DEADLINE` user beside others.
    LockWithDeadlineTask {
        /// The lock.
        lock: usize,
    },
    /// A job needs more than the runtime of its reservation.
    Throttled {
        /// What it needs within the deadline, with all that is charged to it.
        needed_ns: u64,
    },
    /// Its jobs may arrive more often than the reservation's period.
    FasterThanReservation,
    /// A `SCHED_DEADLINE` task that sleeps within a job loses its deadline.
    SleepsInReservation,
    /// The `SCHED_DEADLINE` tasks need more than there is.
    Demand {
        /// In an interval of this length,
        interval_ns: u64,
        /// this much must be done.
        demand_ns: u64,
    },
    /// The fair server may run beside the `SCHED_DEADLINE` tasks of several CPUs.
    FairServer,
    /// Time that the kernel keeps for ordinary tasks may be beyond its deadline: how much real-time tasks
    /// leave them isn't known, because a task of its CPU has no bound.
    OrdinaryTasks {
        /// The index of that task.
        task: usize,
    },
    /// More releases may come until its job ends than may be pending: those beyond are skipped.
    ReleasesSkipped {
        /// So many may be.
        pending: u32,
    },
    /// Neither is it proved that `SCHED_DEADLINE` tasks on several CPUs meet their deadlines, nor
    /// that they can't.
    GlobalUndecided,
    /// The bound is longer than 2^60 ns.
    TooLong,
    /// The analysis was ended: it takes too long.
    TooManySteps,
}

impl NoBound {
    /// Whether it is known that deadlines can't be met.
    #[must_use]
    pub fn is_impossible(self) -> bool {
        matches!(self, NoBound::Overload | NoBound::Demand { .. })
    }
}

/// What `sched_setattr` answers to a reservation, one after another. It is no guarantee.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum Admission {
    /// 0.
    Admitted,
    /// `EINVAL`.
    Invalid,
    /// `EBUSY`.
    Busy,
    /// `EPERM`: as this machine's CPUs are divided, the task is bound to a part of its root domain.
    Bound,
}

/// What the real-time tasks of a CPU need.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct CpuLoad {
    /// The CPU.
    pub cpu: usize,
    /// The share that the tasks bound to it need in the long run, in parts per million; those whose
    /// time isn't known are left out.
    pub tasks_ppm: u64,
    /// The same, with what the kernel takes.
    pub all_ppm: u64,
    /// Tasks bound to it whose time isn't known.
    pub unknown: usize,
    /// Whether its `SCHED_DEADLINE` tasks get what is due in each interval; absent without such.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub demand_met: Option<bool>,
    /// Whether ordinary tasks may get time there while real-time tasks wait.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub ordinary: Vec<OrdinaryTime>,
}

/// Whether ordinary tasks may get time of a CPU while its real-time tasks wait.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct OrdinaryTime {
    /// By what.
    pub by: OrdinaryBy,
    /// They may: the bounds count it. Otherwise real-time tasks leave them enough by themselves.
    pub may_run: bool,
    /// What real-time tasks and the kernel take at most of an interval as long as the period; absent
    /// where that isn't bounded.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub taken_ns: Option<u64>,
}

/// What gives time to ordinary tasks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum OrdinaryBy {
    /// The fair server.
    FairServer,
    /// RT throttling.
    RtThrottling,
}

/// A chain.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ChainAnalysis {
    /// Its name.
    pub name: String,
    /// Its tasks.
    pub tasks: Vec<usize>,
    /// The limit of the reaction time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reaction_limit_ns: Option<u64>,
    /// The limit of the data age.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub age_limit_ns: Option<u64>,
    /// How long it takes at most.
    pub latency: ChainLatency,
    /// Whether its limits are no shorter than what it takes at least: how its tasks follow one another beyond that isn't
    /// counted, so that a bound of it that is too long proves nothing.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub counts_worst: bool,
}

/// How long a chain takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(tag = "kind", rename_all = "kebab-case")]
pub enum ChainLatency {
    /// At most so long.
    Bounded {
        /// From an event at the input to the first output that reflects it.
        reaction_ns: u64,
        /// From the arrival of the job that read the input to the last output made of it.
        age_ns: u64,
    },
    /// A task of it has no bound.
    Unbounded {
        /// Its index.
        task: usize,
    },
    /// The arrivals of a task aren't periodic: a relative timer, or phases with other periods.
    NotPeriodic {
        /// Its index.
        task: usize,
    },
    /// A job of a task with a timer may end after the deadline of the next one, which then is not executed.
    Skips {
        /// Its index.
        task: usize,
    },
    /// The sum is longer than 2^64 ns.
    TooLong,
}

impl TaskAnalysis {
    /// Whether its bound is within its deadline; absent where it has none, or where nothing follows from it.
    #[must_use]
    pub fn meets(&self) -> Option<bool> {
        let met = match &self.response {
            Response::Bounded { response_ns, .. } => *response_ns <= self.deadline_ns,
            Response::Unbounded { why } if why.is_impossible() => false,
            Response::Unbounded { .. } | Response::BestEffort => return None,
        };
        (met || !self.counts_worst).then_some(met)
    }

    /// Whether it only is not proved that it meets its deadline.
    #[must_use]
    pub fn is_open(&self) -> bool {
        let proves = Self {
            counts_worst: false,
            ..self.clone()
        };
        self.counts_worst && proves.meets() == Some(false)
    }
}

impl ChainAnalysis {
    /// Whether it only is not proved that it keeps its limits.
    #[must_use]
    pub fn is_open(&self) -> bool {
        let limited = self.reaction_limit_ns.is_some() || self.age_limit_ns.is_some();
        let is_bounded = matches!(self.latency, ChainLatency::Bounded { .. });
        limited && is_bounded && self.meets().is_none()
    }

    /// Whether its bounds are within its limits; absent where it has none of either, or where nothing follows from
    /// them.
    #[must_use]
    pub fn meets(&self) -> Option<bool> {
        let ChainLatency::Bounded {
            reaction_ns,
            age_ns,
        } = self.latency
        else {
            return None;
        };
        let within = |bound: u64, limit: Option<u64>| limit.is_none_or(|limit| bound <= limit);
        let limited = self.reaction_limit_ns.is_some() || self.age_limit_ns.is_some();
        let both = within(reaction_ns, self.reaction_limit_ns) && within(age_ns, self.age_limit_ns);
        (limited && (both || !self.counts_worst)).then_some(both)
    }
}
