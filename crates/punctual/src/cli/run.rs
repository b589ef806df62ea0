//! `run`: an unmodified program, made fit for real time.

use std::process::ExitCode;

use super::failure::Failure;
use super::flags::RunProgramFlags;
use crate::launch::Launch;
use crate::system::{self, Root, cpus};

/// Becomes the program.
///
/// # Errors
/// Why it could not be run so.
pub fn run(flags: &RunProgramFlags) -> Result<ExitCode, Failure> {
    let Some((program, arguments)) = flags.command.split_first() else {
        return Err(Failure::usage("no program is named"));
    };
    let launch = Launch {
        stacks: flags.stack,
        stack_size: flags.stack_size,
        lock: flags.lock,
        cpus: chosen(flags.cpus.as_deref())?,
        policy: flags.priority.map(|priority| flags.policy.at(priority)),
        report: flags.verbose,
    };
    let refusal = launch.run(program, arguments);
    Err(Failure {
        line: refusal.reason,
        status: refusal.status,
    })
}

fn chosen(list: Option<&str>) -> Result<Vec<usize>, Failure> {
    let Some(list) = list else {
        return Ok(Vec::new());
    };
    let root = Root::live();
    cpus::parse(list)
        .and_then(|parsed| cpus::select(&parsed, &system::topology(&root), &system::allowed(&root)))
        .map(|choice| choice.probed)
        .map_err(|error| Failure::usage(format!("invalid value '{list}' for --cpus: {error}")))
}
