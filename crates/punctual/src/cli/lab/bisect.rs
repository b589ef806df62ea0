//! `lab bisect`: one commit judged, in the exit statuses of `git bisect run`.

use std::ffi::OsString;
use std::process::{Command, ExitCode};

use punctual_stats::verdict::Outcome as Verdict;

use super::super::failure::{Failure, USAGE};
use super::super::out;
use super::flags::LabBisectFlags;
use super::plan::is_own;
use crate::conduct::Signals;
use crate::lab::Qemu;

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
    let own = flags.guest.command.first();
    let own = own.is_none_or(|word| word.to_str().is_some_and(is_own));
    if own && !made.has_verdicts {
        return Err(ends(Failure::setup(
            "measure gives no verdict unless something is required: add --max 50us, or use qualify",
        )));
    }
    Ok(match judged(made.status, own) {
        GOOD => told(GOOD, "good"),
        BAD => told(BAD, "bad"),
        _ => skip(&format!(
            "exit status {} is neither PASS nor FAIL",
            made.status
        )),
    })
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
    fn only_a_verdict_makes_a_commit_good_or_bad() {
        for (status, own, program) in [
            (0, GOOD, GOOD),
            (1, SKIP, BAD),
            (2, BAD, BAD),
            (3, SKIP, BAD),
            (4, SKIP, BAD),
            (124, SKIP, BAD),
            (125, SKIP, SKIP),
            (139, SKIP, SKIP),
        ] {
            assert_eq!(judged(status, true), own, "{status}");
            assert_eq!(judged(status, false), program, "{status}");
        }
    }
}
