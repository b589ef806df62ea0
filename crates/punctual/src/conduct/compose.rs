//! The record, out of what has been gathered.

use std::sync::Arc;

use punctual_stats::histogram::HistogramRecord;

use super::plan::Plan;
use crate::probe::collector::{Collector, Lane, Sifted};
use crate::probe::cycle::Ended;
use crate::probe::gaps::{Account, Told};
use crate::probe::tally::Tally;
use crate::probe::thread::Outcome;
use crate::probe::timeline;
use crate::system::watch::Watch;
use punctual_load::{LoadReport, LoadSpec, LoadStatus, Pause};
use punctual_record::event::Halted;
use punctual_record::{
    self, Event, Faults, Happening, Load, OwnCost, Placement, Request, Run, State, Stop,
    SystemState, Thread, Timeline, Tool, Watched,
};

/// What is kept of a lane while the record is made: a copy, so that the collector
/// is held still only for copying.
pub struct LaneCopy {
    cpu: usize,
    tid: i32,
    lost: u64,
    tally: Tally,
    sifted: Sifted,
    /// Time in stops, of one that polls.
    stopped_ns: u64,
    /// For a thread that polls: how far it has come.
    polled: Option<Told>,
}

/// Copies all lanes. `accounts` are those of threads that poll, in their order.
pub fn copy(collector: &Collector, accounts: &[Arc<Account>]) -> Vec<LaneCopy> {
    let copy = |(index, lane): (usize, &Lane)| LaneCopy {
        cpu: lane.cpu,
        tid: lane.tid,
        lost: lane.lost(),
        tally: lane.tally.clone(),
        sifted: lane.sifted,
        stopped_ns: lane.stopped.ns,
        polled: accounts.get(index).map(|account| account.told()),
    };
    collector.lanes.iter().enumerate().map(copy).collect()
}

/// A record of a run that has not measured anything yet.
pub fn begun(plan: &Plan, started: String, system: SystemState) -> Run {
    let request = Request {
        source: plan.source().to_owned(),
        interval: plan.interval.clone(),
        cpus: plan.cpus.clone(),
        policy: plan.policy.name().to_owned(),
        priority: plan.policy.priority(),
        duration_ns: plan.duration_ns,
        loops: plan.loops,
        break_ns: plan.break_ns,
        load: plan.load.label(),
        load_class: plan.load_class.to_string(),
        requirements: plan.requirements.clone(),
        confidence: plan.confidence,
        as_deployed: plan.as_deployed,
        best_effort: plan.best_effort,
    };
    Run {
        gaps: plan.gaps.clone(),
        placement: Some(Placement {
            load: match plan.load {
                LoadSpec::None => Vec::new(),
                _ => plan.placement.load.clone(),
            },
            ..plan.placement.clone()
        }),
        ..empty(&plan.verb, plan.command.clone(), request, started, system)
    }
}

/// The same of any verb.
pub fn empty(
    verb: &str,
    command: Vec<String>,
    request: Request,
    started: String,
    system: SystemState,
) -> Run {
    let tool = Tool {
        name: "punctual".to_owned(),
        version: env!("CARGO_PKG_VERSION").to_owned(),
    };
    Run {
        command,
        timeline: Timeline {
            row_ns: 100_000_000,
            ..Timeline::default()
        },
        own_cost: OwnCost {
            clock_read_ns: punctual_rt::clock::read_cost_ns(),
            ..OwnCost::default()
        },
        ..Run::begun(tool, verb, started, request, system)
    }
}

/// Puts the figures as they stand into the record.
pub fn fill(run: &mut Run, start_ns: u64, lanes: &[LaneCopy]) {
    run.start_ns = Some(start_ns);
    let watched: Vec<_> = lanes.iter().map(|lane| watched(start_ns, lane)).collect();
    let threads = lanes.iter().zip(&watched);
    run.threads = threads
        .map(|(lane, watched)| thread(start_ns, lane, watched))
        .collect();
    if let Some(gaps) = &mut run.gaps {
        gaps.threads = watched;
    }
    run.measured_ns = run
        .threads
        .iter()
        .map(|thread| thread.measured_ns)
        .max()
        .unwrap_or(0);
    run.timeline = timeline::merged(lanes.iter().map(|lane| lane.tally.rows()), run.measured_ns);
    leave_out_stopped_seconds(run);
    if let Ok(usage) = punctual_rt::sys::task::process_usage() {
        run.own_cost.peak_resident_bytes = u64::try_from(usage.ru_maxrss).unwrap_or(0) * 1024;
    }
}

/// Seconds within stops are neither good nor bad.
pub fn leave_out_stopped_seconds(run: &mut Run) {
    let stops = run.stops.as_ref();
    let stopped = stops.map_or(0, |stops| stops.total_ns / 1_000_000_000);
    let timeline = &mut run.timeline;
    timeline.seconds = timeline
        .seconds
        .saturating_sub(stopped)
        .max(timeline.seconds_with_miss);
}

