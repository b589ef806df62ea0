//! The pieces of a run, set up one by one before anything is measured.

use std::sync::Arc;
use std::time::Duration;

use punctual_rt::clock;
use punctual_rt::ring::Consumer;

use super::gather::Gathering;
use super::pace::Pace;
use super::plan::{LoadPlan, ProbePlan};
use super::probes::Probes;
use super::stops::StopDetector;
use crate::conduct::compose::PEAKS;
use crate::conduct::error::ConductError;
use crate::conduct::explain::{Explaining, Wanted};
use crate::conduct::observer::{Observed, Observer};
use crate::conduct::plan::TracingPlan;
use crate::conduct::signals::Signals;
use crate::probe::collector::{Classifier, Lane};
use crate::probe::cycle::Sample;
use crate::probe::tally::{Halves, Tally};
use crate::probe::thread::run_up_ns;
use punctual_lab::job::load_seed;
use punctual_load::{LoadSet, LoadSettings, LoadSpec};
use punctual_record::live::Step;
use punctual_record::{Gaps, Method, Subject};

/// How long loads may take to start.
const LOADS_READY: Duration = Duration::from_secs(60);

/// Where the first half of a run ends.
fn halves(plan: &ProbePlan, duration_ns: Option<u64>) -> Halves {
    match (duration_ns, plan.length_by_loops_ns()) {
        (None, None) => Halves::Doubling(1_000_000_000),
        (duration, loops) => {
            let length_ns = duration.unwrap_or(u64::MAX).min(loops.unwrap_or(u64::MAX));
            Halves::At((length_ns / 2).max(1))
        }
    }
}

/// What the collector keeps of each probe thread.
pub fn lanes(
    plan: &ProbePlan,
    duration_ns: Option<u64>,
    deadline_ns: Option<u64>,
    probes: &Probes,
    rings: Vec<Consumer<Sample>>,
) -> Vec<Lane> {
    let peaks = (PEAKS / plan.cpus.len().max(1)).clamp(256, 4096);
    let tids = probes.tids().zip(rings);
    tids.map(|((tid, cpu), ring)| {
        let deadline_ns = deadline_ns.unwrap_or(u64::MAX);
        let tally = Tally::new(u64::MAX, deadline_ns, halves(plan, duration_ns), peaks)
            .with_shortest_interval(plan.interval.shortest_ns())
            .with_interval(plan.interval.nominal_ns());
        Lane::new(cpu, tid, ring, tally).with_interval(match plan.gaps {
            Some(_) => 0,
            None => plan.interval.nominal_ns(),
        })
    })
    .collect()
}

/// What to trace; `None` if nothing is explained.
pub fn wanted(
    plan: &TracingPlan,
    deadline_ns: Option<u64>,
    probe_plan: &ProbePlan,
    probes: &Probes,
    housekeeping: Option<usize>,
) -> Option<Wanted> {
    plan.explain.then(|| Wanted {
        cpus: probes.cpus().collect(),
        threads: probes.tids().collect(),
        above_ns: plan.above_ns.or(deadline_ns),
        stack_above_ns: plan.stack_above_ns,
        tasks: Vec::new(),
        unbound: Vec::new(),
        locks: std::collections::BTreeMap::new(),
        polling: probe_plan.gaps.as_ref().map(|_| probe_plan.policy),
        housekeeping,
    })
}

/// What tells the platform's gaps from the kernel's, where the platform's alone are asked for
/// and the kernel's events are known.
pub fn classifier(
    explaining: Option<&Explaining>,
    gaps: Option<&mut Gaps>,
) -> Option<Box<dyn Classifier>> {
    let (gaps, explaining) = (gaps?, explaining?);
    if gaps.method == Method::Hwlat {
        return None;
    }
    gaps.sifted = gaps.subject == Subject::Hardware;
    gaps.sifted.then(|| explaining.classifier())
}

/// The detector of stops of this process; `None` if the kernel finds the gaps.
///
/// # Errors
/// The thread cannot be started.
pub fn stop_detector(
    plan: &ProbePlan,
    signals: &Signals,
    housekeeping: Option<usize>,
    pace: &Arc<Pace>,
) -> Result<Option<StopDetector>, ConductError> {
    match plan.is_by_kernel() {
        true => Ok(None),
        false => StopDetector::begin(signals, housekeeping, pace).map(Some),
    }
}

/// Starts the loads, and waits until they are running.
///
/// # Errors
/// A load cannot be started, or a signal came meanwhile.
pub fn start_loads(
    plan: &LoadPlan,
    signals: &Signals,
    progress: &mut dyn Observer,
) -> Result<Option<LoadSet>, ConductError> {
    begin_loads(plan, signals, |step| progress.observe(Observed::Step(step)))
}

/// As [`start_loads`], of what is no run: `say` is told which step this is.
///
/// # Errors
/// As [`start_loads`].
pub fn begin_loads(
    plan: &LoadPlan,
    signals: &Signals,
    say: impl FnOnce(&Step),
) -> Result<Option<LoadSet>, ConductError> {
    let loads = prepare_loads(plan, signals, say)?;
    loads.iter().for_each(LoadSet::release);
    Ok(loads)
}

/// As [`begin_loads`], but the loads' tasks wait for their release.
///
/// # Errors
/// As [`start_loads`].
pub fn prepare_loads(
    plan: &LoadPlan,
    signals: &Signals,
    say: impl FnOnce(&Step),
) -> Result<Option<LoadSet>, ConductError> {
    if plan.spec == LoadSpec::None {
        return Ok(None);
    }
    say(&Step::StartLoad {
        load: plan.spec.label(),
    });
    let settings = LoadSettings {
        class: plan.class,
        cpus: Some(plan.cpus.clone()),
        allowed_cpus: plan.cpus.len(),
        seed: load_seed(),
        least_cpu_ns: plan.least_cpu_ns,
        ..LoadSettings::default()
    };
    let loads = LoadSet::start(&plan.spec, &settings).map_err(ConductError::Load)?;
    let wanted = || signals.end().is_none();
    loads
        .await_tasks_while(LOADS_READY, wanted)
        .map_err(ConductError::Load)?;
    refuse_if_signalled(signals)?;
    Ok(Some(loads))
}

/// Fails if a signal came before anything was measured.
pub fn refuse_if_signalled(signals: &Signals) -> Result<(), ConductError> {
    match signals.end() {
        Some(reason) => Err(ConductError::Interrupted(reason)),
        None => Ok(()),
    }
}

/// Starts the probe threads, all at one instant, and returns it.
pub fn start(probes: &Probes, gathering: &Gathering, pace: &Pace, duration_ns: Option<u64>) -> u64 {
    // The start is in the future for all threads: each runs a warm-up before it.
    let start_ns = gathering.look().start_at(clock::now_ns() + run_up_ns());
    if let Some(length_ns) = duration_ns {
        probes.halt.set(start_ns.saturating_add(length_ns));
    }
    pace.begin(start_ns);
    probes.line.go(start_ns);
    start_ns
}
