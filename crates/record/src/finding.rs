//! What `check` finds on a machine: which setting was read, whether it fits real-time work,
//! and what would fix it. Only data: the words are in the report.

use serde::{Deserialize, Serialize};

mod bearing;
mod id;
mod item;
mod of_run;
mod seen;

pub use bearing::Bearing;
pub use id::{FindingId, Group};
pub use item::{Counted, Item, ItemKind};
pub use of_run::{BadFinding, RunFindings};
pub use seen::{Countable, Elsewhere, Portion, Seen, Source};

/// All findings of one machine.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Check {
    /// That of [`crate::document::Printed`].
    pub version: u32,
    /// The machine's name.
    pub hostname: String,
    /// `uname -r`.
    pub kernel: String,
    /// The CPUs for real-time work: named by the user, or else the isolated ones.
    pub cpus: Vec<usize>,
    /// Whether that is every CPU of the machine: then none is left for everything else.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub every_cpu: bool,
    /// The priority of the program; 0 in files of older versions.
    #[serde(default)]
    pub priority: u32,
    /// One for each [`FindingId`], in their order.
    pub findings: Vec<Finding>,
}

impl Check {
    /// The priority of the program, if nothing says another.
    pub const PRIORITY: u32 = 80;

    /// The number of findings in a state.
    #[must_use]
    pub fn count(&self, kind: StateKind) -> usize {
        let of_kind = |finding: &&Finding| finding.state.kind() == kind;
        self.findings.iter().filter(of_kind).count()
    }

    /// The finding of this name.
    #[must_use]
    pub fn finding(&self, id: FindingId) -> Option<&Finding> {
        self.findings.iter().find(|finding| finding.id == id)
    }
}

/// One finding.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Finding {
    /// Which one.
    pub id: FindingId,
    /// Its result.
    pub state: FindingState,
    /// What was read, and where: the evidence.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub readings: Vec<Reading>,
    /// What would fix it; the first is the best.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub fixes: Vec<FindingFix>,
}

/// What was read of one place.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Reading {
    /// Where.
    pub source: Source,
    /// What it said.
    pub result: ReadResult,
}

/// The result of a reading.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum ReadResult {
    /// Its text: the kernel's, shortened to a line.
    Value(String),
    /// What was made of a text that is no evidence as a whole.
    Seen(Seen),
    /// There is no such file.
    Absent,
    /// Why it could not be read: the kernel's words.
    Error(String),
}

/// The kinds of [`FindingState`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum StateKind {
    /// It should be changed.
    Bad,
    /// It could not be found out.
    Unknown,
    /// It is neither good nor bad.
    Information,
    /// It fits.
    Ok,
    /// It has no meaning here.
    NotApplicable,
}

impl StateKind {
    /// All, the most important first.
    pub const ALL: [StateKind; 5] = [
        Self::Bad,
        Self::Unknown,
        Self::Information,
        Self::Ok,
        Self::NotApplicable,
    ];
}

/// The result of a finding. What is absent or could not be read is never [`FindingState::Ok`].
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(tag = "state", rename_all = "snake_case")]
pub enum FindingState {
    /// It fits real-time work.
    Ok,
    /// It doesn't.
    Bad {
        /// In which way.
        fault: Fault,
    },
    /// Worth knowing: whether it is good or bad depends on what is not known here.
    Information {
        /// What there is to know.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        fault: Option<Fault>,
    },
    /// It could not be found out.
    Unknown {
        /// Why not.
        why: Unknown,
    },
    /// It has no meaning on this machine, or for this request.
    NotApplicable {
        /// Why not.
        why: NotApplicable,
    },
}

impl FindingState {
    /// Its kind.
    #[must_use]
    pub fn kind(&self) -> StateKind {
        match self {
            Self::Ok => StateKind::Ok,
            Self::Bad { .. } => StateKind::Bad,
            Self::Information { .. } => StateKind::Information,
            Self::Unknown { .. } => StateKind::Unknown,
            Self::NotApplicable { .. } => StateKind::NotApplicable,
        }
    }
}

