//! The flags of `budget`.

use std::path::PathBuf;

use clap::Args;

use super::super::units;

pub(super) const BUDGET_EXAMPLES: &str = "\
Examples:
  punctual budget robot.toml                    do these hops meet the deadline together?
  punctual budget robot.toml --deadline 5ms     the same hops, another deadline
  punctual budget robot.toml --json             every figure";

/// Flags of `budget`.
#[derive(Debug, Args)]
pub struct BudgetFlags {
    /// Read the deadline and the hops from this file
    #[arg(value_name = "FILE")]
    pub file: PathBuf,
    /// Judge by this deadline for all hops together, in us or with a unit [default: that of the file]
    #[arg(long, value_name = "TIME", value_parser = units::latency, allow_hyphen_values = true)]
    pub deadline: Option<u64>,
    /// Allow the sum to be longer with this probability [default: that of the file, or 1e-4]
    #[arg(long, value_name = "P", value_parser = units::miss, allow_hyphen_values = true)]
    pub miss: Option<f64>,
    /// Set the confidence of the verdict [default: that of the file, or 0.95]
    #[arg(long, value_name = "LEVEL", value_parser = units::confidence, allow_hyphen_values = true)]
    pub confidence: Option<f64>,
    /// Print the budget as JSON
    #[arg(long)]
    pub json: bool,
}
