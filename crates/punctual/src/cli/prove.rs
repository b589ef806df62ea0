//! `prove`: which knob helped?

use std::process::ExitCode;

use punctual_record::experiment::{ExcessLimit, Experiment, WantedEffect};
use punctual_record::finding::{Check, FindingId};
use punctual_record::{Run, RunDirectory};
use punctual_report::{experiment, summary_json, terminal};

use super::failure::Failure;
use super::flags::{KnobArgument, ProveFlags};
use super::measuring::{conclude, make_directory, page_of, settled};
use super::screen::Screen;
use super::{knobs, out, plan, tune};
use crate::conduct::prove::{
    KnobError, PlannedKnob, ProveKnobs, ProvePathPlan, ProvePlan, prove, prove_path,
};
use crate::conduct::{ConductError, Design};

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
    plan::refuse_surest(flags.run.required.confidence)?;
    let mut screen = Screen::of_run(&flags.run);
    let (outcome, directory) = match &flags.path {
        Some(host) => of_path(host, flags, &mut screen)?,
        None => of_wake_ups(flags, &mut screen)?,
    };
    let run = settled(outcome, &mut screen, &directory)?;
    show(&run, flags, page_of::<Run>(&directory));
    Ok(conclude(&run, &directory))
}

/// What was measured, or why not; and where it is kept.
type Made = (Result<Run, ConductError>, RunDirectory);

fn of_wake_ups(flags: &ProveFlags, screen: &mut Screen) -> Result<Made, Failure> {
    let run = plan::of_prove(flags)?;
    let (probes, conditions) = (&run.probes, &run.conditions);
    let measured = Measured {
        cpus: &probes.cpus,
        priority: probes.policy.priority(),
        as_deployed: conditions.as_deployed,
    };
    let knobs = ProveKnobs::check(planned(flags, &measured)?).map_err(refused)?;
    let directory = make_directory(run.output.as_deref(), &run.verb)?;
    let plan = ProvePlan {
        run,
        state: flags.run.state().to_owned(),
        design: design(flags),
        experiment: experiment_of(flags),
    };
    Ok((prove(&plan, knobs, &directory, screen), directory))
}

fn of_path(host: &str, flags: &ProveFlags, screen: &mut Screen) -> Result<Made, Failure> {
    let path = plan::of_prove_path(host, flags)?;
    let measured = Measured {
        cpus: &path.probed_cpus(),
        priority: path.policy.priority(),
        as_deployed: path.conditions.as_deployed,
    };
    let knobs = ProveKnobs::check(planned(flags, &measured)?).map_err(refused)?;
    let directory = make_directory(path.output.as_deref(), &path.verb)?;
    let plan = ProvePathPlan {
        path,
        state: flags.run.state().to_owned(),
        design: design(flags),
        experiment: experiment_of(flags),
    };
    Ok((prove_path(&plan, knobs, &directory, screen), directory))
}

/// Knobs that can't be switched.
fn refused(error: KnobError) -> Failure {
    match error.is_usage() {
        true => Failure::usage(error.to_string()),
        false => Failure::setup(error),
    }
}

fn design(flags: &ProveFlags) -> Design {
    let count = flags.knobs.len();
    Design {
        pilot_ns: flags.pilot,
        screening: flags.screen || (!flags.no_screen && Design::screens(count)),
    }
}

/// Whose latencies are compared.
struct Measured<'p> {
    /// The CPUs of the threads.
    cpus: &'p [usize],
    /// Their priority.
    priority: u32,
    /// Nothing else about the machine is changed.
    as_deployed: bool,
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
fn planned(flags: &ProveFlags, measured: &Measured<'_>) -> Result<Vec<PlannedKnob>, Failure> {
    let is_finding = |knob: &KnobArgument| matches!(knob, KnobArgument::Finding(_));
    // A check reads some hundred files: only if a knob needs it.
    let found = flags.knobs.iter().any(is_finding);
    let found = found.then(|| tune::found_for(measured.cpus, measured.priority));
    let path = flags.path.as_deref();
    let one = |argument| one(argument, found.as_ref(), measured, path);
    flags.knobs.iter().map(one).collect()
}

fn one(
    argument: &KnobArgument,
    found: Option<&Check>,
    measured: &Measured<'_>,
    path: Option<&str>,
) -> Result<PlannedKnob, Failure> {
    match (argument, found) {
        (KnobArgument::Finding(id), Some(found)) => {
            if HELD.contains(id) && !measured.as_deployed {
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
        (KnobArgument::Finding(id), None) => Err(Failure::setup(format!("{id} was not checked"))),
        (setting, _) => {
            let change = knobs::setting(setting, path)?;
            let name = change.as_ref().map(|it| it.knob.to_string());
            Ok(PlannedKnob {
                name: name.unwrap_or_default(),
                changes: change.into_iter().collect(),
            })
        }
    }
}

fn show(run: &Run, flags: &ProveFlags, place: Option<String>) {
    if run.experiment.is_none() || flags.run.json {
        out::print(&summary_json::summary(run));
        return;
    }
    if flags.run.quiet {
        out::print(&(experiment::sentence(run) + "\n"));
    } else {
        let style = out::style().with_report(place);
        out::print(&terminal::summary(run, &style));
    }
}
