//! `prove`: which knob helped?

use std::path::Path;
use std::process::ExitCode;

use punctual_machine::root::plain;
use punctual_machine::tune::{Journal, Session, check_writable, is_same, read, setting_of_file};
use punctual_machine::{CheckRequest, Root, check};
use punctual_record::experiment::{
    ExcessLimit, Experiment, ExperimentKnob, ExperimentOutcome, SwitchedSetting, WantedEffect,
};
use punctual_record::finding::{Check, FindingId};
use punctual_record::tuning::{Change, Knob};
use punctual_record::{Run, RunDirectory};
use punctual_report::{experiment, summary_json, terminal};
use punctual_stats::verdict::Outcome;

use super::failure::{Failure, SETUP};
use super::flags::{KnobArgument, ProveFlags};
use super::measuring::{conclude, make_directory, settled};
use super::screen::Screen;
use super::{out, plan, tune};
use crate::conduct::{self, Design, Experimenting, RunPlan};

/// With more knobs than this they are screened first.
pub(super) const SCREENED_FROM: usize = 4;
/// The finding whose knob a run sets by itself, and others that mean nothing while it does.
const HELD: [FindingId; 3] = [
    FindingId::IdleStates,
    FindingId::ResumeLatency,
    FindingId::DmaLatencyAccess,
];

/// A knob with what it changes.
pub(super) struct Chosen {
    knob: ExperimentKnob,
    changes: Vec<Change>,
}

/// Makes the experiment and shows it.
///
/// # Errors
/// Wrong usage, or what could not be set up; then nothing was changed.
pub fn run(flags: &ProveFlags) -> Result<ExitCode, Failure> {
    let plan = plan::of_prove(flags)?;
    let chosen = chosen(flags, &plan)?;
    let mut screen = Screen::of_run(&flags.run);
    let trial = Trial {
        plan: &plan,
        state: flags.run.state(),
        pilot_ns: flags.pilot,
        is_screened: screens(flags),
        experiment: experiment_of(flags),
    };
    let (run, directory) = make(trial, chosen, &mut screen)?;
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

/// An experiment to be made.
pub(super) struct Trial<'t> {
    /// The run in which knobs are switched.
    pub plan: &'t RunPlan,
    /// The directory of the journal.
    pub state: &'t Path,
    /// Length of the pilot in ns.
    pub pilot_ns: u64,
    /// Whether all knobs are screened first.
    pub is_screened: bool,
    /// The experiment, without its knobs.
    pub experiment: Experiment,
}

/// Makes an experiment with these knobs and a control.
///
/// # Errors
/// What could not be set up; then nothing was changed.
pub(super) fn make(
    trial: Trial<'_>,
    mut chosen: Vec<Chosen>,
    screen: &mut Screen,
) -> Result<(Run, RunDirectory), Failure> {
    refuse_shared_settings(&chosen)?;
    chosen.push(control(&chosen));
    let journal = Journal::open(trial.state).map_err(Failure::setup)?;
    let (changes, places) = session_plan(&chosen);
    let directory = make_directory(trial.plan.output.as_deref(), &trial.plan.verb)?;
    let session = Session::begin(journal, &changes).map_err(|error| {
        directory.discard_if_empty();
        Failure::setup(error)
    })?;
    let experiment = Experiment {
        knobs: chosen.into_iter().map(|it| it.knob).collect(),
        ..trial.experiment
    };
    screen.set_experiment(experiment.clone());
    let design = Design {
        pilot_ns: trial.pilot_ns,
        screening: trial.is_screened,
    };
    let companion = Experimenting::new(experiment, design, session, places);
    let outcome = conduct::run_with(trial.plan, &directory, screen, Some(Box::new(companion)));
    let run = settled(outcome, screen, &directory)?;
    Ok((run, directory))
}

/// What fixes these findings, each a knob.
///
/// # Errors
/// One can't be changed on the running machine.
pub(super) fn of_findings(found: &Check, knobs: &[FindingId]) -> Result<Vec<Chosen>, Failure> {
    let one = |id: &FindingId| knob(id.name().to_owned(), tune::changes_for(found, *id)?);
    knobs.iter().map(one).collect()
}

/// All changes, and the places of each knob's. The control's are first: after a kill the journal
/// says of a setting what was planned last.
fn session_plan(chosen: &[Chosen]) -> (Vec<Change>, Vec<Vec<usize>>) {
    let mut changes = Vec::new();
    let mut places = vec![Vec::new(); chosen.len()];
    let (controls, knobs): (Vec<_>, Vec<_>) = chosen
        .iter()
        .enumerate()
        .partition(|(_, it)| it.knob.is_control);
    for (at, it) in controls.into_iter().chain(knobs) {
        places[at] = (changes.len()..changes.len() + it.changes.len()).collect();
        changes.extend(it.changes.iter().cloned());
    }
    (changes, places)
}

