//! `lab`: real kernels in virtual time.

mod bisect;
mod cells;
mod compare;
mod experiment;
mod flags;
mod plan;
mod progress;
mod verify;

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::{Duration, Instant, SystemTime};

pub use bisect::{ENDS as BISECT_ENDS, is_asked as is_bisect};
pub use flags::{LAB_EXAMPLES, LabFlags};

use super::failure::{Failure, SETUP};
use super::out;
use super::save::save_whole;
use crate::conduct::Signals;
use cells::{Cell, News, Outcome};
use flags::{GuestFlags, HostFlags, LabAction};
use progress::StatusLine;
use punctual_lab::cell::Work;
use punctual_lab::kernel::{self, Cache, Kernel};
use punctual_lab::observer::Observer;
use punctual_lab::{CellPlan, LabError, Qemu};
use punctual_record::lab::{LAB_FILE, LAB_FORMAT, LAB_PAGE, LAB_VERSION, Lab, LabCell, LabVariant};
use punctual_record::{RecordError, RunDirectory, Tool, time};
use punctual_report::lab as report;

/// Makes the cells, or looks at those that were made.
///
/// # Errors
/// Wrong usage, or what could not be set up.
pub fn run(flags: &LabFlags) -> Result<ExitCode, Failure> {
    match &flags.action {
        Some(LabAction::Compare(flags)) => compare::run(flags),
        Some(LabAction::Verify(flags)) => verify::run(flags),
        Some(LabAction::Run(flags)) => Ok(make(&experiment::read(flags)?)?.status.into()),
        Some(LabAction::Bisect(flags)) => bisect::run(flags),
        None => Ok(make(&of_flags(&flags.guest)?)?.status.into()),
    }
}

/// One column of the table.
pub struct Column {
    name: String,
    kernel: String,
    parameters: Vec<String>,
    parts: Vec<plan::Part>,
    /// Which of several commands for its machine it is.
    variant: Option<LabVariant>,
    /// The file that a program leaves its figures in.
    result: Option<String>,
}

/// How making everything ended.
struct Concluded {
    /// The exit status of everything together.
    status: u8,
    /// Whether every cell was made, and saved.
    is_whole: bool,
    /// Whether each has a verdict.
    has_verdicts: bool,
}

/// What is to be made, wherever that was said.
pub struct Wanted<'a> {
    columns: Vec<Column>,
    seeds: u64,
    cpus: usize,
    memory_mib: u64,
    modules: Vec<String>,
    brought: Vec<PathBuf>,
    rootfs: Option<PathBuf>,
    host: &'a HostFlags,
}

fn of_flags(flags: &GuestFlags) -> Result<Wanted<'_>, Failure> {
    let parts = plan::parts(
        flags.load.as_deref(),
        &flags.command,
        flags.rootfs.is_some(),
    )?;
    let column = |name: &String| Column {
        name: name.clone(),
        kernel: name.clone(),
        parameters: flags.param.clone(),
        parts: parts.clone(),
        variant: None,
        result: None,
    };
    Ok(Wanted {
        columns: flags.kernel.iter().map(column).collect(),
        seeds: flags.seeds,
        cpus: flags.cpus,
        memory_mib: flags.mem,
        modules: flags.module.clone(),
        brought: flags.bring.clone(),
        rootfs: flags.rootfs.clone(),
        host: &flags.host,
    })
}

