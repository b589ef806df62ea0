//! What mostly has a name, and sometimes none: a system call, a hypervisor, what was measured.

use crate::path::Transport;
use serde::{Deserialize, Serialize};

/// What a thread slept in, or was in.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum KernelCall {
    /// A system call without a known name, by its number.
    Number(u32),
    /// No system call: a page fault or an interrupt.
    FaultOrInterrupt {},
    /// The name of a system call, of a futex with its operation: `read`, `futex LOCK_PI`. Earlier
    /// versions wrote the others as text too.
    #[serde(untagged)]
    Name(String),
}

impl Default for KernelCall {
    fn default() -> Self {
        Self::Name(String::new())
    }
}

impl From<&str> for KernelCall {
    fn from(name: &str) -> Self {
        Self::Name(name.to_owned())
    }
}

/// What runs a virtual machine.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum Hypervisor {
    /// One that this program doesn't know.
    Unknown {
        /// What the processor says about it.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        signature: Option<String>,
        /// The name in the firmware.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        firmware: Option<String>,
    },
    /// Its name. Earlier versions wrote the others as text too.
    #[serde(untagged)]
    Name(String),
}

impl From<&str> for Hypervisor {
    fn from(name: &str) -> Self {
        Self::Name(name.to_owned())
    }
}

/// What was measured.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum RunSource {
    /// The wake-ups of threads that run anyway.
    Watch {
        /// The program, its name or its control group; absent for the whole system.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        of: Option<String>,
    },
    /// The path to another machine.
    Path {
        /// Over what.
        over: Transport,
        /// To which machine, as it was named.
        to: String,
    },
    /// A set of tasks.
    Tasks {
        /// What it is called.
        of: String,
    },
    /// The wait source of probes, e.g. `nanosleep`; `noise` or `hardware` where gaps were looked
    /// for. Earlier versions wrote a watch as text too.
    #[serde(untagged)]
    Name(String),
}

impl From<&str> for RunSource {
    fn from(name: &str) -> Self {
        Self::Name(name.to_owned())
    }
}
