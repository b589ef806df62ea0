//! `tune run`: settings for the time of one program.

use std::os::unix::process::ExitStatusExt;
use std::process::{ExitCode, ExitStatus};

use punctual_machine::tune::{Journal, changes_of};
use punctual_report::tuning;

use super::super::failure::{Failure, SETUP};
use super::super::flags::TuneRunFlags;
use super::super::{knobs, out};
use super::{check_named, found, left_as_it_is};
use crate::conduct::wrap::{WrapError, wrap};
use crate::conduct::{ConductError, Observed, Observer, TunePlan};

/// The exit status of a shell for a program that is not there, and for one that can't be executed.
const NOT_FOUND: u8 = 127;
const NOT_EXECUTABLE: u8 = 126;

/// Runs the program with the settings, and restores them.
pub(super) fn run(flags: &TuneRunFlags) -> Result<ExitCode, Failure> {
    let Some((program, arguments)) = flags.command.split_first() else {
        return Err(Failure::usage("missing COMMAND: give it after --"));
    };
    let state = &flags.state.state;
    if let Some(line) = tuning::left_over(&Journal::left_over(state)) {
        return Err(Failure::setup(line));
    }
    let settings = knobs::settings(&flags.knobs)?;
    let named = knobs::findings(&flags.knobs);
    let mut changes = match settings.is_empty() || !named.is_empty() {
        true => {
            let found = found(flags.affinity.as_ref(), flags.priority)?;
            let changes = changes_of(&found, &named);
            check_named(&found, &changes, &named)?;
            changes
        }
        false => Vec::new(),
    };
    changes.extend(settings);
    let plan = TunePlan {
        changes,
        is_named: !flags.knobs.is_empty(),
        state: state.clone(),
    };
    let mut screen = Complaints { is_left: false };
    let ended = wrap(&plan, program, arguments, &mut screen).map_err(|error| match error {
        WrapError::SetUp(ConductError::Tune(error)) => Failure::setup(error),
        WrapError::SetUp(error) => Failure::setup(error),
        WrapError::Program(error) => Failure {
            line: format!("{}: {error}", program.display()),
            status: match error.kind() {
                std::io::ErrorKind::NotFound => NOT_FOUND,
                _ => NOT_EXECUTABLE,
            },
        },
    })?;
    Ok(match screen.is_left {
        true => ExitCode::from(SETUP),
        false => status_of(ended),
    })
}

/// As a shell has it: 128 and the number for a signal.
fn status_of(ended: ExitStatus) -> ExitCode {
    let number = match (ended.code(), ended.signal()) {
        (Some(code), _) => code,
        (None, Some(signal)) => 128 + signal,
        (None, None) => i32::from(SETUP),
    };
    ExitCode::from(u8::try_from(number).unwrap_or(SETUP))
}

/// Says what is left as it is, before and after the program.
struct Complaints {
    is_left: bool,
}

impl Observer for Complaints {
    fn observe(&mut self, event: Observed<'_>) {
        match event {
            Observed::NotChanged(change, error) => out::complain(&left_as_it_is(change, error)),
            Observed::NotRestored(error) => {
                self.is_left = true;
                out::complain(&format!(
                    "not every setting is restored: {error}; punctual tune status shows them"
                ));
            }
            _ => {}
        }
    }
}
