//! Our histograms in the fixed steps of other tools.

use std::collections::BTreeMap;

use punctual_stats::histogram::Histogram;

use crate::record::{Run, Thread};

/// Histogram of a thread, for output.
pub(super) fn histogram(run: &Run, index: usize) -> Result<Histogram, String> {
    let thread = &run.threads[index];
    Histogram::try_from(&thread.latency).map_err(|e| format!("{}: {e}", run.thread_label(index)))
}

/// Counts in steps of `unit_ns`, rounded down like the tools that we write for.
///
/// A bucket of ours counts at its highest value, so that no sample becomes faster
/// than it was; the minimum, the maximum and every peak are known exactly and
/// stand where they belong.
pub(super) fn in_steps(thread: &Thread, histogram: &Histogram, unit_ns: u64) -> BTreeMap<u64, u64> {
    let mut rows = BTreeMap::new();
    let mut add = |value_ns: u64, count: u64| {
        if count > 0 {
            *rows.entry(value_ns / unit_ns).or_insert(0) += count;
        }
    };
    let (Some(min), Some(max)) = (histogram.min(), histogram.max()) else {
        return rows;
    };
    let exact_above = if thread.peaks.is_empty() {
        u64::MAX
    } else {
        thread.peaks_above_ns
    };
    for peak in &thread.peaks {
        add(peak.latency_ns, 1);
    }
    let mut exact = sorted_latencies(thread);
    for bucket in histogram.buckets() {
        // Peaks of this bucket, counted above already.
        let known = take_until(&mut exact, bucket.high_ns);
        let mut rest = bucket.count.saturating_sub(known);
        if rest > 0 && bucket.low_ns <= min && min <= bucket.high_ns && min <= exact_above {
            add(min, 1);
            rest -= 1;
        }
        add(bucket.high_ns.min(max), rest);
    }
    rows
}

/// Latencies of the peaks, highest first, to be taken from the end.
fn sorted_latencies(thread: &Thread) -> Vec<u64> {
    let mut exact: Vec<u64> = thread.peaks.iter().map(|peak| peak.latency_ns).collect();
    exact.sort_unstable_by(|a, b| b.cmp(a));
    exact
}

fn take_until(exact: &mut Vec<u64>, high_ns: u64) -> u64 {
    let mut taken = 0;
    while exact.last().is_some_and(|latency| *latency <= high_ns) {
        exact.pop();
        taken += 1;
    }
    taken
}

/// Mean in steps of `unit_ns`.
pub(super) fn mean(histogram: &Histogram, unit_ns: u64) -> f64 {
    histogram.mean().map_or(0.0, |ns| ns / unit_ns as f64)
}
