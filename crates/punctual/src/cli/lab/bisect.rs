//! `lab bisect`: judges one commit, with the exit statuses of `git bisect run`.

use std::error::Error;
use std::ffi::OsString;
use std::process::{Command, ExitCode, ExitStatus};
use std::{fmt, io};

use punctual_stats::verdict::Outcome as Verdict;

use super::super::failure::{Failure, SETUP, USAGE};
use super::super::out;
use super::flags::{DEFAULT_KERNELS, GuestFlags, LabBisectFlags};
use super::parts::is_own;
use crate::conduct::Signals;
use punctual_lab::Qemu;
use punctual_lab::cell::OWN_NAME;

/// The commit is good.
const GOOD: u8 = 0;
/// The commit is bad.
const BAD: u8 = 1;
/// The commit cannot be judged, and git tries another.
const SKIP: u8 = 125;
/// git ends the bisection at any status from 128: no commit can be judged in this way.
pub const ENDS: u8 = 128;

/// Whether a command line is `lab bisect`. Wrong usage must not make all commits bad.
#[must_use]
pub fn is_asked(arguments: &[OsString]) -> bool {
    let [_, verb, rest @ ..] = arguments else {
        return false;
    };
    // Flags may come before it.
    let mut own = rest.iter().take_while(|word| *word != "--");
    verb == "lab" && own.any(|word| word == "bisect")
}

/// Builds, runs the cells, and judges.
///
/// # Errors
/// What is the same for every commit: wrong usage, no QEMU.
pub fn run(flags: &LabBisectFlags) -> Result<ExitCode, Failure> {
    let ends = |failure: Failure| Failure {
        status: ENDS,
        ..failure
    };
    if let Some(line) = &flags.build
        && !uses_what_is_built(&flags.guest)
    {
        return Err(ends(Failure::setup(format!(
            "--build '{line}': nothing that it builds is booted or run: give the result of the build, \
             --kernel ./vmlinux or -- ./PROGRAM",
        ))));
    }
    // Before a build that takes minutes.
    Qemu::find(flags.guest.machine.arch).map_err(|error| ends(Failure::setup(error)))?;
    let requested = super::of_flags(&flags.guest).map_err(|failure| match failure.status {
        // A program that the build makes may not exist yet.
        _ if flags.build.is_some() && failure.status != USAGE => failure,
        _ => ends(failure),
    });
    if let Err(failure) = &requested
        && failure.status == ENDS
    {
        return Err(failure.clone());
    }
    if let Some(line) = &flags.build
        && let Err(why) = build(line)
    {
        return Ok(skip(&why.to_string()));
    }
    let requested = match requested {
        Ok(requested) => requested,
        Err(_) => match super::of_flags(&flags.guest) {
            Ok(requested) => requested,
            Err(failure) => return Ok(skip(&failure.line)),
        },
    };
    let signals = Signals::listen().map_err(|error| ends(Failure::setup(error)))?;
    let made = super::make(&requested);
    if signals.end().is_some() {
        return Err(ends(Failure::setup("interrupted: git bisect run ends")));
    }
    let made = match made {
        Ok(made) => made,
        Err(failure) if failure.status == USAGE => return Err(ends(failure)),
        Err(failure) => return Ok(skip(&failure.line)),
    };
    if !made.is_whole {
        return Ok(conclude(SKIP, "skipped"));
    }
    let command = &flags.guest.command;
    let own = gives_verdicts(command);
    let as_program = command.first().is_some_and(|word| word == OWN_NAME);
    let has_verdicts = if as_program {
        !own || requires_something(command)
    } else {
        !own || made.has_verdicts
    };
    if !has_verdicts {
        return Err(ends(Failure::setup(
            "measure gives no verdict without a requirement: add --max 50us, or use qualify",
        )));
    }
    Ok(match judged(made.status, own) {
        GOOD => conclude(GOOD, "good"),
        BAD => conclude(BAD, "bad"),
        _ => skip(&unjudged(made.status, own)),
    })
}

/// Whether the result of a build can be in a guest. Kernels by name are those of a distribution.
fn uses_what_is_built(flags: &GuestFlags) -> bool {
    let by_name: Vec<String> = DEFAULT_KERNELS.split(',').map(str::to_owned).collect();
    let machine = &flags.machine;
    let with_files =
        machine.rootfs.is_some() || !machine.bring.is_empty() || !machine.module.is_empty();
    flags.kernel != by_name || with_files || !runs_ourselves(&flags.command)
}

/// Whether a command is this program: `measure` and `qualify`, or `punctual` as a program.
fn runs_ourselves(command: &[OsString]) -> bool {
    let first = command.first();
    first.is_none_or(|word| word == OWN_NAME || word.to_str().is_some_and(is_own))
}

/// Whether a command ends with a verdict's exit status: `qualify`, or `punctual qualify`.
fn gives_verdicts(command: &[OsString]) -> bool {
    let verb = match command {
        [name, rest @ ..] if name == OWN_NAME => rest.first(),
        _ => command.first(),
    };
    let bare = command.is_empty();
    bare || verb.is_some_and(|word| word.to_str().is_some_and(is_own))
}

