//! What of the machine could not be read.

use serde::{Deserialize, Serialize};

/// What could not be read, and why.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Unread {
    /// The path or the system call; empty where the reason alone says what.
    pub what: String,
    /// Why.
    #[serde(flatten)]
    pub why: UnreadReason,
}

/// Why something of the machine could not be read.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(tag = "why", rename_all = "kebab-case")]
pub enum UnreadReason {
    /// An error.
    Error {
        /// The operating system's text.
        error: String,
    },
    /// It is not a regular file: reading it could block or never end.
    NotRegular,
    /// Its content is not of the expected form.
    NotUnderstood {
        /// The beginning of the content.
        text: String,
    },
    /// There are more real-time tasks than are read.
    TooManyTasks {
        /// How many are read.
        limit: u64,
    },
    /// The kernel's configuration states no preemption model.
    NoPreemptionModel,
    /// Neither debugfs nor the kernel's configuration can be read.
    NoPreemptionSource,
    /// Another tool measured, and states nothing of the machine but this.
    NotStated {
        /// The tool.
        tool: String,
        /// Whether it states the kernel.
        kernel: bool,
    },
}
