//! A run of `qualify` or `measure`, step by step.

mod companion;
pub(super) mod compose;
pub(super) mod gather;
pub(super) mod in_force;
pub(super) mod pace;
mod plan;
mod probes;
mod sampling;
pub(super) mod setup;
pub(super) mod stops;
pub mod time_limit;
mod tracers;
mod tuned;
pub(super) mod view;
pub(super) mod wake_ups;

use std::sync::Arc;
use std::time::{Instant, SystemTime};

use super::compose::empty;
use super::error::ConductError;
use super::explain;
use super::keeping::{Keeping, save};
use super::observer::{Observed, Observer};
use super::signals::Signals;
use super::under_way::UnderWay;
use crate::probe::collector::{Collector, SampleSink};
use crate::probe::gaps::GapFeed;
use crate::system::monitor::Monitor;
pub use companion::{BillSink, Companion};
pub(super) use compose::load as load_record;
use gather::Gathering;
use pace::Pace;
pub use plan::{ConditionsPlan, LoadPlan, ProbePlan, RunPlan, TunePlan};
use punctual_load::LoadSet;
use punctual_machine::survey::{self, SurveyRequest};
use punctual_machine::{CheckRequest, Root};
use punctual_record::finding::RunFindings;
use punctual_record::live::Step;
use punctual_record::samples::SAMPLES_DIRECTORY;
use punctual_record::{Document, Run, RunDirectory, time};
use sampling::Sampling;
pub(super) use setup::begin_loads;
use stops::StopDetector;
use time_limit::TimeLimit;
use tracers::Hwlat;
pub(super) use tuned::Tuning;
use wake_ups::{Course, WakeUps};

/// Makes a run in an existing directory, and returns its record, judged and saved.
///
/// # Errors
/// The run could not start; later problems are in the record.
pub fn run(
    plan: &RunPlan,
    directory: &RunDirectory,
    progress: &mut dyn Observer,
) -> Result<Run, ConductError> {
    run_with(plan, directory, progress, None)
}

/// [`run`], accompanied.
///
/// # Errors
/// As [`run`].
pub fn run_with(
    plan: &RunPlan,
    directory: &RunDirectory,
    progress: &mut dyn Observer,
    companion: Option<Box<dyn Companion>>,
) -> Result<Run, ConductError> {
    let signals = Signals::listen().map_err(ConductError::Signals)?;
    let root = Root::live();
    let begin = |plan| Tuning::begin(plan, progress);
    let tuning = plan.tune.as_ref().map(begin).transpose()?;
    let applied = tuning.as_ref();
    let outcome = tuned(
        plan, directory, progress, signals, &root, applied, companion,
    );
    if let Some(tuning) = tuning {
        tuning.end(progress);
    }
    outcome
}

/// The run, with the settings that were changed for it.
fn tuned(
    plan: &RunPlan,
    directory: &RunDirectory,
    progress: &mut dyn Observer,
    signals: Signals,
    root: &Root,
    tuning: Option<&Tuning>,
    companion: Option<Box<dyn Companion>>,
) -> Result<Run, ConductError> {
    progress.observe(Observed::Step(&Step::ReadSettings));
    let mut run = survey(plan, root);
    run.tuned = tuning.map_or_else(Vec::new, |it| it.tuned().to_vec());
    if plan.check {
        progress.observe(Observed::Step(&Step::CheckMachine));
        run.findings = Some(check_machine(plan, root));
    }
    save(directory, &run)?;
    directory.reserve::<Run>();
    let mut outcome = measure(plan, directory, progress, signals, root, run, companion);
    if let (Ok(run), true) = (&mut outcome, plan.cross_check) {
        run.cross_check = Some(tracers::cross_check(
            &plan.probes,
            &plan.load,
            run,
            progress,
        ));
        // It was measured; the directory keeps any error of saving.
        if directory.save(run).is_ok() {
            progress.observe(Observed::Saved(run, directory));
        }
    }
    if outcome.is_err() {
        // Nothing was measured: nothing is kept.
        directory.release();
        directory.remove(Run::FILE);
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
    let machine = survey::survey(root, &request);
    let command = plan.command.clone();
    Run {
        gaps: plan.probes.gaps.clone(),
        placement: Some(plan.placement.clone()),
        ..empty(&plan.verb, command, plan.request(), started, machine)
    }
}

/// The machine's bad findings. They are read before there is a probe that this could disturb.
fn check_machine(plan: &RunPlan, root: &Root) -> RunFindings {
    let priority = plan.probes.policy.priority();
    let request = CheckRequest::of_probes(root, &plan.probes.cpus, priority);
    let began = Instant::now();
    let found = punctual_machine::check(root, &request);
    let took_ns = u64::try_from(began.elapsed().as_nanos()).unwrap_or(u64::MAX);
    RunFindings::of(&found, request.priority, took_ns)
}

/// The steps after the first save: probes, tracing, loads, read-back, warm-up, and the measurement.
fn measure(
    plan: &RunPlan,
    directory: &RunDirectory,
    progress: &mut dyn Observer,
    mut signals: Signals,
    root: &Root,
    mut run: Run,
    mut companion: Option<Box<dyn Companion>>,
) -> Result<Run, ConductError> {
    let explains = plan.tracing.explain;
    let deadline_ns = plan.claim.deadline_ns();
    let housekeeping = plan.placement.housekeeping;

    let time_limit = TimeLimit::begin(&plan.probes)?;
    progress.observe(Observed::Step(&Step::SetUpProbes));
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
    let bills = companion.as_ref().map(|companion| companion.bills());
    let (explaining, feed) = explain::begin(wanted, bills, &mut run.events).unzip();
    let feed = feed.map(|feed| Box::new(feed) as Box<dyn SampleSink>);
    let accompanying = companion.as_ref().map(|companion| companion.samples());
    let sinks = samples
        .into_iter()
        .chain(feed)
        .chain(accompanying)
        .collect();

    setup::refuse_if_signalled(&signals)?;
    let loads = setup::prepare_loads(&plan.load, &signals, |step| {
        progress.observe(Observed::Step(step))
    })?;

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
    // Not earlier: beside hundreds of busy processes the steps before would take a second.
    loads.iter().for_each(LoadSet::release);
    let monitor = Monitor::start(root, &probes.monitored());

    let start_ns = setup::start(&probes, &gathering, &pace, plan.duration_ns);
    if let Some(explaining) = &explaining {
        explaining.count_stolen_from(start_ns);
    }
    if let Some(companion) = &mut companion {
        companion.begin(start_ns, housekeeping);
    }
    let mut kept = Keeping::new(run, directory, monitor, start_ns);
    kept.switches_settings = companion.is_some();
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
        companion,
    };
    let under_way = UnderWay::new(kept, progress, signals);
    Ok(under_way.until_judged(wake_ups))
}
