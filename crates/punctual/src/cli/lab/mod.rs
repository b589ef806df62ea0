//! `lab`: real kernels in virtual time.

mod bisect;
mod bound;
mod compare;
mod cost;
mod experiment;
mod flags;
mod gate;
mod meaning;
mod parts;
mod prove;
mod screen;
pub(super) mod status;
mod taskset;
mod values;
mod verify;

use std::process::ExitCode;
use std::time::Duration;

pub use bisect::{ENDS as BISECT_ENDS, is_asked as is_bisect};
pub use flags::{LAB_EXAMPLES, LabFlags, MachineFlags};

use super::failure::{Failure, SETUP};
use super::measuring::{make_directory, page_of, save_page};
use super::out;
use super::save::save_whole;
use crate::conduct::Signals;
use crate::conduct::lab::{self, Bench, Cell, Column, LabPlan, Limits, Making, Outcome, Watched};
use flags::{GuestFlags, HostFlags, LabAction};
use parts::Guest;
use punctual_lab::CellResult;
use punctual_lab::cell::Work;
use punctual_record::RunDirectory;
use punctual_record::lab::{Lab, LabCell, NoResult};
use punctual_record::laboratory::Architecture;
use punctual_report::{facts, formats, lab as report};
use punctual_stats::verdict::Outcome as VerdictOutcome;
use screen::LabScreen;

/// Runs the cells, or reads the records of earlier labs.
///
/// # Errors
/// Wrong usage, or what could not be set up.
pub fn run(flags: &LabFlags) -> Result<ExitCode, Failure> {
    match &flags.action {
        Some(LabAction::Compare(flags)) => compare::run(flags),
        Some(LabAction::Verify(flags)) => verify::run(flags),
        Some(LabAction::Gate(flags)) => gate::run(flags),
        Some(LabAction::Run(flags)) => Ok(make(&experiment::read(flags)?)?.status.into()),
        Some(LabAction::Prove(flags)) => prove::run(flags),
        Some(LabAction::Bisect(flags)) => bisect::run(flags),
        Some(LabAction::Bound(flags)) => bound::run(flags),
        Some(LabAction::Cost(flags)) => cost::run(flags),
        None => Ok(make(&of_flags(&flags.guest)?)?.status.into()),
    }
}

/// How running the lab ended.
struct Concluded {
    /// The exit status of the whole lab.
    status: u8,
    /// Whether every cell ran and was saved.
    is_whole: bool,
    /// Whether each cell has a verdict.
    has_verdicts: bool,
    /// Whether a guest failed or something could not be saved; an interrupt is no failure.
    has_failed: bool,
    /// Whether each cell has a bound.
    bounded: bool,
    /// Its record.
    lab: Lab,
    /// How an experiment with boot parameters ended.
    proof: Option<VerdictOutcome>,
}

/// The lab that flags or an experiment describe, and how the host runs it.
pub struct Requested<'a> {
    lab: LabPlan,
    host: &'a HostFlags,
}

fn of_flags(flags: &GuestFlags) -> Result<Requested<'_>, Failure> {
    let parts = parts::parts(flags.load.as_deref(), &flags.command, guest(flags))?;
    let column = |name: &String| Column {
        name: name.clone(),
        kernel: name.clone(),
        parameters: flags.machine.param.clone(),
        parts: parts.clone(),
        variant: None,
        result: None,
    };
    Ok(Requested {
        lab: LabPlan {
            columns: flags.kernel.iter().map(column).collect(),
            seeds: flags.seeds,
            cpus: flags.cpus,
            ..lab_of(&flags.machine, &flags.host)
        },
        host: &flags.host,
    })
}

/// What can run in the guests of these flags.
fn guest(flags: &GuestFlags) -> Guest {
    Guest {
        architecture: flags.machine.arch,
        is_rooted: flags.machine.rootfs.is_some(),
        cpus: flags.cpus,
        explains: flags.host.explain,
    }
}

