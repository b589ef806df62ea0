//! The flags of `prove`.

use clap::Args;
use punctual_stats::experiment::Measure;

use super::super::units;
use super::knob::KnobArgument;
use super::values::percent;
use super::{PATH, PathFlags, RunFlags, TransportName, names};

pub(super) const PROVE_EXAMPLES: &str = "\
Examples:
  punctual prove rt-throttling              does it help, in 20 min?
  punctual prove ksm vmstat-interval --deadline 50us -D 1h
  punctual prove workqueue-mask --effect 20 --on p99.9
  punctual prove /proc/sys/vm/stat_interval=120 --load fork,net
  punctual prove net.ipv4.tcp_slow_start_after_idle=0 --path 10.0.0.2 --deadline 5ms";

const EXPERIMENT: &str = "Experiment";

/// Flags of `prove`.
#[derive(Debug, Args)]
pub struct ProveFlags {
    /// Switch these knobs: findings of `punctual check` with a fix at run time, or settings with a value: /PATH=VALUE, NAME=VALUE of sysctl, rto_min@HOST=TIME, initcwnd@HOST=N, quickack@HOST, neighbour@HOST, napi@DEVICE=MODE, scheduling@TID=POLICY, affinity@TID=CPUS; without @HOST that of --path
    #[arg(value_name = "KNOB", required = true, value_parser = names::knob(), hide_possible_values = true)]
    pub knobs: Vec<KnobArgument>,
    /// Measure without switching first for this time, in s or with a unit: how much do latencies vary?
    #[arg(long, value_name = "TIME", default_value = "2m", value_parser = units::duration, allow_hyphen_values = true, help_heading = EXPERIMENT)]
    pub pilot: u64,
    /// Find a change of this many percent; refuse if -D is too short for it, end early if it is longer than needed [default: what -D allows]
    #[arg(long, value_name = "PERCENT", value_parser = percent, allow_hyphen_values = true, help_heading = EXPERIMENT)]
    pub effect: Option<f64>,
    /// Find it in this measure: p50, p99, p99.9 or excess; with --path p50, p99, worst or late
    #[arg(long, value_name = "MEASURE", default_value = "p99", requires = "effect", value_parser = names::measure(), hide_possible_values = true, help_heading = EXPERIMENT)]
    pub on: Measure,
    /// Screen all knobs at once first, then confirm the most promising [default: with more than 4 knobs]
    #[arg(long, conflicts_with = "no_screen", help_heading = EXPERIMENT)]
    pub screen: bool,
    /// Test every knob in pairs, however many they are
    #[arg(long, help_heading = EXPERIMENT)]
    pub no_screen: bool,
    /// Measure blocks of this length, in s or with a unit
    #[arg(long, value_name = "TIME", default_value = "5s", value_parser = units::duration, allow_hyphen_values = true, help_heading = EXPERIMENT)]
    pub block: u64,
    /// Leave this time after each switch out, in s or with a unit
    #[arg(long, value_name = "TIME", default_value = "500ms", value_parser = units::duration, allow_hyphen_values = true, help_heading = EXPERIMENT)]
    pub settle: u64,
    /// Measure messages to this machine instead, on which punctual respond runs: HOST or HOST:PORT
    #[arg(long, value_name = "HOST", help_heading = PATH)]
    pub path: Option<String>,
    /// Send the messages of --path over this [default: tcp]
    #[arg(long, value_name = "TRANSPORT", requires = "path", help_heading = PATH)]
    pub over: Option<TransportName>,
    /// What goes to the other machine, and how.
    #[command(flatten)]
    pub path_flags: PathFlags,
    /// What is measured, and how.
    #[command(flatten)]
    pub run: RunFlags,
}
