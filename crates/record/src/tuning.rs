//! Settings of a machine that `tune` changes and restores: plain data.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::finding::FindingId;

mod network;
mod thread;

pub use network::{NapiMode, Neighbour, NetworkDevice, Route, RouteMetric, is_link_address};
pub use thread::{ThreadIdentity, ThreadSetting, scheduling};

/// A setting that can be changed and restored.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum Setting {
    /// A file of the kernel that holds one value.
    File {
        /// Its path.
        path: String,
    },
    /// Two files of which a write to one sets the other to zero, such as `dirty_ratio` and
    /// `dirty_bytes`. The value is the path of the file in force, a space and its number.
    Pair {
        /// One path.
        first: String,
        /// The other.
        second: String,
    },
    /// The scheduling policy of a thread. The value has the numbers of policy, priority and nice; of
    /// SCHED_DEADLINE runtime, deadline and period in ns too.
    Scheduling {
        /// The thread.
        thread: ThreadIdentity,
    },
    /// The CPUs of a thread, as a list.
    Affinity {
        /// The thread.
        thread: ThreadIdentity,
    },
    /// A cgroup v2 partition of isolated CPUs. The value is `absent` or its list of CPUs; what
    /// the kernel has not isolated is followed by its reason in parentheses.
    Partition {
        /// Its directory.
        folder: String,
    },
    /// A set of cgroup v1 for isolated CPUs, or for everything else. The value is as that of a
    /// partition.
    Cpuset {
        /// Its directory.
        folder: String,
        /// Whether it has the other CPUs, and every task that may run anywhere.
        is_of_others: bool,
    },
    /// A whole file of a boot loader's configuration. The value is `absent`, or `text:` or
    /// `base64:` and its content. It outlives a reboot.
    BootFile {
        /// Its path.
        path: String,
        /// The program that reads it into the boot loader, if one has to.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        update: Option<String>,
    },
    /// A whole file that keeps its content: sysctls or a unit that are read at each boot, or one that a
    /// user named. The value is that of a file of a boot loader. It outlives a reboot.
    ConfigFile {
        /// Its path.
        path: String,
    },
    /// Boot parameters that grubby keeps for each installed kernel. The value is `with` or
    /// `without`. They outlive a reboot.
    KernelArguments {
        /// The program.
        grubby: String,
        /// The parameters, separated by spaces.
        parameters: String,
    },
    /// A file of `/proc/sys/net`: each network namespace has its own value.
    NetworkFile {
        /// The network namespace, by the number of its inode.
        namespace: u64,
        /// Its path.
        path: String,
    },
    /// A metric of a route. The value is `absent` or its number, followed by `lock` if it is locked.
    RouteMetric {
        /// The route.
        route: Route,
        /// The metric.
        metric: RouteMetric,
    },
    /// An entry of the neighbour table. The value is `dynamic`, whether there is one or not, or
    /// `permanent` and the link-layer address.
    Neighbour {
        /// The entry.
        neighbour: Neighbour,
    },
    /// Where a network device's packets are received, and the policies of the threads that do it. The
    /// value is `softirq` or `threads`, followed by the policy of all its threads if it is not the
    /// kernel's (`fifo:70`), or by that of each (`8193=fifo:70`).
    Napi {
        /// The device.
        device: NetworkDevice,
    },
}

/// Content of a file that is shorter stands in a sentence itself.
const SHORT: usize = 40;

impl Setting {
    /// The network namespace that it belongs to, by the number of its inode.
    #[must_use]
    pub fn network_namespace(&self) -> Option<u64> {
        match self {
            Self::NetworkFile { namespace, .. } => Some(*namespace),
            Self::RouteMetric { route, .. } => Some(route.namespace),
            Self::Neighbour { neighbour } => Some(neighbour.namespace),
            Self::Napi { device } => Some(device.namespace),
            _ => None,
        }
    }

