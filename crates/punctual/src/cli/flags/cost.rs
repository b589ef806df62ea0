//! The flags of `cost`.

use std::ffi::OsString;
use std::path::PathBuf;

use clap::Args;

use super::super::lab::MachineFlags;
use super::super::units;
use super::values::{
    cpu_count, cpu_list, pairs, percentile, priority, seed, utilisation, warm_ups,
};
use super::{StateFlags, names};

pub(super) const COST_EXAMPLES: &str = "\
Examples:
  punctual cost --rt-load 0.3 --prepare 'make clean' -- make -j8
  punctual cost --priority 50 --locked --together -- ./filter data
  punctual cost --isolate 1 --quantile 99 -- ./pipeline.sh
  punctual cost --across-reboot -o before -- make; reboot; punctual cost --resume before
  punctual cost --lab -- ./filter           PREEMPT_RT against standard, in virtual time

A run of the command counts all of its processes. The exit status is 0 whatever the cost is,
3 with too few pairs, 4 if a load was not in force; 126 and 127 if the command can't be run.";

const TREATMENTS: &str = "Treatments";
const RUNS: &str = "Runs";
const BREAK_EVEN: &str = "Break-even";
const OUTPUT: &str = "Output";

/// Flags of `cost`.
#[derive(Debug, Args)]
pub struct CostFlags {
    /// Run a periodic SCHED_FIFO load beside the command that uses this part of each of its CPUs, 0.01 to 0.9
    #[arg(long, value_name = "U", value_parser = utilisation, allow_hyphen_values = true, help_heading = TREATMENTS)]
    pub rt_load: Option<f64>,
    /// Run the real-time load on these CPUs: 3-5,0 or !1-2 [default: all allowed; with --isolate --together the isolated ones]
    #[arg(long, value_name = "CPUS", value_parser = cpu_list, allow_negative_numbers = true, requires = "rt_load", help_heading = TREATMENTS)]
    pub rt_cpus: Option<String>,
    /// Set the priority of the real-time load, 1 to 99
    #[arg(long, value_name = "PRIO", default_value = "70", value_parser = priority, allow_hyphen_values = true, help_heading = TREATMENTS)]
    pub rt_priority: u32,
    /// Set the period of the real-time load, in us or with a unit
    #[arg(long, value_name = "TIME", default_value = "10ms", value_parser = units::interval, allow_hyphen_values = true, help_heading = TREATMENTS)]
    pub rt_period: u64,
    /// Run the command at this priority, SCHED_FIFO, 1 to 99
    #[arg(short, long, value_name = "PRIO", value_parser = priority, allow_hyphen_values = true, help_heading = TREATMENTS)]
    pub priority: Option<u32>,
    /// Lock the command's memory, as run --lock does
    #[arg(long, help_heading = TREATMENTS)]
    pub locked: bool,
    /// Leave the command without this number of CPUs, the last ones, as isolation would
    #[arg(long, value_name = "N", value_parser = cpu_count, allow_hyphen_values = true, help_heading = TREATMENTS)]
    pub isolate: Option<usize>,
    /// Switch the kernel to this preemption model (none, voluntary, full, lazy), through the journal
    #[arg(long, value_name = "MODE", value_parser = ["none", "voluntary", "full", "lazy"], hide_possible_values = true, help_heading = TREATMENTS)]
    pub preempt: Option<String>,
    /// Make one treatment of all that is given [default: each is compared by itself]
    #[arg(long, help_heading = TREATMENTS)]
    pub together: bool,
    /// Make the runs before a reboot: the treatment is what differs after it
    #[arg(long, conflicts_with_all = ["rt_load", "priority", "locked", "isolate", "preempt", "together", "resume"], help_heading = TREATMENTS)]
    pub across_reboot: bool,
    /// Make the runs after the reboot, with the command and the settings in this directory
    #[arg(long, value_name = "DIR", conflicts_with_all = ["rt_load", "priority", "locked", "isolate", "preempt", "together", "prepare", "pairs", "warm_ups", "quantile", "confidence", "output", "no_probe", "probe_priority", "probe_cpu", "interval", "command"], help_heading = TREATMENTS)]
    pub resume: Option<PathBuf>,
    /// Compare two kernels in virtual time: the instructions that the command takes on each
    #[arg(long, conflicts_with_all = ["rt_load", "priority", "locked", "isolate", "preempt", "together", "across_reboot", "resume", "prepare", "print_to"], help_heading = TREATMENTS)]
    pub lab: bool,
    /// Boot these two kernels with --lab, separated by a comma, as for lab: the first is without the treatment
    #[arg(long, value_name = "KERNELS", default_value = "standard,rt", value_delimiter = ',', value_parser = names::text(|| vec!["rt", "standard", "cloud"]), hide_possible_values = true, requires = "lab", help_heading = TREATMENTS)]
    pub kernel: Vec<String>,