fn screens(flags: &ProveFlags) -> bool {
    flags.screen || (!flags.no_screen && flags.knobs.len() > SCREENED_FROM)
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
fn chosen(flags: &ProveFlags, plan: &RunPlan) -> Result<Vec<Chosen>, Failure> {
    let is_finding = |knob: &KnobArgument| matches!(knob, KnobArgument::Finding(_));
    // A check reads some hundred files: only if a knob needs it.
    let found = flags.knobs.iter().any(is_finding).then(|| {
        let root = Root::live();
        let probes = &plan.probes;
        let request = CheckRequest::of_probes(&root, &probes.cpus, probes.policy.priority());
        check(&root, &request)
    });
    let mut all: Vec<Chosen> = Vec::new();
    for argument in &flags.knobs {
        let one = one(argument, found.as_ref(), plan)?;
        if all.iter().any(|it| it.knob.name == one.knob.name) {
            let name = &one.knob.name;
            return Err(Failure::usage(format!("{name} is named twice")));
        }
        all.push(one);
    }
    Ok(all)
}

fn one(argument: &KnobArgument, found: Option<&Check>, plan: &RunPlan) -> Result<Chosen, Failure> {
    match (argument, found) {
        (KnobArgument::Finding(id), Some(found)) => {
            if HELD.contains(id) && !plan.conditions.as_deployed {
                return Err(Failure::usage(format!(
                    "{id} changes nothing while punctual holds /dev/cpu_dma_latency at 0: give \
                     --as-deployed too"
                )));
            }
            let changes = tune::changes_for(found, *id)?;
            knob(id.name().to_owned(), changes)
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
            knob(path, vec![change])
        }
        (KnobArgument::Finding(id), None) => Err(Failure::setup(format!("{id} was not checked"))),
    }
}

/// A knob without the settings that have their value already.
fn knob(name: String, changes: Vec<Change>) -> Result<Chosen, Failure> {
    let mut settings = Vec::new();
    let mut kept = Vec::new();
    for change in changes {
        let off = read(&change.setting)
            .map_err(|error| Failure::setup(format!("{}: {}", change.setting, plain(&error))))?;
        if !is_same(&change.setting, &off, &change.value) {
            // Or the pilot would be measured in vain.
            check_writable(&change.setting).map_err(|error| {
                Failure::setup(format!(
                    "{}: can't be written: {}; nothing was changed",
                    change.setting,
                    plain(&error)
                ))
            })?;
            settings.push(SwitchedSetting {
                setting: change.setting.clone(),
                off,
                on: change.value.clone(),
            });
            kept.push(change);
        }
    }
    if kept.is_empty() {
        return Err(Failure::usage(format!(
            "{name}: nothing to switch, it has its value already; name another value as \
             /PATH=VALUE"
        )));
    }
    let knob = ExperimentKnob {
        name,
        settings,
        is_control: false,
    };
    Ok(Chosen {
        knob,
        changes: kept,
    })
}

/// Two knobs that change one setting could not be told apart.
fn refuse_shared_settings(chosen: &[Chosen]) -> Result<(), Failure> {
    for (at, one) in chosen.iter().enumerate() {
        for other in &chosen[..at] {
            let changes = other.changes.iter();
            let settings: Vec<_> = changes.map(|change| &change.setting).collect();
            if let Some(shared) = one
                .changes
                .iter()
                .find(|it| settings.contains(&&it.setting))
            {
                return Err(Failure::usage(format!(
                    "{} and {} both change {}: prove them one after the other",
                    other.knob.name, one.knob.name, shared.setting
                )));
            }
        }
    }
    Ok(())
}

/// The control writes what the first knob writes, with the values that are there.
fn control(chosen: &[Chosen]) -> Chosen {
    let settings = chosen
        .first()
        .map_or_else(Vec::new, |it| it.knob.settings.clone());
    let changes = settings.iter().map(|it| Change {
        knob: Knob::Control,
        setting: it.setting.clone(),
        value: it.off.clone(),
    });
    Chosen {
        changes: changes.collect(),
        knob: ExperimentKnob {
            name: Knob::Control.to_string(),
            settings: settings
                .into_iter()
                .map(|it| SwitchedSetting {
                    on: it.off.clone(),
                    ..it
                })
                .collect(),
            is_control: true,
        },
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
