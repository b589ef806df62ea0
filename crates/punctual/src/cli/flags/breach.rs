//! Flags of every verb that can end at the first late wake-up.

use clap::Args;

use super::{STOP, units};

/// What ends a run early, and what follows.
#[derive(Debug, Args)]
pub struct BreachFlags {
    /// Stop at the first latency above this, in us or with a unit; freeze the kernel's trace buffer and keep everything recorded (same as --stop-above) [default: don't stop]
    #[arg(short, long = "breaktrace", visible_alias = "stop-above", value_name = "US", value_parser = units::latency, allow_hyphen_values = true, help_heading = STOP)]
    pub break_value: Option<u64>,
    /// Run this shell command after -b has stopped the run, with PUNCTUAL_RUN (the run's directory), PUNCTUAL_CPU, PUNCTUAL_TID and PUNCTUAL_LATENCY_NS in its environment [default: none]
    #[arg(long, value_name = "COMMAND", requires = "break_value", help_heading = STOP)]
    pub on_breach: Option<String>,
}
