//! Misses counted anew: of a run that was judged by another deadline than the first.

use punctual_stats::histogram::SparseHistogram;
use punctual_stats::miss::definition::skipped_misses;
use punctual_stats::peaks::Peak;

use crate::evidence;
use crate::run::{Run, Thread};

/// Wake-ups of a thread later than `limit_ns`. Where the run counted for another
/// deadline, from its peaks or, as many as may be, from its histogram.
pub(super) fn late(
    run: &Run,
    thread: &Thread,
    histogram: &SparseHistogram,
    limit_ns: Option<u64>,
) -> u64 {
    let own = run.deadline_ns();
    match limit_ns {
        limit if limit == own => thread.late,
        None => 0,
        Some(limit) if limit >= thread.peaks_above_ns => thread
            .peaks
            .iter()
            .filter(|peak| peak.latency_ns > limit)
            .count() as u64,
        Some(limit) => histogram.count_above(limit),
    }
}

/// Skipped periods of a thread that miss `limit_ns`. Where the run counted for another deadline, from the wake-ups
/// that skipped them, for a watch from how late each was or, as many as may be, all.
pub(super) fn missed_late(run: &Run, index: usize, limit_ns: Option<u64>) -> u64 {
    let thread = &run.threads[index];
    let Some(limit_ns) = limit_ns.filter(|_| limit_ns != run.deadline_ns()) else {
        return evidence::missed_late(thread);
    };
    let skips = run.watched(index).map(|watched| &watched.skips);
    if let Some(skips) = skips.filter(|skips| skips.count() == thread.missed) {
        return skips.later(limit_ns).1;
    }
    let interval_ns = evidence::interval_ns(run, index);
    let of = |peak: &Peak| skipped_misses(peak.latency_ns, peak.skipped, interval_ns, limit_ns);
    let skipped: u64 = (thread.peaks.iter()).fold(0, |sum, peak| sum.saturating_add(peak.skipped));
    match skipped == thread.missed {
        true => (thread.peaks.iter().map(of)).fold(0, u64::saturating_add),
        false => thread.missed,
    }
}
