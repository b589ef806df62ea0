//! `run`: starts an unmodified program with real-time stacks, locked memory and scheduling.

use std::ffi::OsString;
use std::process::ExitCode;

use punctual_rt::sched::Policy;

use super::failure::{Called, Failure};
use super::flags::{PolicyName, RunProgramFlags};
use crate::launch::{Launch, Stacks};
use punctual_machine::Root;
use punctual_machine::survey::{self, cpus};

/// Replaces this process with the program.
///
/// # Errors
/// Why the program could not be started.
pub fn run(flags: &RunProgramFlags) -> Result<ExitCode, Failure> {
    let Some((program, arguments)) = flags.command.split_first() else {
        return Err(Failure::usage("missing PROGRAM: see `punctual run --help`"));
    };
    // clap takes an unknown flag before the program's name for the program.
    if program.as_encoded_bytes().starts_with(b"-") {
        let flag = program.to_string_lossy();
        let called = Called::find(&["punctual", "run"].map(OsString::from));
        return Err(Failure::usage(called.unknown_flag(&flag)));
    }
    if flags.stack_debug.is_some() && flags.stack != Stacks::Pool {
        return Err(Failure::usage(
            "--stack-debug needs --stack pool, the default: it checks the stacks of the pool",
        ));
    }
    let launch = Launch {
        stacks: flags.stack,
        stack_debug: flags.stack_debug.clone(),
        stack_size: flags.stack_size,
        lock: flags.lock,
        user_namespace: survey::user_namespace(&Root::live()) == Some(true),
        cpus: chosen(flags.cpus.as_deref(), "--cpus")?,
        policy: policy(flags)?,
        report: flags.verbose,
    };
    let refusal = launch.run(program, arguments);
    Err(Failure {
        line: refusal.to_string(),
        status: refusal.status(),
    })
}

fn policy(flags: &RunProgramFlags) -> Result<Option<Policy>, Failure> {
    match (flags.policy, flags.priority) {
        (None, None) => Ok(None),
        (Some(PolicyName::Other), None) => Ok(Some(Policy::Other)),
        (Some(PolicyName::Other), Some(_)) => Err(Failure::usage(PolicyName::NO_PRIORITY)),
        (Some(_), None) => Err(Failure::usage(
            "--policy fifo and rr need a priority: -p 1 to 99",
        )),
        (policy, Some(priority)) => Ok(Some(policy.unwrap_or(PolicyName::Fifo).at(priority))),
    }
}

/// The CPUs of a list for `flag`, checked on this machine; none without a list.
///
/// # Errors
/// A CPU can't be used.
pub(super) fn chosen(list: Option<&str>, flag: &str) -> Result<Vec<usize>, Failure> {
    let Some(list) = list else {
        return Ok(Vec::new());
    };
    let root = Root::live();
    cpus::parse(list)
        .and_then(|parsed| {
            cpus::select(&parsed, &survey::topology(&root), &cpus::Place::read(&root))
        })
        .map(|choice| choice.probed)
        .map_err(|error| Failure::usage(format!("invalid value '{list}' for {flag}: {error}")))
}
