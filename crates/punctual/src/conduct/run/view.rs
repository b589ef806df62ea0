//! The live view of a run, from the tallies.

use punctual_stats::requirement::Requirement;

use crate::probe::collector::{Collector, Lane};
use punctual_load::LoadStatus;
use punctual_record::live::{LiveLoad, LiveThread, LiveView, Note, SPARK_BUCKETS, spark_bucket};
use punctual_record::{Request, Run, Standing};

/// The state of the run.
pub fn of(run: &Run, collector: &Collector, loads: &[LoadStatus], elapsed_ns: u64) -> LiveView {
    let request = &run.request;
    LiveView {
        verb: run.verb.clone(),
        elapsed_ns,
        total_ns: request.duration_ns,
        deadline_ns: request.requirements.first().map(Requirement::limit_ns),
        threads: collector
            .lanes
            .iter()
            .map(|lane| thread(request, lane))
            .collect(),
        loads: loads.iter().map(load).collect(),
        nanoseconds: false,
        notes: notes(run),
        gaps: run.gaps.is_some(),
        messages: run.path.is_some(),
    }
}

/// What a user must see at once: conditions not in force, and the last event.
fn notes(run: &Run) -> Vec<Note> {
    let demands = run.demands.iter();
    let unmet = demands.filter(|demand| demand.standing == Standing::NotInForce);
    let unmet = unmet.cloned().map(Note::Unmet);
    let last = run.events.last().cloned().map(Note::Happened);
    unmet.chain(last).collect()
}

fn thread(request: &Request, lane: &Lane) -> LiveThread {
    let latency = lane.tally.latency();
    let mut spark = [0; SPARK_BUCKETS];
    for bucket in latency.buckets() {
        spark[spark_bucket(bucket.high_ns)] += bucket.count;
    }
    LiveThread {
        cpu: lane.cpu,
        tid: lane.tid,
        priority: request.priority,
        interval_ns: request.interval.nominal_ns(),
        count: latency.count(),
        min_ns: latency.min().unwrap_or(0),
        act_ns: lane.tally.last_latency_ns,
        avg_ns: latency.mean().unwrap_or(0.0),
        p999_ns: latency.supported_quantile(0.999),
        max_ns: latency.max().unwrap_or(0),
        late: lane.tally.late,
        missed: lane.tally.missed,
        lost: lane.lost(),
        spark,
    }
}

fn load(status: &LoadStatus) -> LiveLoad {
    LiveLoad {
        name: status.name.clone(),
        unit: status.unit.clone(),
        rate: status.rate,
        failed: status.failed.is_some(),
    }
}
