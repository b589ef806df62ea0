//! The same measured with the kernel's own tracer, for comparison.

use serde::{Deserialize, Serialize};

/// What the kernel's own tracer measures on the same CPUs, under the same load, for as long.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct CrossCheck {
    /// Which tracer.
    pub tracer: KernelTracer,
    /// Why there are no figures; absent where there are.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub missing: Option<CrossCheckFault>,
    /// How long the tracer ran.
    pub measured_ns: u64,
    /// Wake-ups or periods that it reported.
    pub samples: u64,
    /// Those that were overwritten before they were read.
    pub lost: u64,
    /// Ours and its own, side by side.
    pub figures: Vec<CrossFigure>,
}

/// A tracer of the kernel that measures what a probe measures.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum KernelTracer {
    /// Wake-ups.
    Timerlat,
    /// Time that was taken from a thread that polls.
    Osnoise,
}

impl KernelTracer {
    /// Its name, as the kernel has it.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Timerlat => "timerlat",
            Self::Osnoise => "osnoise",
        }
    }
}

/// Why there is no comparison with the kernel's own tracer.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(tag = "is", rename_all = "kebab-case")]
pub enum CrossCheckFault {
    /// The run was ended early, so nothing was measured after it.
    RunEndedEarly,
    /// The tracer reported nothing.
    NoSamples,
    /// The tracer or the load could not be started.
    Failed {
        /// The text of the error, evidence that nothing parses.
        error: String,
    },
}

/// A figure by both.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct CrossFigure {
    /// Which figure.
    pub name: CrossFigureName,
    /// Ours.
    pub ours: f64,
    /// The tracer's.
    pub theirs: f64,
    /// Ours divided by the tracer's; absent where that is zero.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ratio: Option<f64>,
}

/// What is compared.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum CrossFigureName {
    /// The median latency, in ns.
    Median,
    /// The 99th percentile, in ns.
    P99,
    /// The highest latency or the longest gap, in ns.
    Maximum,
    /// Noise, in parts per million of the time watched.
    Noise,
}

impl CrossFigure {
    /// Puts two figures side by side.
    #[must_use]
    pub fn new(name: CrossFigureName, ours: f64, theirs: f64) -> Self {
        Self {
            name,
            ours,
            theirs,
            ratio: (theirs > 0.0).then(|| ours / theirs),
        }
    }
}
