//! `prove`: which knob helped?

use std::process::ExitCode;

use punctual_machine::tune::setting_of_file;
use punctual_record::Run;
use punctual_record::experiment::{ExcessLimit, Experiment, ExperimentOutcome, WantedEffect};
use punctual_record::finding::{Check, FindingId};
use punctual_record::tuning::{Change, Knob};
use punctual_report::{experiment, summary_json, terminal};
use punctual_stats::verdict::Outcome;

use super::failure::{Failure, SETUP};
use super::flags::{KnobArgument, ProveFlags};
use super::measuring::{conclude, make_directory, settled};
use super::screen::Screen;
use super::{out, plan, tune};
use crate::conduct::prove::{KnobError, PlannedKnob, ProveKnobs, ProvePlan, prove};
use crate::conduct::{Design, RunPlan};

/// The finding whose knob a run sets by itself, and others that mean nothing while it does.
const HELD: [FindingId; 3] = [
    FindingId::IdleStates,
    FindingId::ResumeLatency,
    FindingId::DmaLatencyAccess,
];

/// Makes the experiment and shows it.
///
/// # Errors
/// Wrong usage, or what could not be set up; then nothing was changed.
pub fn run(flags: &ProveFlags) -> Result<ExitCode, Failure> {
    let plan = plan_of(flags)?;
    let knobs = ProveKnobs::check(planned(flags, &plan.run)?).map_err(refused)?;
    let directory = make_directory(plan.run.output.as_deref(), &plan.run.verb)?;
    let mut screen = Screen::of_run(&flags.run);
    let outcome = prove(&plan, knobs, &directory, &mut screen);
    let run = settled(outcome, &mut screen, &directory)?;
    show(
        &run,
        flags,
        &directory.path().join("report.html").display().to_string(),
    );
    let saved = conclude(&run, &directory);
    Ok(if directory.unsaved().is_empty() {
        exit_code(&run)
    } else {
        saved
    })
}

/// Knobs that can't be switched.
fn refused(error: KnobError) -> Failure {
    match error.is_usage() {
        true => Failure::usage(error.to_string()),
        false => Failure::setup(error),
    }
}

fn plan_of(flags: &ProveFlags) -> Result<ProvePlan, Failure> {
    let count = flags.knobs.len();
    Ok(ProvePlan {
        run: plan::of_prove(flags)?,
        state: flags.run.state().to_owned(),
        design: Design {
            pilot_ns: flags.pilot,
            screening: flags.screen || (!flags.no_screen && Design::screens(count)),
        },
        experiment: experiment_of(flags),
    })
}

fn experiment_of(flags: &ProveFlags) -> Experiment {
    let seed = flags.run.seed.unwrap_or_else(plan::seed_from_clock);
    let confidence = flags.run.required.confidence;
    Experiment {
        budget_ns: flags.run.duration.unwrap_or(plan::PROVE_NS),
        wanted: flags.effect.map(|percent| WantedEffect {
            measure: flags.on,
            ratio: 1.0 + percent / 100.0,
        }),
        limit: flags.run.required.deadline.map(|ns| ExcessLimit {
            ns,
            is_deadline: true,
        }),
        ..Experiment::planned(seed, flags.block, flags.settle, confidence)
    }
}

/// What each knob changes.
fn planned(flags: &ProveFlags, plan: &RunPlan) -> Result<Vec<PlannedKnob>, Failure> {
    let is_finding = |knob: &KnobArgument| matches!(knob, KnobArgument::Finding(_));
    // A check reads some hundred files: only if a knob needs it.
    let found = flags.knobs.iter().any(is_finding);
    let found = found.then(|| tune::found_for(&plan.probes));
    let one = |argument| one(argument, found.as_ref(), plan);
    flags.knobs.iter().map(one).collect()
}

fn one(
    argument: &KnobArgument,
    found: Option<&Check>,
    plan: &RunPlan,
) -> Result<PlannedKnob, Failure> {
    match (argument, found) {
        (KnobArgument::Finding(id), Some(found)) => {
            if HELD.contains(id) && !plan.conditions.as_deployed {
                return Err(Failure::usage(format!(
                    "{id} changes nothing while punctual holds /dev/cpu_dma_latency at 0: give \
                     --as-deployed too"
                )));
            }
            Ok(PlannedKnob {
                name: id.name().to_owned(),
                changes: tune::changes_for(found, *id)?,
            })
        }
        (KnobArgument::File { path, value }, _) => {
            // One file has many names; what is absent is named as it was given.
            let path = std::fs::canonicalize(path)
                .ok()
                .and_then(|path| path.into_os_string().into_string().ok())
                .unwrap_or_else(|| path.clone());
            let (setting, value) = setting_of_file(&path, value);
            let change = Change {
                knob: Knob::File(path.clone()),
                setting,
                value,
            };
            Ok(PlannedKnob {
                name: path,
                changes: vec![change],
            })
        }
        (KnobArgument::Finding(id), None) => Err(Failure::setup(format!("{id} was not checked"))),
    }
}

fn show(run: &Run, flags: &ProveFlags, place: &str) {
    let (Some(experiment), false) = (&run.experiment, flags.run.json) else {
        out::print(&summary_json::summary(run));
        return;
    };
    if flags.run.quiet {
        out::print(&(experiment::sentence(experiment) + "\n"));
    } else {
        let style = out::style().with_report(place);
        out::print(&terminal::summary(run, &style));
    }
}

/// 0 if it was made as planned, whatever it has shown; else that of the verdict on it.
fn exit_code(run: &Run) -> ExitCode {
    let Some(found) = &run.experiment else {
        return ExitCode::from(SETUP);
    };
    match (&found.outcome, experiment::outcome(found)) {
        (ExperimentOutcome::Failed { .. } | ExperimentOutcome::Conflict { .. }, _) => {
            ExitCode::from(SETUP)
        }
        (_, outcome) => ExitCode::from(outcome.map_or(SETUP, Outcome::exit_code)),
    }
}
