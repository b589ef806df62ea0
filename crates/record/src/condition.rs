//! What was requested of the kernel and what was read back, and what a reader must know of the
//! machine: figures and names. `report` has the words.

use crate::Hypervisor;
use serde::{Deserialize, Serialize};

/// One thing that was requested or is stated, and how it stands.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Demand {
    /// What was requested, and what was found.
    #[serde(flatten)]
    pub condition: Condition,
    /// Whether it was in force.
    pub standing: Standing,
    /// What a person can do about it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fix: Option<Fix>,
}

/// How a demand stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum Standing {
    /// Read back as requested.
    InForce,
    /// Not requested, but a reader must know (a virtual machine, throttling).
    Stated,
    /// Requested and not in force: the run is INVALID.
    NotInForce,
}

/// Policy and priority of a thread.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(tag = "policy", rename_all = "kebab-case")]
pub enum Scheduling {
    /// SCHED_FIFO.
    Fifo {
        /// 1 to 99.
        priority: u32,
    },
    /// SCHED_RR.
    Rr {
        /// 1 to 99.
        priority: u32,
    },
    /// SCHED_OTHER.
    Other,
    /// SCHED_BATCH.
    Batch,
    /// SCHED_IDLE.
    Idle,
    /// SCHED_DEADLINE.
    Deadline,
    /// SCHED_EXT.
    Ext,
    /// A policy that this program doesn't know.
    Unknown {
        /// Its number.
        number: u32,
    },
}

/// What was read back of some probe threads, equal findings together.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct FoundScheduling {
    /// The CPUs of the probe threads.
    pub cpus: Vec<usize>,
    /// Their scheduling; absent where it could not be read.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub scheduling: Option<Scheduling>,
    /// Why it could not be read: the operating system's text.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
}

/// A probe thread that is not pinned to its CPU alone.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Astray {
    /// Its CPU.
    pub cpu: usize,
    /// Where it may run instead; absent where that could not be read.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub allowed: Option<Vec<usize>>,
    /// Why it could not be read: the operating system's text.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
}

/// Why the bound on idle wake-up time could not be held or read.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(tag = "error", rename_all = "kebab-case")]
pub enum IdleBoundError {
    /// There is no `/dev/cpu_dma_latency`.
    Absent,
    /// This user may not open it.
    Forbidden,
    /// It failed otherwise.
    Failed {
        /// The operating system's text.
        text: String,
    },
}

/// A task that may run before a probe.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Competitor {
    /// Its name.
    pub name: String,
    /// `fifo`, `rr` or `deadline`.
    pub policy: String,
    /// Its priority.
    pub priority: u32,
    /// The probed CPUs that it may run on.
    pub cpus: Vec<usize>,
}

/// CPUs whose frequency a governor scales.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Governed {
    /// The governor.
    pub governor: String,
    /// The CPUs.
    pub cpus: Vec<usize>,
}

/// Whose wake-ups a watch was to see.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(tag = "of", rename_all = "kebab-case")]
pub enum Target {
    /// A program.
    Program {
        /// Its name.
        program: String,
        /// Its process id.
        pid: u32,
        /// Whether its child processes were to be watched too.
        children: bool,
    },
    /// All programs of a name.
    Named {
        /// The name.
        program: String,
    },
    /// All programs in a control group.
    Group {
        /// Its directory.
        directory: String,
    },
    /// Every real-time thread of the machine.
    System,
}

