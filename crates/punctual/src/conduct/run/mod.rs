//! A run of `qualify` or `measure`, step by step.

mod compose;
mod gather;
mod in_force;
mod pace;
mod plan;
mod probes;
mod sampling;
mod setup;
mod stops;
mod time_limit;
mod tracers;
mod view;
mod wake_ups;

use std::sync::Arc;
use std::time::SystemTime;

use super::compose::empty;
use super::error::ConductError;
use super::explain;
use super::keeping::{Keeping, save};
use super::progress::Progress;
use super::signals::Signals;
use super::under_way::UnderWay;
use crate::probe::collector::{Collector, SampleSink};
use crate::probe::gaps::GapFeed;
use crate::system::monitor::Monitor;
use crate::system::{self, Root, SurveyRequest};
use gather::Gathering;
use pace::Pace;
pub use plan::{ConditionsPlan, LoadPlan, ProbePlan, RunPlan};
use punctual_record::live::Step;
use punctual_record::samples::SAMPLES_DIRECTORY;
use punctual_record::{RUN_FILE, Run, RunDirectory, time};
use sampling::Sampling;
use stops::StopDetector;
use time_limit::TimeLimit;
use tracers::Hwlat;
use wake_ups::{Course, WakeUps};

/// Makes a run in an existing directory, and returns its record, judged and saved.
///
/// # Errors
/// The run could not start; later problems are in the record.
pub fn run(
    plan: &RunPlan,
    directory: &RunDirectory,
    progress: &mut dyn Progress,
) -> Result<Run, ConductError> {
    let signals = Signals::listen().map_err(ConductError::Signals)?;
    let root = Root::live();
    progress.step(&Step::ReadSettings);
    let run = survey(plan, &root);
    save(directory, &run)?;
    directory.reserve();
    let mut outcome = measure(plan, directory, progress, signals, &root, run);
    if let (Ok(run), true) = (&mut outcome, plan.cross_check) {
        run.cross_check = Some(tracers::cross_check(
            &plan.probes,
            &plan.load,
            run,
            progress,
        ));
        // It was measured; the directory keeps any error of saving.
        if directory.save(run).is_ok() {
            progress.saved(run, directory);
        }
    }
    if outcome.is_err() {
        // Nothing was measured: nothing is kept.
        directory.release();
        directory.remove(RUN_FILE);
        directory.remove_empty(SAMPLES_DIRECTORY);
    }
    outcome
}

/// A record of the machine, before anything is measured.
fn survey(plan: &RunPlan, root: &Root) -> Run {
    let request = SurveyRequest {
        probed_cpus: plan.probes.cpus.clone(),
        priority: plan.probes.policy.priority(),
    };
    let started = time::rfc3339(SystemTime::now());
    let machine = system::survey(root, &request);
    let command = plan.command.clone();
    Run {
        gaps: plan.probes.gaps.clone(),
        placement: Some(plan.placement.clone()),
        ..empty(&plan.verb, command, plan.request(), started, machine)
    }
}

/// The steps after the first save: probes, tracing, loads, read-back, warm-up, and the measurement.
fn measure(
    plan: &RunPlan,
    directory: &RunDirectory,
    progress: &mut dyn Progress,
    mut signals: Signals,
    root: &Root,
    mut run: Run,
) -> Result<Run, ConductError> {
    let explains = plan.tracing.explain;
    let deadline_ns = plan.claim.deadline_ns();
    let housekeeping = plan.placement.housekeeping;

    let time_limit = TimeLimit::begin(&plan.probes)?;
    progress.step(&Step::SetUpProbes);
    let gaps = Hwlat::begin(&plan.probes)?.map(|hwlat| Arc::new(hwlat) as Arc<dyn GapFeed>);
    let (probes, rings) = probes::start_probes(&plan.probes, gaps)?;
    signals
        .end_at_time_limit(&probes.halt)
        .map_err(ConductError::Signals)?;
    if !plan.conditions.measure_unmet {
        // Before anything else is set up; what was changed to find out is restored at once.
        let (_held, demands) =
            in_force::hold(&plan.conditions, explains, &probes, root, &mut run.system);
        in_force::refuse_unmet(&plan.conditions, &demands)?;
    }

    let begin_sampling = || Sampling::begin(directory.folder());
    let (sampling, samples) = plan.samples.then(begin_sampling).transpose()?.unzip();
    // Before the loads: with hundreds of busy processes it would take many seconds.
    let wanted = setup::wanted(
        &plan.tracing,
        deadline_ns,
        &plan.probes,
        &probes,
        housekeeping,
    );
    let (explaining, feed) = explain::begin(wanted, &mut run.events).unzip();
    let feed = feed.map(|feed| Box::new(feed) as Box<dyn SampleSink>);
    let sinks = samples.into_iter().chain(feed).collect();

    setup::refuse_if_signalled(&signals)?;
    let loads = setup::start_loads(&plan.load, &signals, progress)?;

    let lanes = setup::lanes(&plan.probes, plan.duration_ns, deadline_ns, &probes, rings);
    let pace = Arc::new(Pace::of(&plan.probes.interval));
    let classifier = setup::classifier(explaining.as_ref(), run.gaps.as_mut());
    let stops = setup::stop_detector(&plan.probes, &signals, housekeeping, &pace)?;
    let collector = Collector::new(lanes, u64::MAX, sinks)
        .with_classifier(classifier)
        .with_evidence(stops.as_ref().map(StopDetector::evidence));
    let gathering = Gathering::begin(collector, housekeeping, &pace)?;

    // Memory is locked after all of it is allocated, and before the measurement.
    let (held, demands) =
        in_force::hold(&plan.conditions, explains, &probes, root, &mut run.system);
    in_force::refuse_unmet(&plan.conditions, &demands)?;
    run.demands = demands;
    let monitor = Monitor::start(root, &probes.monitored());

    let start_ns = setup::start(&probes, &gathering, &pace, plan.duration_ns);
    if let Some(explaining) = &explaining {
        explaining.count_stolen_from(start_ns);
    }
    let kept = Keeping::new(run, directory, monitor, start_ns);
    let wake_ups = WakeUps {
        course: Course::new(start_ns, kept.throttling_check_interval()),
        pace,
        probes,
        gathering,
        stops,
        time_limit,
        loads,
        held: Some(held),
        sampling,
        explaining,
    };
    let under_way = UnderWay {
        kept,
        progress,
        signals,
    };
    Ok(under_way.until_judged(wake_ups))
}
