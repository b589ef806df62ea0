//! Exact bounds on a probability from counts: Clopper and Pearson (1934).
//!
//! Both bounds are one-sided: at confidence 0.95, in at least 95 % of all
//! experiments the true probability is not above the upper bound, and in at
//! least 95 % it is not below the lower one. Counts may be real numbers, so
//! that an effective sample size can be put in.

use crate::special::{beta_cdf, beta_quantile};

/// Upper bound on the probability behind `misses` in `cycles`.
///
/// `confidence` is within (0, 1). Without cycles nothing is known: 1.
pub fn upper(misses: f64, cycles: f64, confidence: f64) -> f64 {
    if cycles.is_nan() || cycles <= 0.0 || misses >= cycles {
        return 1.0;
    }
    if misses <= 0.0 {
        // 1 - (1-c)^(1/n), without cancellation for large n.
        return -((-confidence).ln_1p() / cycles).exp_m1();
    }
    beta_quantile(confidence, misses + 1.0, cycles - misses)
}

/// Lower bound on the probability behind `misses` in `cycles`.
///
/// `confidence` is within (0, 1). Without misses or cycles it is 0.
pub fn lower(misses: f64, cycles: f64, confidence: f64) -> f64 {
    if cycles.is_nan() || cycles <= 0.0 || misses <= 0.0 {
        return 0.0;
    }
    if misses >= cycles {
        return (1.0 - confidence).powf(1.0 / cycles);
    }
    beta_quantile(1.0 - confidence, misses, cycles - misses + 1.0)
}

/// Probability of at most `misses` in `cycles` when each has `probability`.
pub fn at_most(misses: f64, cycles: f64, probability: f64) -> f64 {
    if misses < 0.0 {
        return 0.0;
    }
    if misses >= cycles {
        return 1.0;
    }
    1.0 - beta_cdf(probability, misses + 1.0, cycles - misses)
}

/// Fewest independent cycles that show a probability of at most `allowed` at
/// `confidence` when exactly `misses` of them miss.
///
/// `None` when no number of cycles can (`allowed` not above 0, or more than
/// 2^62 cycles).
pub fn cycles_needed(allowed: f64, confidence: f64, misses: u64) -> Option<u64> {
    if allowed.is_nan() || allowed <= 0.0 {
        return None;
    }
    let enough = |cycles: u64| upper(misses as f64, cycles as f64, confidence) <= allowed;
    let mut high = 1u64;
    while !enough(high) {
        if high >= 1 << 62 {
            return None;
        }
        high *= 2;
    }
    let mut low = high / 2;
    while high - low > 1 {
        let middle = low + (high - low) / 2;
        if enough(middle) {
            high = middle;
        } else {
            low = middle;
        }
    }
    Some(high)
}