/// A condition with its figures, by its stable name.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(tag = "name", rename_all = "kebab-case")]
pub enum Condition {
    /// Policy and priority of the probe threads.
    Priority {
        /// What was requested.
        requested: Scheduling,
        /// What was read back; empty where there is no probe thread.
        found: Vec<FoundScheduling>,
        /// The error number with which the kernel refused it.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        refused: Option<i32>,
    },
    /// Each probe thread on its CPU alone.
    Affinity {
        /// CPUs of the probe threads, one thread each.
        requested: Vec<usize>,
        /// Threads that are not on their CPU alone.
        astray: Vec<Astray>,
        /// The error number with which the kernel refused it.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        refused: Option<i32>,
    },
    /// All memory locked.
    LockedMemory {
        /// Resident memory; absent where it was not read back.
        resident_bytes: Option<u64>,
        /// Locked mappings, also what of them is not resident.
        locked_bytes: Option<u64>,
        /// Resident memory that is not locked; absent where the kernel doesn't say.
        loose_bytes: Option<u64>,
        /// The error number with which the kernel refused it.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        refused: Option<i32>,
        /// How much this user may lock; absent where there is no limit.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        limit_bytes: Option<u64>,
    },
    /// Policy and priority of the responder's thread on the other machine.
    PeerPriority {
        /// What the responder requested; absent where it does not say.
        requested: Option<Scheduling>,
        /// What it read back.
        found: Option<Scheduling>,
        /// The error number with which its kernel refused it.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        refused: Option<i32>,
    },
    /// All memory of the responder locked.
    PeerMemory {
        /// The error number with which its kernel refused it.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        refused: Option<i32>,
    },
    /// Messages leave at their launch times, and not before.
    LaunchTimes {
        /// The interface by which they leave.
        interface: String,
        /// Its queueing discipline.
        discipline: String,
        /// The card sends them, which is not seen.
        by_card: bool,
        /// Messages that left before; absent where it is not seen.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        early: Option<u64>,
        /// The longest time before.
        #[serde(default)]
        earliest_ns: u64,
    },
    /// High-resolution timers.
    Timers {
        /// Resolution of CLOCK_MONOTONIC; 0 where it was not read.
        resolution_ns: u64,
    },
    /// The bound on idle wake-up time.
    CpuDmaLatency {
        /// The bound that was requested.
        requested_us: i32,
        /// The bound in force; absent where it was not read back.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        found_us: Option<i32>,
        /// Why it is not held.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        why: Option<IdleBoundError>,
    },
    /// Real-time throttling. Not in force: it cut a probe short.
    RtThrottling {
        /// How long real-time threads may run in each period.
        runtime_ns: u64,
        /// The period.
        period_ns: u64,
    },
    /// This is a virtual machine.
    VirtualMachine {
        /// Its hypervisor.
        hypervisor: Option<Hypervisor>,
        /// Time that its host took; absent where the kernel doesn't say.
        stolen_ns: Option<u64>,
        /// The same as a share of the probed CPUs' time.
        stolen_share: Option<f64>,
    },
    /// It ran inside a container.
    Container {
        /// The kind of the container.
        runtime: String,
    },
    /// The kernel's preemption model is not PREEMPT_RT.
    Preemption {
        /// The model.
        model: String,
    },
    /// Reading the clock enters the kernel or a device.
    ClockSource {
        /// The clock source.
        source: String,
    },
    /// Tasks may go before a probe.
    TasksAbove {
        /// How many of other programs.
        others: u64,
        /// How many of the kernel.
        kernel: u64,
        /// The first of them.
        listed: Vec<Competitor>,
    },
    /// Probed CPUs share their cores.
    SmtSiblings {
        /// The probed CPUs.
        cpus: Vec<usize>,
        /// The CPUs that they share their cores with.
        siblings: Vec<usize>,
    },
    /// The frequency follows the load.
    Governor {
        /// The governors other than `performance`.
        scaled: Vec<Governed>,
    },
    /// Idle processors may enter idle states.
    IdleStates {
        /// The deepest of them.
        state: String,
        /// How long it takes to leave, as the driver states it.
        exit_latency_us: u64,
    },
    /// The kernel may delay wake-ups of an ordinary thread.
    TimerSlack {
        /// By how much.
        slack_ns: u64,
    },
    /// RLIMIT_RTTIME is set.
    RtTimeLimit {
        /// The limit.
        limit_us: u64,
    },
    /// Control groups bound the load.
    CgroupLimits {
        /// `file = value`.
        limits: Vec<String>,
    },
    /// What a watch was to see.
    Watched {
        /// Whose wake-ups.
        target: Target,
        /// Whether threads of ordinary priority were to be watched too.
        every: bool,
        /// Threads that ran; 0 for a whole system.
        seen: u64,
        /// Threads that were woken; of a whole system the wake-ups.
        woken: u64,
    },
    /// One processor, in virtual time.
    VirtualTime {
        /// Processors of the emulator, at the host's pace.
        cpus: u64,
    },
    /// Another tool does not state what was in force.
    Conditions {
        /// The tool.
        tool: String,
    },
}

impl Condition {
    /// Its stable name, as the record has it.
    #[must_use]
    pub fn name(&self) -> &'static str {
        match self {
            Self::Priority { .. } => "priority",
            Self::Affinity { .. } => "affinity",
            Self::LockedMemory { .. } => "locked-memory",
            Self::PeerPriority { .. } => "peer-priority",
            Self::PeerMemory { .. } => "peer-memory",
            Self::LaunchTimes { .. } => "launch-times",
            Self::Timers { .. } => "timers",
            Self::CpuDmaLatency { .. } => "cpu-dma-latency",
            Self::RtThrottling { .. } => "rt-throttling",
            Self::VirtualMachine { .. } => "virtual-machine",
            Self::Container { .. } => "container",
            Self::Preemption { .. } => "preemption",
            Self::ClockSource { .. } => "clock-source",
            Self::TasksAbove { .. } => "tasks-above",
            Self::SmtSiblings { .. } => "smt-siblings",
            Self::Governor { .. } => "governor",
            Self::IdleStates { .. } => "idle-states",
            Self::TimerSlack { .. } => "timer-slack",
            Self::RtTimeLimit { .. } => "rt-time-limit",
            Self::CgroupLimits { .. } => "cgroup-limits",
            Self::Watched { .. } => "watched",
            Self::VirtualTime { .. } => "virtual-time",
            Self::Conditions { .. } => "conditions",
        }
    }
}