fn make(wanted: &Wanted<'_>) -> Result<Concluded, Failure> {
    let qemu = Qemu::find().map_err(Failure::setup)?;
    let own = own_program()?;
    let mut kernels: Vec<Kernel> = Vec::new();
    for column in &wanted.columns {
        if !kernels.iter().any(|kernel| kernel.asked == column.kernel) {
            kernels.push(find_kernel(&column.kernel)?);
        }
    }
    let cells = planned(wanted, &qemu, &kernels)?;
    for cell in firsts(&cells) {
        // What makes no sense is told before anything runs.
        cell.plan.initramfs(&own).map_err(Failure::setup)?;
    }
    let signals = Signals::listen().map_err(Failure::setup)?;
    let host = wanted.host;
    let directory = make_directory(host)?;
    let program = cells
        .iter()
        .any(|cell| matches!(cell.plan.work, Work::Program { .. }) && cell.result.is_none());
    let tells = !host.quiet && !host.json && !program;
    let jobs = host.jobs.unwrap_or_else(host_cpus).min(cells.len());
    let begin = Instant::now();
    let started = time::rfc3339(SystemTime::now());
    let observer = (!host.no_explain).then(Observer::default);
    directory.reserve_for(LAB_FILE);
    let mut trouble = Vec::new();
    let mut status = StatusLine::new(host.quiet);
    let outcomes = cells::make_all(
        &cells,
        &own,
        jobs,
        observer.as_ref(),
        &|| signals.end().is_some(),
        &mut |news, progress| {
            if let News::Done(cell, outcome) = news {
                trouble.extend(cells::keep(&directory, cell, outcome));
                if tells {
                    status.clear();
                    out::print(&cells::line(cell, outcome, progress));
                }
            }
            status.draw(&progress.line(Instant::now()));
        },
    );
    drop(status);
    let lab = Lab {
        format: LAB_FORMAT.to_owned(),
        version: LAB_VERSION,
        tool: Tool {
            name: "punctual".to_owned(),
            version: env!("CARGO_PKG_VERSION").to_owned(),
        },
        command: std::env::args_os()
            .map(|word| word.to_string_lossy().into_owned())
            .collect(),
        started,
        jobs: jobs as u64,
        host_s: round(begin.elapsed().as_secs_f64()),
        cells: cells
            .iter()
            .zip(&outcomes)
            .map(|(cell, outcome)| cells::entry(cell, outcome))
            .collect(),
    };
    if !outcomes
        .iter()
        .any(|outcome| matches!(outcome, Some(Ok(_))))
    {
        // Nothing was made: nothing is left behind.
        directory.discard_if_empty();
        return Err(Failure::setup(first_error(&outcomes)));
    }
    save(&directory, &lab)?;
    trouble.extend(directory.unsaved());
    if let Some(file) = &host.junit
        && let Err(error) = save_whole(file, report::junit(&lab).as_bytes())
    {
        trouble.push(error.to_string());
    }
    show(host, &lab, &outcomes, program, directory.path());
    trouble.iter().for_each(|line| out::complain(line));
    let status = conclude(&lab, &outcomes);
    let cells = &lab.cells;
    Ok(Concluded {
        status: if trouble.is_empty() { status } else { SETUP },
        is_whole: trouble.is_empty() && cells.iter().all(|cell| cell.status.is_some()),
        has_verdicts: cells.iter().all(|cell| cell.verdict.is_some()),
    })
}

/// All cells, those of a column together.
fn planned<'a>(
    wanted: &Wanted<'_>,
    qemu: &'a Qemu,
    kernels: &'a [Kernel],
) -> Result<Vec<Cell<'a>>, Failure> {
    let names = cells::folders(wanted.columns.iter().map(|column| &*column.name));
    let mut cells = Vec::new();
    for (column, folder) in wanted.columns.iter().zip(&names) {
        let kernel = kernels
            .iter()
            .find(|kernel| kernel.asked == column.kernel)
            .ok_or_else(|| Failure::setup(format!("{}: no such kernel", column.kernel)))?;
        for part in &column.parts {
            for seed in 1..=wanted.seeds {
                let plan = CellPlan {
                    qemu,
                    kernel,
                    parameters: column.parameters.clone(),
                    work: part.work.clone(),
                    modules: wanted.modules.clone(),
                    brought: wanted.brought.clone(),
                    rootfs: wanted.rootfs.clone(),
                    seed,
                    cpus: wanted.cpus,
                    memory_mib: wanted.memory_mib,
                    virtual_limit: Duration::from_nanos(wanted.host.virtual_limit),
                    host_limit: Duration::from_nanos(wanted.host.host_limit),
                    boot_limit: Duration::from_nanos(wanted.host.boot_limit),
                };
                plan.command_line().map_err(Failure::setup)?;
                cells.push(Cell {
                    plan,
                    column: column.name.clone(),
                    load: part.load.clone(),
                    variant: column.variant.clone(),
                    result: column.result.clone(),
                    directory: cells::folder(folder, &part.load, seed, wanted.seeds),
                });
            }
        }
    }
    Ok(cells)
}

