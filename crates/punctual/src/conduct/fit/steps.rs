//! The runs of a fit: each in a directory of its own.

use std::time::SystemTime;

use punctual_machine::tune::changes_of;
use punctual_record::experiment::{ExcessLimit, Experiment};
use punctual_record::finding::{Check, FindingId};
use punctual_record::{Run, RunDirectory};

use super::super::error::ConductError;
use super::super::experiment::Design;
use super::super::observer::Observer;
use super::super::prove::{PlannedKnob, ProveKnobs, ProvePlan, prove};
use super::super::run::{RunPlan, TunePlan, run};
use super::{AROUND_NS, FitError, FitPlan};

/// What makes the runs.
pub(super) trait Steps {
    /// A qualification with these knobs on, in this directory.
    fn qualify(
        &self,
        name: &str,
        on: &[FindingId],
        progress: &mut dyn Observer,
    ) -> Result<Run, FitError>;

    /// An experiment with these knobs.
    fn prove(
        &self,
        name: &str,
        knobs: &[FindingId],
        within_ns: u64,
        progress: &mut dyn Observer,
    ) -> Result<Run, FitError>;
}

/// Runs on this machine.
pub(super) struct Runs<'r> {
    pub plan: &'r FitPlan,
    pub check: &'r Check,
    pub directory: &'r RunDirectory,
}

impl Runs<'_> {
    /// The directory of a step; it goes with a run of which nothing was measured.
    fn within(
        &self,
        plan: &mut RunPlan,
        name: &str,
        make: impl FnOnce(&RunPlan, &RunDirectory) -> Result<Run, ConductError>,
    ) -> Result<Run, FitError> {
        let path = self.directory.path().join(name);
        let directory = RunDirectory::create(Some(&path), &plan.verb, SystemTime::now())
            .map_err(FitError::Directory)?;
        plan.output = Some(path);
        make(plan, &directory).map_err(|error| {
            directory.discard_if_empty();
            FitError::Run(error)
        })
    }
}

impl Steps for Runs<'_> {
    fn qualify(
        &self,
        name: &str,
        on: &[FindingId],
        progress: &mut dyn Observer,
    ) -> Result<Run, FitError> {
        let mut plan = self.plan.qualify.clone();
        plan.tune = (!on.is_empty()).then(|| TunePlan {
            changes: changes_of(self.check, on),
            is_named: true,
            state: self.plan.state.clone(),
        });
        self.within(&mut plan, name, |plan, directory| {
            run(plan, directory, progress)
        })
    }

    fn prove(
        &self,
        name: &str,
        knobs: &[FindingId],
        within_ns: u64,
        progress: &mut dyn Observer,
    ) -> Result<Run, FitError> {
        let planned = knobs.iter().map(|knob| PlannedKnob {
            name: knob.name().to_owned(),
            changes: changes_of(self.check, &[*knob]),
        });
        let chosen = ProveKnobs::check(planned.collect()).map_err(FitError::Knob)?;
        let deadline_ns = self.plan.deadline_ns;
        let experiment = Experiment {
            budget_ns: within_ns.saturating_sub(AROUND_NS),
            limit: Some(ExcessLimit {
                ns: deadline_ns,
                is_deadline: true,
            }),
            ..self.plan.experiment.clone()
        };
        let mut plan = self.plan.qualify.clone();
        plan.verb = "prove".to_owned();
        plan.check = false;
        plan.claim.requirements.clear();
        plan.duration_ns = Some(experiment.budget_ns.saturating_add(experiment.slot_ns()));
        plan.tracing.above_ns = plan.tracing.above_ns.or(Some(deadline_ns));
        let design = Design {
            pilot_ns: self.plan.pilot_ns,
            screening: Design::screens(knobs.len()),
        };
        self.within(&mut plan, name, |run, directory| {
            let plan = ProvePlan {
                run: run.clone(),
                state: self.plan.state.clone(),
                design,
                experiment,
            };
            prove(&plan, chosen, directory, progress)
        })
    }
}
