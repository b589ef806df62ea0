//! What ran when, around one late wake-up: enough to draw it.

use serde::{Deserialize, Serialize};

/// What ran when. Times count from the instant that was requested, in nanoseconds.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Picture {
    /// Stretches of time, in the order of their beginning.
    pub spans: Vec<Span>,
    /// Instants.
    pub marks: Vec<Mark>,
    /// Spans that were not recorded for lack of space: the shortest.
    #[serde(default)]
    pub left_out: u64,
}

impl Picture {
    /// Spans that a record keeps of one picture.
    pub const SPANS: usize = 256;
    /// Marks that a record keeps of one picture.
    pub const MARKS: usize = 64;
}

/// Something that took a while on one CPU.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Span {
    /// Where it is drawn.
    pub lane: Lane,
    /// On which CPU.
    pub cpu: u32,
    /// When it began.
    pub from_ns: i64,
    /// When it ended; not before `from_ns`.
    pub to_ns: i64,
    /// What it was.
    pub label: String,
    /// True where this took time from the probe.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub in_the_way: bool,
}

/// What runs over what, the uppermost first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum Lane {
    /// The hypervisor, or whatever takes a CPU from below the kernel.
    Host,
    /// Interrupts.
    Interrupt,
    /// Softirqs.
    Softirq,
    /// Threads.
    Thread,
    /// The probe.
    Probe,
}

/// An instant.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Mark {
    /// When.
    pub at_ns: i64,
    /// On which CPU.
    pub cpu: u32,
    /// What happened.
    pub label: String,
}