    /// Whether it is as before after a reboot by itself.
    #[must_use]
    pub fn ends_with_boot(&self) -> bool {
        !self.is_of_boot_loader() && !matches!(self, Self::ConfigFile { .. })
    }

    /// A value of it in a sentence.
    #[must_use]
    pub fn shown(&self, value: &str) -> String {
        match self {
            Self::BootFile { .. } | Self::ConfigFile { .. } => match value.split_once(':') {
                None => "no such file".to_owned(),
                Some(("text", text))
                    if text.trim_end().len() < SHORT && !text.trim_end().contains('\n') =>
                {
                    text.trim_end().to_owned()
                }
                Some(("text", text)) => format!("its {} bytes", text.len()),
                Some(_) => "its bytes".to_owned(),
            },
            Self::KernelArguments { parameters, .. } => format!("{value} {parameters}"),
            // In the words of `chrt`.
            Self::Scheduling { .. } => match value.strip_prefix("6 0 0 ") {
                Some(times) => format!("DEADLINE {times}"),
                None => {
                    let words = ThreadSetting::Scheduling.argument(value);
                    words.replace(':', " ").to_uppercase()
                }
            },
            _ => value.to_owned(),
        }
    }

    /// Whether it has boot parameters.
    #[must_use]
    pub fn is_of_boot_loader(&self) -> bool {
        matches!(self, Self::BootFile { .. } | Self::KernelArguments { .. })
    }
}

impl fmt::Display for Setting {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::File { path } | Self::NetworkFile { path, .. } => f.write_str(path),
            Self::Pair { first, second } => write!(f, "{first}|{second}"),
            Self::Scheduling { thread } => {
                write!(f, "scheduling of {} ({})", thread.name, thread.tid)
            }
            Self::Affinity { thread } => write!(f, "CPUs of {} ({})", thread.name, thread.tid),
            Self::Partition { folder } => write!(f, "partition {folder}"),
            Self::Cpuset { folder, .. } => write!(f, "cpuset {folder}"),
            Self::BootFile { path, .. } | Self::ConfigFile { path } => f.write_str(path),
            Self::KernelArguments { .. } => f.write_str("arguments of each kernel"),
            Self::RouteMetric { route, metric } => write!(f, "{} of {route}", metric.name()),
            Self::Neighbour { neighbour } => neighbour.fmt(f),
            Self::Napi { device } => write!(f, "NAPI of {device}"),
        }
    }
}

/// What is switched as one, by its name.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(
    feature = "schema",
    derive(schemars::JsonSchema),
    schemars(with = "String")
)]
#[serde(from = "String", into = "String")]
pub enum Knob {
    /// What fixes a finding.
    Finding(FindingId),
    /// A file, or a setting of the network, that a user named.
    File(String),
    /// The control of an experiment: it writes what is there.
    Control,
}

impl Knob {
    /// Its name.
    #[must_use]
    pub fn name(&self) -> &str {
        match self {
            Self::Finding(id) => id.name(),
            Self::File(path) => path,
            Self::Control => "control",
        }
    }
}

impl From<String> for Knob {
    fn from(name: String) -> Self {
        match FindingId::by_name(&name) {
            Some(id) => Self::Finding(id),
            None if name == Self::Control.name() => Self::Control,
            None => Self::File(name),
        }
    }
}

impl From<Knob> for String {
    fn from(knob: Knob) -> Self {
        knob.name().to_owned()
    }
}

impl From<FindingId> for Knob {
    fn from(id: FindingId) -> Self {
        Self::Finding(id)
    }
}

impl fmt::Display for Knob {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// A change to be made.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Change {
    /// The knob that it is a part of.
    pub knob: Knob,
    /// What to change.
    pub setting: Setting,
    /// To this value.
    pub value: String,
}