/// Whether `punctual measure` or `qualify` has a limit: without one the exit status is always 0,
/// which makes all commits good.
fn requires_something(command: &[OsString]) -> bool {
    let limits = ["--max", "--percentile", "-b", "--break"];
    let is_limit = |word: &&str| limits.iter().any(|limit| word.starts_with(limit));
    let mut words = command.iter().filter_map(|word| word.to_str());
    words.any(|word| word == "qualify" || is_limit(&word))
}

/// Why a status is neither good nor bad.
fn unjudged(status: u8, is_own: bool) -> String {
    let why = match status {
        SETUP if is_own => "the measurement could not be set up",
        _ if is_own && status == Verdict::Inconclusive.exit_code() => {
            "INCONCLUSIVE: measure for longer (-D)"
        }
        _ if is_own && status == Verdict::Invalid.exit_code() => {
            "INVALID: its conditions were not in force"
        }
        USAGE if is_own => "wrong usage of the command in the guest",
        _ => "the command reports that it cannot test",
    };
    format!("exit status {status} is neither PASS nor FAIL: {why}")
}

/// Judges the commit by the most severe exit status of all cells: the verdict of `measure` and
/// `qualify`, or a program's status as `git bisect run` reads it.
fn judged(status: u8, is_own: bool) -> u8 {
    match status {
        0 => GOOD,
        _ if is_own && status == Verdict::Fail.exit_code() => BAD,
        1..SKIP if !is_own => BAD,
        _ => SKIP,
    }
}

/// Why a build made nothing that can be tested.
#[derive(Debug)]
enum BuildError {
    /// The command failed.
    Failed { line: String, status: ExitStatus },
    /// The shell could not be started.
    NoShell { line: String, source: io::Error },
}

impl fmt::Display for BuildError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Failed { line, status } => write!(f, "--build '{line}' failed: {status}"),
            Self::NoShell { line, source } => {
                write!(f, "--build '{line}': cannot start sh: {source}")
            }
        }
    }
}

impl Error for BuildError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        match self {
            Self::Failed { .. } => None,
            Self::NoShell { source, .. } => Some(source),
        }
    }
}

fn build(line: &str) -> Result<(), BuildError> {
    let status = Command::new("sh").arg("-c").arg(line).status();
    let line = line.to_owned();
    match status {
        Ok(status) if status.success() => Ok(()),
        Ok(status) => Err(BuildError::Failed { line, status }),
        Err(source) => Err(BuildError::NoShell { line, source }),
    }
}

fn skip(why: &str) -> ExitCode {
    out::complain(why);
    conclude(SKIP, "skipped")
}

fn conclude(status: u8, word: &str) -> ExitCode {
    out::complain(&format!("bisect: {word} (exit status {status})"));
    ExitCode::from(status)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn flags_may_come_before_the_verb() {
        let asked = |line: &str| {
            let words: Vec<OsString> = line.split(' ').map(OsString::from).collect();
            is_asked(&words)
        };
        assert!(asked("punctual lab bisect -- measure"));
        assert!(asked("punctual lab --kernel ./vmlinux bisect -- measure"));
        assert!(!asked("punctual lab -- measure bisect"));
        assert!(!asked("punctual measure bisect"));
    }

    #[test]
    fn only_punctual_gives_verdicts_also_when_it_runs_as_a_program() {
        let words = |line: &str| -> Vec<OsString> { line.split(' ').map(Into::into).collect() };
        for (line, verdicts, required) in [
            ("qualify -D 1", true, true),
            ("punctual qualify -D 1", true, true),
            ("punctual measure -l 10", true, false),
            ("punctual measure --max=50us", true, true),
            ("punctual run -- ./test", false, false),
            ("./test qualify", false, true),
        ] {
            assert_eq!(gives_verdicts(&words(line)), verdicts, "{line}");
            assert_eq!(requires_something(&words(line)), required, "{line}");
        }
        assert!(gives_verdicts(&[]) && runs_ourselves(&[]));
        assert!(!runs_ourselves(&words("./test")));
    }

    #[test]
    fn a_status_that_cannot_be_judged_is_explained() {
        for (status, own, words) in [
            (1, true, "could not be set up"),
            (3, true, "INCONCLUSIVE"),
            (4, true, "INVALID"),
            (64, true, "wrong usage"),
            (125, false, "cannot test"),
        ] {
            let line = unjudged(status, own);
            assert!(line.contains(words) && !line.contains('\n'), "{line}");
        }
    }

    #[test]
    fn only_a_verdict_makes_a_commit_good_or_bad() {
        for (status, own, program) in [
            (0, GOOD, GOOD),
            (1, SKIP, BAD),
            (2, BAD, BAD),
            (3, SKIP, BAD),
            (4, SKIP, BAD),
            (64, SKIP, BAD),
            (124, SKIP, BAD),
            (125, SKIP, SKIP),
            (139, SKIP, SKIP),
        ] {
            assert_eq!(judged(status, true), own, "{status}");
            assert_eq!(judged(status, false), program, "{status}");
        }
    }
}
