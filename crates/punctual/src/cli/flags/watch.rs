//! Flags of `watch`.

use std::path::PathBuf;

use clap::Args;

use super::{BreachFlags, EXPLAIN, OUTPUT, REQUIRE, RequirementFlags, units};
use punctual_trace::watch::marks::preset::{self, Preset};
use punctual_trace::watch::marks::spec::{self, Spec};

pub(super) const WATCH_EXAMPLES: &str = "\
Examples:
  punctual watch controller                 the real-time threads of a program that runs
  punctual watch 4711 -D 60 --deadline 100us
  punctual watch controller --all           its ordinary threads too
  punctual watch stress-ng --children --all its child processes, and all their threads
  punctual watch --cgroup 4f6e3a            the programs of a container
  punctual watch controller --mark 'step()' --mark cycle=begin_cycle..end_cycle
  punctual watch controller --mark 'step()' --mark-max 'step()=500us'
  punctual watch java --runtime jvm         safepoints, and the ticks that they made late
  punctual watch controller --stop-above 1ms until a wake-up takes longer than 1 ms
  punctual watch controller --off-cpu       where it sleeps and waits, by stack
  punctual watch --system --run-queue       how long every thread waits for a CPU
  punctual watch --system                   the machine's worst wake-up, and who was in its way
  punctual watch --system --textfile /run/punctual-watch/punctual.prom";

/// A runtime by its name.
fn runtime(name: &str) -> Result<&'static Preset, String> {
    preset::named(name).ok_or_else(|| {
        let names: Vec<&str> = preset::PRESETS.iter().map(|it| it.name).collect();
        format!("expected one of {}", names.join(", "))
    })
}

/// Flags of `watch`.
#[derive(Debug, Args)]
pub struct WatchFlags {
    /// Watch this program: its process ID or its name
    #[arg(
        value_name = "PID|NAME",
        required_unless_present_any = ["system", "comm", "cgroup"],
        conflicts_with_all = ["system", "comm", "cgroup"]
    )]
    pub program: Option<String>,
    /// Watch the program's child processes too, and their children, including those that start later
    #[arg(long, conflicts_with_all = ["system", "comm", "cgroup"])]
    pub children: bool,
    /// Watch every program of this name, including those that start later
    #[arg(long, value_name = "NAME", conflicts_with_all = ["system", "cgroup", "marks"])]
    pub comm: Option<String>,
    /// Watch every program in this control group and below it: its path, or a part of it such as a container's id
    #[arg(long, value_name = "GROUP", conflicts_with_all = ["system", "marks"])]
    pub cgroup: Option<String>,
    /// Watch every real-time thread of the machine
    #[arg(long)]
    pub system: bool,
    /// Watch threads without a real-time priority too
    #[arg(long, conflicts_with = "system")]
    pub all: bool,
    /// Show how long the threads are off the CPU, by the stack with which they leave it
    #[arg(long, conflicts_with = "system")]
    pub off_cpu: bool,
    /// Show how long the threads wait for a CPU after a wake-up and after a preemption; with --system, every thread of the machine
    #[arg(long)]
    pub run_queue: bool,
    /// Watch for this time, in s or with a unit: 60, 5m, 1h, 1d [default: until Ctrl-C, or until the program ends]
    #[arg(short = 'D', long, value_name = "TIME", value_parser = units::duration, allow_hyphen_values = true)]
    pub duration: Option<u64>,
    /// Measure the pauses of the program's runtime: jvm, python or go; watches all threads, and shows which ticks of Java threads the pauses made late
    #[arg(long, value_name = "RUNTIME", value_parser = runtime, conflicts_with_all = ["system", "comm", "cgroup", "children"])]
    pub runtime: Option<&'static Preset>,
    /// Measure at a place in the program: FUNCTION from call to call, FUNCTION() from entry to return, PLACE..PLACE from the first to the second; may be repeated
    #[arg(long = "mark", value_name = "[NAME=]PLACE", value_parser = spec::parse, allow_hyphen_values = true, conflicts_with = "system")]
    pub marks: Vec<Spec>,
    /// Require that a mark takes no longer than this, in us or with a unit: 'step()=500us'; may be repeated
    #[arg(long, value_name = "NAME=TIME", value_parser = units::mark_limit, allow_hyphen_values = true, conflicts_with = "system", help_heading = REQUIRE)]
    pub mark_max: Vec<(String, u64)>,

    /// What ends the watch early.
    #[command(flatten)]
    pub breach: BreachFlags,

    /// What is required.
    #[command(flatten)]
    pub required: RequirementFlags,

    /// Write the run into this directory [default: punctual-watch-TIME here]
    #[arg(short, value_name = "DIR", help_heading = OUTPUT)]
    pub output: Option<PathBuf>,
    /// Write metrics into this file each minute, for the textfile collector of Prometheus's node_exporter; its name ends in .prom
    #[arg(long, value_name = "FILE", help_heading = OUTPUT)]
    pub textfile: Option<PathBuf>,
    /// Print the summary of the watch as JSON
    #[arg(long, conflicts_with = "quiet", help_heading = OUTPUT)]
    pub json: bool,
    /// Print nothing but the verdict
    #[arg(short, long, help_heading = OUTPUT)]
    pub quiet: bool,
    /// Print progress on standard error, and the whole summary at the end
    #[arg(short, long, help_heading = OUTPUT)]
    pub verbose: bool,

    /// Explain wake-ups later than this, in us or with a unit; the worst are explained anyway [default: the deadline]
    #[arg(long, value_name = "US", value_parser = units::latency, allow_hyphen_values = true, conflicts_with_all = ["no_explain", "system"], help_heading = EXPLAIN)]
    pub explain_above: Option<u64>,
    /// Interrupt the task that delays a thread by more than this and record its stack, in us or
    /// with a unit; such wake-ups take 5 to 30 us longer [default: record the stack only when the
    /// task leaves the CPU]
    #[arg(long, value_name = "US", value_parser = units::latency, allow_hyphen_values = true, conflicts_with_all = ["no_explain", "system"], help_heading = EXPLAIN)]
    pub stack_above: Option<u64>,
    /// Don't explain late wake-ups: only count them
    #[arg(long, conflicts_with = "system", help_heading = EXPLAIN)]
    pub no_explain: bool,
}
