//! Did the run stay the same run? First half against second half.
//!
//! A bound speaks of the run that was made. It speaks of the next one only if
//! the machine behaved the same throughout: a first half before the caches were
//! warm, or a cron job in the second, is another experiment. With millions of
//! samples any trifle is significant, and with bursts a significance test on
//! samples finds trifles everywhere. So a change is stated only when it is
//! both large (a ratio) and not explained by chance (a test on an effective
//! number of samples, reduced by the extremal index or dispersion).

use crate::evidence::HalfEvidence;
use crate::histogram::{Histogram, MIN_SAMPLES_BEYOND};
use crate::special::beta_cdf;
use serde::{Deserialize, Serialize};

/// Fewest samples in a half.
const MIN_SAMPLES: u64 = 200;
/// A median that changes by less than this factor is the same median.
const MEDIAN_FACTOR: f64 = 1.25;
/// The same for the 99th percentile.
const TAIL_FACTOR: f64 = 1.5;
/// The same for the number of misses.
const MISS_FACTOR: f64 = 2.0;
/// Significance asked of each test; there are three.
const SIGNIFICANCE: f64 = 0.01 / 3.0;

/// One half in figures.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Half {
    /// Samples.
    pub samples: u64,
    /// Median in ns.
    pub p50_ns: u64,
    /// 99th percentile in ns.
    pub p99_ns: u64,
    /// Late samples and skipped periods.
    pub misses: u64,
}

/// What the comparison of the halves says.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum StationarityStatement {
    /// No change that is both large and beyond chance.
    Steady,
    /// Too few samples to see one.
    TooFewSamples,
    /// Median or 99th percentile rose.
    Slower,
    /// Median or 99th percentile fell.
    Faster,
    /// More misses in the second half.
    MoreMisses,
    /// Fewer misses in the second half.
    FewerMisses,
}

impl StationarityStatement {
    /// Whether a change was found.
    pub fn changed(self) -> bool {
        !matches!(
            self,
            StationarityStatement::Steady | StationarityStatement::TooFewSamples
        )
    }
}

/// The two halves of a run side by side.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Stationarity {
    /// The first half.
    pub first: Half,
    /// The second half.
    pub second: Half,
    /// Second median divided by the first.
    pub p50_ratio: f64,
    /// Second 99th percentile divided by the first.
    pub p99_ratio: f64,
    /// What that says.
    pub statement: StationarityStatement,
}

/// Compares the halves of a run.
///
/// `theta` (0..=1) is the extremal index, by which the number of samples above
/// a quantile is reduced; `dispersion` (at least 1) that of the misses.
pub fn stationarity(halves: &[HalfEvidence<'_>; 2], theta: f64, dispersion: f64) -> Stationarity {
    let [first, second] = halves.each_ref().map(|half| Half {
        samples: half.histogram.count(),
        p50_ns: half.histogram.quantile(0.5).unwrap_or(0),
        p99_ns: half.histogram.quantile(0.99).unwrap_or(0),
        misses: half.misses,
    });
    let ratio = |a: u64, b: u64| b.max(1) as f64 / a.max(1) as f64;
    let mut result = Stationarity {
        first,
        second,
        p50_ratio: ratio(first.p50_ns, second.p50_ns),
        p99_ratio: ratio(first.p99_ns, second.p99_ns),
        statement: StationarityStatement::Steady,
    };
    if first.samples.min(second.samples) < MIN_SAMPLES {
        result.statement = StationarityStatement::TooFewSamples;
        return result;
    }
    // Bursts in the bulk may be longer than in the tail; half of the effective
    // samples is a margin for it.
    let theta = theta.clamp(0.0, 1.0) / 2.0;
    let [a, b] = [halves[0].histogram, halves[1].histogram];
    result.statement = if misses_differ(&first, &second, dispersion.max(1.0)) {
        if second.misses as f64 * first.samples as f64 > first.misses as f64 * second.samples as f64
        {
            StationarityStatement::MoreMisses
        } else {
            StationarityStatement::FewerMisses
        }
    } else if beyond(result.p50_ratio, MEDIAN_FACTOR) && quantile_differs(a, b, 0.5, theta) {
        slower_or_faster(result.p50_ratio)
    } else if beyond(result.p99_ratio, TAIL_FACTOR) && quantile_differs(a, b, 0.99, theta) {
        slower_or_faster(result.p99_ratio)
    } else {
        StationarityStatement::Steady
    };
    result
}

fn beyond(ratio: f64, factor: f64) -> bool {
    ratio > factor || ratio < 1.0 / factor
}

fn slower_or_faster(ratio: f64) -> StationarityStatement {
    if ratio > 1.0 {
        StationarityStatement::Slower
    } else {
        StationarityStatement::Faster
    }
}

/// Whether the halves differ in how many samples lie above the pooled quantile.
fn quantile_differs(a: &Histogram, b: &Histogram, quantile: f64, theta: f64) -> bool {
    let pooled = Histogram::merged([a, b]);
    let Some(level) = pooled.quantile(quantile) else {
        return false;
    };
    let above = [a.count_above(level), b.count_above(level)].map(|count| count as f64 * theta);
    let below = [a, b].map(|half| half.count_at_or_below(level) as f64 * theta);
    let smaller_side = (above[0] + above[1]).min(below[0] + below[1]);
    if smaller_side < MIN_SAMPLES_BEYOND as f64 {
        return false;
    }
    let totals = [above[0] + below[0], above[1] + below[1]];
    let share = (above[0] + above[1]) / (totals[0] + totals[1]);
    let variance = share * (1.0 - share) * (1.0 / totals[0] + 1.0 / totals[1]);
    let distance = (above[0] / totals[0] - above[1] / totals[1]).abs();
    2.0 * (1.0 - crate::special::normal_cdf(distance / variance.sqrt())) < SIGNIFICANCE
}

/// Whether misses are distributed unevenly: given their sum, the misses of one
/// half are binomial; the counts are divided by their dispersion.
fn misses_differ(first: &Half, second: &Half, dispersion: f64) -> bool {
    let rates = [first, second].map(|half| {
        let cycles = half.samples.max(1) as f64;
        (half.misses as f64, cycles)
    });
    let [(a, n), (b, m)] = rates;
    let ratio = (b / m + 0.5 / m) / (a / n + 0.5 / n);
    if !beyond(ratio, MISS_FACTOR) {
        return false;
    }
    let (a, b) = (a / dispersion, b / dispersion);
    let share = n / (n + m);
    // P(X >= larger) for a binomial of a+b, in the continuous extension.
    let (larger, smaller, share) = if a * m > b * n {
        (a, b, share)
    } else {
        (b, a, 1.0 - share)
    };
    2.0 * beta_cdf(share, larger, smaller + 1.0) < SIGNIFICANCE
}
