//! `qualify` and `measure`: the same run with other defaults.

use std::path::Path;
use std::process::{Command, ExitCode};
use std::time::SystemTime;

use punctual_stats::verdict::Outcome;

use super::failure::{Failure, SETUP, USAGE};
use super::flags::{BreachFlags, RunFlags};
use super::out;
use super::screen::Screen;
use crate::conduct::breach::broke;
use crate::conduct::{self, ConductError, RunPlan};
use punctual_record::{Demand, RecordError, Run, RunDirectory};
use punctual_report::refusal::refusal;
use punctual_report::{facts, summary_json, terminal};

/// Makes the run and shows it.
///
/// # Errors
/// Wrong usage, or what could not be set up.
pub fn run(plan: &RunPlan, flags: &RunFlags) -> Result<ExitCode, Failure> {
    let directory = make_directory(plan.output.as_deref(), &plan.verb)?;
    let mut screen = Screen::new(
        flags.quiet || flags.json,
        flags.live,
        flags.verbose,
        flags.nanoseconds,
    );
    let outcome = conduct::run(plan, &directory, &mut screen);
    let run = settled(outcome, &mut screen, &directory)?;
    tell_breach(&run);
    show(&run, flags.json, flags.quiet, flags.verbose, &directory);
    conclude_breach(&flags.breach, &run, &directory)
}

/// Says that a latency above the break value ended the run, where one did.
pub(super) fn tell_breach(run: &Run) {
    if broke(run) {
        let limit_ns = run.request.break_ns.unwrap_or(0);
        out::complain(&format!(
            "-b: a {} above {} ended the run",
            if run.gaps.is_some() { "gap" } else { "latency" },
            punctual_stats::format::duration(limit_ns)
        ));
    }
}

/// As [`conclude`], and then runs the user's command if a latency above the break value ended
/// the run.
///
/// # Errors
/// The command failed.
pub(super) fn conclude_breach(
    flags: &BreachFlags,
    run: &Run,
    directory: &RunDirectory,
) -> Result<ExitCode, Failure> {
    let status = conclude(run, directory);
    match &flags.on_breach {
        Some(line) if broke(run) => on_breach(line, run, directory).map(|()| status),
        _ => Ok(status),
    }
}

/// Runs the user's command, once everything is saved.
fn on_breach(line: &str, run: &Run, directory: &RunDirectory) -> Result<(), Failure> {
    let worst = run
        .threads
        .iter()
        .max_by_key(|thread| thread.latency.max_ns);
    let worst = worst.map_or((0, 0, 0), |thread| {
        (thread.cpu.unwrap_or(0), thread.tid, thread.latency.max_ns)
    });
    // A watch knows which one it was: threads that are watched go on, and move.
    let watched = run.watch.as_ref().and_then(|watch| watch.breach.as_ref());
    let (cpu, tid, latency_ns) = watched.map_or(worst, |it| {
        (
            it.cpu as usize,
            it.task.tid.try_into().unwrap_or(0),
            it.latency_ns,
        )
    });
    let status = Command::new("sh")
        .args(["-c", line])
        .env("PUNCTUAL_RUN", directory.path())
        .env("PUNCTUAL_CPU", cpu.to_string())
        .env("PUNCTUAL_TID", tid.to_string())
        .env("PUNCTUAL_LATENCY_NS", latency_ns.to_string())
        .status();
    match status {
        Ok(status) if status.success() => Ok(()),
        Ok(status) => Err(Failure::setup(format!(
            "--on-breach '{line}' failed: {status}"
        ))),
        Err(error) => Err(Failure::setup(format!("--on-breach '{line}': {error}"))),
    }
}

/// Tells what could not be saved. The exit status is the verdict's where all is there.
pub(super) fn conclude(run: &Run, directory: &RunDirectory) -> ExitCode {
    let unsaved = directory.unsaved();
    unsaved
        .iter()
        .for_each(|it| out::complain(&facts::unsaved(it)));
    if unsaved.is_empty() {
        exit_code(run)
    } else {
        ExitCode::from(SETUP)
    }
}

/// The directory of a run that is to be made.
///
/// # Errors
/// It can't be made, or holds a run already.
pub(super) fn make_directory(output: Option<&Path>, verb: &str) -> Result<RunDirectory, Failure> {
    RunDirectory::create(output, verb, SystemTime::now()).map_err(|error| {
        let status = match error {
            RecordError::Exists { .. }
            | RecordError::Foreign { .. }
            | RecordError::Create { .. } => USAGE,
            _ => SETUP,
        };
        Failure {
            line: format!("-o: {error}"),
            status,
        }
    })
}

/// The run that came of it. Where nothing was measured, nothing is left behind.
pub(super) fn settled(
    outcome: Result<Run, ConductError>,
    screen: &mut Screen,
    directory: &RunDirectory,
) -> Result<Run, Failure> {
    screen.clear();
    outcome.map_err(|error| {
        directory.discard_if_empty();
        match error {
            ConductError::NotInForce(demands) => not_in_force(&demands),
            ConductError::Interrupted(signal) => Failure::setup(format!(
                "ended by a signal ({}) before anything was measured: nothing is kept",
                facts::ending(signal, "")
            )),
            ConductError::Watch(why) => Failure::setup(format!(
                "nothing can be watched: {}",
                facts::unavailable(&why)
            )),
            error => Failure::setup(error),
        }
    })
}

/// Says why nothing was measured, all but the last line.
fn not_in_force(demands: &[Demand]) -> Failure {
    let mut lines = refusal(demands);
    let line = lines.pop().unwrap_or_default();
    lines.iter().for_each(|line| out::complain(line));
    Failure {
        line,
        status: Outcome::Invalid.exit_code(),
    }
}

/// Prints what came of a run.
pub(super) fn show(run: &Run, json: bool, quiet: bool, verbose: bool, directory: &RunDirectory) {
    let place = directory.path().join("report.html").display().to_string();
    if json {
        out::print(&summary_json::summary(run));
    } else if quiet {
        out::print(&terminal::verdict_line(run, &out::style()));
    } else {
        let style = out::style().verbose(verbose).with_report(place);
        out::print(&terminal::summary(run, &style));
    }
}

/// The exit status that a record stands for: its verdict's, or where nothing was
/// required that of a FAIL if the break value was exceeded, and 0 otherwise.
pub fn exit_code(run: &Run) -> ExitCode {
    match &run.verdict {
        Some(verdict) => ExitCode::from(verdict.outcome.exit_code()),
        None if broke(run) => ExitCode::from(Outcome::Fail.exit_code()),
        None => ExitCode::SUCCESS,
    }
}
