//! A user's own command line as a load. What it does cannot be counted, so
//! its processor time stands for its work; the supervisor reads it.

use std::os::unix::process::CommandExt;
use std::process::{Command, Stdio};

use crate::context::Context;
use crate::error::WorkError;

/// What the work of a command is counted in.
pub const UNIT: &str = "CPU milliseconds";

/// Becomes the command; returns only when that failed.
pub(crate) fn run(context: &Context<'_>) -> Result<(), WorkError> {
    let line = context.job.run.as_ref().ok_or(WorkError::NotGiven {
        what: "command line",
    })?;
    context.board.expect(1);
    context.board.arrive();
    let error = Command::new("/bin/sh")
        .arg("-c")
        .arg(line)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .exec();
    Err(WorkError::system("starting /bin/sh failed")(error))
}
