//! The record of a run, from the figures of its probe threads.

use std::sync::Arc;

use crate::conduct::compose::{leave_out_stopped_seconds, put_memory, thread_of};
use crate::probe::collector::{Collector, Lane, Sifted};
use crate::probe::cycle::Ended;
use crate::probe::gaps::{Account, Progress};
use crate::probe::tally::Tally;
use crate::probe::thread::Outcome;
use crate::probe::timeline;
use punctual_load::{LoadReport, LoadStatus, Pause};
use punctual_record::{Event, Faults, Happening, Load, Run, Thread, ThreadFault, Watched};

/// A copy of a lane, so that the collector is locked only while it is copied.
pub struct LaneCopy {
    cpu: usize,
    tid: i32,
    lost: u64,
    tally: Tally,
    sifted: Sifted,
    /// For a thread that polls: its time in stops.
    stopped_ns: u64,
    /// For a thread that polls: its progress.
    polled: Option<Progress>,
}

/// Copies all lanes. `accounts` are those of the threads that poll, in their order.
pub fn copy(collector: &Collector, accounts: &[Arc<Account>]) -> Vec<LaneCopy> {
    let copy = |(index, lane): (usize, &Lane)| LaneCopy {
        cpu: lane.cpu,
        tid: lane.tid,
        lost: lane.lost(),
        tally: lane.tally.clone(),
        sifted: lane.sifted,
        stopped_ns: lane.stopped.ns,
        polled: accounts.get(index).map(|account| account.progress()),
    };
    collector.lanes.iter().enumerate().map(copy).collect()
}

/// Puts the figures so far into the record.
pub fn fill(run: &mut Run, start_ns: u64, lanes: &[LaneCopy]) {
    run.start_ns = Some(start_ns);
    let watched: Vec<_> = lanes.iter().map(|lane| polled(start_ns, lane)).collect();
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
    put_memory(run);
}

/// Adds the outcome of each probe thread to the record. One without may be asleep until an instant that is still to
/// come, as after a signal: it measured all that it should.
pub fn finish_threads(run: &mut Run, outcomes: Vec<Option<Outcome>>, asleep: &[bool]) {
    let each = run.threads.iter_mut().zip(outcomes).zip(asleep);
    for ((thread, outcome), asleep) in each {
        let Some(outcome) = outcome else {
            thread.fault = (!asleep).then_some(ThreadFault::StillWaiting);
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
            thread.fault = Some(ThreadFault::WaitFailed {
                error: error.to_string(),
            });
        }
    }
}

/// The time of a thread that polls, split into parts.
fn polled(start_ns: u64, lane: &LaneCopy) -> Watched {
    let mut progress = lane.polled.unwrap_or_default();
    // A stop was not watched.
    progress.gap_ns = progress.gap_ns.saturating_sub(lane.stopped_ns);
    let in_loop_ns = progress.polled_ns + progress.gap_ns;
    let span_ns = progress.last_ns.saturating_sub(start_ns).max(in_loop_ns);
    Watched {
        span_ns,
        polled_ns: progress.polled_ns,
        gap_ns: progress.gap_ns,
        unwatched_ns: span_ns - in_loop_ns,
        polls: progress.polls,
        set_aside: lane.sifted.set_aside,
        set_aside_ns: lane.sifted.set_aside_ns.min(progress.gap_ns),
        untold: lane.sifted.undecided,
        longest_untold_ns: lane.sifted.longest_undecided_ns,
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

/// The event of a time in which a load did no work.
pub fn pause(pause: &Pause, start_ns: u64) -> Event {
    let what = Happening::LoadIdle {
        load: pause.load.clone(),
        length_ns: pause.length_ns,
        stopped: pause.stopped.map(|(stopped, _)| stopped as u64),
        processes: pause.stopped.map(|(_, all)| all as u64),
    };
    Event::new(pause.begin_ns.saturating_sub(start_ns), what)
}

/// A load that is still running, as the record keeps it.
pub fn load_under_way(status: &LoadStatus) -> Load {
    Load {
        name: status.name.clone(),
        parameters: std::collections::BTreeMap::new(),
        processes: status.expected,
        work: status.work,
        unit: status.unit.clone(),
        rate: status.rate,
        failed: status.failed.clone(),
        check: (status.check.looked_ns > 0).then_some(status.check),
        idle_run: None,
    }
}
