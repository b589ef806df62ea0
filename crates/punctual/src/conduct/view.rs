//! What is seen while the run goes, out of the tallies.

use crate::probe::collector::{Collector, Lane};
use punctual_load::LoadStatus;
use punctual_report::live::{LiveLoad, LiveThread, LiveView, SPARK_BUCKETS, spark_bucket};

use super::plan::Plan;

/// The run as it stands.
pub fn of(
    plan: &Plan,
    collector: &Collector,
    loads: &[LoadStatus],
    elapsed_ns: u64,
    notes: &[String],
) -> LiveView {
    LiveView {
        verb: plan.verb.clone(),
        elapsed_ns,
        total_ns: plan.duration_ns,
        deadline_ns: plan.deadline_ns(),
        threads: collector
            .lanes
            .iter()
            .map(|lane| thread(plan, lane))
            .collect(),
        loads: loads.iter().map(load).collect(),
        nanoseconds: false,
        notes: notes.to_vec(),
        gaps: plan.gaps.is_some(),
    }
}

fn thread(plan: &Plan, lane: &Lane) -> LiveThread {
    let latency = lane.tally.latency();
    let mut spark = [0; SPARK_BUCKETS];
    for bucket in latency.buckets() {
        spark[spark_bucket(bucket.high_ns)] += bucket.count;
    }
    // Ten samples beyond a percentile are the least that support it.
    let supported = latency.count() >= 10_000;
    LiveThread {
        cpu: lane.cpu,
        tid: lane.tid,
        priority: plan.policy.priority(),
        interval_ns: plan.interval.nominal_ns(),
        count: latency.count(),
        min_ns: latency.min().unwrap_or(0),
        act_ns: lane.tally.last_latency_ns,
        avg_ns: latency.mean().unwrap_or(0.0),
        p999_ns: if supported {
            latency.quantile(0.999)
        } else {
            None
        },
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
        failed: status.error.is_some(),
    }
}
