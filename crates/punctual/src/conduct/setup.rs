//! The pieces of a run, set up one by one before anything is measured.

use std::sync::Arc;
use std::time::Duration;

use super::error::ConductError;
use super::explain::{Explaining, Wanted};
use super::observer::Observer;
use super::pace::Pace;
use super::plan::Plan;
use super::signals::Signals;
use super::stops::StopWatch;
use crate::probe::collector::{SampleSink, Sieve};
use crate::probe::tally::Halves;
use crate::probe::thread::Ready;
use punctual_lab::job::load_seed;
use punctual_load::{LoadSet, LoadSettings, LoadSpec};
use punctual_record::{Event, Happening, Method, Run, Subject};
use punctual_trace::capture::Unavailable;

/// How long loads may take to get going.
const LOADS_READY: Duration = Duration::from_secs(60);

/// Where the first half of a run ends.
pub fn halves(plan: &Plan) -> Halves {
    let by_loops = plan
        .loops
        .and_then(|loops| loops.checked_mul(plan.interval.nominal_ns()));
    match (plan.duration_ns, by_loops) {
        (None, None) => Halves::Doubling(1_000_000_000),
        (duration, loops) => {
            let length_ns = duration.unwrap_or(u64::MAX).min(loops.unwrap_or(u64::MAX));
            Halves::At((length_ns / 2).max(1))
        }
    }
}

/// Begins to trace, where that was asked for; where it can't be, the record says why.
pub fn explain(
    plan: &Plan,
    ready: &[Ready],
    sinks: &mut Vec<Box<dyn SampleSink>>,
    run: &mut Run,
) -> Option<Explaining> {
    if !plan.explain {
        return None;
    }
    let tids = ready.iter().map(|ready| ready.tid);
    let probes: Vec<(i32, usize)> = tids.zip(plan.cpus.iter().copied()).collect();
    let wanted = Wanted {
        cpus: plan.cpus.clone(),
        threads: probes,
        above_ns: plan.explain_above_ns.or(plan.deadline_ns()),
        stack_above_ns: plan.stack_above_ns,
        polling: plan.gaps.as_ref().map(|_| plan.policy),
        housekeeping: plan.placement.housekeeping,
    };
    match Explaining::begin(&wanted) {
        Ok((explaining, feed)) => {
            sinks.push(Box::new(feed));
            Some(explaining)
        }
        Err(why) => {
            run.events.push(not_explained(why, plan.gaps.is_some()));
            None
        }
    }
}

/// That nothing is explained, and why.
pub fn not_explained(why: Unavailable, gaps: bool) -> Event {
    let what = Happening::NotExplained {
        reason: why.reason,
        fix: why.mend,
        gaps,
    };
    Event::told(0, what)
}

/// What tells the platform's gaps from the kernel's, where the platform's alone are asked for
/// and the kernel's events are known.
pub fn sieve(explaining: &Option<Explaining>, run: &mut Run) -> Option<Box<dyn Sieve>> {
    let gaps = run.gaps.as_mut()?;
    let explaining = explaining.as_ref()?;
    if gaps.method == Method::Hwlat {
        return None;
    }
    gaps.sifted = gaps.subject == Subject::Hardware;
    gaps.sifted.then(|| explaining.sieve())
}

/// What knows of stops of this process; nothing where the kernel finds the gaps by itself.
///
/// # Errors
/// When no thread can be had.
pub fn stop_watch(
    plan: &Plan,
    signals: &Signals,
    pace: &Arc<Pace>,
) -> Result<Option<StopWatch>, ConductError> {
    let by_kernel = plan.gaps.as_ref().map(|gaps| gaps.method) == Some(Method::Hwlat);
    match by_kernel {
        true => Ok(None),
        false => StopWatch::begin(signals, plan.placement.housekeeping, pace).map(Some),
    }
}

/// Starts the loads, and waits until they are at work.
///
/// # Errors
/// A load that can't be had, or a signal that came meanwhile.
pub fn start_loads(
    plan: &Plan,
    signals: &Signals,
    observer: &mut dyn Observer,
) -> Result<Option<LoadSet>, ConductError> {
    if plan.load == LoadSpec::None {
        return Ok(None);
    }
    observer.stage(&format!("starting {}", plan.load.label()));
    let settings = LoadSettings {
        class: plan.load_class,
        cpus: Some(plan.placement.load.clone()),
        allowed_cpus: plan.placement.load.len(),
        seed: load_seed(),
        least_cpu_ns: plan.load_least_cpu_ns,
        ..LoadSettings::default()
    };
    let failed = |error: punctual_load::LoadError| ConductError::Load(error.to_string());
    let loads = LoadSet::start(&plan.load, &settings).map_err(failed)?;
    let wanted = || signals.end().is_none();
    loads
        .wait_ready_while(LOADS_READY, wanted)
        .map_err(failed)?;
    go_on(signals)?;
    Ok(Some(loads))
}

/// Refuses to go on when a signal came before there was anything to measure.
pub fn go_on(signals: &Signals) -> Result<(), ConductError> {
    match signals.end() {
        Some(reason) => Err(ConductError::Interrupted(reason)),
        None => Ok(()),
    }
}
