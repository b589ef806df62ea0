//! `fleet`: many machines: runs on them, and their runs together.

mod flags;
mod ingest;
mod report;
mod slurm;
mod sql;

use std::process::ExitCode;

pub use flags::{FLEET_EXAMPLES, FleetFlags};

use super::failure::Failure;
use flags::FleetAction;

/// Does what the verb after `fleet` says.
///
/// # Errors
/// Wrong usage, or what could not be set up, read or written.
pub fn run(flags: &FleetFlags) -> Result<ExitCode, Failure> {
    match &flags.action {
        FleetAction::Slurm(flags) => slurm::run(flags),
        FleetAction::Ingest(flags) => ingest::run(flags),
        FleetAction::Report(flags) => report::run(flags),
        FleetAction::Sql(flags) => sql::run(flags),
    }
}
