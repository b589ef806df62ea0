//! Comparisons of the halves of one run, and Cliff's delta.

use crate::support::Rng;
use proptest::prelude::*;
use punctual_stats::compare::cliffs_delta;
use punctual_stats::stationarity::{StationarityStatement, stationarity};
use punctual_stats::{HalfEvidence, Histogram};

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
fn a_tiny_difference_is_not_called_drift_however_significant() {
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