/// A stop, for those who read the events.
pub fn stop_event(stop: &Stop, stopped: Halted) -> Event {
    let what = Happening::Stopped {
        stopped,
        length_ns: stop.length_ns,
        cause: stop.cause,
    };
    Event::told(stop.at_ns, what)
}

/// Puts in what the probe threads said at their end.
pub fn finish_threads(run: &mut Run, outcomes: Vec<Option<Outcome>>) {
    for (thread, outcome) in run.threads.iter_mut().zip(outcomes) {
        let Some(outcome) = outcome else {
            thread.error = Some("did not end in time: it still waits for a far instant".to_owned());
            continue;
        };
        thread.faults = outcome.disturbances.map(|disturbances| Faults {
            minor: disturbances.minor_faults,
            major: disturbances.major_faults,
        });
        thread.preemptions = outcome
            .disturbances
            .map(|disturbances| disturbances.preemptions);
        run.own_cost.probes_cpu_ns += outcome.cpu_ns;
        if let Ended::Failed(error) = outcome.ended {
            thread.error = Some(format!("the wait failed: {error}"));
        }
    }
}

/// What the conditions came to in the end.
pub fn last_conditions(run: &mut Run, watch: &mut Watch, elapsed_ns: u64) {
    watch.poll_into(elapsed_ns, &mut run.events);
    if let Some(stolen) = watch.stolen() {
        run.system.virtualisation.stolen_ns = Some(stolen.total_ns);
        run.system.virtualisation.stolen_share = Some(stolen.share);
        run.system.virtualisation.stolen_grain_ns = Some(crate::system::stolen::tick_ns());
    }
}

/// The time of a thread that polls, in parts that sum to it.
fn watched(start_ns: u64, lane: &LaneCopy) -> Watched {
    let mut told = lane.polled.unwrap_or_default();
    // A stop was not watched.
    told.gap_ns = told.gap_ns.saturating_sub(lane.stopped_ns);
    let in_loop_ns = told.polled_ns + told.gap_ns;
    let span_ns = told.last_ns.saturating_sub(start_ns).max(in_loop_ns);
    Watched {
        span_ns,
        polled_ns: told.polled_ns,
        gap_ns: told.gap_ns,
        unwatched_ns: span_ns - in_loop_ns,
        polls: told.polls,
        set_aside: lane.sifted.set_aside,
        set_aside_ns: lane.sifted.set_aside_ns.min(told.gap_ns),
        untold: lane.sifted.untold,
        smi: None,
    }
}

fn thread(start_ns: u64, lane: &LaneCopy, watched: &Watched) -> Thread {
    let thread = thread_of(start_ns, &lane.tally, lane.cpu, lane.tid);
    Thread {
        lost: lane.lost,
        measured_ns: match lane.polled {
            Some(_) => watched.span_ns,
            None => thread.measured_ns,
        },
        ..thread
    }
}

/// What a tally says of a thread.
pub fn thread_of(start_ns: u64, tally: &Tally, cpu: usize, tid: i32) -> Thread {
    let peaks = tally.peaks();
    Thread {
        cpu,
        tid,
        latency: HistogramRecord::from(&tally.latency()),
        late: tally.late,
        missed: tally.missed,
        missed_late: Some(tally.missed_late),
        lost: 0,
        early: tally.early,
        warm_up: tally.warm_up,
        peaks: peaks.in_order(),
        peaks_above_ns: peaks.threshold(),
        measured_ns: tally.last_asked_ns.saturating_sub(start_ns),
        faults: None,
        preemptions: None,
        first_half: Some(HistogramRecord::from(&tally.parts()[0])),
        first_half_misses: Some(tally.part_misses()[0]),
        error: None,
    }
}

/// A load's report as the record keeps it.
pub fn load(report: LoadReport) -> Load {
    Load {
        name: report.name,
        parameters: report.parameters,
        processes: report.processes,
        work: report.work,
        unit: report.unit,
        rate: report.rate,
        failed: report.failed,
        check: report.check,
        idle_run: None,
    }
}

/// A time in which a load did no work.
pub fn pause(pause: &Pause, start_ns: u64) -> Event {
    let what = Happening::LoadIdle {
        load: pause.load.clone(),
        length_ns: pause.length_ns,
        stopped: pause.stopped.map(|(stopped, _)| stopped as u64),
        processes: pause.stopped.map(|(_, all)| all as u64),
    };
    Event::told(pause.begin_ns.saturating_sub(start_ns), what)
}

/// A load that still runs, as the record keeps it.
pub fn load_under_way(status: &LoadStatus) -> Load {
    Load {
        name: status.name.clone(),
        parameters: std::collections::BTreeMap::new(),
        processes: status.expected,
        work: status.work,
        unit: status.unit.clone(),
        rate: status.rate,
        failed: status.error.clone(),
        check: (status.check.looked_ns > 0).then_some(status.check),
        idle_run: None,
    }
}

/// Says what the figures mean: the analysis and, where something was required or
/// the run is not valid, the verdict.
pub fn judge(run: &mut Run) {
    if let Ok(analysis) = punctual_record::analyse_record(run) {
        run.conclude(analysis);
    }
}
