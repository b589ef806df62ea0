//! The hidden verb `__load`: the start of each of a load's processes.

use std::ffi::OsString;
use std::process::ExitCode;

use crate::job::{Job, NOTHING};
use crate::supervisor;

pub use crate::job::VERB;

/// The entry of `__load JOB`, with the arguments after the verb.
///
/// The controller passes the [`Board`](crate::board::Board) as standard input and a socket, whose
/// end means that the controller has ended, as standard output; without them, as when a user types
/// the verb, it refuses.
pub fn main(arguments: impl IntoIterator<Item = OsString>) -> ExitCode {
    let mut arguments = arguments.into_iter().peekable();
    // As fast as this binary can exit.
    if arguments.peek().is_some_and(|name| name == NOTHING) {
        return ExitCode::SUCCESS;
    }
    match Job::from_arguments(arguments) {
        Ok(job) => supervisor::main(&job),
        Err(error) => supervisor::refuse(&error.to_string()),
    }
}
