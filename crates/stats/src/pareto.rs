//! The generalised Pareto distribution: fit, likelihood, goodness of fit.
//!
//! `P(X > x) = (1 + ξx/σ)^(-1/ξ)`, with shape ξ (0: exponential; below 0: an
//! end point at -σ/ξ) and scale σ. The fit is maximum likelihood in Grimshaw's
//! form (Technometrics 35, 1993): for a given ratio ξ/σ the best shape is a
//! mean of logarithms, so the search has one dimension.

use crate::golden::{Section, section};
use crate::random::Random;

/// Shapes that a fit may have.
const SHAPES: (f64, f64) = (-0.9, 2.0);

/// A generalised Pareto distribution.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Pareto {
    pub(crate) shape: f64,
    pub(crate) scale: f64,
}

impl Pareto {
    /// Maximum likelihood fit to positive excesses.
    ///
    /// The profile likelihood is searched over the shape, on a grid and then by
    /// golden section: it is bounded there, unlike over ξ/σ, where it grows
    /// without bound near the end point.
    pub(crate) fn fit(excesses: &[f64]) -> Pareto {
        let largest = excesses.iter().copied().fold(0.0, f64::max);
        let mean = excesses.iter().sum::<f64>() / excesses.len() as f64;
        // With r = ξ/σ scaled by the mean, from just above -1/largest upwards.
        let lowest = -1.0 / largest * (1.0 - 1e-6);
        let value = |ratio: f64| profile(excesses, ratio, mean).1;
        let (mut best, mut best_value) = (0.0, value(0.0));
        // A grid that is finer near zero and near the end point.
        let grid: Vec<f64> = (1..=16)
            .map(|i| lowest * (1.0 - (1.0 - f64::from(i) / 16.0).powi(2)))
            .chain((-10..=8).map(|i| 2f64.powi(i) / mean))
            .collect();
        let mut sorted = grid;
        sorted.push(0.0);
        sorted.sort_unstable_by(f64::total_cmp);
        let mut at = 0;
        for (i, ratio) in sorted.iter().enumerate() {
            let here = value(*ratio);
            if here > best_value || *ratio == best {
                (best, best_value, at) = (*ratio, here, i);
            }
        }
        let around = (
            sorted[at.saturating_sub(1)],
            sorted[(at + 1).min(sorted.len() - 1)],
        );
        let Section { low, high, .. } = section(value, around, 40, 1e-7 / mean);
        let ratio = 0.5 * (low + high);
        let ratio = if value(ratio) > best_value {
            ratio
        } else {
            best
        };
        profile(excesses, ratio, mean).0
    }

    /// Log-likelihood of excesses; minus infinity beyond the end point.
    pub(crate) fn log_likelihood(&self, excesses: &[f64]) -> f64 {
        let n = excesses.len() as f64;
        if self.shape.abs() < 1e-9 {
            return -n * self.scale.ln() - excesses.iter().sum::<f64>() / self.scale;
        }
        let ratio = self.shape / self.scale;
        let sum: f64 = excesses.iter().map(|x| (ratio * x).ln_1p()).sum();
        if sum.is_nan() {
            return f64::NEG_INFINITY;
        }
        -n * self.scale.ln() - (1.0 + 1.0 / self.shape) * sum
    }

    /// Probability of at most `x`.
    pub(crate) fn cdf(&self, x: f64) -> f64 {
        if self.shape.abs() < 1e-9 {
            return -(-x / self.scale).exp_m1();
        }
        let inner = 1.0 + self.shape * x / self.scale;
        if inner <= 0.0 {
            return 1.0;
        }
        1.0 - inner.powf(-1.0 / self.shape)
    }

    /// The excess that is exceeded once in `times` (at least 1).
    pub(crate) fn exceeded_once_in(&self, times: f64) -> f64 {
        if self.shape.abs() < 1e-9 {
            return self.scale * times.ln();
        }
        self.scale * (self.shape * times.ln()).exp_m1() / self.shape
    }

    /// A random excess.
    pub(crate) fn sample(&self, random: &mut Random) -> f64 {
        self.exceeded_once_in(1.0 / random.unit())
    }

    /// The Anderson-Darling distance of ascending excesses.
    pub(crate) fn anderson_darling(&self, ascending: &[f64]) -> f64 {
        let n = ascending.len();
        let bounded = |x: f64| self.cdf(x).clamp(1e-12, 1.0 - 1e-12);
        let mut sum = 0.0;
        for i in 0..n {
            let low = bounded(ascending[i]).ln();
            let high = (-bounded(ascending[n - 1 - i])).ln_1p();
            sum += (2 * i + 1) as f64 * (low + high);
        }
        -(n as f64) - sum / n as f64
    }
}

/// The best distribution with `ratio` = ξ/σ, and its log-likelihood per excess.
fn profile(excesses: &[f64], ratio: f64, mean: f64) -> (Pareto, f64) {
    let n = excesses.len() as f64;
    if (ratio * mean).abs() < 1e-7 {
        let exponential = Pareto {
            shape: 0.0,
            scale: mean,
        };
        return (exponential, -mean.ln() - 1.0);
    }
    let shape = excesses.iter().map(|x| (ratio * x).ln_1p()).sum::<f64>() / n;
    if !(SHAPES.0..=SHAPES.1).contains(&shape) {
        return (Pareto { shape, scale: mean }, f64::NEG_INFINITY);
    }
    let scale = shape / ratio;
    (Pareto { shape, scale }, -scale.ln() - shape - 1.0)
}
