//! Runs compared: two of them, several on each side, or the CPUs of one.
//!
//! What may be concluded follows from the design, not from the number of samples. Samples
//! within a run share its bursts, and runs share the hour. So each comparison states its
//! *unit*: what was exchanged at random to see how often such a difference arises by chance.
//!
//! | design | unit | what a small p-value shows |
//! |---|---|---|
//! | [`pair`]: one run per side | blocks of time | these two runs differ |
//! | [`sides`]: several runs per side, in mixed order | runs, or pairs of runs | the sides differ |
//! | [`sides`], one side before the other | runs | the runs differ; a drift may be the reason |
//! | [`members`]: CPUs of one run | blocks of the same time | in this run one was slower |
//!
//! The measures are log quantiles. Effects below 5 % are not stated, however significant.

mod members;
mod order;
mod pair;
mod randomise;
mod sides;

pub use members::{BlockFigures, Member, Members, members};
pub use order::Order;
pub use pair::{Comparand, pair};
pub(crate) use randomise::Moments;
pub use sides::{RunComparand, sides};

use crate::histogram::{Histogram, MIN_SAMPLES_BEYOND, rank_of};
use crate::special::{beta_cdf, beta_quantile};
use serde::{Deserialize, Serialize};

const MIN_SAMPLES: u64 = 100;
/// Effects below this are not stated, however significant.
const MIN_RATIO: f64 = 1.05;
/// The quantiles that are compared.
pub const QUANTILES: [f64; 3] = [0.5, 0.99, 0.999];

/// What was exchanged at random.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum Unit {
    /// Whole runs.
    Run,
    /// Which run of a pair is of which side.
    Pair,
    /// Stretches of time of this length.
    Block {
        /// The length in ns.
        length_ns: u64,
    },
}

/// What a test rests on.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Basis {
    /// What was exchanged.
    pub unit: Unit,
    /// How many of them on each side; of pairs, and of blocks of the same time, the same twice.
    pub units: (usize, usize),
    /// The smallest p-value that this many units can give.
    pub smallest_p: f64,
}

impl Basis {
    /// The length of a unit of time; 0 where it is none.
    #[must_use]
    pub fn length_ns(&self) -> u64 {
        match self.unit {
            Unit::Block { length_ns } => length_ns,
            Unit::Run | Unit::Pair => 0,
        }
    }
}

/// A quantile on both sides.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct QuantileTest {
    /// The quantile, 0..=1.
    pub quantile: f64,
    /// On the first side in ns; of several runs, the geometric mean.
    pub first_ns: u64,
    /// On the second side in ns.
    pub second_ns: u64,
    /// Second by first, as the units have it; absent without a test.
    pub ratio: Option<f64>,
    /// Ends of the interval of that ratio (Student's t on the logarithms of the units), at the
    /// comparison's confidence for each quantile by itself.
    pub ratio_interval: Option<(f64, f64)>,
    /// How often chance alone makes a difference at least as large in any of the quantiles.
    pub p: Option<f64>,
}

impl QuantileTest {
    /// Whether the difference is both beyond chance and large enough to state.
    #[must_use]
    pub fn is_stated(&self, confidence: f64) -> bool {
        self.ratio.is_some_and(is_large) && self.p.is_some_and(|p| is_significant(p, confidence))
    }
}

/// Whether an effect is large enough to state.
fn is_large(ratio: f64) -> bool {
    !(1.0 / MIN_RATIO..=MIN_RATIO).contains(&ratio)
}

fn is_significant(p: f64, confidence: f64) -> bool {
    p <= 1.0 - confidence + 1e-9
}

/// Why chance could not be judged.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum Untested {
    /// A side keeps no latencies by stretches of time.
    NoBlocks,
    /// A run is too short: fewer than eight blocks of the length that both can have.
    TooShort,
    /// No quantile lies within what both sides know.
    NoQuantile,
    /// Their samples are gaps: a side that has more short ones has shorter gaps.
    Gaps,
    /// One side skipped more of its periods, which have no latency: its latencies are of what is left.
    Skipped,
}

