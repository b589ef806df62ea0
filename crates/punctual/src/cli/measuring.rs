//! `qualify` and `measure`: the same run with different defaults.

use std::io::ErrorKind;
use std::path::Path;
use std::process::{Command, ExitCode};
use std::time::SystemTime;

use punctual_stats::verdict::Outcome;

use super::failure::{Failure, SETUP, USAGE};
use super::flags::{BreachFlags, RunFlags};
use super::out;
use super::screen::Screen;
use crate::conduct::breach::ended_by_breach;
use crate::conduct::{self, ConductError, RunPlan};
use punctual_record::{Demand, Document, RecordError, Run, RunDirectory};
use punctual_report::refusal::refusal;
use punctual_report::view::View;
use punctual_report::{facts, summary_json, terminal, verdict};

/// Makes the run and shows it.
///
/// # Errors
/// Wrong usage, or what could not be set up.
pub fn run(plan: &RunPlan, flags: &RunFlags) -> Result<ExitCode, Failure> {
    let directory = make_directory(plan.output.as_deref(), &plan.verb)?;
    let mut screen = Screen::of_run(flags);
    let outcome = conduct::run(plan, &directory, &mut screen);
    let run = settled(outcome, &mut screen, &directory)?;
    print_breach(&run);
    show(&run, flags.json, flags.quiet, flags.verbose, &directory);
    let status = conclude_breach(&flags.breach, &run, &directory)?;
    Ok(match screen.has_left_changed {
        true => ExitCode::from(SETUP),
        false => status,
    })
}

/// Prints that a latency above the break value ended the run, if one did.
pub(super) fn print_breach(run: &Run) {
    if ended_by_breach(run) {
        let limit_ns = run.request.break_ns.unwrap_or(0);
        out::complain(&format!(
            "-b: a {} above {} ended the run",
            if run.gaps.is_some() { "gap" } else { "latency" },
            punctual_stats::format::duration(limit_ns)
        ));
    }
}

/// Does what [`conclude`] does, then runs the user's command if a latency above the break value
/// ended the run.
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
        Some(line) if ended_by_breach(run) => on_breach(line, run, directory).map(|()| status),
        _ => Ok(status),
    }
}

/// Runs the user's command after everything is saved.
fn on_breach(line: &str, run: &Run, directory: &RunDirectory) -> Result<(), Failure> {
    let worst = run
        .threads
        .iter()
        .max_by_key(|thread| thread.latency.max_ns);
    let worst = worst.map_or((0, 0, 0), |thread| {
        (thread.cpu.unwrap_or(0), thread.tid, thread.latency.max_ns)
    });
    // A watch knows which thread it was: watched threads continue to run, and migrate.
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

/// Prints what could not be saved. If everything was saved, the exit status is the verdict's.
pub(super) fn conclude(run: &Run, directory: &RunDirectory) -> ExitCode {
    saved_or(directory, Some(verdict::exit_status(run)))
}

/// Prints a document that was made of many runs as the flags ask, and ends as [`conclude`] does.
pub(super) fn end<V: View>(
    document: &V,
    (json, quiet): (bool, bool),
    directory: &RunDirectory,
) -> ExitCode {
    if json {
        out::print(&document.json());
    } else if quiet {
        document
            .sentence()
            .inspect(|it| out::print(&format!("{it}\n")));
    } else {
        let style = out::style().with_report(page_of::<V>(directory));
        out::print(&document.summary(&style));
    }
    saved_or(directory, document.outcome().map(Outcome::exit_code))
}

/// The status, if there is one and everything could be saved; what could not is printed.
pub(super) fn saved_or(directory: &RunDirectory, status: Option<u8>) -> ExitCode {
    let unsaved = directory.unsaved();
    for it in &unsaved {
        out::complain(&facts::unsaved(it));
    }
    let status = status.filter(|_| unsaved.is_empty());
    ExitCode::from(status.unwrap_or(SETUP))
}

/// Makes the directory of a run.
///
/// # Errors
/// It cannot be made, or already holds a run. Usage only where another name would help.
pub(super) fn make_directory(output: Option<&Path>, verb: &str) -> Result<RunDirectory, Failure> {
    RunDirectory::create(output, verb, SystemTime::now()).map_err(|error| {
        let status = match &error {
            RecordError::Exists { .. } | RecordError::Foreign { .. } => USAGE,
            RecordError::Create { source, .. } => match source.kind() {
                ErrorKind::NotFound
                | ErrorKind::NotADirectory
                | ErrorKind::AlreadyExists
                | ErrorKind::InvalidInput
                | ErrorKind::InvalidFilename => USAGE,
                _ => SETUP,
            },
            _ => SETUP,
        };
        let line = match output {
            Some(_) => format!("-o: {error}"),
            None => error.to_string(),
        };
        Failure { line, status }
    })
}

/// Saves the page of a document beside it.
///
/// # Errors
/// Why it could not be saved; the directory keeps that too.
pub(super) fn save_page<V: View>(
    document: &V,
    directory: &RunDirectory,
) -> Result<(), RecordError> {
    match (V::PAGE, document.page("")) {
        (Some(name), Some(page)) => directory.save_file(name, page.as_bytes()),
        _ => Ok(()),
    }
}

/// Where the page of a document is, if it could be saved.
pub(super) fn page_of<D: Document>(directory: &RunDirectory) -> Option<String> {
    let place = directory.path().join(D::PAGE?);
    place.exists().then(|| place.display().to_string())
}

/// The finished run. If nothing was measured, its directory is removed.
pub(super) fn settled(
    outcome: Result<Run, ConductError>,
    screen: &mut Screen,
    directory: &RunDirectory,
) -> Result<Run, Failure> {
    screen.clear();
    outcome.map_err(|error| {
        directory.discard_if_empty();
        failed(error)
    })
}

/// Why a run could not be made.
pub(super) fn failed(error: ConductError) -> Failure {
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
}

/// Prints why nothing was measured, except the last line, which it returns.
fn not_in_force(demands: &[Demand]) -> Failure {
    let mut lines = refusal(demands);
    let line = lines.pop().unwrap_or_default();
    lines.iter().for_each(|line| out::complain(line));
    Failure {
        line,
        status: Outcome::Invalid.exit_code(),
    }
}

/// Prints the result of a run.
pub(super) fn show(run: &Run, json: bool, quiet: bool, verbose: bool, directory: &RunDirectory) {
    if json {
        out::print(&summary_json::summary(run));
    } else if quiet {
        out::print(&terminal::verdict_line(run, &out::style()));
    } else {
        let style = out::style().verbose(verbose);
        let style = style.with_report(page_of::<Run>(directory));
        out::print(&terminal::summary(run, &style));
    }
}