impl Demand {
    /// A condition that was not requested, but that a reader must know.
    #[must_use]
    pub fn stated(condition: Condition, fix: Option<Fix>) -> Self {
        Self {
            condition,
            standing: Standing::Stated,
            fix,
        }
    }

    /// A condition that was requested, with its fix where it is not in force.
    #[must_use]
    pub fn requested(condition: Condition, in_force: bool, fix: impl FnOnce() -> Fix) -> Self {
        Self {
            condition,
            standing: if in_force {
                Standing::InForce
            } else {
                Standing::NotInForce
            },
            fix: (!in_force).then(fix),
        }
    }

    /// Its stable name.
    #[must_use]
    pub fn name(&self) -> &'static str {
        self.condition.name()
    }
}

/// What a person can do about a condition.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(tag = "do", rename_all = "kebab-case")]
pub enum Fix {
    /// Rights for the program or its user.
    Rights {
        /// Path of the program.
        program: String,
        /// All capabilities that its file is to have.
        capabilities: Vec<String>,
        /// Whether `/dev/cpu_dma_latency` is to be opened as well.
        device: bool,
    },
    /// Rights for the container.
    ContainerRights {
        /// The kind of the container, where it is known.
        runtime: Option<String>,
        /// Whether it is a user namespace below the first, as a rootless container has.
        user_namespace: bool,
        /// Whether `/dev/cpu_dma_latency` is to be passed in as well.
        device: bool,
    },
    /// A priority that the kernel takes.
    PriorityInRange {
        /// The one that was requested.
        priority: u32,
    },
    /// Real-time runtime for the container's control groups.
    ContainerRuntime,
    /// Real-time runtime for the control group.
    GroupRuntime {
        /// How much.
        runtime_us: u32,
        /// The file that sets it.
        file: String,
        /// The directory of the root group.
        root: String,
    },
    /// Real-time runtime for the machine.
    MachineRuntime,
    /// The root group of cgroup v2.
    RootGroup,
    /// A security policy that allows it.
    SecurityPolicy,
    /// A CPU online.
    CpuOnline {
        /// The CPU.
        cpu: usize,
        /// CPUs that are online.
        online: Vec<usize>,
    },
    /// CPUs that this process may use.
    CpuAllowed {
        /// The one that it may not.
        cpu: usize,
        /// Those that it may.
        allowed: Vec<usize>,
    },
    /// No other program that changes affinities.
    AffinityLeftAlone,
    /// More memory, or a higher limit of the control group.
    Memory,
    /// A kernel command line without a word.
    BootWithout {
        /// The word.
        word: String,
    },
    /// A kernel and a machine with high-resolution timers.
    HighResolutionTimers,
    /// The device that bounds idle states, opened or left alone.
    IdleBound {
        /// Whether it is a container that lacks it.
        contained: bool,
        /// The kind of the container, where it is known.
        runtime: Option<String>,
    },
    /// No throttling of real-time threads.
    NoThrottling,
    /// The machine itself, or a physical CPU for each virtual one.
    OwnMachine,
    /// A kernel with PREEMPT_RT.
    PreemptRt,
    /// Another clock source.
    ClockSource {
        /// Which.
        source: String,
    },
    /// A higher priority than that of other tasks.
    HigherPriority,
    /// SMT off.
    NoSmt,
    /// The governor `performance`.
    PerformanceGovernor,
    /// A run that holds idle states off.
    HoldIdleStates,
    /// No RLIMIT_RTTIME.
    NoTimeLimit,
    /// A watch of child processes and ordinary threads.
    WatchChildren,
    /// A watch of ordinary threads, or real-time threads in the program.
    WatchOrdinary,
    /// A longer watch.
    WatchLonger,
    /// One processor in the lab.
    OneCpu,
    /// Rights for the responder on the other machine.
    PeerRights,
    /// A real-time policy for the responder.
    PeerPolicy,
    /// A driver that makes time stamps, for this interface.
    DriverStamps {
        /// The interface.
        interface: String,
    },
    /// A queueing discipline that sends at launch times, on all queues of this interface.
    LaunchDiscipline {
        /// The interface.
        interface: String,
    },
}
