//! `lab bisect`: one commit judged, in the exit statuses of `git bisect run`.

use std::ffi::OsString;
use std::process::{Command, ExitCode};

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
/// The commit can't be judged, and git takes another.
const SKIP: u8 = 125;
/// git ends the bisection: no commit can be judged in this way. From 128 on it does so.
pub const ENDS: u8 = 128;

/// Whether a command line is `lab bisect`. Wrong usage must not make all commits bad.
#[must_use]
pub fn is_asked(arguments: &[OsString]) -> bool {
    let [_, verb, rest @ ..] = arguments else {
        return false;
    };
    // Flags may stand before it.
    let mut own = rest.iter().take_while(|word| *word != "--");
    verb == "lab" && own.any(|word| word == "bisect")
}

/// Builds, makes the cells, and judges.
///
/// # Errors
/// What no other commit would change: wrong usage, no QEMU.
pub fn run(flags: &LabBisectFlags) -> Result<ExitCode, Failure> {
    let ends = |failure: Failure| Failure {
        status: ENDS,
        ..failure
    };
    if let Some(line) = &flags.build
        && !uses_what_is_built(&flags.guest)
    {
        return Err(ends(Failure::setup(format!(
            "--build '{line}': nothing that it builds is booted or run: add what it builds, \
             --kernel ./vmlinux or -- ./PROGRAM",
        ))));
    }
    // Before minutes are spent on a build.
    Qemu::find().map_err(|error| ends(Failure::setup(error)))?;
    let wanted = super::of_flags(&flags.guest).map_err(|failure| match failure.status {
        // A program that the build makes may lack yet.
        _ if flags.build.is_some() && failure.status != USAGE => failure,
        _ => ends(failure),
    });
    if let Err(failure) = &wanted
        && failure.status == ENDS
    {
        return Err(failure.clone());
    }
    if let Some(line) = &flags.build
        && let Err(why) = build(line)
    {
        return Ok(skip(&why));
    }
    let wanted = match wanted {
        Ok(wanted) => wanted,
        Err(_) => match super::of_flags(&flags.guest) {
            Ok(wanted) => wanted,
            Err(failure) => return Ok(skip(&failure.line)),
        },
    };
    let signals = Signals::listen().map_err(|error| ends(Failure::setup(error)))?;
    let made = super::make(&wanted);
    if signals.end().is_some() {
        return Err(ends(Failure::setup("interrupted: git bisect run ends")));
    }
    let made = match made {
        Ok(made) => made,
        Err(failure) if failure.status == USAGE => return Err(ends(failure)),
        Err(failure) => return Ok(skip(&failure.line)),
    };
    if !made.is_whole {
        return Ok(told(SKIP, "skipped"));
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
            "measure gives no verdict unless something is required: add --max 50us, or use qualify",
        )));
    }
    Ok(match judged(made.status, own) {
        GOOD => told(GOOD, "good"),
        BAD => told(BAD, "bad"),
        _ => skip(&unjudged(made.status, own)),
    })
}

/// Whether anything that a build makes can be in a guest. Kernels by name are a distribution's.
fn uses_what_is_built(flags: &GuestFlags) -> bool {
    let by_name: Vec<String> = DEFAULT_KERNELS.split(',').map(str::to_owned).collect();
    let with_files = flags.rootfs.is_some() || !flags.bring.is_empty() || !flags.module.is_empty();
    flags.kernel != by_name || with_files || !runs_ourselves(&flags.command)
}

/// Whether a command is this program, as a verb of the laboratory's or as a program like any other.
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

/// Whether `punctual measure` or `qualify` has a limit: without one it ends with 0, which would
/// make all commits good.
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
            "INCONCLUSIVE: let it run for longer (-D)"
        }
        _ if is_own && status == Verdict::Invalid.exit_code() => {
            "INVALID: its conditions were not in force"
        }
        USAGE if is_own => "wrong usage of the command in the guest",
        _ => "it says that it can't be tested",
    };
    format!("exit status {status} is neither PASS nor FAIL: {why}")
}

/// What the most severe exit status of all cells says of the commit: of `measure` and `qualify` by
/// their verdict, of a program as `git bisect run` takes its status.
fn judged(status: u8, is_own: bool) -> u8 {
    match status {
        0 => GOOD,
        _ if is_own && status == Verdict::Fail.exit_code() => BAD,
        1..SKIP if !is_own => BAD,
        _ => SKIP,
    }
}

fn build(line: &str) -> Result<(), String> {
    let status = Command::new("sh").arg("-c").arg(line).status();
    match status {
        Ok(status) if status.success() => Ok(()),
        Ok(status) => Err(format!("--build '{line}' failed: {status}")),
        Err(error) => Err(format!("--build '{line}': sh can't be run: {error}")),
    }
}

fn skip(why: &str) -> ExitCode {
    out::complain(why);
    told(SKIP, "skipped")
}

fn told(status: u8, word: &str) -> ExitCode {
    out::complain(&format!("bisect: {word} (exit status {status})"));
    ExitCode::from(status)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn flags_may_stand_before_it() {
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
    fn verdicts_come_from_ourselves_alone_also_as_a_program() {
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
    fn what_cannot_be_judged_is_said() {
        for (status, own, words) in [
            (1, true, "could not be set up"),
            (3, true, "INCONCLUSIVE"),
            (4, true, "INVALID"),
            (64, true, "wrong usage"),
            (125, false, "can't be tested"),
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
