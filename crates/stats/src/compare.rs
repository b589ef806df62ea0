//! Two distributions held against each other.
//!
//! The body is compared by Cliff's delta: the probability that a sample of the
//! second is later than one of the first, minus the reverse (−1..=1, 0: alike;
//! Cliff, Psychological Bulletin 114, 1993). Ties within a bucket count half.
//! The tail is compared by quantiles. Intervals come from resampling: blocks of
//! time where the histograms of blocks are given, so that bursts are kept
//! whole; else single samples, and the result says so. A maximum has no such
//! interval, and gets none.

use crate::histogram::{Histogram, MIN_SAMPLES_BEYOND, highest_of, rank_of};
use crate::random::Random;
use crate::special::normal_quantile;
use serde::{Deserialize, Serialize};

const RESAMPLES: usize = 200;
/// Fewest blocks for resampling them to make sense.
const MIN_BLOCKS: usize = 20;
const MIN_SAMPLES: u64 = 100;
/// Effects below these are not stated, however significant.
const MIN_DELTA: f64 = 0.05;
const MIN_RATIO: f64 = 1.05;
const QUANTILES: [f64; 3] = [0.5, 0.99, 0.999];

/// One side of a comparison.
#[derive(Clone, Copy, Debug)]
pub struct Comparand<'a> {
    /// All samples.
    pub total: &'a Histogram,
    /// The samples of equal stretches of time (seconds, say), when kept; empty
    /// otherwise. Together they are `total`.
    pub blocks: &'a [Histogram],
}

/// What intervals rest on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Resampling {
    /// Blocks of time were drawn: bursts are taken into account.
    Blocks,
    /// Samples were taken as independent: with bursts, intervals are too narrow.
    Independent,
}

/// A quantile on both sides, in ns, and their difference.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct QuantileDifference {
    /// The quantile, 0..=1.
    pub quantile: f64,
    /// Its value on the first side, in ns.
    pub first_ns: u64,
    /// Its value on the second side, in ns.
    pub second_ns: u64,
    /// Second minus first, in ns.
    pub difference_ns: f64,
    /// Ends of the interval of the difference, in ns.
    pub interval_ns: (f64, f64),
}

/// What a comparison says. "Earlier" is better.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum ComparisonStatement {
    /// Too few samples on a side.
    TooFewSamples,
    /// No difference that is both large enough to matter and beyond chance.
    /// This does not show that there is none.
    NoDifferenceShown,
    /// The first side wakes up earlier.
    FirstEarlier,
    /// The second side wakes up earlier.
    SecondEarlier,
    /// One side is earlier in the body and the other in the tail.
    Mixed,
}

impl std::fmt::Display for ComparisonStatement {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            ComparisonStatement::TooFewSamples => "too few samples to compare",
            ComparisonStatement::NoDifferenceShown => "no difference shown",
            ComparisonStatement::FirstEarlier => "the first is earlier",
            ComparisonStatement::SecondEarlier => "the second is earlier",
            ComparisonStatement::Mixed => "one is earlier in the body, the other in the tail",
        })
    }
}

/// Two distributions held against each other.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Comparison {
    /// Samples on both sides.
    pub samples: (u64, u64),
    /// Exact maxima on both sides in ns. They grow with the samples and are
    /// no evidence by themselves.
    pub max_ns: (u64, u64),
    /// Cliff's delta, −1..=1; above 0 the second side is later.
    pub delta: f64,
    /// Ends of its interval.
    pub delta_interval: (f64, f64),
    /// p50, p99 and p99.9 as far as both samples support them.
    pub quantiles: Vec<QuantileDifference>,
    /// What the intervals rest on.
    pub resampling: Resampling,
    /// Confidence that all intervals hold together, within (0, 1).
    pub confidence: f64,
    /// What that says.
    pub statement: ComparisonStatement,
}