/// A lab without columns on one processor, with one seed.
fn lab_of(machine: &MachineFlags, host: &HostFlags) -> LabPlan {
    LabPlan {
        architecture: machine.arch,
        columns: Vec::new(),
        seeds: 1,
        cpus: 1,
        memory_mib: machine.mem,
        modules: machine.module.clone(),
        brought: machine.bring.clone(),
        rootfs: machine.rootfs.clone(),
        limits: limits(host),
    }
}

fn limits(flags: &HostFlags) -> Limits {
    Limits {
        virtual_time: Duration::from_nanos(flags.virtual_limit),
        host: Duration::from_nanos(flags.host_limit),
        boot: Duration::from_nanos(flags.boot_limit),
    }
}

fn making(jobs: usize, watched: Watched) -> Making<'static> {
    Making {
        jobs,
        watched,
        read: formats::detect_and_parse,
        proving: None,
        counting: None,
    }
}

fn make(requested: &Requested<'_>) -> Result<Concluded, Failure> {
    let columns = requested.lab.columns.iter();
    let bench = bench(
        requested.lab.architecture,
        columns.map(|column| &*column.kernel),
    )?;
    let cells = lab::plan(&requested.lab, &bench).map_err(Failure::setup)?;
    let signals = Signals::listen().map_err(Failure::setup)?;
    let watched = watched(requested.host);
    let making = making(jobs(requested.host, cells.len()), watched);
    make_cells(&cells, requested.host, &bench, &signals, &making)
}

/// What is traced of the guests.
fn watched(host: &HostFlags) -> Watched {
    match host.no_explain {
        true => Watched::Nothing,
        false => Watched::Bills,
    }
}

pub(super) fn bench<'k>(
    architecture: Architecture,
    kernels: impl Iterator<Item = &'k str>,
) -> Result<Bench, Failure> {
    Bench::find(architecture, kernels, &mut |step| {
        out::complain(&step.to_string())
    })
    .map_err(Failure::setup)
}

/// A lab that ran, and was saved.
struct Made {
    lab: Lab,
    outcomes: Vec<Outcome>,
    /// What could not be saved.
    trouble: Vec<String>,
    directory: RunDirectory,
}

