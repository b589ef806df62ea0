//! The summary of a run as JSON, for `--json`: the record without what is large.

use serde_json::Value;

use crate::record::Run;

/// Everything of the record but the encoded histograms, the peaks below the worst
/// ten of each thread and the rows of the timeline; with a final newline.
#[must_use]
pub fn summary(run: &Run) -> String {
    let mut value = serde_json::to_value(run).unwrap_or(Value::Null);
    if let Some(threads) = value.get_mut("threads").and_then(Value::as_array_mut) {
        for (thread, measured) in threads.iter_mut().zip(&run.threads) {
            let Some(thread) = thread.as_object_mut() else {
                continue;
            };
            thread.remove("first_half");
            if let Some(latency) = thread.get_mut("latency").and_then(Value::as_object_mut) {
                latency.remove("encoded");
            }
            let mut worst = measured.peaks.clone();
            worst.sort_by_key(|peak| std::cmp::Reverse(peak.latency_ns));
            worst.truncate(10);
            thread.insert(
                "peaks".to_owned(),
                serde_json::to_value(worst).unwrap_or(Value::Null),
            );
        }
    }
    if let Some(timeline) = value.get_mut("timeline").and_then(Value::as_object_mut) {
        timeline.remove("rows");
    }
    let text = serde_json::to_string_pretty(&value).unwrap_or_default();
    text + "\n"
}
