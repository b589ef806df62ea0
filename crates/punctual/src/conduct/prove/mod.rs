//! An experiment: its knobs are checked, its journal is written, and then a run is made in which
//! they are switched.

mod error;
mod knobs;

use std::path::PathBuf;

use punctual_machine::tune::{Journal, Session};
use punctual_record::experiment::Experiment;
use punctual_record::{Run, RunDirectory};

use super::error::ConductError;
use super::experiment::{Design, Experimenting};
use super::progress::Progress;
use super::run::{RunPlan, run_with};

pub use error::KnobError;
pub use knobs::{PlannedKnob, ProveKnobs};

/// An experiment to be made.
#[derive(Debug, Clone)]
pub struct ProvePlan {
    /// The run in which knobs are switched.
    pub run: RunPlan,
    /// The directory of the journal.
    pub state: PathBuf,
    /// Its pilot, and whether knobs are screened.
    pub design: Design,
    /// The experiment, without its knobs.
    pub experiment: Experiment,
}

/// Makes an experiment in an existing directory, and returns its record, judged and saved.
///
/// # Errors
/// What could not be set up; then nothing was changed.
pub fn prove(
    plan: &ProvePlan,
    knobs: ProveKnobs,
    directory: &RunDirectory,
    progress: &mut dyn Progress,
) -> Result<Run, ConductError> {
    let journal = Journal::open(&plan.state).map_err(ConductError::Switch)?;
    let (changes, places) = knobs.changes();
    let session = Session::begin(journal, &changes).map_err(ConductError::Switch)?;
    let experiment = Experiment {
        knobs: knobs.into_knobs(),
        ..plan.experiment.clone()
    };
    progress.experiment(&experiment);
    let companion = Experimenting::new(experiment, plan.design, session, places);
    run_with(&plan.run, directory, progress, Some(Box::new(companion)))
}
