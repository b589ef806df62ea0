//! Runs a program of somebody else with settings changed, and restores them after it.

use std::ffi::OsString;
use std::io;
use std::process::{Child, Command, ExitStatus};
use std::thread::sleep;
use std::time::Duration;

use punctual_record::Ending;
use rustix::process::{Pid, Signal, kill_process};

use super::error::ConductError;
use super::observer::Observer;
use super::run::{TunePlan, Tuning};
use super::signals::Signals;

/// How often it is looked whether the program has ended.
const LOOK: Duration = Duration::from_millis(20);

/// Why a program could not be run with changed settings. Nothing is left changed.
#[derive(Debug)]
pub enum WrapError {
    /// The settings or the signals.
    SetUp(ConductError),
    /// The program.
    Program(io::Error),
}

/// Changes settings, runs a program until it ends, and restores them. What ends this process is
/// passed to the program; settings that could not be restored are told.
///
/// # Errors
/// [`WrapError`]
pub fn wrap(
    plan: &TunePlan,
    program: &OsString,
    arguments: &[OsString],
    progress: &mut dyn Observer,
) -> Result<ExitStatus, WrapError> {
    let listening = Signals::listen().map_err(ConductError::Signals);
    let signals = listening.map_err(WrapError::SetUp)?;
    let tuning = Tuning::begin(plan, progress).map_err(WrapError::SetUp)?;
    let ended = Command::new(program)
        .args(arguments)
        .spawn()
        .and_then(|child| until_ended(child, &signals));
    tuning.end(progress);
    ended.map_err(WrapError::Program)
}

fn until_ended(mut child: Child, signals: &Signals) -> io::Result<ExitStatus> {
    let mut is_passed = false;
    loop {
        if let Some(status) = child.try_wait()? {
            return Ok(status);
        }
        if let (Some(ending), false) = (signals.end(), is_passed) {
            is_passed = true;
            pass(&child, ending);
        }
        sleep(LOOK);
    }
}

/// A program of the same terminal has the signal already: a second one of the same kind means the
/// same.
fn pass(child: &Child, ending: Ending) {
    let signal = match ending {
        Ending::Interrupt => Signal::INT,
        Ending::HangUp => Signal::HUP,
        _ => Signal::TERM,
    };
    let pid = i32::try_from(child.id()).ok().and_then(Pid::from_raw);
    if let Some(pid) = pid {
        // It may have ended.
        let _ = kill_process(pid, signal);
    }
}