/// What a comparison says.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case", tag = "is")]
#[non_exhaustive]
pub enum Conclusion {
    /// Too few samples on a side.
    TooFewSamples,
    /// Chance could not be judged.
    Untested {
        /// Why.
        why: Untested,
    },
    /// Not one arrangement of so few runs can reach the confidence.
    TooFewRuns {
        /// Runs on each side that can.
        needed: usize,
    },
    /// No difference that is both large enough to matter and beyond chance.
    /// This does not show that there is none.
    NoDifferenceSeen,
    /// The runs differ; what made them differ, this design can't show.
    Differ {
        /// Why no cause may be named.
        because: Confounded,
    },
    /// The first side is slower.
    FirstSlower,
    /// The second side is slower.
    SecondSlower,
    /// One side is slower at one quantile and faster at another.
    Mixed,
}

/// Why a difference is no effect of what makes the sides.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum Confounded {
    /// One run per side.
    SingleRuns,
    /// The order of the runs lets a drift look like a difference.
    Order,
    /// The order of the runs is not known.
    OrderUnknown,
    /// A trend over time explains half of the difference or more.
    Trend,
}

/// Two runs, or two sides, compared. "Slower" is later.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Comparison {
    /// Runs on both sides.
    pub runs: (usize, usize),
    /// Samples on both sides.
    pub samples: (u64, u64),
    /// P(a sample of the second is later) − P(it is earlier), −1..=1 (Cliff 1993), all runs
    /// of a side together. A description: it has no interval.
    pub delta: f64,
    /// p50, p99 and p99.9 as far as both sides know them.
    pub quantiles: Vec<QuantileTest>,
    /// What was exchanged at random; absent where nothing was tested.
    pub basis: Option<Basis>,
    /// The order of the runs, where there are several.
    pub order: Option<Order>,
    /// The requested confidence, within (0, 1).
    pub confidence: f64,
    /// What all that says.
    pub conclusion: Conclusion,
}

impl Comparison {
    /// The same without its tests.
    #[must_use]
    pub fn untested(mut self, why: Untested) -> Self {
        for quantile in &mut self.quantiles {
            (quantile.ratio, quantile.ratio_interval, quantile.p) = (None, None, None);
        }
        self.basis = None;
        self.conclusion = Conclusion::Untested { why };
        self
    }
}

/// How the stated differences point: of the first slower, of the second slower.
fn directions(quantiles: &[QuantileTest], confidence: f64) -> (bool, bool) {
    let stated = quantiles.iter().filter(|q| q.is_stated(confidence));
    let ratios: Vec<f64> = stated.filter_map(|q| q.ratio).collect();
    (
        ratios.iter().any(|ratio| *ratio < 1.0),
        ratios.iter().any(|ratio| *ratio > 1.0),
    )
}

/// Quantiles that all of `totals` know: enough samples beyond, and below what a side knows.
fn known_quantiles<'a>(
    totals: impl Iterator<Item = (&'a Histogram, Option<u64>)> + Clone,
) -> Vec<f64> {
    let known = |quantile: f64, total: &Histogram, limit_ns: Option<u64>| {
        let count = total.count();
        let enough = count - rank_of(quantile, count).min(count) >= MIN_SAMPLES_BEYOND;
        let value = total.quantile(quantile).unwrap_or(0);
        enough && limit_ns.is_none_or(|limit| value < limit)
    };
    QUANTILES
        .into_iter()
        .filter(|quantile| {
            totals
                .clone()
                .all(|(total, limit)| known(*quantile, total, limit))
        })
        .collect()
}

fn log_quantile(histogram: &Histogram, quantile: f64) -> f64 {
    (histogram.quantile(quantile).unwrap_or(0).max(1) as f64).ln()
}