impl Change {
    /// How it is named on the command line: a finding, or a setting with its value.
    #[must_use]
    pub fn argument(&self) -> String {
        let (name, value) = (self.knob.name(), self.value.as_str());
        let first = value.split(' ').next().unwrap_or_default();
        match (&self.knob, &self.setting) {
            (Knob::Finding(_) | Knob::Control, _) => name.to_owned(),
            (_, Setting::RouteMetric { metric, .. }) => match metric {
                RouteMetric::RtoMin => format!("{name}={first}ms"),
                RouteMetric::InitCwnd | RouteMetric::QuickAck => format!("{name}={first}"),
            },
            (_, Setting::Neighbour { .. }) => {
                format!("{name}={}", value.trim_start_matches("permanent "))
            }
            (_, Setting::Scheduling { .. }) => {
                format!("{name}={}", ThreadSetting::Scheduling.argument(value))
            }
            (_, Setting::Napi { .. }) => format!("{name}={}", value.replacen(" fifo:", ":", 1)),
            (_, Setting::ConfigFile { .. }) => {
                let text = value.strip_prefix("text:").unwrap_or(value);
                format!("{name}={}", text.trim_end_matches('\n'))
            }
            // The file, and its number.
            (_, Setting::Pair { .. }) => value.replacen(' ', "=", 1),
            _ => format!("{name}={value}"),
        }
    }
}

/// A setting that was changed for one run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Tuned {
    /// The knob.
    pub knob: Knob,
    /// What was changed.
    pub setting: Setting,
    /// Its value before the run, which is restored after it.
    pub before: String,
    /// Its value during the run.
    pub value: String,
}

/// A change that was made, as the journal has it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Entry {
    /// The boot in which it was made: a reboot undoes it.
    pub boot: String,
    /// The knob, by the name of its finding.
    pub knob: String,
    /// What was changed.
    pub setting: Setting,
    /// Its value before the first change.
    pub original: String,
    /// Its value after the last.
    pub value: String,
    /// The process whose end should undo it; none for a change that stays.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub holder: Option<Holder>,
}

/// A process by its identity: its number is used again, its start time is not.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Holder {
    /// Its number.
    pub pid: i32,
    /// When it started, in ticks since boot.
    pub start: u64,
}

/// That a change was restored, as the journal has it: the changes of this setting by this holder
/// that stand before it no longer count.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Closed {
    /// The boot in which the change was made.
    pub boot: String,
    /// What was restored.
    pub restored: Setting,
    /// Whose change it was.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub holder: Option<Holder>,
}

/// How a changed setting is now.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Applied {
    /// It has a value that we gave it.
    Ours(String),
    /// It has its original value.
    Original,
    /// Somebody gave it this third value.
    Changed(String),
    /// Its object no longer exists.
    Gone,
    /// A reboot undid it.
    Rebooted,
    /// It can't be read: the system's reason.
    Unreadable(String),
    /// The boot loader's configuration has our value: its parameters.
    Configured(Vec<(String, BootState)>),
}

/// Whether the kernel has a configured boot parameter.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BootState {
    /// It has.
    InForce,
    /// The machine was not rebooted since it was configured.
    NotYet,
    /// The machine was rebooted, and the parameter is not on the kernel's command line.
    Dropped,
    /// It is on the command line, and the kernel does not do what it says.
    Ignored,
}

/// A boot parameter, and the finding that asks for it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BootParameter {
    /// The finding.
    pub knob: FindingId,
    /// As it stands on the command line.
    pub parameter: String,
}

/// What a restore did to a setting.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Restored {
    /// The original was written back.
    Written,
    /// It had its original value already.
    Already,
    /// Somebody changed it to this since: it was left alone.
    Conflict(String),
    /// Its object no longer exists.
    Gone,
    /// A reboot undid it.
    Rebooted,
    /// It can't be read or written: the system's reason.
    Failed(String),
}

impl Restored {
    /// Whether nothing remains to be done.
    #[must_use]
    pub fn is_done(&self) -> bool {
        !matches!(self, Self::Conflict(_) | Self::Failed(_))
    }
}
