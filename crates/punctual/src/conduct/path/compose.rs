//! The record of a path, from what was joined.

use punctual_network::sender::Outcome;

use super::joining::Joined;
use crate::conduct::compose::{leave_out_stopped_seconds, put_memory, thread_of};
use crate::probe::collector::Lane;
use crate::probe::timeline;
use punctual_record::condition::{Condition, Demand, Fix};
use punctual_record::path::{PathRun, PeerConditions};
use punctual_record::{Event, Faults, Happening, Run, Stops, Thread};

/// Puts the figures so far into the record.
pub fn fill(run: &mut Run, start_ns: u64, lane: &Lane, joined: &Joined) {
    run.start_ns = Some(start_ns);
    let before = run.threads.pop();
    let thread = Thread {
        lost: lane.lost() + joined.lost(),
        faults: before.as_ref().and_then(|it| it.faults),
        preemptions: before.and_then(|it| it.preemptions),
        ..thread_of(start_ns, &lane.tally, lane.cpu, lane.tid)
    };
    run.measured_ns = thread.measured_ns;
    run.threads = vec![thread];
    run.timeline = timeline::merged([lane.tally.rows()], run.measured_ns);
    if let Some(path) = &mut run.path {
        path.counts = joined.joiner.counts();
        path.send_lateness = joined.joiner.send_lateness();
        if let Some(launch) = &mut path.launch {
            launch.counts = joined.joiner.launched();
        }
        path.one_way = joined.joiner.one_way();
        path.stamps.hardware = joined.joiner.has_hardware_stamps();
        let bills = joined.joiner.bills();
        // Without a deadline, no message is late.
        path.bills = (bills.above_ns < u64::MAX).then_some(bills);
    }
    leave_out_stopped_seconds(run);
    put_memory(run);
}

/// That this machine dropped replies; beyond a share, what is left says too little.
pub fn dropped_here(run: &Run) -> Option<Event> {
    let counts = run.path.as_ref()?.counts;
    let what = Happening::RepliesDropped {
        replies: counts.dropped_here,
        of: counts.sent,
    };
    let share = counts.dropped_here as f64 / counts.sent.max(1) as f64;
    match counts.dropped_here {
        0 => None,
        _ if share > Stops::MOST_SHARE => Some(Event::invalidating(run.measured_ns, what)),
        _ => Some(Event::new(run.measured_ns, what)),
    }
}

/// Adds what both threads reported at their end.
pub fn finish(run: &mut Run, outcomes: &[Option<Outcome>]) {
    let ended: Vec<&Outcome> = outcomes.iter().flatten().collect();
    let disturbances = ended.iter().map(|outcome| outcome.disturbances);
    let all: Option<Vec<_>> = disturbances.collect();
    run.own_cost.probes_cpu_ns = ended.iter().map(|outcome| outcome.cpu_ns).sum();
    let Some(thread) = run.threads.first_mut() else {
        return;
    };
    if let (Some(all), true) = (all, ended.len() == outcomes.len()) {
        thread.faults = Some(Faults {
            minor: all.iter().map(|it| it.minor_faults).sum(),
            major: all.iter().map(|it| it.major_faults).sum(),
        });
        thread.preemptions = Some(all.iter().map(|it| it.preemptions).sum());
    }
}

/// What was requested of the responder's thread, and whether it is in force there.
pub fn peer_demands(conditions: &PeerConditions) -> [Demand; 2] {
    let is_real_time = conditions.is_real_time();
    let refused = conditions.priority_refused;
    let priority = Condition::PeerPriority {
        requested: conditions.requested,
        found: conditions.scheduling,
        refused,
    };
    let priority = Demand::requested(priority, is_real_time, || match refused {
        Some(_) => Fix::PeerRights,
        None => Fix::PeerPolicy,
    });
    let memory = Condition::PeerMemory {
        refused: conditions.memory_refused,
    };
    let memory = Demand::requested(memory, conditions.locked_memory, || Fix::PeerRights);
    [priority, memory]
}

/// Replaces what was found of the responder before by what it found at its end, if that is worse.
pub fn replace_peer_demands(run: &mut Run) {
    let report = run
        .path
        .as_ref()
        .and_then(|path: &PathRun| path.responder.as_ref());
    let Some(report) = report else {
        return;
    };
    for now in peer_demands(&report.conditions) {
        let same = run.demands.iter_mut().find(|it| it.name() == now.name());
        if let (Some(before), Some(_)) = (same, &now.fix) {
            *before = now;
        }
    }
}
