//! What was made of a reading whose whole text is no evidence, as data.

use serde::{Deserialize, Serialize};

use super::Counted;

/// Where something was read.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum Source {
    /// The names of programs that run, out of /proc.
    Programs {},
    /// The threads of the kernel with names of these patterns, out of /proc.
    Threads(Vec<String>),
    /// A system call that was tried.
    Tried(String),
    /// A file, a pattern of files, or the name of a system call with its argument. Earlier
    /// versions wrote the other sources as text too.
    #[serde(untagged)]
    Place(String),
}

impl From<String> for Source {
    fn from(place: String) -> Self {
        Self::Place(place)
    }
}

impl From<&str> for Source {
    fn from(place: &str) -> Self {
        Self::Place(place.to_owned())
    }
}

impl From<&String> for Source {
    fn from(place: &String) -> Self {
        Self::Place(place.clone())
    }
}

/// What was seen in a source.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum Seen {
    /// Nothing of what was looked for.
    Nothing,
    /// None of these names.
    NoneOf(Vec<String>),
    /// It is there.
    Present,
    /// It can be read.
    Readable,
    /// It is in use.
    InUse,
    /// So many.
    Count(u64),
    /// So many of these.
    CountOf {
        /// How many.
        count: u64,
        /// Of which.
        of: Countable,
    },
    /// Some of all.
    Part {
        /// How many.
        count: u64,
        /// Of how many.
        all: u64,
        /// What they are, where the source doesn't say so.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        of: Option<Portion>,
    },
    /// What concerns these CPUs, and no others.
    OfCpus(Vec<usize>),
    /// So many that may run on these CPUs.
    OnCpus {
        /// How many.
        count: u64,
        /// Whether they are programs; else the source says what they are.
        programs: bool,
        /// Which CPUs.
        cpus: Vec<usize>,
    },
    /// So many, none of which concerns these CPUs.
    NoneOnCpus {
        /// How many.
        count: u64,
        /// Of which.
        of: Elsewhere,
        /// Which CPUs.
        cpus: Vec<usize>,
    },
    /// So many threads of this priority or above it.
    ThreadsFrom {
        /// How many.
        count: u64,
        /// The priority.
        priority: u32,
    },
    /// So many boot parameters.
    Parameters {
        /// How many.
        count: u64,
        /// How many of them are misspelt or unknown to the kernel.
        faulty: u64,
    },
    /// An option of the kernel's configuration that is not set, without `CONFIG_`.
    NotSet(String),
    /// A flag of the processor.
    Flag {
        /// Its name.
        name: String,
        /// Whether the processor has it.
        set: bool,
    },
    /// It was counted over a time.
    Counted(Counted),
    /// It was not counted, which takes two readings.
    NotCounted,
    /// The processor's registers can't be read.
    NoRegisters,
    /// No controller `cpu` of cgroup version 1.
    NoCpuController,
    /// What was tried works.
    Works,
    /// What was tried failed, for an unknown reason.
    Failed,
    /// Access is granted.
    Granted,
    /// The C library doesn't claim to have it.
    NotClaimed,
}

/// What is counted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum Countable {
    /// NUMA nodes.
    Nodes,
    /// Trace events that are enabled.
    EnabledEvents,
    /// Mitigations that are active.
    ActiveMitigations,
    /// Devices, all of which are on.
    DevicesOn,
}

impl Countable {
    /// All.
    pub const ALL: [Self; 4] = [
        Self::Nodes,
        Self::EnabledEvents,
        Self::ActiveMitigations,
        Self::DevicesOn,
    ];
}

/// Which of all are counted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum Portion {
    /// CPUs whose timers have a high resolution (`hres_active`).
    HighResolutionCpus,
    /// Options that are set.
    SetOptions,
    /// Threads without a real-time policy.
    OrdinaryThreads,
    /// Devices.
    Devices,
}

impl Portion {
    /// All.
    pub const ALL: [Self; 4] = [
        Self::HighResolutionCpus,
        Self::SetOptions,
        Self::OrdinaryThreads,
        Self::Devices,
    ];
}

/// What doesn't concern some CPUs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum Elsewhere {
    /// Interrupts that can be moved.
    Interrupts,
    /// Interrupts whose affinity the kernel manages.
    ManagedInterrupts,
    /// Masks of CPUs.
    Masks,
}

impl Elsewhere {
    /// All.
    pub const ALL: [Self; 3] = [Self::Interrupts, Self::ManagedInterrupts, Self::Masks];
}
