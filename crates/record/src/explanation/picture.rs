//! What ran when, around one late wake-up: enough to draw it.

use serde::{Deserialize, Serialize};

use crate::earlier::Sentence;

/// What ran when. Times count from the instant that was requested, of a job from its arrival, in
/// nanoseconds.
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
    #[serde(deserialize_with = "crate::earlier::one")]
    pub label: SpanLabel,
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
    #[serde(deserialize_with = "crate::earlier::one")]
    pub label: MarkLabel,
}

/// What took a while.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(tag = "kind", rename_all = "kebab-case")]
pub enum SpanLabel {
    /// The hypervisor.
    Hypervisor,
    /// The host.
    Host,
    /// System management mode.
    Smi,
    /// A non-maskable interrupt.
    Nmi,
    /// The tracer.
    Tracer,
    /// An interrupt of the CPU's own.
    Vector {
        /// Its name.
        vector: String,
    },
    /// An interrupt of a device.
    Handler {
        /// Its number.
        irq: u32,
        /// Its name.
        name: String,
    },
    /// A function that another CPU requested.
    Call {
        /// Its name.
        function: String,
    },
    /// The callback of the probe's timer.
    ProbeTimer,
    /// The callback of another timer.
    Timer {
        /// The function.
        function: String,
    },
    /// A softirq.
    Softirq {
        /// Its number.
        number: u32,
    },
    /// No thread.
    Idle,
    /// A thread.
    Thread {
        /// Its name.
        name: String,
        /// Its number.
        tid: u32,
        /// Its real-time priority; 0 without one.
        priority: u32,
    },
    /// The job of a task waited for a lock.
    LockWait {
        /// The lock.
        lock: String,
        /// Who held it, where that is known.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        holder: Option<String>,
    },
    /// The text of an earlier version.
    Earlier {
        /// The text.
        text: String,
    },
}

impl Sentence for SpanLabel {
    fn sentence(text: String) -> Self {
        Self::Earlier { text }
    }
}

/// What happened at an instant.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(tag = "kind", rename_all = "kebab-case")]
pub enum MarkLabel {
    /// The timer's callback began.
    Callback,
    /// The thread was made ready.
    Waking,
    /// A page fault.
    PageFault,
    /// The probe was moved to another CPU.
    Moved {
        /// Which.
        to_cpu: u32,
    },
    /// A stack was caught.
    StackCaught,
    /// A thread began to wait for a lock.
    LockWait {
        /// The lock.
        lock: String,
    },
    /// The text of an earlier version.
    Earlier {
        /// The text.
        text: String,
    },
}

impl Sentence for MarkLabel {
    fn sentence(text: String) -> Self {
        Self::Earlier { text }
    }
}
