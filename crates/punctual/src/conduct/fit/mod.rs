//! Find, change, prove, keep: a qualification, an experiment with the knobs that its bills ask for,
//! and qualifications that find the smallest set of them.

mod course;
mod error;
mod steps;

use std::path::PathBuf;
use std::time::{Instant, SystemTime};

use punctual_machine::tune::{Journal, apply_together, boot, changes_of};
use punctual_record::experiment::{Experiment, ExperimentOutcome};
use punctual_record::finding::{Check, FindingId, StateKind};
use punctual_record::fit::{Fit, FitBoot, FitOutcome, FitStep, FitWork, KeptSetting};
use punctual_record::remedy::BillsAsk;
use punctual_record::tuning::{Change, Knob};
use punctual_record::{Document, Run, RunDirectory, State, time};

use super::error::ConductError;
use super::observer::{Observed, Observer};
use super::run::RunPlan;
use super::signals::Signals;

use course::FitCourse;
use steps::{Runs, Steps};

pub use course::{FitLengths, FitNext};
pub use error::FitError;

/// What a step takes beside its measurement: loads that start and end, the analysis.
const AROUND_NS: u64 = 20_000_000_000;

/// A fit to be made.
#[derive(Debug, Clone)]
pub struct FitPlan {
    /// A qualification.
    pub qualify: RunPlan,
    /// Its length in ns.
    pub qualify_ns: u64,
    /// The deadline in ns.
    pub deadline_ns: u64,
    /// An experiment, without its knobs, budget and limit.
    pub experiment: Experiment,
    /// Length of its pilot in ns.
    pub pilot_ns: u64,
    /// Time for everything, in ns.
    pub budget_ns: u64,
    /// Whether what helps stays changed.
    pub keeps: bool,
    /// The directory of the journal.
    pub state: PathBuf,
}

impl FitPlan {
    /// How long its parts are.
    #[must_use]
    pub fn lengths(&self) -> FitLengths {
        FitLengths {
            deadline_ns: self.deadline_ns,
            budget_ns: self.budget_ns,
            qualify_ns: self.qualify_ns.saturating_add(AROUND_NS),
            pilot_ns: self.pilot_ns,
            slot_ns: self.experiment.slot_ns(),
        }
    }
}

/// Makes all steps in an existing directory, on a machine with these findings, and returns the
/// record, saved.
///
/// # Errors
/// A step that could not be made; nothing is left changed then, or the error names it.
pub fn fit(
    plan: &FitPlan,
    check: &Check,
    directory: &RunDirectory,
    progress: &mut dyn Observer,
) -> Result<Fit, FitError> {
    // Each run listens for itself: these hear what comes between two runs.
    let signals = Signals::listen().map_err(|error| FitError::Run(ConductError::Signals(error)))?;
    let mut fitting = Fitting {
        plan,
        check,
        directory,
        progress,
        is_ended: &|| signals.end().is_some(),
        fit: begun(plan, check),
    };
    fitting.make(&Runs {
        plan,
        check,
        directory,
    })
}

/// The record before the first step.
fn begun(plan: &FitPlan, check: &Check) -> Fit {
    let probes = &plan.qualify.probes;
    Fit {
        format: Fit::FORMAT.to_owned(),
        version: Fit::VERSION,
        tool: super::this_tool(),
        command: plan.qualify.command.clone(),
        hostname: check.hostname.clone(),
        kernel: check.kernel.clone(),
        started: time::rfc3339(SystemTime::now()),
        deadline_ns: plan.deadline_ns,
        load: plan.qualify.load.spec.label(),
        cpus: probes.cpus.clone(),
        tuned_for: check.cpus.clone(),
        priority: probes.policy.priority(),
        budget_ns: plan.budget_ns,
        steps: Vec::new(),
        obstacles: Vec::new(),
        untried_boot: Vec::new(),
        kept: Vec::new(),
        outcome: None,
    }
}

/// A fit under way.
struct Fitting<'f> {
    plan: &'f FitPlan,
    /// The machine before anything was changed.
    check: &'f Check,
    directory: &'f RunDirectory,
    progress: &'f mut dyn Observer,
    /// Whether a signal has ended it.
    is_ended: &'f dyn Fn() -> bool,
    fit: Fit,
}

