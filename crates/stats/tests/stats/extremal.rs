//! The extremal index of processes for which it is known.

use crate::support::{self, Rng};
use punctual_stats::extremal::{extremal_index, intervals_estimator, ring_gaps, separating_gap};
use punctual_stats::{Peak, Peaks};

#[test]
fn the_extremal_index_of_known_processes_is_found() {
    let cycles = 200_000;
    for (width, low, high) in [
        (1, 0.85, 1.0),
        (2, 0.4, 0.62),
        (5, 0.15, 0.26),
        (20, 0.035, 0.075),
    ] {
        let mut below = 0;
        for seed in 0..10 {
            let run = support::moving_maxima(&mut Rng::new(seed), cycles, 1e-4, width);
            let index = extremal_index(&run.peaks, (cycles, cycles), run.duration_ns, u64::MAX)
                .expect("enough peaks");
            assert!(
                (low..=high).contains(&index.theta),
                "{width}: {}",
                index.theta
            );
            assert!(index.theta_lower <= index.theta);
            below += i32::from(index.theta_lower <= 1.0 / width as f64);
        }
        assert!(
            below >= 9,
            "{width}: the lower limit holds in {below} of 10"
        );
    }
}

#[test]
fn several_cpus_stopped_at_once_are_one_burst() {
    // The same stream on four CPUs: a burst is four times as large.
    let cycles = 50_000;
    let run = support::independent(&mut Rng::new(1), cycles, 1e-3);
    let mut all = run.peaks.clone();
    for _ in 0..3 {
        all.merge(&run.peaks);
    }
    let index =
        extremal_index(&all, (4 * cycles, 4 * cycles), run.duration_ns, u64::MAX).expect("enough");
    assert!((0.2..0.32).contains(&index.theta), "{}", index.theta);
}

#[test]
fn one_burst_and_a_stream_that_always_exceeds_differ() {
    let in_a_row: Vec<u64> = (0..40).map(|i| i * 1000).collect();
    let long = ring_gaps(&in_a_row, 1000.0, 100_000_000);
    let theta = intervals_estimator(&long).expect("gaps");
    assert!((theta * 40.0 - 1.0).abs() < 0.1, "{theta}");
    let separator = separating_gap(&long, theta);
    assert_eq!(long.iter().filter(|gap| **gap >= separator).count(), 1);
    let always = ring_gaps(&in_a_row, 1000.0, 40_000);
    assert_eq!(intervals_estimator(&always), Some(1.0));
    assert_eq!(intervals_estimator(&[]), None);
}

#[test]
fn a_level_that_most_cycles_exceed_says_nothing() {
    // Four of 404 in a row are low: the others come in one burst around them.
    let run = |cycles: u64| {
        let mut peaks = Peaks::new();
        for cycle in 0..cycles {
            let latency_ns = match (200..204).contains(&cycle) {
                true => 3_000,
                false => 50_000 + cycle * 7_919 % cycles,
            };
            peaks.offer(Peak::new(cycle, cycle * 1_000_000, latency_ns));
        }
        extremal_index(&peaks, (cycles, cycles), cycles * 1_000_000, u64::MAX)
    };
    let index = run(404).expect("enough");
    let exceedances: Vec<usize> = index.levels.iter().map(|level| level.exceedances).collect();
    assert_eq!(exceedances, [100, 200]);
    assert!(index.theta_lower > 0.8, "{index:?}");
    // A short run has the level that half of it exceeds.
    let levels = run(61).expect("just enough").levels;
    assert_eq!((levels.len(), levels[0].exceedances), (1, 30));
    assert_eq!(run(59), None);
}

/// Times of a clock with coarse steps: the samples of every burst have the same length.
#[test]
fn equal_latencies_are_bursts_like_others() {
    let run = |latency: &dyn Fn(u64) -> u64| {
        let mut peaks = Peaks::new();
        for cycle in 0..20_000_u64 {
            let latency_ns = match cycle % 500 < 50 {
                true => 50_000 + latency(cycle),
                false => 3_000 + cycle * 7_919 % 20_000 / 10,
            };
            peaks.offer(Peak::new(cycle, cycle * 1_000_000, latency_ns));
        }
        extremal_index(&peaks, (20_000, 20_000), 20_000_000_000, u64::MAX).expect("enough")
    };
    let (fine, coarse) = (run(&|cycle| cycle % 97), run(&|_| 0));
    assert!(fine.theta_lower < 0.1, "{fine:?}");
    assert!(coarse.theta_lower < 0.1, "{coarse:?}");
}

#[test]
fn too_few_peaks_give_no_index() {
    let run = support::independent(&mut Rng::new(1), 20, 1e-3);
    assert_eq!(
        extremal_index(&run.peaks, (20, 20), run.duration_ns, u64::MAX),
        None
    );
    assert_eq!(extremal_index(&run.peaks, (0, 0), 0, u64::MAX), None);
}