/// Compares two distributions; all intervals hold together at `confidence`.
pub fn compare(first: Comparand<'_>, second: Comparand<'_>, confidence: f64) -> Comparison {
    let samples = (first.total.count(), second.total.count());
    let max_ns = (
        first.total.max().unwrap_or(0),
        second.total.max().unwrap_or(0),
    );
    let blocks = first.blocks.len().min(second.blocks.len()) >= MIN_BLOCKS;
    let mut result = Comparison {
        samples,
        max_ns,
        delta: 0.0,
        delta_interval: (-1.0, 1.0),
        quantiles: Vec::new(),
        resampling: if blocks {
            Resampling::Blocks
        } else {
            Resampling::Independent
        },
        confidence,
        statement: ComparisonStatement::TooFewSamples,
    };
    if samples.0.min(samples.1) < MIN_SAMPLES {
        return result;
    }
    let quantiles: Vec<f64> = QUANTILES
        .into_iter()
        .filter(|q| {
            let smaller = samples.0.min(samples.1);
            smaller - rank_of(*q, smaller) >= MIN_SAMPLES_BEYOND
        })
        .collect();
    // Bonferroni: each interval takes its share of the error.
    let alpha = (1.0 - confidence) / (quantiles.len() + 1) as f64;
    result.delta = cliffs_delta(first.total, second.total);
    let (delta_error, differences) = if blocks {
        by_blocks(first, second, &quantiles)
    } else {
        by_samples(first.total, second.total, &quantiles)
    };
    let z = normal_quantile(1.0 - alpha / 2.0);
    result.delta_interval = (
        (result.delta - z * delta_error).max(-1.0),
        (result.delta + z * delta_error).min(1.0),
    );
    for (quantile, mut drawn) in quantiles.into_iter().zip(differences) {
        drawn.sort_unstable_by(f64::total_cmp);
        let first_ns = first.total.quantile(quantile).unwrap_or(0);
        let second_ns = second.total.quantile(quantile).unwrap_or(0);
        let difference = second_ns as f64 - first_ns as f64;
        // Draws beyond the outermost ones would be needed for a small alpha:
        // widen by the normal tail, whichever is wider.
        let tail = ((alpha / 2.0 * drawn.len() as f64) as usize).min(drawn.len() / 2);
        let spread = z * standard_deviation(&drawn);
        result.quantiles.push(QuantileDifference {
            quantile,
            first_ns,
            second_ns,
            difference_ns: difference,
            interval_ns: (
                drawn[tail].min(difference - spread),
                drawn[drawn.len() - 1 - tail].max(difference + spread),
            ),
        });
    }
    result.statement = statement(&result);
    result
}

