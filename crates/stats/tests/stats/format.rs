//! The format of figures in texts.

use punctual_stats::format::{self, count, duration, large, percent, probability};
use punctual_stats::shares::Shares;

#[test]
fn a_duration_has_three_digits_and_the_unit_that_fits() {
    let cases: [(u64, &str); 21] = [
        (0, "0 ns"),
        (999, "999 ns"),
        (1_000, "1 µs"),
        (99_400, "99.4 µs"),
        (99_960, "100 µs"),
        (100_000, "100 µs"),
        (999_400, "999 µs"),
        (999_960, "1.00 ms"),
        (1_520_000, "1.52 ms"),
        (26_000_000, "26 ms"),
        (8_002_000, "8.00 ms"),
        (26_000_345, "26.0 ms"),
        (10_000_012_000, "10.0 s"),
        (3_200_000_000, "3.2 s"),
        (90_000_000_000, "90 s"),
        (119_900_000_000, "2.00 min"),
        (1_500_000_000_000, "25 min"),
        (3_600_000_000_000, "1 h"),
        (16_200_000_000_000, "4.5 h"),
        (86_400_000_000_000, "1 d"),
        (u64::MAX, "213,504 d"),
    ];
    for (ns, text) in cases {
        assert_eq!(duration(ns), text, "{ns}");
    }
}

#[test]
fn counts_are_grouped_and_shares_are_percentages() {
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

#[test]
fn a_share_has_two_digits_and_one_notation_at_each_size() {
    let shown = [
        (1.0, "100 %"),
        (0.9997, "99.97 %"),
        (0.999_999_9, "99.99999 %"),
        (0.996, "99.6 %"),
        (0.99, "99 %"),
        (0.989, "99 %"),
        (0.123, "12 %"),
        (0.0998, "10 %"),
        (0.04, "4.0 %"),
        (4_778.0 / 120_126.0, "4.0 %"),
        (0.01, "1.0 %"),
        (0.009_99, "1.0 %"),
        (0.0035, "0.35 %"),
        (0.001, "0.1 %"),
        (0.001_02, "0.10 %"),
        (0.0001, "0.01 %"),
        (0.000_102, "0.010 %"),
        (0.000_099_99, "0.010 %"),
        (0.000_032, "3.2e-5"),
        (3.24e-6, "3.2e-6"),
        (1e-6, "1e-6"),
        (0.0, "0"),
        (-1.0, "0"),
        (f64::NAN, "0"),
    ];
    for (value, text) in shown {
        assert_eq!(format::share(value), text, "{value}");
    }
}

#[test]
fn a_share_never_reads_as_everything_or_as_a_larger_one() {
    let number = |text: &str| match text.strip_suffix(" %") {
        Some(percent) => percent.parse::<f64>().expect(text) / 100.0,
        None => text.parse().expect(text),
    };
    let mut last = 0.0;
    for step in 1..40_000 {
        let value = 10f64.powf(f64::from(step - 40_000) / 5_000.0);
        let text = format::share(value);
        let read = number(&text);
        assert!(read >= last, "{value}: {text} after {last}");
        assert!((read / value - 1.0).abs() < 0.051, "{value}: {text}");
        assert!(read < 1.0, "{value}: {text}");
        last = read;
    }
}

#[test]
fn shares_of_one_sentence_have_one_notation() {
    let shares = |all: [f64; 2]| all.map(|share| Shares::for_values(&all).text(share));
    assert_eq!(shares([0.04, 1e-6]), ["4.0 %", "0.0001 %"]);
    assert_eq!(shares([3.24e-6, 0.035]), ["0.00032 %", "3.5 %"]);
    assert_eq!(shares([3.24e-6, 1e-5]), ["3.2e-6", "1e-5"]);
    assert_eq!(shares([0.0, 1e-4]), ["0", "0.01 %"]);
    let tiny = shares([f64::MIN_POSITIVE, 0.5]);
    assert!(tiny[0].len() < 30, "{tiny:?}");
}

#[test]
fn an_allowance_is_written_exactly() {
    let shown = [
        (1.0, "100 %"),
        (0.07, "7 %"),
        (0.01, "1 %"),
        (8e-3, "0.8 %"),
        (0.001_25, "0.125 %"),
        (0.0001, "0.01 %"),
        (1e-6, "1e-6"),
        (2.5e-9, "2.5e-9"),
        (0.0, "0"),
    ];
    for (value, text) in shown {
        assert_eq!(Shares::for_values(&[value]).exactly(value), text, "{value}");
    }
}
