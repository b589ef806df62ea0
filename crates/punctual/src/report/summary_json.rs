//! The summary of a run as JSON, for `--json`: the record without what is large.

use serde_json::Value;

use crate::record::Run;

/// Everything of the record but the pictures of bills, the encoded histograms, the peaks below the worst
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
    if let Some(explanation) = value.get_mut("explanation") {
        explained(explanation);
    }
    if let Some(watch) = value.get_mut("watch") {
        watched(watch);
    }
    let text = serde_json::to_string_pretty(&value).unwrap_or_default();
    text + "\n"
}

fn explained(explanation: &mut Value) {
    let entries = |value: &mut Value, name: &str, change: fn(&mut Value)| {
        let list = value.get_mut(name).and_then(Value::as_array_mut);
        list.into_iter().flatten().for_each(change);
    };
    entries(explanation, "bills", |bill| {
        if let Some(bill) = bill.as_object_mut() {
            bill.remove("picture");
        }
    });
    entries(explanation, "stages", |stage| {
        if let Some(times) = stage.get_mut("times").and_then(Value::as_object_mut) {
            times.remove("encoded");
        }
    });
}

fn watched(watch: &mut Value) {
    let threads = watch.get_mut("threads").and_then(Value::as_array_mut);
    for thread in threads.into_iter().flatten() {
        for name in ["by_timer", "by_others"] {
            if let Some(times) = thread.get_mut(name).and_then(Value::as_object_mut) {
                times.remove("encoded");
            }
        }
    }
    let marks = watch.get_mut("marks").and_then(Value::as_array_mut);
    let threads = marks
        .into_iter()
        .flatten()
        .filter_map(|mark| mark.get_mut("threads").and_then(Value::as_array_mut));
    for thread in threads.flatten() {
        if let Some(lengths) = thread.get_mut("lengths").and_then(Value::as_object_mut) {
            lengths.remove("encoded");
        }
    }
}
