//! The flags of `fit`.

use clap::Args;

use super::super::units;
use super::RunFlags;

pub(super) const FIT_EXAMPLES: &str = "\
Examples:
  punctual fit --deadline 50us -a 2,3 --budget 2h   find, change, prove, keep
  punctual fit --deadline 200us --no-keep           the same, and restore everything
  punctual tune restore                             undo what it kept";

/// Flags of `fit`.
#[derive(Debug, Args)]
pub struct FitFlags {
    /// Make all steps within this time, in s or with a unit: 90m, 2h
    #[arg(long, value_name = "TIME", default_value = "2h", value_parser = units::duration, allow_hyphen_values = true, help_heading = "Fit")]
    pub budget: u64,
    /// Restore all settings at the end
    #[arg(long, help_heading = "Fit")]
    pub no_keep: bool,
    /// What is measured, and how.
    #[command(flatten)]
    pub run: RunFlags,
}
