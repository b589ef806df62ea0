//! Figures as people read them.

use punctual_stats::format::{count, duration, large, percent, probability};

#[test]
fn durations() {
    let cases: [(u64, &str); 18] = [
        (0, "0 ns"),
        (999, "999 ns"),
        (1_000, "1 µs"),
        (99_400, "99.4 µs"),
        (99_960, "100 µs"),
        (100_000, "100 µs"),
        (999_400, "999 µs"),
        (999_960, "1 ms"),
        (1_520_000, "1.52 ms"),
        (26_000_000, "26 ms"),
        (3_200_000_000, "3.2 s"),
        (90_000_000_000, "90 s"),
        (119_900_000_000, "2 min"),
        (1_500_000_000_000, "25 min"),
        (3_600_000_000_000, "1 h"),
        (16_200_000_000_000, "4.5 h"),
        (86_400_000_000_000, "1 d"),
        (u64::MAX, "213504 d"),
    ];
    for (ns, text) in cases {
        assert_eq!(duration(ns), text, "{ns}");
    }
}

#[test]
fn counts_and_shares() {
    assert_eq!(count(0), "0");
    assert_eq!(count(999), "999");
    assert_eq!(count(1_000), "1,000");
    assert_eq!(count(3_600_000), "3,600,000");
    assert_eq!(percent(0.95), "95 %");
    assert_eq!(percent(0.999), "99.9 %");
}

#[test]
fn probabilities_never_claim_more_than_was_shown() {
    assert_eq!(probability(0.0), "0");
    assert_eq!(probability(1.0), "100 %");
    assert_eq!(probability(0.25), "25 %");
    assert_eq!(probability(0.01), "1 in 100");
    assert_eq!(probability(1e-6), "1 in 1 million");
    // 1 in 1.2017 million, 1 in 1.29 million, 1 in 99,999.
    assert_eq!(probability(2.9957 / 3.6e6), "1 in 1.2 million");
    assert_eq!(probability(1.0 / 1.29e6), "1 in 1.2 million");
    assert_eq!(probability(1.0 / 99_999.0), "1 in 99,900");
    assert_eq!(large(999_999.0), "999,000");
    assert_eq!(large(3e9), "3 billion");
    assert_eq!(large(22.0), "22");
}
