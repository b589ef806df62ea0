//! What a finding names, as data.

use serde::{Deserialize, Serialize};

/// Something that a finding names.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum Item {
    /// A CPU.
    Cpu(usize),
    /// A NUMA node, by its number.
    NumaNode(String),
    /// A device that is attached to a NUMA node.
    DeviceOfNode {
        /// The device.
        device: String,
        /// The number of its node.
        node: String,
    },
    /// A thread, and the CPUs that it may run on.
    ThreadOn {
        /// Its name.
        thread: String,
        /// As a list of the kernel: `0-3,8`.
        cpus: String,
    },
    /// A thread, and how it is scheduled.
    ThreadAt {
        /// Its name.
        thread: String,
        /// `fifo`, `rr`, `deadline`, `other` ...
        policy: String,
        /// 1 to 99; 0 without a real-time policy.
        priority: u32,
    },
    /// An interrupt.
    Interrupt {
        /// Its number.
        number: usize,
        /// The names of those who requested it, the first ones of very many.
        actions: Vec<String>,
        /// How often it was delivered to the CPUs for real-time work, if that was counted.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        counted: Option<Counted>,
    },
    /// An idle state of the processor.
    IdleState {
        /// Its name.
        name: String,
        /// The time to leave it, in µs.
        exit_us: u64,
    },
    /// A clock event device.
    ClockEvent {
        /// The number of its directory.
        number: usize,
        /// The device.
        device: String,
    },
    /// A mounted file system.
    Mount {
        /// Where.
        place: String,
        /// Its type.
        filesystem: String,
    },
    /// A boot parameter that resembles another one.
    Misspelt {
        /// As it stands on the command line.
        parameter: String,
        /// The one that it resembles.
        known: String,
    },
    /// A boot parameter that this kernel doesn't know.
    NotInKernel {
        /// As it stands on the command line.
        parameter: String,
    },
    /// A boot parameter that is given several times.
    Repeated {
        /// Its name.
        parameter: String,
    },
    /// A boot parameter with CPUs of another one that should have none in common with it.
    SharesCpus {
        /// Its name.
        parameter: String,
        /// The name of the other.
        other: String,
    },
    /// Rules of the kernel's audit that are looked at in each system call.
    AuditRules {
        /// How many.
        calls: u32,
    },
    /// A version of Linux, or a later one.
    LinuxFrom(String),
    /// Xenomai's Cobalt core, of this version.
    Cobalt(String),
    /// Threads with names of these patterns.
    Threads(Vec<String>),
    /// A CPU frequency governor.
    Governor(String),
    /// Something without a name of its own.
    Kind(ItemKind),
    /// A name, as the machine or its documentation writes it: of a file, an option, a parameter,
    /// a program, a device. Earlier versions wrote the other items as text too.
    #[serde(untagged)]
    Name(String),
}

/// Something without a name of its own.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum ItemKind {
    /// The timer of the fair server, on CPUs of `nohz_full=`.
    FairServerTimer,
    /// A hypervisor that the firmware doesn't name.
    Hypervisor,
    /// The right to write to a file.
    WriteAccess,
    /// An interrupt whose affinity the kernel manages.
    ManagedInterrupt,
    /// A NUMA node beside the first.
    SecondNumaNode,
    /// A file or partition that memory is swapped to.
    Swap,
}

impl ItemKind {
    /// All.
    pub const ALL: [Self; 6] = [
        Self::FairServerTimer,
        Self::Hypervisor,
        Self::WriteAccess,
        Self::ManagedInterrupt,
        Self::SecondNumaNode,
        Self::Swap,
    ];
}

/// How often something happened in a time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Counted {
    /// How often.
    pub times: u64,
    /// The time, in ms.
    pub within_ms: u64,
}

impl Item {
    /// Its texts that a machine may have made.
    pub fn texts(&mut self) -> Vec<&mut String> {
        match self {
            Self::Cpu(_) | Self::AuditRules { .. } | Self::Kind(_) => Vec::new(),
            Self::NumaNode(text)
            | Self::LinuxFrom(text)
            | Self::Cobalt(text)
            | Self::Governor(text)
            | Self::Name(text)
            | Self::IdleState { name: text, .. }
            | Self::ClockEvent { device: text, .. }
            | Self::NotInKernel { parameter: text }
            | Self::Repeated { parameter: text }
            | Self::ThreadAt { thread: text, .. } => vec![text],
            Self::DeviceOfNode {
                device: one,
                node: other,
            }
            | Self::ThreadOn {
                thread: one,
                cpus: other,
            }
            | Self::Mount {
                place: one,
                filesystem: other,
            }
            | Self::Misspelt {
                parameter: one,
                known: other,
            }
            | Self::SharesCpus {
                parameter: one,
                other,
            } => vec![one, other],
            Self::Interrupt { actions: texts, .. } | Self::Threads(texts) => {
                texts.iter_mut().collect()
            }
        }
    }
}

impl From<String> for Item {
    fn from(name: String) -> Self {
        Self::Name(name)
    }
}

impl From<&str> for Item {
    fn from(name: &str) -> Self {
        Self::Name(name.to_owned())
    }
}

impl From<&String> for Item {
    fn from(name: &String) -> Self {
        Self::Name(name.clone())
    }
}

impl From<ItemKind> for Item {
    fn from(kind: ItemKind) -> Self {
        Self::Kind(kind)
    }
}
