//! The flags of `exec`.

use std::path::PathBuf;

use clap::{Args, ValueEnum};

pub(super) const EXEC_EXAMPLES: &str = "\
Examples:
  punctual exec --analyse robot.toml            do all tasks meet their deadlines? Without running them
  punctual exec --analyse robot.toml --overheads none
                                                the same on a machine whose kernel takes no time
  punctual exec --analyse taskset.json --json   a set of rt-app; every figure";

/// Flags of `exec`.
#[derive(Debug, Args)]
pub struct ExecFlags {
    /// Read the task set from this file: TOML, or rt-app's JSON if its name ends with .json
    #[arg(value_name = "TASKSET")]
    pub file: PathBuf,
    /// Judge the set by analysis, without running it
    #[arg(long)]
    pub analyse: bool,
    /// Count what the kernel takes for each job in the analysis: measured on this machine, or none
    #[arg(
        long,
        value_name = "WHICH",
        default_value = "measured",
        requires = "analyse"
    )]
    pub overheads: Overheads,
    /// Print the result as JSON
    #[arg(long)]
    pub json: bool,
}

/// What is counted for the kernel.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Overheads {
    /// Measured now.
    Measured,
    /// Nothing.
    None,
}
