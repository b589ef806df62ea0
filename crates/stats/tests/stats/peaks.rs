//! Compares peaks with the sorted stream.

use proptest::prelude::*;
use punctual_stats::{Peak, Peaks};

fn offered(latencies: &[u64], capacity: usize) -> Peaks {
    let mut peaks = Peaks::with_capacity(capacity);
    for (cycle, latency) in latencies.iter().enumerate() {
        peaks.offer(Peak::new(cycle as u64, cycle as u64 * 1000, *latency));
    }
    peaks
}

fn sorted(mut peaks: Vec<Peak>) -> Vec<Peak> {
    peaks.sort_unstable_by_key(|peak| (peak.asked_ns, peak.latency_ns));
    peaks
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn all_above_the_threshold_are_kept(
        latencies in proptest::collection::vec(0u64..5000, 0..600),
        capacity in 2usize..64,
    ) {
        let peaks = offered(&latencies, capacity);
        prop_assert!(peaks.len() <= capacity);
        let expected: Vec<Peak> = latencies
            .iter()
            .enumerate()
            .filter(|(_, latency)| **latency > peaks.threshold())
            .map(|(i, latency)| Peak::new(i as u64, i as u64 * 1000, *latency))
            .collect();
        prop_assert_eq!(peaks.in_order(), expected);
        // Distinct values: at least a third of the room is in use once full.
        let worst = peaks.worst(1);
        let max = latencies.iter().max().copied().unwrap_or(0);
        if max > 0 {
            prop_assert_eq!(worst[0].latency_ns, max);
            let first = latencies.iter().position(|l| *l == max).expect("present");
            prop_assert_eq!(worst[0].cycle, first as u64);
        }
    }

    #[test]
    fn merging_threads_keeps_all_above_the_common_threshold(
        a in proptest::collection::vec(0u64..5000, 0..300),
        b in proptest::collection::vec(0u64..5000, 0..300),
    ) {
        let (one, two) = (offered(&a, 16), offered(&b, 40));
        let merged = Peaks::merged([&one, &two]);
        prop_assert_eq!(merged.threshold(), one.threshold().max(two.threshold()));
        let both = one.samples().iter().chain(two.samples()).copied();
        let expected: Vec<Peak> = both.filter(|p| p.latency_ns > merged.threshold()).collect();
        prop_assert_eq!(sorted(merged.samples().to_vec()), sorted(expected));
    }

    #[test]
    fn written_down_and_restored_they_claim_no_more(latencies in proptest::collection::vec(0u64..5000, 0..300)) {
        let peaks = offered(&latencies, 64);
        let restored = Peaks::restored(peaks.threshold(), &peaks.in_order());
        prop_assert_eq!(restored.threshold(), peaks.threshold());
        prop_assert_eq!(restored.in_order(), peaks.in_order());
        for level in 0..5000 {
            prop_assert_eq!(restored.count_above(level), peaks.count_above(level));
        }
    }

    #[test]
    fn peaks_are_read_back(latencies in proptest::collection::vec(0u64..5000, 0..300)) {
        let peaks = offered(&latencies, 16);
        let json = serde_json::to_string(&peaks).expect("serialises");
        prop_assert_eq!(serde_json::from_str::<Peaks>(&json).expect("reads back"), peaks);
    }
}

#[test]
fn ties_neither_fill_nor_lose_the_worst() {
    let peaks = offered(&[7; 1000], 8);
    assert!(peaks.len() <= 8);
    assert_eq!(peaks.worst(3)[0], Peak::new(0, 0, 7));
    assert_eq!(peaks.threshold(), 7);
    assert_eq!(peaks.count_above(7), Some(0));
    assert_eq!(peaks.count_above(6), None);
}

#[test]
fn thinning_out_keeps_about_half_of_the_peaks() {
    let latencies: Vec<u64> = (1..=100_000u64)
        .map(|i| i.wrapping_mul(2_654_435_761) % 1_000_003)
        .collect();
    let peaks = offered(&latencies, 8192);
    assert!((4095..=8192).contains(&peaks.len()), "{}", peaks.len());
}

#[test]
fn a_hostile_list_is_refused() {
    let read = |text: &str| serde_json::from_str::<Peaks>(text);
    let peak = r#"{"cycle":1,"asked_ns":2,"latency_ns":3}"#;
    let text = |threshold: u64, capacity: u64| {
        format!(
            r#"{{"threshold_ns":{threshold},"capacity":{capacity},"worst":null,"samples":[{peak}]}}"#
        )
    };
    assert!(read(&text(0, 8)).is_ok());
    assert!(read(&text(3, 8)).is_err(), "below its threshold");
    assert!(read(&text(0, 0)).is_err(), "more than its capacity");
    assert!(read(&text(0, 1 << 40)).is_err(), "absurd capacity");
}
