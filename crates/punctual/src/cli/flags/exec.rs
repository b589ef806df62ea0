//! Flags of `exec`.

use std::path::PathBuf;

use clap::{Args, ValueEnum};

use super::super::exec::set::shipped;
use super::values::cpu;
use super::{CONDITIONS, EXPLAIN, OUTPUT, REQUIRE, names, units};
use punctual_load::{LoadClass, LoadSpec};

pub(super) const EXEC_EXAMPLES: &str = "\
Examples:
  punctual exec robot.toml                  do these tasks meet their deadlines together?
  punctual exec robot.toml -D 10m --load standard
  punctual exec video.json                  a file of rt-app
  punctual exec rt-exec --cpu 0             the set of rt-exec, all of it on CPU 0
  punctual exec --analyse robot.toml        what can be said without executing the set?
  punctual exec --analyse robot.toml --overheads none
                                            the same on a machine whose kernel takes no time";

/// Flags of `exec`.
#[derive(Debug, Args)]
pub struct ExecFlags {
    /// Read the tasks from this file: TOML, or rt-app's JSON if its name ends with .json; or rt-exec, a set that is part of punctual
    #[arg(value_name = "TASKSET", value_parser = names::PathOr(shipped), hide_possible_values = true)]
    pub file: PathBuf,
    /// Judge the set by analysis, without executing it
    #[arg(long, conflicts_with_all = ["duration", "load", "output", "quiet", "verbose"])]
    pub analyse: bool,
    /// Count what the kernel takes for each job in the analysis: measured on this machine, or none
    #[arg(long, value_name = "WHICH", default_value = "measured")]
    pub overheads: Overheads,
    /// Run all tasks on this CPU, whatever the file says
    #[arg(long, value_name = "CPU", value_parser = cpu, allow_negative_numbers = true)]
    pub cpu: Option<usize>,
    /// Run the set for this time, in s or with a unit: 60, 5m, 1h [default: that of the file, or 60]
    #[arg(short = 'D', long, value_name = "TIME", value_parser = units::duration, allow_hyphen_values = true)]
    pub duration: Option<u64>,

    /// Allow a job of a task to miss its deadline with this probability; 0: none may be seen
    #[arg(long, value_name = "P", default_value = "1e-4", value_parser = units::miss, allow_hyphen_values = true, help_heading = REQUIRE)]
    pub miss: f64,
    /// Set the confidence of the verdict
    #[arg(long, value_name = "LEVEL", default_value = "0.95", value_parser = units::confidence, allow_hyphen_values = true, help_heading = REQUIRE)]
    pub confidence: f64,

    /// Run this load beside the set: standard, kernel-paths, none, a list of loads, or a command [default: none]
    #[arg(long, value_name = "LOAD", value_parser = names::load(), hide_possible_values = true, help_heading = CONDITIONS)]
    pub load: Option<LoadSpec>,
    /// Set the scheduling class of the load: other, batch or idle
    #[arg(long, value_name = "CLASS", default_value = "other", value_parser = names::load_class(), hide_possible_values = true, help_heading = CONDITIONS)]
    pub load_class: LoadClass,
    /// Leave the machine as it is: do not set cpu_dma_latency
    #[arg(long, help_heading = CONDITIONS)]
    pub as_deployed: bool,
    /// Run and judge the set even if a requested condition is not in force; the verdict says so [default: refuse]
    #[arg(long, help_heading = CONDITIONS)]
    pub best_effort: bool,

    /// Write the run into this directory [default: punctual-exec-TIME here]
    #[arg(short, value_name = "DIR", help_heading = OUTPUT)]
    pub output: Option<PathBuf>,
    /// Print the summary of the run as JSON
    #[arg(long, conflicts_with = "quiet", help_heading = OUTPUT)]
    pub json: bool,
    /// Print nothing but the verdict
    #[arg(short, long, help_heading = OUTPUT)]
    pub quiet: bool,
    /// Print progress on standard error
    #[arg(short, long, help_heading = OUTPUT)]
    pub verbose: bool,

    /// Don't trace the kernel: late jobs are not explained
    #[arg(long, help_heading = EXPLAIN)]
    pub no_explain: bool,
}

/// What is counted for the kernel.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Overheads {
    /// Measured now.
    Measured,
    /// Nothing.
    None,
}
