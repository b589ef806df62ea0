//! What the records of runs and of watches have in common.

use punctual_stats::histogram::HistogramRecord;

use crate::probe::tally::Tally;
use punctual_record::event::Halted;
use punctual_record::{
    Event, Happening, OwnCost, Request, Run, Stop, SystemState, Thread, Timeline,
};

/// How many of the highest samples are kept, over all threads.
pub const PEAKS: usize = 8192;

/// A record of a run that has measured nothing yet.
pub fn empty(
    verb: &str,
    command: Vec<String>,
    request: Request,
    started: String,
    system: SystemState,
) -> Run {
    let tool = crate::conduct::this_tool();
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

/// Records the peak memory of this process.
pub fn put_memory(run: &mut Run) {
    if let Ok(usage) = punctual_rt::sys::task::process_usage() {
        run.own_cost.peak_resident_bytes = u64::try_from(usage.ru_maxrss).unwrap_or(0) * 1024;
    }
}

/// Excludes the seconds in stops: they are neither on time nor late.
pub fn leave_out_stopped_seconds(run: &mut Run) {
    let stops = run.stops.as_ref();
    let stopped = stops.map_or(0, |stops| stops.total_ns / 1_000_000_000);
    let timeline = &mut run.timeline;
    timeline.seconds = timeline
        .seconds
        .saturating_sub(stopped)
        .max(timeline.seconds_with_miss);
}

/// The event of a stop.
pub fn stop_event(stop: &Stop, stopped: Halted) -> Event {
    let what = Happening::Stopped {
        stopped,
        length_ns: stop.length_ns,
        cause: stop.cause,
    };
    Event::new(stop.at_ns, what)
}

/// A thread's part of the record, from its tally.
pub fn thread_of(start_ns: u64, tally: &Tally, cpu: usize, tid: i32) -> Thread {
    let peaks = tally.peaks();
    Thread {
        cpu: Some(cpu),
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
        measured_ns: tally.last_requested_ns.saturating_sub(start_ns),
        faults: None,
        preemptions: None,
        first_half: Some(HistogramRecord::from(&tally.parts()[0])),
        first_half_misses: Some(tally.part_misses()[0]),
        fault: None,
    }
}

/// Analyses the figures and, if something was required or the run is not valid, adds the verdict.
pub fn judge(run: &mut Run) {
    if let Ok(analysis) = punctual_record::analyse_record(run) {
        run.conclude(analysis);
    }
}