/// Student's t at a two-sided confidence.
pub(crate) fn student(confidence: f64, freedom: f64) -> f64 {
    let x = beta_quantile(1.0 - confidence, freedom / 2.0, 0.5);
    (freedom * (1.0 - x) / x.max(f64::MIN_POSITIVE)).sqrt()
}

/// How often chance alone gives a mean at least as far from 0: Student's t.
pub(crate) fn p_of_student(mean: f64, error2: f64, freedom: f64) -> f64 {
    if error2 <= 0.0 {
        return if mean == 0.0 { 1.0 } else { 0.0 };
    }
    let t2 = mean * mean / error2;
    beta_cdf(freedom / (freedom + t2), freedom / 2.0, 0.5)
}

/// How often chance alone makes a mean of paired differences, `[pair][measure]`, at least as
/// clear: one p-value for each measure, adjusted for their number.
pub(crate) fn pairs_test(differences: &[Vec<f64>]) -> Vec<f64> {
    randomise::pairs(differences).p
}

/// One measure of two sides of units that were not paired.
pub(crate) struct Sides {
    /// Second by first.
    pub(crate) ratio: f64,
    /// Its interval.
    pub(crate) interval: (f64, f64),
    /// How often chance alone makes a difference as clear in any measure.
    pub(crate) p: f64,
}

impl Sides {
    /// Compares logarithms, `first[unit][measure]`. Both sides have two units or more.
    pub(crate) fn test(first: &[Vec<f64>], second: &[Vec<f64>], confidence: f64) -> Vec<Self> {
        let p = randomise::sides(first, second).p;
        let of = |(at, p): (usize, f64)| {
            let [first, second] =
                [first, second].map(|side| Moments::of(side.iter().map(|unit| unit[at])));
            let (ratio, interval) = randomise::welch(first, second, confidence);
            Self { ratio, interval, p }
        };
        p.into_iter().enumerate().map(of).collect()
    }
}

/// The smallest p-value that [`pairs_test`] gives of this many pairs.
pub(crate) fn smallest_p_of_pairs(pairs: usize) -> f64 {
    randomise::smallest_tested_of_pairs(pairs)
}

/// Interval of exp(`mean`), whose squared error has `freedom` degrees.
pub(crate) fn ratio_interval(mean: f64, error2: f64, freedom: f64, confidence: f64) -> (f64, f64) {
    let half = student(confidence, freedom.max(1.0)) * error2.sqrt();
    ((mean - half).exp(), (mean + half).exp())
}

/// Cliff's delta from bucket counts: P(second later) − P(second earlier).
pub fn cliffs_delta(first: &Histogram, second: &Histogram) -> f64 {
    let (below, above) = placements(first, second);
    let pairs = first.count() as f64 * second.count() as f64;
    if pairs == 0.0 {
        return 0.0;
    }
    (above - below) / pairs
}

/// Pairs in which the second is earlier, and in which it is later.
fn placements(first: &Histogram, second: &Histogram) -> (f64, f64) {
    let (mut earlier, mut later) = (0.0, 0.0);
    let total = first.count() as f64;
    let mut firsts = first.occupied().peekable();
    let mut seen = 0.0;
    for (index, count) in second.occupied() {
        let count = count as f64;
        while let Some((_, below)) = firsts.next_if(|(at, _)| *at < index) {
            seen += below as f64;
        }
        let tied = match firsts.peek() {
            Some((at, tied)) if *at == index => *tied as f64,
            _ => 0.0,
        };
        later += count * seen;
        earlier += count * (total - seen - tied);
    }
    (earlier, later)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn students_t_agrees_with_its_table() {
        for (confidence, freedom, table) in [
            (0.95, 1.0, 12.706),
            (0.95, 4.0, 2.776),
            (0.95, 30.0, 2.042),
            (0.99, 10.0, 3.169),
        ] {
            let t = student(confidence, freedom);
            assert!((t - table).abs() < 2e-3, "{freedom}: {t}");
        }
    }
}
