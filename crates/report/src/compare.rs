//! Runs compared: two, several on each side, or the CPUs of one.
//!
//! The statistics are [`punctual_stats::compare`]'s; here stand the conditions in
//! which the runs differ, and whether the comparison is fair at all.

mod cpus;
mod error;
mod side;
mod text;
mod warnings;
mod words;

use std::time::UNIX_EPOCH;

use punctual_stats::compare::{
    Comparand, Comparison as Statistics, Conclusion, RunComparand, Untested,
};
use punctual_stats::histogram::Histogram;
use serde::Serialize;

use super::known::{Known, Reading, in_steps};
use punctual_record::conditions::{Difference, differences};
use punctual_record::{Run, Thread, time};

pub use cpus::{Cpu, Cpus, compare_cpus};
pub use error::CompareError;
pub use side::Side;
pub use text::{TextStyle, compare_text, cpus_text};
pub use warnings::{Named, Warning};
pub use words::cpus_headline;

/// Percentiles that are shown as far as a side has samples beyond them.
const PERCENTILES: [f64; 7] = [50.0, 90.0, 99.0, 99.9, 99.99, 99.999, 99.9999];

/// Percentiles of both sides.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct PercentilePair {
    /// 0 to 100.
    pub percentile: f64,
    /// Of the first side.
    pub first: Reading,
    /// Of the second side.
    pub second: Reading,
}

/// Samples of both sides in one band of latencies.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Band {
    /// The lowest latency in the band.
    pub from_ns: u64,
    /// The lowest latency above the band.
    pub to_ns: u64,
    /// Samples of the first side.
    pub first: u64,
    /// Samples of the second side.
    pub second: u64,
}

/// Two sides compared.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Comparison {
    /// The first side.
    pub first: Side,
    /// The second side.
    pub second: Side,
    /// Percentiles, all runs of a side together.
    pub percentiles: Vec<PercentilePair>,
    /// Histograms, all threads and runs of a side together.
    pub bands: Vec<Band>,
    /// Test, effect and intervals.
    pub statistics: Statistics,
    /// Latencies of both were rounded down to multiples of this, the coarser
    /// resolution of all.
    pub resolution_ns: u64,
    /// A histogram ends here before its samples: nothing from here on was compared.
    pub limit_ns: Option<u64>,
    /// Conditions in which the sides differ.
    pub differences: Vec<Difference>,
    /// Why the comparison is not fair, or says less than it seems to.
    pub warnings: Vec<Warning>,
}

/// The sentence that stands first.
#[must_use]
pub fn compare_headline(comparison: &Comparison) -> String {
    words::headline(&comparison.statistics)
}

/// Compares two sides of one run or more each. Without `confidence` it is the lowest that was
/// requested of a run.
///
/// # Errors
/// [`CompareError`], where a histogram can't be decoded; runs that were read have none such. Or
/// where a run stands twice.
pub fn compare(
    first: &[Run],
    second: &[Run],
    confidence: Option<f64>,
) -> Result<Comparison, CompareError> {
    side::each_once(first, second)?;
    let all = || first.iter().chain(second);
    let resolution_ns = all().map(Run::resolution_ns).max().unwrap_or(1);
    let lowest = all().map(|run| run.request.confidence).fold(1.0, f64::min);
    let confidence = confidence.unwrap_or(lowest);
    let known = |run: &Run| Known::from_run(run, resolution_ns);
    let own = [first, second].map(|runs| runs.iter().map(known).collect::<Result<Vec<_>, _>>());
    let [own_first, own_second] = own;
    let own = [own_first?, own_second?];
    // What one of them does not know, no side can be asked for.
    let limit_ns = own
        .iter()
        .flatten()
        .filter_map(|known| known.limit_ns)
        .min();
    let cut = own.each_ref().map(|side| -> Vec<Known> {
        let to = |known: &Known| limit_ns.map_or(known.clone(), |limit| known.cut(limit, 0));
        side.iter().map(to).collect()
    });
    let statistics = match (first, second) {
        ([first], [second]) => {
            let blocks = [
                blocks(first, resolution_ns)?,
                blocks(second, resolution_ns)?,
            ];
            let comparand = |side: usize| Comparand {
                total: &cut[side][0].histogram,
                blocks: &blocks[side].0,
                block_ns: blocks[side].1,
                limit_ns,
            };
            punctual_stats::compare::pair(comparand(0), comparand(1), confidence)
        }
        _ => {
            let runs = |side: usize, runs: &[Run]| -> Vec<RunComparand<'_>> {
                let starts = runs.iter().map(started_ns);
                let each = cut[side].iter().zip(starts);
                each.map(|(known, started_ns)| RunComparand {
                    total: &known.histogram,
                    started_ns,
                    limit_ns,
                })
                .collect()
            };
            punctual_stats::compare::sides(&runs(0, first), &runs(1, second), confidence)
        }
    };
    let [more_first, more_second] = {
        let shares = [first, second].map(|runs| skipped(runs.iter().flat_map(|run| &run.threads)));
        let more = |a: f64, b: f64| a - b > MOST_SKIPPED;
        [more(shares[0], shares[1]), more(shares[1], shares[0])]
    };
    // The side that skipped more may be named the slower one, and no other.
    let agrees = match statistics.conclusion {
        Conclusion::FirstSlower => !more_second,
        Conclusion::SecondSlower => !more_first,
        Conclusion::TooFewSamples | Conclusion::Untested { .. } | Conclusion::TooFewRuns { .. } => {
            true
        }
        _ => !more_first && !more_second,
    };
    let statistics = match all().any(|run| run.gaps.is_some()) {
        true => statistics.untested(Untested::Gaps),
        false if agrees => statistics,
        false => statistics.untested(Untested::Skipped),
    };
    let totals = own.each_ref().map(|side| pooled(side));
    let cut = cut.each_ref().map(|side| pooled(side));
    let differences = side_differences(first, second);
    let warnings = warnings::of(first, second, &differences);
    Ok(Comparison {
        first: side::of(first),
        second: side::of(second),
        percentiles: percentiles(&totals, resolution_ns),
        bands: bands(&cut[0].histogram, &cut[1].histogram, limit_ns),
        statistics,
        resolution_ns,
        limit_ns,
        differences,
        warnings,
    })
}

