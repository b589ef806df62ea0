//! Peaks in `run.json`: `[cycle, asked_ns, latency_ns]` each. They are most of a
//! record and are saved every few seconds; names would make them twice as long.

use punctual_stats::peaks::Peak;
use serde::{Deserialize, Deserializer, Serializer};

/// Cycle, instant asked for, latency.
type Row = (u64, u64, u64);

pub(super) fn serialize<S: Serializer>(peaks: &[Peak], serializer: S) -> Result<S::Ok, S::Error> {
    let row = |peak: &Peak| -> Row { (peak.cycle, peak.asked_ns, peak.latency_ns) };
    serializer.collect_seq(peaks.iter().map(row))
}

pub(super) fn deserialize<'de, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<Vec<Peak>, D::Error> {
    let rows = Vec::<Row>::deserialize(deserializer)?;
    let peak = |(cycle, asked_ns, latency_ns)| Peak {
        cycle,
        asked_ns,
        latency_ns,
    };
    Ok(rows.into_iter().map(peak).collect())
}
