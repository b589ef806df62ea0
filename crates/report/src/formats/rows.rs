//! Our histograms in the fixed steps of other tools.

use std::collections::BTreeMap;

use punctual_stats::histogram::Histogram;

use super::WriteError;
use punctual_record::{Run, Thread};

/// What is known of a thread, for output.
pub(super) struct Known {
    /// The latencies that were kept.
    pub histogram: Histogram,
    /// Samples that lie at or above `kept_below_ns`, and of which nothing more is known but
    /// the maximum; 0 for our own.
    pub beyond: u64,
    /// Where they begin.
    pub kept_below_ns: Option<u64>,
    /// Exact minimum.
    pub min_ns: Option<u64>,
    /// Exact maximum.
    pub max_ns: Option<u64>,
    /// Exact mean.
    pub mean_ns: Option<f64>,
}

impl Known {
    /// All samples.
    pub fn count(&self) -> u64 {
        self.histogram.count().saturating_add(self.beyond)
    }

    /// The mean in steps of `unit_ns`, 0 of nothing; absent where merged runs of another tool
    /// kept not all.
    pub fn mean(&self, unit_ns: u64) -> Option<f64> {
        let nothing = (self.count() == 0).then_some(0.0);
        nothing.or(self.mean_ns).map(|ns| ns / unit_ns as f64)
    }
}

/// What is known of a thread. Of samples that another tool did not keep, nothing is made up.
pub(super) fn known(run: &Run, index: usize) -> Result<Known, WriteError> {
    let thread = &run.threads[index];
    let all = Histogram::try_from(&thread.latency).map_err(|source| WriteError::Histogram {
        thread: run.thread_label(index),
        source,
    })?;
    let imported = run.imported.as_ref();
    let stated = imported.and_then(|imported| imported.threads.get(index));
    let stated = stated.filter(|of| of.count > 0);
    let unkept = if imported.is_some() { thread.lost } else { 0 };
    let min_ns = stated.map(|of| of.min_ns).or(all.min());
    let max_ns = stated.map(|of| of.max_ns).or(all.max());
    let mean_ns = match stated {
        Some(of) => of.mean_ns,
        None if unkept > 0 => None,
        None => all.mean(),
    };
    if unkept == 0 {
        return Ok(Known {
            histogram: all,
            beyond: 0,
            kept_below_ns: None,
            min_ns,
            max_ns,
            mean_ns,
        });
    }
    let end = stated.and_then(|of| of.kept_below_ns);
    let end = end
        .or(imported.and_then(|of| of.kept_below_ns))
        .unwrap_or(0);
    let mut histogram = Histogram::new();
    for bucket in all.buckets() {
        let value = bucket.high_ns.min(all.max().unwrap_or(0));
        if value < end {
            histogram.record_n(value, bucket.count);
        }
    }
    let beyond = unkept.saturating_add(all.count() - histogram.count());
    Ok(Known {
        histogram,
        beyond,
        kept_below_ns: Some(end),
        min_ns,
        max_ns,
        mean_ns,
    })
}

/// What is known of a thread, in steps of another tool.
pub(super) struct Stepped {
    /// Value and count.
    pub rows: BTreeMap<u64, u64>,
    /// All samples.
    pub count: u64,
    /// Exact minimum, rounded down; 0 of nothing.
    pub min: u64,
    /// The same of the maximum.
    pub max: u64,
    /// The mean in hundredths of a step.
    pub mean: Option<f64>,
}

/// What is known of a thread, in steps of `unit_ns`.
pub(super) fn stepped(run: &Run, index: usize, unit_ns: u64) -> Result<Stepped, WriteError> {
    let known = known(run, index)?;
    let hundredths = |mean: f64| (mean * 100.0).round() / 100.0;
    Ok(Stepped {
        rows: in_steps(&run.threads[index], &known.histogram, unit_ns),
        count: known.count(),
        min: known.min_ns.unwrap_or(0) / unit_ns,
        max: known.max_ns.unwrap_or(0) / unit_ns,
        mean: known.mean(unit_ns).map(hundredths),
    })
}

/// The rows of another tool's histogram that count anything.
pub(super) fn in_use(histogram: BTreeMap<u64, u64>) -> Vec<(u64, u64)> {
    let rows = histogram.into_iter();
    rows.filter(|(_, count)| *count > 0).collect()
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
