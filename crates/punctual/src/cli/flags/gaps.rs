//! Flags of `measure noise` and `measure hardware`.

use clap::{Args, ValueEnum};

use super::super::units;
use crate::probe::kinds::Kind;
use punctual_record::path::Transport;
use punctual_record::{Method, Subject};

/// What `measure` measures.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Probe {
    /// The latency of a wait source.
    Wait(Kind),
    /// Gaps in a thread that polls the clock.
    Gaps(Subject),
    /// The path to another machine.
    Path(Transport),
}

const GAPS: &str = "Gaps (noise and hardware)";

/// What counts as a gap, and for how much of the time the CPU is polled.
#[derive(Debug, Args)]
pub struct GapFlags {
    /// Count a delay longer than this as a gap, in us or with a unit [default: noise 20 times the loop's own step, at least 1; hardware 10]
    #[arg(long, value_name = "US", value_parser = units::latency, allow_hyphen_values = true, help_heading = GAPS)]
    pub gap: Option<u64>,
    /// Find the hardware's gaps with this method [default: hwlat if the kernel has it, else polling]
    #[arg(long, value_name = "METHOD", help_heading = GAPS)]
    pub method: Option<MethodName>,
    /// Poll for this time in each period, in us or with a unit [default: 90 % of the period; all of it with --policy other; half with hwlat]
    #[arg(long, value_name = "US", value_parser = units::latency, allow_hyphen_values = true, help_heading = GAPS)]
    pub runtime: Option<u64>,
    /// Set the period, in us or with a unit [default: 100000, or --runtime if that is longer]
    #[arg(long, value_name = "US", value_parser = units::latency, allow_hyphen_values = true, help_heading = GAPS)]
    pub period: Option<u64>,
    /// Measure a second time with the kernel's own tracer (timerlat, osnoise), and print both results
    #[arg(long)]
    pub cross_check: bool,
}

impl GapFlags {
    /// The first of these flags that was given.
    #[must_use]
    pub fn first_given(&self) -> Option<&'static str> {
        [
            ("--gap", self.gap.is_some()),
            ("--method", self.method.is_some()),
            ("--runtime", self.runtime.is_some()),
            ("--period", self.period.is_some()),
        ]
        .into_iter()
        .find_map(|(name, given)| given.then_some(name))
    }
}

/// Methods of finding the hardware's gaps, by name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum MethodName {
    /// The kernel's hwlat tracer, which polls with interrupts disabled
    Hwlat,
    /// A thread that polls; gaps in which the kernel did something are excluded
    Polling,
}

impl From<MethodName> for Method {
    fn from(name: MethodName) -> Self {
        match name {
            MethodName::Hwlat => Self::Hwlat,
            MethodName::Polling => Self::Polling,
        }
    }
}
