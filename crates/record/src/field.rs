//! Facts about a run that another tool may not state.

use serde::{Deserialize, Serialize};

/// A fact that another tool may not state. The fields of [`Run`](super::Run) then hold a zero or
/// `unknown`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum Field {
    /// The CPUs of the threads.
    Cpus,
    /// The interval.
    Interval,
    /// The priority.
    Priority,
    /// The policy.
    Policy,
    /// How long was measured.
    MeasuredTime,
    /// The step that latencies were rounded down to.
    Resolution,
    /// The machine.
    System,
    /// When it was begun.
    Started,
    /// The load.
    Load,
    /// Skipped periods.
    Missed,
    /// The wait source.
    Source,
}

impl Field {
    /// Its name, as the record has it.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Cpus => "cpus",
            Self::Interval => "interval",
            Self::Priority => "priority",
            Self::Policy => "policy",
            Self::MeasuredTime => "measured-time",
            Self::Resolution => "resolution",
            Self::System => "system",
            Self::Started => "started",
            Self::Load => "load",
            Self::Missed => "missed",
            Self::Source => "source",
        }
    }
}