/// Runs cells, and saves them with their page.
fn run_cells(
    cells: &[Cell<'_>],
    host: &HostFlags,
    bench: &Bench,
    signals: &Signals,
    making: &Making<'_>,
) -> Result<Made, Failure> {
    let directory = make_directory(host.output.as_deref(), "lab")?;
    let command = std::env::args_os().map(|word| word.to_string_lossy().into_owned());
    let is_alone = !host.quiet && !host.json && !runs_program(cells, making);
    let mut screen = LabScreen::new(host.quiet, is_alone);
    let made = lab::make(
        cells,
        bench,
        making,
        &directory,
        command.collect(),
        &|| signals.end().is_some(),
        &mut screen,
    );
    drop(screen);
    if let Some(why) = made.failure() {
        // No cell ran: no directory is left behind.
        directory.discard_if_empty();
        return Err(Failure::setup(report::no_result(&why)));
    }
    let (lab, mut unsaved) = (made.lab, made.unsaved);
    // The directory keeps any error.
    let _ = save_page(&lab, &directory);
    unsaved.extend(directory.unsaved());
    Ok(Made {
        lab,
        outcomes: made.outcomes,
        trouble: unsaved.iter().map(facts::unsaved).collect(),
        directory,
    })
}

/// Saves a suite of tests for CI, if one is wanted; says why it could not be saved.
fn save_suite(host: &HostFlags, suite: impl FnOnce() -> String) -> Option<String> {
    let saved = save_whole(host.junit.as_deref()?, suite().as_bytes());
    saved.err().map(|error| error.to_string())
}

/// Whether the output of programs is the result.
fn runs_program(cells: &[Cell<'_>], making: &Making<'_>) -> bool {
    let prints =
        |cell: &Cell<'_>| matches!(cell.plan.work, Work::Program { .. }) && cell.result.is_none();
    making.counting.is_none() && cells.iter().any(prints)
}

fn make_cells(
    cells: &[Cell<'_>],
    host: &HostFlags,
    bench: &Bench,
    signals: &Signals,
    making: &Making<'_>,
) -> Result<Concluded, Failure> {
    let made = run_cells(cells, host, bench, signals, making)?;
    let (lab, mut trouble) = (&made.lab, made.trouble);
    trouble.extend(save_suite(host, || report::junit(lab)));
    let program = runs_program(cells, making);
    show(host, lab, &made.outcomes, program, &made.directory);
    trouble.iter().for_each(|line| out::complain(line));
    let status = conclude(lab, &made.outcomes);
    let cells = &lab.cells;
    Ok(Concluded {
        status: if trouble.is_empty() { status } else { SETUP },
        is_whole: trouble.is_empty() && cells.iter().all(|cell| cell.status.is_some()),
        has_verdicts: cells.iter().all(|cell| cell.verdict.is_some()),
        bounded: cells.iter().all(|cell| cell.bound.is_some()),
        has_failed: !trouble.is_empty() || made.outcomes.iter().flatten().any(has_failed),
        proof: lab.proof.as_ref().map(report::proof_outcome),
        lab: made.lab,
    })
}

/// Refuses flags of bills where there are none.
fn refuse_bills(host: &HostFlags) -> Result<(), Failure> {
    match host.explain || host.no_explain {
        false => Ok(()),
        true => Err(Failure::usage(
            "--explain, --no-explain: bills are those of `punctual lab`: leave them out",
        )),
    }
}

fn has_failed(outcome: &Result<CellResult, NoResult>) -> bool {
    matches!(outcome, Err(why) if *why != NoResult::Interrupted)
}

/// How many guests run in parallel.
fn jobs(host: &HostFlags, cells: usize) -> usize {
    host.jobs.unwrap_or_else(host_cpus).min(cells)
}

pub(super) fn host_cpus() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from)
}

fn show(
    flags: &HostFlags,
    lab: &Lab,
    outcomes: &[Outcome],
    program: bool,
    directory: &RunDirectory,
) {
    if flags.json {
        out::print(&punctual_report::summary_json::of_lab(lab));
        return;
    }
    if program {
        // The output of a program is its result.
        for (cell, outcome) in lab.cells.iter().zip(outcomes) {
            let Some(Ok(made)) = outcome else { continue };
            if lab.cells.len() > 1 && !flags.quiet {
                out::print(&format!("== {}\n", report::label(cell)));
            }
            out::print(&String::from_utf8_lossy(&made.stdout));
            out::print_stderr(&String::from_utf8_lossy(&made.stderr));
        }
        if flags.explain {
            out::print(&report::bills(lab, &out::style()));
        }
    } else if !flags.quiet {
        let page = page_of::<Lab>(directory);
        out::print(&report::tables(lab, &out::style().with_report(page)));
        if flags.explain {
            out::print(&report::bills(lab, &out::style()));
        }
    }
}

/// The exit status of the whole lab: 1 if a cell could not run, else the most severe verdict, else
/// the first status of a program that is not 0.
fn conclude(lab: &Lab, outcomes: &[Outcome]) -> u8 {
    for (cell, outcome) in lab.cells.iter().zip(outcomes) {
        match outcome {
            Some(Ok(_)) => {}
            Some(Err(why)) => {
                let why = report::no_result(why);
                out::complain(&format!("{}: {why}", report::label(cell)));
            }
            // Of many guests a line for each says nothing more.
            None if lab.proof.is_some() => {}
            None => out::complain(&format!("{}: not run: interrupted", report::label(cell))),
        }
    }
    if outcomes
        .iter()
        .any(|outcome| !matches!(outcome, Some(Ok(_))))
    {
        return SETUP;
    }
    worst_status(&lab.cells)
}

fn worst_status(cells: &[LabCell]) -> u8 {
    let all: Vec<i32> = cells.iter().filter_map(|cell| cell.status).collect();
    let own = cells.iter().all(|cell| {
        cell.laboratory
            .as_ref()
            .is_none_or(|lab| lab.program.is_none())
    });
    let weighty = if own { &[1, 2, 4, 3][..] } else { &[] };
    let worst = weighty
        .iter()
        .find(|status| all.contains(status))
        .or_else(|| all.iter().find(|status| **status != 0));
    worst.map_or(0, |status| u8::try_from(*status).unwrap_or(SETUP))
}
