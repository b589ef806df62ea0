//! Comparisons: of the halves of one run, and of two runs.

mod support;

use proptest::prelude::*;
use punctual_stats::compare::{Comparand, ComparisonStatement, Resampling, cliffs_delta, compare};
use punctual_stats::stationarity::{StationarityStatement, stationarity};
use punctual_stats::{HalfEvidence, Histogram};
use support::Rng;

fn exponential(seed: u64, samples: u64, mean: f64) -> Histogram {
    let mut rng = Rng::new(seed);
    let mut histogram = Histogram::new();
    for _ in 0..samples {
        histogram.record(2_000 + rng.exponential(mean) as u64);
    }
    histogram
}

fn halves(first: &Histogram, second: &Histogram, misses: [u64; 2]) -> StationarityStatement {
    let halves = [
        HalfEvidence {
            histogram: first,
            misses: misses[0],
        },
        HalfEvidence {
            histogram: second,
            misses: misses[1],
        },
    ];
    stationarity(&halves, 0.8, 1.3).statement
}

#[test]
fn equal_halves_are_steady_at_any_size() {
    for samples in [300, 10_000, 1_000_000] {
        for seed in 0..6 {
            let (a, b) = (
                exponential(seed, samples, 4e3),
                exponential(seed + 50, samples, 4e3),
            );
            assert_eq!(halves(&a, &b, [3, 5]), StationarityStatement::Steady);
        }
    }
}

#[test]
fn a_trifle_is_no_drift_however_significant() {
    let (a, b) = (
        exponential(1, 2_000_000, 4e3),
        exponential(2, 2_000_000, 4.2e3),
    );
    assert_eq!(halves(&a, &b, [1000, 1200]), StationarityStatement::Steady);
}

#[test]
fn drift_is_seen_and_named() {
    let (a, b) = (exponential(1, 50_000, 4e3), exponential(2, 50_000, 12e3));
    assert_eq!(halves(&a, &b, [0, 0]), StationarityStatement::Slower);
    assert_eq!(halves(&b, &a, [0, 0]), StationarityStatement::Faster);
    assert_eq!(halves(&a, &a, [2, 40]), StationarityStatement::MoreMisses);
    assert_eq!(halves(&a, &a, [40, 2]), StationarityStatement::FewerMisses);
    let few = exponential(3, 50, 4e3);
    assert_eq!(
        halves(&few, &b, [0, 9]),
        StationarityStatement::TooFewSamples
    );
}

fn plain(histogram: &Histogram) -> Comparand<'_> {
    Comparand {
        total: histogram,
        blocks: &[],
    }
}

#[test]
fn equal_sides_show_no_difference_and_unequal_ones_do() {
    let (a, b) = (exponential(1, 50_000, 4e3), exponential(2, 50_000, 4e3));
    let same = compare(plain(&a), plain(&b), 0.95);
    assert_eq!(same.statement, ComparisonStatement::NoDifferenceShown);
    assert_eq!(same.resampling, Resampling::Independent);
    assert!(same.delta_interval.0 < 0.0 && same.delta_interval.1 > 0.0);
    assert_eq!(same.quantiles.len(), 3);

    let c = exponential(3, 50_000, 6e3);
    assert_eq!(
        compare(plain(&a), plain(&c), 0.95).statement,
        ComparisonStatement::FirstEarlier
    );
    assert_eq!(
        compare(plain(&c), plain(&a), 0.95).statement,
        ComparisonStatement::SecondEarlier
    );
    let few = exponential(4, 50, 6e3);
    assert_eq!(
        compare(plain(&few), plain(&a), 0.95).statement,
        ComparisonStatement::TooFewSamples
    );
}

#[test]
fn blocks_keep_bursts_from_looking_like_a_difference() {
    // Seconds are slow or fast as a whole; both sides draw from one lottery.
    let side = |seed: u64| {
        let mut rng = Rng::new(seed);
        let blocks: Vec<Histogram> = (0..60)
            .map(|i| {
                let mean = if rng.unit() < 0.3 { 40e3 } else { 4e3 };
                exponential(seed * 1000 + i, 500, mean)
            })
            .collect();
        (Histogram::merged(&blocks), blocks)
    };
    let (mut by_blocks, mut by_samples) = (0, 0);
    let pairs = 20;
    for pair in 0..pairs {
        let ((a, a_blocks), (b, b_blocks)) = (side(2 * pair + 1), side(2 * pair + 2));
        let shown = |c: punctual_stats::compare::Comparison| {
            u32::from(c.statement != ComparisonStatement::NoDifferenceShown)
        };
        by_samples += shown(compare(plain(&a), plain(&b), 0.95));
        let one = Comparand {
            total: &a,
            blocks: &a_blocks,
        };
        let two = Comparand {
            total: &b,
            blocks: &b_blocks,
        };
        let with_blocks = compare(one, two, 0.95);
        assert_eq!(with_blocks.resampling, Resampling::Blocks);
        by_blocks += shown(with_blocks);
    }
    assert!(by_blocks <= 4, "{by_blocks} of {pairs}");
    assert!(
        by_samples >= 8,
        "samples as independent cry wolf: {by_samples} of {pairs}"
    );
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn delta_is_what_counting_pairs_gives(
        a in proptest::collection::vec(0u64..2000, 1..60),
        b in proptest::collection::vec(0u64..2000, 1..60),
    ) {
        let of = |values: &[u64]| {
            let mut histogram = Histogram::new();
            values.iter().for_each(|value| histogram.record(*value));
            histogram
        };
        let mut sum = 0i64;
        for x in &a {
            for y in &b {
                sum += (y > x) as i64 - (y < x) as i64;
            }
        }
        let exact = sum as f64 / (a.len() * b.len()) as f64;
        prop_assert!((cliffs_delta(&of(&a), &of(&b)) - exact).abs() < 1e-12);
        prop_assert!((cliffs_delta(&of(&b), &of(&a)) + exact).abs() < 1e-12);
    }
}