fn statement(comparison: &Comparison) -> ComparisonStatement {
    let beyond = |(low, high): (f64, f64)| low > 0.0 || high < 0.0;
    let mut signs = Vec::new();
    if beyond(comparison.delta_interval) && comparison.delta.abs() >= MIN_DELTA {
        signs.push(comparison.delta > 0.0);
    }
    for quantile in &comparison.quantiles {
        let ratio = quantile.second_ns.max(1) as f64 / quantile.first_ns.max(1) as f64;
        let large = !(1.0 / MIN_RATIO..=MIN_RATIO).contains(&ratio);
        if large && beyond(quantile.interval_ns) {
            signs.push(quantile.difference_ns > 0.0);
        }
    }
    match (signs.contains(&true), signs.contains(&false)) {
        (false, false) => ComparisonStatement::NoDifferenceShown,
        (true, false) => ComparisonStatement::FirstEarlier,
        (false, true) => ComparisonStatement::SecondEarlier,
        (true, true) => ComparisonStatement::Mixed,
    }
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

/// Standard error of delta and draws of each quantile difference, blocks drawn
/// with replacement.
fn by_blocks(
    first: Comparand<'_>,
    second: Comparand<'_>,
    quantiles: &[f64],
) -> (f64, Vec<Vec<f64>>) {
    let mut random = Random::new(0x626c_6f63_6b73);
    let mut deltas = Vec::with_capacity(RESAMPLES);
    let mut differences = vec![Vec::with_capacity(RESAMPLES); quantiles.len()];
    let mut occupied: Vec<usize> = [first, second]
        .iter()
        .flat_map(|side| side.blocks)
        .flat_map(|block| block.occupied().map(|(index, _)| index))
        .collect();
    occupied.sort_unstable();
    occupied.dedup();
    let sparse = |blocks: &[Histogram]| -> Vec<Vec<(usize, u64)>> {
        let place = |(index, count)| (occupied.partition_point(|at| *at < index), count);
        let row = |block: &Histogram| block.occupied().map(place).collect();
        blocks.iter().map(row).collect()
    };
    let (one, two) = (sparse(first.blocks), sparse(second.blocks));
    let mut sides = [(); 2].map(|()| Drawn {
        counts: vec![0; occupied.len()],
        total: 0,
    });
    for _ in 0..RESAMPLES {
        sides[0].draw(&one, &mut random);
        sides[1].draw(&two, &mut random);
        let [a, b] = &sides;
        if a.total == 0 || b.total == 0 {
            continue;
        }
        deltas.push(a.delta(b));
        for (draws, quantile) in differences.iter_mut().zip(quantiles) {
            let [one, two] = [a, b].map(|side| highest_of(occupied[side.place(*quantile)]) as f64);
            draws.push(two - one);
        }
    }
    (standard_deviation(&deltas), differences)
}

/// A resampled histogram over the buckets that are in use anywhere.
struct Drawn {
    counts: Vec<u64>,
    total: u64,
}

impl Drawn {
    fn draw(&mut self, blocks: &[Vec<(usize, u64)>], random: &mut Random) {
        self.counts.fill(0);
        for _ in 0..blocks.len() {
            for (place, count) in &blocks[random.below(blocks.len())] {
                self.counts[*place] += count;
            }
        }
        self.total = self.counts.iter().sum();
    }

    /// Place of the bucket that holds the quantile.
    fn place(&self, quantile: f64) -> usize {
        let rank = rank_of(quantile, self.total);
        let mut seen = 0;
        self.counts
            .iter()
            .position(|count| {
                seen += count;
                seen >= rank
            })
            .unwrap_or(0)
    }

    fn delta(&self, second: &Drawn) -> f64 {
        let (mut seen, mut sum) = (0.0, 0.0);
        let total = self.total as f64;
        for (tied, count) in self.counts.iter().zip(&second.counts) {
            let tied = *tied as f64;
            sum += *count as f64 * (2.0 * seen + tied - total);
            seen += tied;
        }
        sum / (total * second.total as f64)
    }
}

/// As [`by_blocks`], samples taken as independent. A resampled quantile of n
/// samples is the sample whose rank is drawn from a binomial; for the counts
/// here the normal distribution stands in for it.
fn by_samples(first: &Histogram, second: &Histogram, quantiles: &[f64]) -> (f64, Vec<Vec<f64>>) {
    let mut random = Random::new(0x7361_6d70_6c65);
    let draw = |histogram: &Histogram, quantile: f64, random: &mut Random| {
        let n = histogram.count() as f64;
        let rank = n * quantile + (n * quantile * (1.0 - quantile)).sqrt() * random.normal();
        histogram.value_at_rank(rank.ceil().clamp(1.0, n) as u64) as f64
    };
    let differences = quantiles
        .iter()
        .map(|quantile| {
            (0..RESAMPLES)
                .map(|_| draw(second, *quantile, &mut random) - draw(first, *quantile, &mut random))
                .collect()
        })
        .collect();
    (delta_error(first, second), differences)
}

/// Standard error of delta for independent samples: variance of the placements
/// of each side within the other (DeLong et al. 1988).
fn delta_error(first: &Histogram, second: &Histogram) -> f64 {
    let variance = |of: &Histogram, within: &Histogram| {
        let (mut sum, mut squares) = (0.0, 0.0);
        let total = within.count() as f64;
        let mut others = within.occupied().peekable();
        let mut seen = 0.0;
        for (index, count) in of.occupied() {
            while let Some((_, below)) = others.next_if(|(at, _)| *at < index) {
                seen += below as f64;
            }
            let tied = others.peek().filter(|(at, _)| *at == index);
            let tied = tied.map_or(0.0, |(_, tied)| *tied as f64);
            let placement = (2.0 * seen + tied - total) / total;
            sum += count as f64 * placement;
            squares += count as f64 * placement * placement;
        }
        let n = of.count() as f64;
        (squares / n - (sum / n).powi(2)).max(0.0) / (n - 1.0).max(1.0)
    };
    (variance(first, second) + variance(second, first)).sqrt()
}

fn standard_deviation(draws: &[f64]) -> f64 {
    let n = draws.len() as f64;
    if n < 2.0 {
        return f64::INFINITY;
    }
    let mean = draws.iter().sum::<f64>() / n;
    (draws.iter().map(|x| (x - mean).powi(2)).sum::<f64>() / (n - 1.0)).sqrt()
}
