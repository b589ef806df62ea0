//! The same measured with the kernel's own tracer, for comparison.

use serde::{Deserialize, Serialize};

/// What the kernel's own tracer says of the same CPUs, under the same load, for as long.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct CrossCheck {
    /// `timerlat` or `osnoise`.
    pub tracer: String,
    /// Why there are no figures, in words; absent where there are.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub missing: Option<String>,
    /// How long the tracer ran.
    pub measured_ns: u64,
    /// Wake-ups or periods that it told of.
    pub samples: u64,
    /// Those that were overwritten before they were read.
    pub lost: u64,
    /// Ours and its own, side by side.
    pub figures: Vec<CrossFigure>,
}

/// A figure by both.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct CrossFigure {
    /// `median`, `p99`, `maximum` (ns), or `noise` (parts per million of the time watched).
    pub name: String,
    /// Ours.
    pub ours: f64,
    /// The tracer's.
    pub theirs: f64,
    /// Ours divided by the tracer's; absent where that is zero.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ratio: Option<f64>,
}

impl CrossFigure {
    /// Puts two figures side by side.
    #[must_use]
    pub fn new(name: &str, ours: f64, theirs: f64) -> Self {
        Self {
            name: name.to_owned(),
            ours,
            theirs,
            ratio: (theirs > 0.0).then(|| ours / theirs),
        }
    }
}