impl Fitting<'_> {
    fn make(&mut self, steps: &dyn Steps) -> Result<Fit, FitError> {
        let outcome = self.until_over(steps)?;
        self.fit.outcome = Some(outcome.clone());
        // Before anything stays changed: an error does not lose what was found.
        self.save();
        if let (FitOutcome::Met { knobs, .. }, true) = (&outcome, self.plan.keeps) {
            self.keep(knobs)?;
            self.save();
        }
        Ok(self.fit.clone())
    }

    fn until_over(&mut self, steps: &dyn Steps) -> Result<FitOutcome, FitError> {
        let lengths = self.plan.lengths();
        let begun = Instant::now();
        let elapsed =
            |begun: Instant| u64::try_from(begun.elapsed().as_nanos()).unwrap_or(u64::MAX);
        let (mut course, mut next) = FitCourse::begin(lengths);
        loop {
            // What is over has its result.
            if !matches!(next, FitNext::Over(_)) && (self.is_ended)() {
                return Ok(FitOutcome::Stopped);
            }
            let step = Instant::now();
            self.progress.observe(Observed::FitBegins(&next));
            let name = format!("{:02}", self.fit.steps.len() + 1);
            let (directory, run, what) = match &next {
                FitNext::Over(outcome) => return Ok(outcome.clone()),
                FitNext::Prove(knobs, within_ns) => {
                    let directory = format!("{name}-prove");
                    let run = steps.prove(&directory, knobs, *within_ns, self.progress)?;
                    refuse_unswitched(&run)?;
                    let what = FitWork::proven(&run, knobs);
                    (directory, run, what)
                }
                FitNext::Qualify(on) => {
                    let directory = format!("{name}-qualify");
                    let run = steps.qualify(&directory, on, self.progress)?;
                    let what = self.qualified(&run, on);
                    (directory, run, what)
                }
            };
            let left = Journal::of_this_process(&self.plan.state);
            if !left.is_empty() {
                return Err(FitError::LeftChanged(left));
            }
            next = course.next(&what, elapsed(begun));
            let done = FitStep {
                directory,
                what,
                length_ns: elapsed(step),
            };
            self.progress.observe(Observed::FitDone(&done));
            self.fit.steps.push(done);
            self.save();
            if matches!(run.state, State::Stopped(_)) {
                return Ok(FitOutcome::Stopped);
            }
        }
    }

    /// What a qualification found, and what its bills ask for.
    fn qualified(&mut self, run: &Run, on: &[FindingId]) -> FitWork {
        let ask = BillsAsk::of(run, Some(self.check)).unwrap_or_default();
        self.fit.obstacles = Fit::obstacles_of(&ask);
        self.fit.untried_boot = untried_boot(&ask, self.check);
        let is_turnable = |knob: &FindingId| is_turnable(self.check, *knob);
        let asked = ask.knobs().into_iter().filter(is_turnable).collect();
        FitWork::qualified(run, on.to_vec(), asked)
    }

    /// Makes the changes that stay.
    fn keep(&mut self, knobs: &[FindingId]) -> Result<(), FitError> {
        let changes = changes_of(self.check, knobs);
        let mut journal = Journal::open(&self.plan.state).map_err(FitError::Keep)?;
        apply_together(&mut journal, &changes).map_err(FitError::Keep)?;
        self.fit.kept = changes.into_iter().filter_map(kept).collect();
        Ok(())
    }

    fn save(&mut self) {
        // The directory keeps any error.
        let _ = self.directory.save(&self.fit);
        self.progress
            .observe(Observed::FitSaved(&self.fit, self.directory));
    }
}

/// Whether a knob is bad and can be turned on the running machine.
fn is_turnable(check: &Check, knob: FindingId) -> bool {
    is_bad(check, knob) && !changes_of(check, &[knob]).is_empty()
}

fn is_bad(check: &Check, knob: FindingId) -> bool {
    let finding = check.finding(knob);
    finding.is_some_and(|it| it.state.kind() == StateKind::Bad)
}

/// The boot parameters of bad knobs that bills ask for and that can't be turned now, each once.
fn untried_boot(ask: &BillsAsk, check: &Check) -> Vec<FitBoot> {
    let mut all: Vec<FitBoot> = Vec::new();
    for (knob, cost) in &ask.knobs {
        if !is_bad(check, *knob) || is_turnable(check, *knob) {
            continue;
        }
        for it in boot::parameters_of(check, &[*knob]) {
            if all.iter().all(|known| known.parameter != it.parameter) {
                all.push(FitBoot {
                    knob: *knob,
                    parameter: it.parameter,
                    total_ns: cost.total_ns,
                    worst_ns: cost.worst_ns,
                });
            }
        }
    }
    all
}

/// An experiment that ended because a setting could not be switched says nothing of its knobs.
fn refuse_unswitched(run: &Run) -> Result<(), FitError> {
    match run.experiment.as_ref().map(|it| &it.outcome) {
        Some(ExperimentOutcome::Conflict { setting, found }) => Err(FitError::Conflict {
            setting: setting.clone(),
            found: found.clone(),
        }),
        Some(ExperimentOutcome::Failed { error }) => Err(FitError::NotSwitched(error.clone())),
        _ => Ok(()),
    }
}

/// A change as the record keeps it: all of a fit are those of findings.
fn kept(change: Change) -> Option<KeptSetting> {
    match change.knob {
        Knob::Finding(knob) => Some(KeptSetting {
            knob,
            setting: change.setting,
            value: change.value,
        }),
        Knob::File(_) | Knob::Control => None,
    }
}

#[cfg(test)]
#[path = "fit_tests.rs"]
mod tests;
