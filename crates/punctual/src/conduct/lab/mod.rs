//! A lab: plans its cells, runs them in parallel, and saves them.

mod cells;
mod cost;
mod forecast;
pub mod operations;
mod plan;
mod proof;
mod queue;
pub mod verify;

use std::path::Path;
use std::time::{Instant, SystemTime};

use super::observer::{Observed, Observer};
pub use cells::{Cell, Outcome, STDOUT, figures};
pub(super) use cells::{News, run_all};
pub use cost::Counting;
pub use forecast::Forecast;
pub use plan::{Bench, BenchError, Column, LabPlan, Limits, Part, plan};
pub use proof::{ProofPlan, scout};
use punctual_record::Unsaved;
use punctual_record::lab::{Lab, NoResult};
use punctual_record::{Document, RecordError, Run, RunDirectory, time};

/// What is measured of a guest from outside, which changes nothing in it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Watched {
    /// Nothing.
    Nothing,
    /// What it executed before the latest wake-ups: their bills.
    Bills,
    /// The windows in which it could not have served a wake-up: how late one could have been.
    Windows,
}

/// How cells run on this host.
#[derive(Debug, Clone, Copy)]
pub struct Making<'p> {
    /// Guests that run in parallel.
    pub jobs: usize,
    /// What is measured of the guests from outside.
    pub watched: Watched,
    /// Parses the figures that a program leaves, in any known format.
    pub read: fn(&Path, &[u8]) -> Result<Run, RecordError>,
    /// Which boot parameter helps, if that is the question.
    pub proving: Option<Proving<'p>>,
    /// What is counted in each guest, if the question is what operations cost.
    pub counting: Option<Counting>,
}

/// An experiment with boot parameters, and the seeds that each of its cells runs with.
#[derive(Debug, Clone, Copy)]
pub struct Proving<'p> {
    /// The experiment.
    pub plan: &'p ProofPlan,
    /// From 1 to this.
    pub seeds: u64,
}

/// A lab that has run.
pub struct FinishedLab {
    /// Its record.
    pub lab: Lab,
    /// The outcome of each cell, in their order.
    pub outcomes: Vec<Outcome>,
    /// What could not be saved.
    pub unsaved: Vec<Unsaved>,
}

impl FinishedLab {
    /// Why the first cell has no result, if none has one.
    #[must_use]
    pub fn failure(&self) -> Option<NoResult> {
        if self.outcomes.iter().any(is_made) {
            return None;
        }
        let mut errors = self.outcomes.iter().flatten();
        let error = errors.find_map(|outcome| outcome.as_ref().err());
        Some(error.cloned().unwrap_or(NoResult::Interrupted))
    }
}

/// Runs all cells, and saves each and the lab's record in an existing directory; `ends` says whether
/// a signal came. If no cell has a result, no record is saved.
pub fn make(
    cells: &[Cell<'_>],
    bench: &Bench,
    making: &Making<'_>,
    directory: &RunDirectory,
    command: Vec<String>,
    ends: &(dyn Fn() -> bool + Sync),
    progress: &mut dyn Observer,
) -> FinishedLab {
    let begin = Instant::now();
    let started = time::rfc3339(SystemTime::now());
    directory.reserve::<Lab>();
    let mut unsaved = Vec::new();
    let outcomes = run_all(cells, bench, making, ends, &mut |news, forecast| {
        if let News::Done(cell, outcome) = news {
            unsaved.extend(cells::keep(directory, cell, outcome, progress));
            progress.observe(Observed::CellDone(cell, outcome, forecast));
        }
        progress.observe(Observed::Cells(forecast));
    });
    let lab = Lab {
        format: Lab::FORMAT.to_owned(),
        version: Lab::VERSION,
        tool: crate::conduct::this_tool(),
        command,
        started,
        jobs: making.jobs as u64,
        host_s: round(begin.elapsed().as_secs_f64()),
        cells: cells
            .iter()
            .zip(&outcomes)
            .map(|(cell, outcome)| cells::entry(cell, outcome))
            .collect(),
        proof: making
            .proving
            .map(|it| it.plan.judged(it.seeds, cells, &outcomes)),
    };
    if outcomes.iter().any(is_made) {
        // The directory keeps any error.
        let _ = directory.save(&lab);
        directory.release();
    }
    FinishedLab {
        lab,
        outcomes,
        unsaved,
    }
}

fn is_made(outcome: &Outcome) -> bool {
    matches!(outcome, Some(Ok(_)))
}

/// Seconds, rounded to milliseconds.
fn round(seconds: f64) -> f64 {
    (seconds * 1000.0).round() / 1000.0
}
