//! Peaks in `run.json`: `[cycle, asked_ns, latency_ns]` each, and a fourth number where periods
//! were skipped. They are most of a record and are saved every few seconds; names would make them
//! twice as long.

use punctual_stats::peaks::Peak;
use serde::ser::SerializeSeq as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// Cycle, requested instant, latency, skipped periods.
#[derive(Deserialize)]
struct Row(u64, u64, u64, #[serde(default)] u64);

impl Serialize for Row {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let Row(cycle, asked_ns, latency_ns, skipped) = self;
        let length = if *skipped > 0 { 4 } else { 3 };
        let mut row = serializer.serialize_seq(Some(length))?;
        for number in [cycle, asked_ns, latency_ns, skipped].iter().take(length) {
            row.serialize_element(number)?;
        }
        row.end()
    }
}

pub(super) fn serialize<S: Serializer>(peaks: &[Peak], serializer: S) -> Result<S::Ok, S::Error> {
    let row = |peak: &Peak| Row(peak.cycle, peak.asked_ns, peak.latency_ns, peak.skipped);
    serializer.collect_seq(peaks.iter().map(row))
}

pub(super) fn deserialize<'de, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<Vec<Peak>, D::Error> {
    let rows = Vec::<Row>::deserialize(deserializer)?;
    let peak = |Row(cycle, asked_ns, latency_ns, skipped)| {
        Peak::new(cycle, asked_ns, latency_ns).with_skipped(skipped)
    };
    Ok(rows.into_iter().map(peak).collect())
}