    /// Make this number of pairs of runs for each treatment, and of identical runs, 6 to 1000
    #[arg(long, value_name = "N", default_value = "12", value_parser = pairs, allow_hyphen_values = true, help_heading = RUNS)]
    pub pairs: u64,
    /// Make this number of runs first that don't count, 0 to 1000
    #[arg(long, value_name = "N", default_value = "1", value_parser = warm_ups, allow_hyphen_values = true, help_heading = RUNS)]
    pub warm_ups: u64,
    /// Run this line in a shell before each run; it isn't measured
    #[arg(long, value_name = "LINE", help_heading = RUNS)]
    pub prepare: Option<String>,
    /// End a run that takes longer, in s or with a unit
    #[arg(long, value_name = "TIME", default_value = "1h", value_parser = units::duration, allow_hyphen_values = true, help_heading = RUNS)]
    pub limit: u64,
    /// Allow the command to end with a status other than 0
    #[arg(long, help_heading = RUNS)]
    pub ignore_failure: bool,
    /// Add what the command prints to this file [default: drop it]
    #[arg(long, value_name = "FILE", help_heading = RUNS)]
    pub print_to: Option<PathBuf>,
    /// Set the seed of the order of the runs, a whole number [default: from the clock; the record states it]
    #[arg(long, value_name = "N", value_parser = seed, allow_hyphen_values = true, help_heading = RUNS)]
    pub seed: Option<u64>,
    /// Set the confidence at which a cost is named
    #[arg(long, value_name = "LEVEL", default_value = "0.95", value_parser = units::confidence, allow_hyphen_values = true, help_heading = RUNS)]
    pub confidence: f64,

    /// Find the break-even at this percentile of the wake-up latency
    #[arg(long, value_name = "P", default_value = "99.9", value_parser = percentile, allow_hyphen_values = true, help_heading = BREAK_EVEN)]
    pub quantile: f64,
    /// Set the priority of the probe beside the command, 1 to 99
    #[arg(long, value_name = "PRIO", default_value = "80", value_parser = priority, allow_hyphen_values = true, help_heading = BREAK_EVEN)]
    pub probe_priority: u32,
    /// Probe this CPU [default: the last one allowed]
    #[arg(long, value_name = "CPU", value_parser = cpu_list, allow_negative_numbers = true, help_heading = BREAK_EVEN)]
    pub probe_cpu: Option<String>,
    /// Set the interval of the probe, in us or with a unit
    #[arg(short, long, value_name = "TIME", default_value = "1ms", value_parser = units::interval, allow_hyphen_values = true, help_heading = BREAK_EVEN)]
    pub interval: u64,
    /// Don't probe: no break-even, and no real-time priority is needed for it
    #[arg(long, help_heading = BREAK_EVEN)]
    pub no_probe: bool,

    /// The guests' machine, with --lab.
    #[command(flatten)]
    pub machine: MachineFlags,

    /// Write the record into this directory [default: punctual-cost-TIME here]
    #[arg(short, value_name = "DIR", help_heading = OUTPUT)]
    pub output: Option<PathBuf>,
    /// Print the record as JSON
    #[arg(long, conflicts_with = "quiet", help_heading = OUTPUT)]
    pub json: bool,
    /// Print nothing but the result in a sentence
    #[arg(short, long, help_heading = OUTPUT)]
    pub quiet: bool,
    /// Where the journal is.
    #[command(flatten)]
    pub state: StateFlags,
    /// Run this command with its arguments, after `--`
    #[arg(value_name = "COMMAND", last = true, num_args = 1..)]
    pub command: Vec<OsString>,
}