/// Sides whose shares of skipped periods differ by more than this differ, whatever their latencies: as many samples as
/// are beyond p99.9.
const MOST_SKIPPED: f64 = 1e-3;

/// How much of their cycles these threads skipped.
fn skipped<'r>(threads: impl Iterator<Item = &'r Thread> + Clone) -> f64 {
    let missed: f64 = threads.clone().map(|thread| thread.missed as f64).sum();
    let samples: f64 = threads.map(|thread| thread.latency.count as f64).sum();
    match missed + samples > 0.0 {
        true => missed / (missed + samples),
        false => 0.0,
    }
}

/// When a run was started, in ns of the time of day.
fn started_ns(run: &Run) -> Option<u64> {
    // A merged record holds several runs, from first to last.
    let at = time::parse_rfc3339(&run.started)?;
    let since = at.duration_since(UNIX_EPOCH).ok()?;
    u64::try_from(since.as_nanos()).ok()
}

/// Runs of a side together.
fn pooled(side: &[Known]) -> Known {
    let limit_ns = side.iter().filter_map(|known| known.limit_ns).min();
    let whole = Known {
        histogram: Histogram::merged(side.iter().map(|known| &known.histogram)),
        limit_ns: None,
    };
    limit_ns.map_or(whole.clone(), |limit| whole.cut(limit, 0))
}

/// The stretches of a run's time in steps of the resolution, and their length; none where it
/// keeps none.
fn blocks(run: &Run, resolution_ns: u64) -> Result<(Vec<Histogram>, u64), CompareError> {
    let Some(blocks) = &run.blocks else {
        return Ok((Vec::new(), 0));
    };
    let histograms = blocks.histograms()?;
    let coarse = |block| in_steps(block, run, resolution_ns);
    Ok((
        histograms.into_iter().map(coarse).collect(),
        blocks.width_ns,
    ))
}

/// In what any run of the first side differs from any of the second.
fn side_differences(first: &[Run], second: &[Run]) -> Vec<Difference> {
    let mut found: Vec<Difference> = Vec::new();
    for a in first {
        for b in second {
            for difference in differences(a, b) {
                if !found.iter().any(|known| known.aspect == difference.aspect) {
                    found.push(difference);
                }
            }
        }
    }
    found
}

fn percentiles(totals: &[Known; 2], resolution_ns: u64) -> Vec<PercentilePair> {
    // The end of a bucket is no latency that a coarser tool can have seen.
    let step = |reading| match reading {
        Reading::Value(ns) => Reading::Value(ns - ns % resolution_ns),
        other => other,
    };
    let pair = |percentile| PercentilePair {
        percentile,
        first: step(totals[0].percentile(percentile)),
        second: step(totals[1].percentile(percentile)),
    };
    let shown = |pair: &PercentilePair| {
        [pair.first, pair.second]
            .iter()
            .any(|reading| !matches!(*reading, Reading::TooFew | Reading::AtLeast(0)))
    };
    PERCENTILES.into_iter().map(pair).filter(shown).collect()
}

/// The bands in use: 1, 1.5, 2, 3, 5 and 7 of each decade, up to a limit from which on
/// nothing is known.
fn bands(first: &Histogram, second: &Histogram, limit_ns: Option<u64>) -> Vec<Band> {
    const STEPS: [u64; 6] = [10, 15, 20, 30, 50, 70];
    let lowest = [first.min(), second.min()].into_iter().flatten().min();
    let highest = [first.max(), second.max()].into_iter().flatten().max();
    let (Some(lowest), Some(highest)) = (lowest, highest) else {
        return Vec::new();
    };
    if limit_ns == Some(0) {
        return Vec::new();
    }
    let mut edges = vec![0];
    let mut decade = 1_u64;
    while let Some(next) = decade.checked_mul(10) {
        edges.extend(STEPS.iter().filter_map(|step| decade.checked_mul(*step)));
        decade = next;
    }
    if let Some(limit) = limit_ns {
        edges.retain(|edge| *edge < limit);
        edges.push(limit);
    }
    edges.push(u64::MAX);
    edges
        .windows(2)
        .filter(|edge| edge[1] > lowest && edge[0] <= highest)
        .map(|edge| Band {
            from_ns: edge[0],
            to_ns: edge[1],
            first: within(first, edge[0], edge[1]),
            second: within(second, edge[0], edge[1]),
        })
        .collect()
}

/// Samples from `from` to below `to`. A bucket that straddles an edge counts above.
fn within(histogram: &Histogram, from: u64, to: u64) -> u64 {
    let below = |edge: u64| {
        edge.checked_sub(1)
            .map_or(0, |last| histogram.count_at_or_below(last))
    };
    let to = if to == u64::MAX {
        histogram.count()
    } else {
        below(to)
    };
    to.saturating_sub(below(from))
}
