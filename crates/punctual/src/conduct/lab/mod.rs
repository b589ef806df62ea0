//! A lab: its cells planned, made in parallel, and kept.

mod cells;
mod forecast;
mod plan;
pub mod verify;

use std::path::Path;
use std::time::{Instant, SystemTime};

pub use cells::{Cell, Outcome, STDOUT, figures};
use cells::{News, make_all};
pub use forecast::Forecast;
pub use plan::{Bench, Column, LabPlan, Limits, NoBench, Part, plan};
use punctual_lab::{LabError, Made};
use punctual_record::lab::{LAB_FILE, LAB_FORMAT, LAB_VERSION, Lab};
use punctual_record::{RecordError, Run, RunDirectory, Tool, time};
use punctual_record::{Unsaved, UnsavedPart, UnsavedReason};

/// Where a lab, while it goes, says how it stands.
pub trait LabProgress {
    /// How far it has come: each second, and whenever a cell begins or is done.
    fn tick(&mut self, forecast: &Forecast);

    /// A cell is done, and what it left is saved.
    fn done(&mut self, cell: &Cell<'_>, outcome: &Result<Made, LabError>, forecast: &Forecast) {
        let _ = (cell, outcome, forecast);
    }

    /// The run of a cell was just saved: what can be drawn from it goes beside it.
    fn saved(&mut self, run: &Run, directory: &RunDirectory) {
        let _ = (run, directory);
    }
}

/// How cells are made on this host.
#[derive(Debug, Clone, Copy)]
pub struct Making {
    /// Guests that run in parallel.
    pub jobs: usize,
    /// Watch what the guests execute.
    pub explain: bool,
    /// Reads what a program leaves as its figures, in whatever format.
    pub read: fn(&Path, &[u8]) -> Result<Run, RecordError>,
}

/// A lab that was made.
pub struct MadeLab {
    /// Its record.
    pub lab: Lab,
    /// What came of each cell, in their order.
    pub outcomes: Vec<Outcome>,
    /// What could not be saved.
    pub unsaved: Vec<Unsaved>,
}

impl MadeLab {
    /// Why nothing was made, if no cell was.
    #[must_use]
    pub fn failure(&self) -> Option<String> {
        if self.outcomes.iter().any(is_made) {
            return None;
        }
        let mut errors = self.outcomes.iter().flatten();
        let error = errors.find_map(|outcome| outcome.as_ref().err());
        Some(error.map_or_else(|| LabError::Interrupted.to_string(), ToString::to_string))
    }
}

/// Makes all cells, and saves what each leaves and the lab's record in a directory that exists
/// already; `ends` says whether somebody ended us. Where no cell was made, no record is saved.
pub fn make(
    cells: &[Cell<'_>],
    bench: &Bench,
    making: &Making,
    directory: &RunDirectory,
    command: Vec<String>,
    ends: &(dyn Fn() -> bool + Sync),
    progress: &mut dyn LabProgress,
) -> MadeLab {
    let begin = Instant::now();
    let started = time::rfc3339(SystemTime::now());
    directory.reserve_for(LAB_FILE);
    let mut unsaved = Vec::new();
    let outcomes = make_all(cells, bench, making, ends, &mut |news, forecast| {
        if let News::Done(cell, outcome) = news {
            unsaved.extend(cells::keep(directory, cell, outcome, progress));
            progress.done(cell, outcome, forecast);
        }
        progress.tick(forecast);
    });
    let lab = Lab {
        format: LAB_FORMAT.to_owned(),
        version: LAB_VERSION,
        tool: Tool {
            name: "punctual".to_owned(),
            version: env!("CARGO_PKG_VERSION").to_owned(),
        },
        command,
        started,
        jobs: making.jobs as u64,
        host_s: round(begin.elapsed().as_secs_f64()),
        cells: cells
            .iter()
            .zip(&outcomes)
            .map(|(cell, outcome)| cells::entry(cell, outcome))
            .collect(),
    };
    if outcomes.iter().any(is_made) {
        unsaved.extend(save(&lab, directory).err());
        directory.release();
    }
    MadeLab {
        lab,
        outcomes,
        unsaved,
    }
}

/// What becomes of the file is noted in the directory.
fn save(lab: &Lab, directory: &RunDirectory) -> Result<(), Unsaved> {
    let mut bytes = serde_json::to_vec_pretty(lab).map_err(|error| Unsaved {
        directory: directory.path().display().to_string(),
        parts: vec![UnsavedPart::File {
            name: LAB_FILE.to_owned(),
        }],
        why: UnsavedReason::Error {
            error: error.to_string(),
        },
    })?;
    bytes.push(b'\n');
    let _ = directory.save_file(LAB_FILE, &bytes);
    Ok(())
}

fn is_made(outcome: &Outcome) -> bool {
    matches!(outcome, Some(Ok(_)))
}

/// Seconds with what they are worth of digits.
fn round(seconds: f64) -> f64 {
    (seconds * 1000.0).round() / 1000.0
}
