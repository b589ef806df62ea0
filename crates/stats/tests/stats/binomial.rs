//! Compares the bounds of Clopper and Pearson with brute force.

use punctual_stats::binomial::{at_most, cycles_needed, lower, upper};

/// P(X <= k) for a binomial, summed term by term.
fn summed(k: u64, n: u64, p: f64) -> f64 {
    let mut sum = 0.0;
    for i in 0..=k {
        let mut term = 1.0;
        for j in 0..i {
            term *= (n - j) as f64 / (i - j) as f64 * p;
        }
        sum += term * (1.0 - p).powi((n - i) as i32);
    }
    sum
}

#[test]
fn bounds_solve_the_binomial_sum() {
    for n in [1u64, 2, 3, 5, 10, 20, 40] {
        for k in 0..n {
            for confidence in [0.5, 0.9, 0.95, 0.999] {
                let bound = upper(k as f64, n as f64, confidence);
                let left = summed(k, n, bound);
                assert!((left - (1.0 - confidence)).abs() < 1e-9, "{k}/{n}: {left}");
                assert!((at_most(k as f64, n as f64, bound) - left).abs() < 1e-9);
            }
        }
        for k in 1..=n {
            let bound = lower(k as f64, n as f64, 0.95);
            let right = 1.0 - summed(k - 1, n, bound);
            assert!((right - 0.05).abs() < 1e-9, "{k}/{n}: {right}");
        }
    }
}

#[test]
fn bounds_have_known_exact_values() {
    // R: qbeta(0.95, 6, 95), qbeta(0.05, 5, 96); 3/n and its exact form.
    assert!((upper(5.0, 100.0, 0.95) - 0.102_253).abs() < 1e-5);
    assert!((lower(5.0, 100.0, 0.95) - 0.019_911).abs() < 1e-5);
    for n in [1.0, 1e3, 3.6e6, 1e12] {
        let exact = -f64::exp_m1(f64::ln(0.05) / n);
        assert!((upper(0.0, n, 0.95) / exact - 1.0).abs() < 1e-12);
    }
    assert_eq!(upper(0.0, 0.0, 0.95), 1.0);
    assert_eq!(upper(7.0, 7.0, 0.95), 1.0);
    assert_eq!(lower(0.0, 7.0, 0.95), 0.0);
    assert!((lower(7.0, 7.0, 0.95) - 0.05f64.powf(1.0 / 7.0)).abs() < 1e-12);
}

#[test]
fn huge_numbers_of_cycles_follow_the_poisson_bound() {
    // Poisson upper bounds at 95 %: 4.7439 for 1, 16.9622 for 10.
    for n in [1e7, 1e10, 1e13] {
        assert!((upper(1.0, n, 0.95) * n - 4.743_865).abs() < 1e-4, "{n}");
        assert!((upper(10.0, n, 0.95) * n - 16.962_219).abs() < 1e-3, "{n}");
        assert!((lower(10.0, n, 0.95) * n - 5.425_405).abs() < 1e-3, "{n}");
    }
}

#[test]
fn the_bound_of_a_real_count_lies_between_those_of_its_neighbours() {
    let bounds: Vec<f64> = (0..=40)
        .map(|i| upper(f64::from(i) / 4.0, 1000.0, 0.95))
        .collect();
    assert!(bounds.windows(2).all(|pair| pair[0] < pair[1]));
}

#[test]
fn cycles_needed_is_the_smallest_number_that_suffices() {
    assert_eq!(cycles_needed(0.0, 0.95, 0), None);
    assert_eq!(cycles_needed(1e-6, 0.95, 0), Some(2_995_731));
    for misses in [0u64, 1, 5] {
        let n = cycles_needed(0.01, 0.95, misses).expect("finite");
        assert!(upper(misses as f64, n as f64, 0.95) <= 0.01);
        assert!(upper(misses as f64, (n - 1) as f64, 0.95) > 0.01);
    }
}