/// The first cell of each column.
fn firsts<'a, 'b>(cells: &'a [Cell<'b>]) -> impl Iterator<Item = &'a Cell<'b>> {
    let new = |at: usize| at == 0 || cells[at].column != cells[at - 1].column;
    (0..cells.len())
        .filter(move |at| new(*at))
        .map(|at| &cells[at])
}

fn make_directory(host: &HostFlags) -> Result<RunDirectory, Failure> {
    RunDirectory::create(host.output.as_deref(), "lab", SystemTime::now()).map_err(|error| {
        let usage = matches!(
            error,
            RecordError::Exists { .. } | RecordError::Foreign { .. } | RecordError::Create { .. }
        );
        Failure {
            line: format!("-o: {error}"),
            status: if usage { super::failure::USAGE } else { SETUP },
        }
    })
}

/// This very program.
fn own_program() -> Result<Vec<u8>, Failure> {
    std::fs::read("/proc/self/exe")
        .map_err(|error| Failure::setup(format!("/proc/self/exe: {error}")))
}

/// A kernel, ready to boot; what takes time is told on standard error.
fn find_kernel(name: &str) -> Result<Kernel, Failure> {
    let cache = Cache::of_user().map_err(Failure::setup)?;
    kernel::find(name, &cache, &mut |line| out::complain(line)).map_err(Failure::setup)
}

fn host_cpus() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from)
}

/// Seconds with what they are worth of digits.
fn round(seconds: f64) -> f64 {
    (seconds * 1000.0).round() / 1000.0
}

fn save(directory: &RunDirectory, lab: &Lab) -> Result<(), Failure> {
    let mut bytes = serde_json::to_vec_pretty(lab).map_err(Failure::setup)?;
    bytes.push(b'\n');
    // What becomes of each is noted in the directory.
    let _ = directory.save_file(LAB_FILE, &bytes);
    directory.release();
    let _ = directory.save_file(LAB_PAGE, report::page(lab, "").as_bytes());
    Ok(())
}

fn show(flags: &HostFlags, lab: &Lab, outcomes: &[Outcome], program: bool, directory: &Path) {
    if flags.json {
        out::print(&punctual_report::summary_json::of_lab(lab));
        return;
    }
    if program {
        // What a program prints is what it was run for.
        for (cell, outcome) in lab.cells.iter().zip(outcomes) {
            let Some(Ok(made)) = outcome else { continue };
            if lab.cells.len() > 1 && !flags.quiet {
                out::print(&format!("== {}\n", report::label(cell)));
            }
            out::print(&String::from_utf8_lossy(&made.stdout));
            out::pass_on(&String::from_utf8_lossy(&made.stderr));
        }
        if flags.explain {
            out::print(&report::bills(lab, &out::style()));
        }
    } else if !flags.quiet {
        let place = directory.join(LAB_PAGE).display().to_string();
        out::print(&report::tables(lab, &out::style().with_report(place)));
        if flags.explain {
            out::print(&report::bills(lab, &out::style()));
        }
    }
}

fn first_error(outcomes: &[Outcome]) -> String {
    let error = outcomes.iter().flatten().find_map(|o| o.as_ref().err());
    error.map_or_else(|| LabError::Interrupted.to_string(), ToString::to_string)
}

/// The exit status of everything together: what could not be made first, then the verdicts
/// by their weight, then whatever a program said.
fn conclude(lab: &Lab, outcomes: &[Outcome]) -> u8 {
    for (cell, outcome) in lab.cells.iter().zip(outcomes) {
        match outcome {
            Some(Ok(_)) => {}
            Some(Err(error)) => out::complain(&format!("{}: {error}", report::label(cell))),
            None => out::complain(&format!("{}: not made: interrupted", report::label(cell))),
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
