//! Runs on many machines, by engines that users already have: Slurm.
//!
//! It talks to the engine and brings the runs together. What the engine's programs print is read in
//! `parse`.

mod collect;
mod commands;
mod error;
mod job;
mod parse;
mod plan;

pub use collect::{FleetRun, NoRun, RunEnd};
pub use commands::Slurm;
pub use error::SlurmError;
pub use job::conduct;
pub use parse::Node;
pub use plan::{Counts, FleetPlan};

/// The batch script: also a file for users of Slurm alone.
const BATCH_SCRIPT: &str = include_str!("../../../../../integrations/slurm/qualify.sbatch");

/// The directory within the fleet's that the tasks of the array use. No node has such a name.
const HOME: &str = ".slurm";
/// The directory in it to which tasks move their runs.
const ATTEMPTS: &str = "attempts";
/// The file of an attempt that says which it is.
const ATTEMPT_FILE: &str = "slurm.txt";

/// Exit statuses of the batch script that are none of punctual's.
mod status {
    /// The task is not on its node.
    pub const ELSEWHERE: u8 = 72;
    /// The shared directory is not there.
    pub const UNSHARED: u8 = 73;
    /// The run can't be copied to the shared directory.
    pub const UNCOPIED: u8 = 74;

    #[test]
    fn the_batch_script_has_the_same() {
        for (name, status) in [
            ("elsewhere", ELSEWHERE),
            ("unshared", UNSHARED),
            ("uncopied", UNCOPIED),
        ] {
            let line = format!("{name}={status}");
            assert!(super::BATCH_SCRIPT.lines().any(|l| l == line), "{line}");
        }
    }
}