/// In which way a setting doesn't fit.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum Fault {
    /// It should have one of these values.
    Expected(Vec<String>),
    /// The least and the greatest should have the same value.
    Unequal,
    /// It is above this.
    Above(u64),
    /// It is below this.
    Below(u64),
    /// It includes these CPUs, and should not.
    Includes(Vec<usize>),
    /// It lacks these CPUs.
    Lacks(Vec<usize>),
    /// These are there, and should not be: threads, interrupts, services, parameters.
    Present(Vec<Item>),
    /// These are missing.
    Missing(Vec<Item>),
}

/// Why it could not be found out.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum Unknown {
    /// This can't be read; the reading has the kernel's reason.
    Unreadable(String),
    /// This has a text that is not understood.
    NotUnderstood(String),
    /// No file shows whether this is in force.
    NotShown(String),
    /// This should be there on such a kernel, and is not.
    Absent(Item),
    /// The file system that holds it is not mounted.
    NotMounted {
        /// `debugfs`, `tracefs`, `securityfs`.
        filesystem: String,
        /// Where it is mounted elsewhere.
        place: String,
    },
    /// Not every thread of the machine is visible: another PID namespace, `hidepid`, too many.
    HiddenThreads,
    /// No configuration of the kernel can be read.
    NoConfiguration,
    /// A snapshot doesn't hold it: it can only be tried on the live machine.
    NotRecorded(String),
}

/// Why a finding has no meaning.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum NotApplicable {
    /// The kernel or the hardware doesn't have this.
    Absent(Item),
    /// Only an ordinary kernel has this problem: this one is PREEMPT_RT.
    RealTimeKernel,
    /// Only a PREEMPT_RT kernel has this problem.
    OrdinaryKernel,
    /// Only kernels from this version on.
    KernelBefore(String),
    /// Only kernels before this version.
    KernelFrom(String),
    /// No CPU was named for real-time work, and none is isolated.
    CpusNotNamed,
    /// The boot parameter that it concerns was not given.
    NotRequested(String),
    /// Only another architecture has this.
    Architecture,
    /// Only a machine with more CPUs has this problem.
    FewCpus,
}

/// How a change is undone.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum Undo {
    /// The old value is written back.
    Exact,
    /// It is removed again, and the machine is rebooted.
    Reboot,
    /// By hand, or not at all.
    ByHand,
}

/// What would fix a finding.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum FindingFix {
    /// Write this value to this file. It holds until the next boot.
    Write {
        /// The file.
        path: String,
        /// The value.
        value: String,
    },
    /// Give a thread of the machine another scheduling policy.
    Scheduling {
        /// The thread's name, by which it is found again.
        thread: String,
        /// Its id now.
        tid: i32,
        /// `fifo`, `rr`, `other` ...
        policy: String,
        /// 1 to 99; 0 without a real-time policy.
        priority: u32,
    },
    /// Move a thread to other CPUs.
    Affinity {
        /// The thread's name, by which it is found again.
        thread: String,
        /// Its id now.
        tid: i32,
        /// Its CPUs.
        cpus: Vec<usize>,
    },
    /// Boot with this parameter.
    Boot {
        /// As it stands on the command line.
        parameter: String,
    },
    /// Boot without this parameter.
    Unboot {
        /// As it stands on the command line.
        parameter: String,
    },
    /// Hold `/dev/cpu_dma_latency` open with this limit.
    HoldDmaLatency {
        /// In µs.
        limit_us: u32,
    },
    /// Something that no program should do by itself; the finding's text says what.
    ByHand,
}

impl FindingFix {
    /// How it is undone.
    #[must_use]
    pub fn undo(&self) -> Undo {
        match self {
            Self::Write { .. }
            | Self::Scheduling { .. }
            | Self::Affinity { .. }
            | Self::HoldDmaLatency { .. } => Undo::Exact,
            Self::Boot { .. } | Self::Unboot { .. } => Undo::Reboot,
            Self::ByHand => Undo::ByHand,
        }
    }
}

/// A reading that two machines have different results of.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Difference {
    /// The finding that it belongs to.
    pub id: FindingId,
    /// Where it was read.
    pub source: Source,
    /// On the first machine; absent where nothing was read there.
    pub first: Option<ReadResult>,
    /// On the second.
    pub second: Option<ReadResult>,
}
