//! Runs the cells of a lab's record again.

use std::fmt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::super::observer::{Observed, Observer};
use super::cells::{Cell, run_all};
use super::{Bench, Making, Outcome};
use punctual_lab::cell::Work;
use punctual_lab::{CellPlan, LabError};
use punctual_record::document::directory_of;
use punctual_record::lab::{Lab, LabCell};
use punctual_record::laboratory::{Architecture, GuestTime, Laboratory};
use punctual_record::{Document, RecordError, Run};

/// The host's time that one guest may take.
const HOST_LIMIT: Duration = Duration::from_secs(3600);

/// The host's processor time that a boot may take.
const BOOT_LIMIT: Duration = Duration::from_secs(600);

/// One record to run again.
#[derive(Debug)]
pub struct Before {
    /// Its column in the table.
    pub column: String,
    /// Its load's name.
    pub load: String,
    /// Everything that it depends on.
    pub laboratory: Laboratory,
    /// Its run, if `measure` or `qualify` ran in it.
    pub run: Option<Run>,
}

impl Before {
    /// Of a cell, without its run; `None` without a result.
    #[must_use]
    pub fn of(cell: &LabCell) -> Option<Self> {
        Some(Self {
            column: cell.kernel.clone(),
            load: cell.load.clone(),
            laboratory: cell.laboratory.clone()?,
            run: None,
        })
    }
}

/// Why a record cannot be run again.
#[derive(Debug)]
pub enum VerifyError {
    /// It cannot be read.
    Unread(RecordError),
    /// It is not a run of the laboratory.
    NotOfLab(PathBuf),
    /// It is a lab without a result.
    Empty(PathBuf),
    /// Its guest ran at the host's pace.
    AtHostsPace {
        /// The record.
        path: PathBuf,
        /// Processors of the guest.
        cpus: u64,
    },
}

impl fmt::Display for VerifyError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unread(error) => write!(f, "{error}"),
            Self::NotOfLab(path) => write!(
                f,
                "{}: not a run of the laboratory: it cannot be run again",
                path.display()
            ),
            Self::Empty(path) => write!(f, "{}: no cell has a result", path.display()),
            Self::AtHostsPace { path, cpus } => write!(
                f,
                "{}: {cpus} processors ran at the host's pace, which is never repeatable",
                path.display()
            ),
        }
    }
}

impl std::error::Error for VerifyError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Unread(error) => Some(error),
            _ => None,
        }
    }
}

/// The architecture of the guests: all of a lab have the same.
#[must_use]
pub fn architecture(before: &[Before]) -> Architecture {
    let first = before.first();
    first.map_or(Architecture::OWN, |it| it.laboratory.architecture)
}

/// Reads the record to run again: a lab, or one of its runs.
///
/// # Errors
/// What cannot be read or run again.
pub fn read(path: &Path) -> Result<Vec<Before>, VerifyError> {
    if Lab::is_at(path) {
        return of_lab(path);
    }
    let before = of_run(path)?;
    check_pace(path, &before.laboratory)?;
    Ok(vec![before])
}

fn check_pace(path: &Path, laboratory: &Laboratory) -> Result<(), VerifyError> {
    match laboratory.time {
        GuestTime::Virtual => Ok(()),
        GuestTime::Host => Err(VerifyError::AtHostsPace {
            path: path.to_owned(),
            cpus: laboratory.cpus,
        }),
    }
}

/// The cells of a lab that have a result and repeat.
///
/// # Errors
/// What cannot be read or run again.
pub fn read_cells(path: &Path) -> Result<Vec<LabCell>, VerifyError> {
    let lab = Lab::read(path).map_err(VerifyError::Unread)?;
    let mut cells = lab.cells;
    cells.retain(|cell| cell.laboratory.is_some());
    if cells.is_empty() {
        return Err(VerifyError::Empty(path.to_owned()));
    }
    for laboratory in cells.iter().filter_map(|cell| cell.laboratory.as_ref()) {
        check_pace(path, laboratory)?;
    }
    Ok(cells)
}

fn of_run(path: &Path) -> Result<Before, VerifyError> {
    let run = Run::read(path).map_err(VerifyError::Unread)?;
    let laboratory = run.laboratory.clone();
    let laboratory = laboratory.ok_or_else(|| VerifyError::NotOfLab(path.to_owned()))?;
    Ok(Before {
        column: laboratory.kernel.clone(),
        load: run.request.load.clone(),
        laboratory,
        run: Some(run),
    })
}

fn of_lab(path: &Path) -> Result<Vec<Before>, VerifyError> {
    let (cells, directory) = (read_cells(path)?, directory_of(path));
    let of = |cell: LabCell| {
        let mut before = Before::of(&cell)?;
        let is_own = before.laboratory.program.is_none();
        let run = is_own.then(|| Run::read(&directory.join(&cell.directory)));
        match run.transpose() {
            Ok(run) => before.run = run,
            Err(error) => return Some(Err(VerifyError::Unread(error))),
        }
        Some(Ok(before))
    };
    cells.into_iter().filter_map(of).collect()
}

/// Runs each of them again; returns the outcomes, in their order.
///
/// # Errors
/// A kernel is not available.
pub fn again(
    before: &[Before],
    bench: &Bench,
    making: &Making<'_>,
    ends: &(dyn Fn() -> bool + Sync),
    progress: &mut dyn Observer,
) -> Result<Vec<Outcome>, LabError> {
    let cells = cells(before, bench)?;
    let mut tick = |_: super::News<'_, '_>, forecast: &super::Forecast| {
        progress.observe(Observed::Cells(forecast))
    };
    Ok(run_all(&cells, bench, making, ends, &mut tick))
}

/// The same cells again.
///
/// # Errors
/// A kernel is not available.
pub fn cells<'a>(before: &[Before], bench: &'a Bench) -> Result<Vec<Cell<'a>>, LabError> {
    before.iter().map(|record| cell(record, bench)).collect()
}

fn cell<'a>(record: &Before, bench: &'a Bench) -> Result<Cell<'a>, LabError> {
    let lab = &record.laboratory;
    let words = lab.words.clone();
    let plan = CellPlan {
        qemu: bench.qemu(),
        kernel: bench.kernel(&lab.kernel)?,
        parameters: lab.parameters.clone(),
        work: match &lab.program {
            None => Work::Own(words),
            Some(file) => Work::Program {
                file: PathBuf::from(file),
                words,
                load: lab.load.clone(),
            },
        },
        modules: lab.modules.clone(),
        brought: lab.brought.iter().map(PathBuf::from).collect(),
        rootfs: lab.rootfs.as_ref().map(PathBuf::from),
        seed: lab.seed,
        cpus: usize::try_from(lab.cpus).unwrap_or(1).clamp(1, 64),
        memory_mib: lab.memory_mib.clamp(256, 65536),
        virtual_limit: Duration::from_nanos(lab.virtual_limit_ns),
        host_limit: HOST_LIMIT,
        boot_limit: BOOT_LIMIT,
    };
    Ok(Cell {
        plan,
        column: record.column.clone(),
        load: record.load.clone(),
        variant: None,
        result: None,
        directory: String::new(),
    })
}
