//! A user's own command line as a load. Its work cannot be counted, so the supervisor reads its
//! processor time instead.

use std::os::unix::process::CommandExt;
use std::process::{Command, Stdio};

use crate::context::Context;
use crate::error::WorkError;

/// The unit of a command's work.
pub const UNIT: &str = "CPU milliseconds";

/// Executes the command; returns only if that fails.
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
