//! An experiment: its knobs are checked, its journal is written, and then a run is made in which
//! they are switched.

mod error;
mod knobs;

use std::path::{Path, PathBuf};

use punctual_machine::tune::{Journal, Session};
use punctual_record::experiment::Experiment;
use punctual_record::{Run, RunDirectory};

use super::error::ConductError;
use super::experiment::{Design, Experimenting};
use super::observer::{Observed, Observer};
use super::path::{PathPlan, measure_with};
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

/// An experiment with the path to another machine.
#[derive(Debug, Clone)]
pub struct ProvePathPlan {
    /// The measurement in which knobs are switched.
    pub path: PathPlan,
    /// The directory of the journal.
    pub state: PathBuf,
    /// Its pilot, and whether knobs are screened.
    pub design: Design,
    /// The experiment, without its knobs.
    pub experiment: Experiment,
}

/// Makes an experiment with the path to another machine, as [`prove`].
///
/// # Errors
/// As [`prove`].
pub fn prove_path(
    plan: &ProvePathPlan,
    knobs: ProveKnobs,
    directory: &RunDirectory,
    progress: &mut dyn Observer,
) -> Result<Run, ConductError> {
    let (experiment, session, places) = begin(&plan.state, &plan.experiment, knobs, progress)?;
    let experimenting = Experimenting::of_messages(experiment, plan.design, session, places);
    measure_with(&plan.path, directory, progress, Some(experimenting))
}

/// Makes an experiment in an existing directory, and returns its record, judged and saved.
///
/// # Errors
/// What could not be set up; then nothing was changed.
pub fn prove(
    plan: &ProvePlan,
    knobs: ProveKnobs,
    directory: &RunDirectory,
    progress: &mut dyn Observer,
) -> Result<Run, ConductError> {
    let (experiment, session, places) = begin(&plan.state, &plan.experiment, knobs, progress)?;
    let interval_ns = plan.run.probes.interval.nominal_ns();
    let companion = Experimenting::new(experiment, plan.design, session, places, interval_ns);
    run_with(&plan.run, directory, progress, Some(Box::new(companion)))
}

/// Writes the changes of all knobs to the journal, and shows the experiment with them; returns it, and
/// the changes by the place of each knob's.
fn begin(
    state: &Path,
    experiment: &Experiment,
    knobs: ProveKnobs,
    progress: &mut dyn Observer,
) -> Result<(Experiment, Session, Vec<Vec<usize>>), ConductError> {
    let journal = Journal::open(state).map_err(ConductError::Switch)?;
    let (changes, places) = knobs.changes();
    let session = Session::begin(journal, &changes).map_err(ConductError::Switch)?;
    let experiment = Experiment {
        knobs: knobs.into_knobs(),
        ..experiment.clone()
    };
    progress.observe(Observed::Experiment(&experiment));
    Ok((experiment, session, places))
}
