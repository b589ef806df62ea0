//! Special functions: log-gamma, the incomplete gamma and beta functions, and
//! their inverses.
//!
//! Sources: Lanczos' approximation for log-gamma (g = 7, nine terms); series
//! and continued fractions (modified Lentz) as in Abramowitz & Stegun 6.5 and
//! 26.5. The inverses bisect, so they are as exact as the functions themselves
//! and can't run away.

const LANCZOS: [f64; 9] = [
    0.999_999_999_999_809_9,
    676.520_368_121_885_1,
    -1_259.139_216_722_402_8,
    771.323_428_777_653_1,
    -176.615_029_162_140_6,
    12.507_343_278_686_905,
    -0.138_571_095_265_720_12,
    9.984_369_578_019_572e-6,
    1.505_632_735_149_311_6e-7,
];

const TINY: f64 = 1e-300;

/// Natural logarithm of the gamma function for `x > 0`.
pub(crate) fn ln_gamma(x: f64) -> f64 {
    if x < 0.5 {
        // Reflection.
        let pi = std::f64::consts::PI;
        return (pi / (pi * x).sin()).ln() - ln_gamma(1.0 - x);
    }
    let x = x - 1.0;
    let t = x + 7.5;
    let mut sum = LANCZOS[0];
    for (i, coefficient) in LANCZOS.iter().enumerate().skip(1) {
        sum += coefficient / (x + i as f64);
    }
    0.5 * (2.0 * std::f64::consts::PI).ln() + (x + 0.5) * t.ln() - t + sum.ln()
}

/// ln Γ(a+b) − ln Γ(a), accurate also when `a` is so large that the two terms
/// would cancel.
fn ln_gamma_ratio(a: f64, b: f64) -> f64 {
    if a < 1e4 {
        return ln_gamma(a + b) - ln_gamma(a);
    }
    // Stirling with two correction terms; (a+b-1/2)ln(1+b/a) + b ln a - b.
    let correction = |x: f64| 1.0 / (12.0 * x) - 1.0 / (360.0 * x * x * x);
    (a + b - 0.5) * (b / a).ln_1p() + b * a.ln() - b + correction(a + b) - correction(a)
}

/// Regularised incomplete beta function `I_x(a, b)` for positive `a` and `b`.
pub(crate) fn beta_cdf(x: f64, a: f64, b: f64) -> f64 {
    if x <= 0.0 {
        return 0.0;
    }
    if x >= 1.0 {
        return 1.0;
    }
    if a < 1e-6 * b {
        // 1 - x would lose the digits of x; the gamma limit (DiDonato and
        // Morris 1992, leading term) is off by (a/b)² only.
        return gamma_cdf(-(b + (a - 1.0) / 2.0) * (-x).ln_1p(), a);
    }
    let (small, large) = if a < b { (a, b) } else { (b, a) };
    let ln_beta_inverse = ln_gamma_ratio(large, small) - ln_gamma(small);
    let front = (a * x.ln() + b * (-x).ln_1p() + ln_beta_inverse).exp();
    if x < (a + 1.0) / (a + b + 2.0) {
        front * beta_fraction(x, a, b) / a
    } else {
        1.0 - front * beta_fraction(1.0 - x, b, a) / b
    }
}

fn beta_fraction(x: f64, a: f64, b: f64) -> f64 {
    let mut c = 1.0;
    let mut d = 1.0 / non_zero(1.0 - (a + b) * x / (a + 1.0));
    let mut h = d;
    for m in 1..20_000 {
        let m = f64::from(m);
        let even = m * (b - m) * x / ((a + 2.0 * m - 1.0) * (a + 2.0 * m));
        d = 1.0 / non_zero(1.0 + even * d);
        c = non_zero(1.0 + even / c);
        h *= d * c;
        let odd = -(a + m) * (a + b + m) * x / ((a + 2.0 * m) * (a + 2.0 * m + 1.0));
        d = 1.0 / non_zero(1.0 + odd * d);
        c = non_zero(1.0 + odd / c);
        let step = d * c;
        h *= step;
        if (step - 1.0).abs() < 1e-15 {
            break;
        }
    }
    h
}

fn non_zero(x: f64) -> f64 {
    if x.abs() < TINY { TINY } else { x }
}

/// The `x` with `I_x(a, b) = probability`.
pub(crate) fn beta_quantile(probability: f64, a: f64, b: f64) -> f64 {
    if probability <= 0.0 {
        return 0.0;
    }
    if probability >= 1.0 {
        return 1.0;
    }
    // The logarithm is sought, for an answer may be tiny: around that of the mean.
    let distance = |logarithm: f64| beta_cdf(logarithm.exp(), a, b) - probability;
    let mean = (a / (a + b)).ln();
    let (mut low, mut high) = (mean.max(-700.0), mean);
    let (mut at_low, mut at_high) = (distance(low), distance(high));
    let mut width = a.sqrt().recip().clamp(1e-6, 100.0);
    while at_low > 0.0 && low > -700.0 {
        (high, at_high) = (low, at_low);
        low = (low - width).max(-700.0);
        at_low = distance(low);
        width *= 2.0;
    }
    while at_high < 0.0 && high < 0.0 {
        (low, at_low) = (high, at_high);
        high = (high + width).min(0.0);
        at_high = distance(high);
        width *= 2.0;
    }
    root(distance, (low, at_low), (high, at_high))
        .exp()
        .min(1.0)
}

/// Where a function that grows is zero, between two points with its values: by interpolation, and
/// with at most one step more than bisection takes (Oliveira and Takahashi, ITP, ACM TOMS 47, 2020).
fn root(
    function: impl Fn(f64) -> f64,
    (mut low, mut at_low): (f64, f64),
    (mut high, mut at_high): (f64, f64),
) -> f64 {
    const EXACT: f64 = 5e-14;
    let truncation = 0.2 / (high - low).max(EXACT);
    let mut allowed = EXACT
        * (((high - low) / (2.0 * EXACT)).log2().ceil() + 1.0)
            .max(0.0)
            .exp2();
    while high - low > 2.0 * EXACT {
        let middle = 0.5 * (low + high);
        let secant = (at_high * low - at_low * high) / (at_high - at_low);
        let towards = (middle - secant).signum();
        let step = truncation * (high - low).powi(2);
        let truncated = if step <= (middle - secant).abs() {
            secant + towards * step
        } else {
            middle
        };
        let radius = allowed - 0.5 * (high - low);
        let at = if (truncated - middle).abs() <= radius {
            truncated
        } else {
            middle - towards * radius
        };
        let at = if at > low && at < high { at } else { middle };
        if at <= low || at >= high {
            break;
        }
        let value = function(at);
        if value > 0.0 {
            (high, at_high) = (at, value);
        } else if value < 0.0 {
            (low, at_low) = (at, value);
        } else {
            return at;
        }
        allowed *= 0.5;
    }
    0.5 * (low + high)
}

/// Standard normal distribution function.
pub(crate) fn normal_cdf(z: f64) -> f64 {
    let half = 0.5 * gamma_cdf(z * z / 2.0, 0.5);
    if z >= 0.0 { 0.5 + half } else { 0.5 - half }
}

/// The `z` with `normal_cdf(z) = probability`.
pub(crate) fn normal_quantile(probability: f64) -> f64 {
    let (mut low, mut high) = (-40.0, 40.0);
    for _ in 0..80 {
        let middle = 0.5 * (low + high);
        if normal_cdf(middle) < probability {
            low = middle;
        } else {
            high = middle;
        }
    }
    0.5 * (low + high)
}

/// Regularised lower incomplete gamma function `P(shape, x)`.
pub(crate) fn gamma_cdf(x: f64, shape: f64) -> f64 {
    if x <= 0.0 {
        return 0.0;
    }
    let front = (shape * x.ln() - x - ln_gamma(shape)).exp();
    if x < shape + 1.0 {
        let mut term = 1.0 / shape;
        let mut sum = term;
        for n in 1..100_000 {
            term *= x / (shape + f64::from(n));
            sum += term;
            if term < sum * 1e-16 {
                break;
            }
        }
        return (front * sum).min(1.0);
    }
    let mut b = x + 1.0 - shape;
    let mut c = 1.0 / TINY;
    let mut d = 1.0 / non_zero(b);
    let mut h = d;
    for n in 1..100_000 {
        let n = f64::from(n);
        let a = -n * (n - shape);
        b += 2.0;
        d = 1.0 / non_zero(a * d + b);
        c = non_zero(b + a / c);
        let step = d * c;
        h *= step;
        if (step - 1.0).abs() < 1e-15 {
            break;
        }
    }
    (1.0 - front * h).clamp(0.0, 1.0)
}

/// The `x` with `gamma_cdf(x, shape) = probability`, for probabilities within (0, 1).
pub(crate) fn gamma_quantile(probability: f64, shape: f64) -> f64 {
    let (mut low, mut high) = (0.0, shape.max(1.0));
    while gamma_cdf(high, shape) < probability && high < 1e12 {
        high *= 2.0;
    }
    for _ in 0..100 {
        let middle = 0.5 * (low + high);
        if gamma_cdf(middle, shape) < probability {
            low = middle;
        } else {
            high = middle;
        }
    }
    0.5 * (low + high)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn close(a: f64, b: f64, relative: f64) {
        assert!((a - b).abs() <= relative * b.abs(), "{a} {b}");
    }

    #[test]
    fn ln_gamma_of_whole_and_half_numbers() {
        let mut factorial = 1.0f64;
        for n in 1..30 {
            close(ln_gamma(f64::from(n)) + 1.0, factorial.ln() + 1.0, 1e-13);
            factorial *= f64::from(n);
        }
        close(ln_gamma(0.5), std::f64::consts::PI.sqrt().ln(), 1e-13);
        close(ln_gamma(0.1), 2.252_712_651_734_206, 1e-12);
    }

    #[test]
    fn beta_of_one_is_a_power() {
        for x in [0.001, 0.3, 0.5, 0.9] {
            for a in [0.3, 1.0, 2.5, 40.0] {
                close(beta_cdf(x, a, 1.0), x.powf(a), 1e-11);
                close(beta_cdf(x, 1.0, a), 1.0 - (1.0 - x).powf(a), 1e-11);
                close(beta_cdf(x, a, 3.0) + beta_cdf(1.0 - x, 3.0, a), 1.0, 1e-11);
            }
        }
    }

    #[test]
    fn the_gamma_limit_joins_smoothly() {
        // On both sides of a = 1e-6 b.
        for a in [0.5f64, 3.0, 20.0] {
            for t in [0.3, 1.0, 2.0] {
                let below = beta_cdf(t * a / (0.999e6 * a), a, 0.999e6 * a);
                let above = beta_cdf(t * a / (1.001e6 * a), a, 1.001e6 * a);
                close(below, above, 1e-5);
            }
        }
    }

    #[test]
    fn quantiles_invert_the_distribution() {
        for p in [1e-6, 0.05, 0.5, 0.95, 0.999] {
            for (a, b) in [(0.2, 5.0), (1.0, 1.0), (3.5, 1e9), (50.0, 20.0)] {
                close(beta_cdf(beta_quantile(p, a, b), a, b), p, 1e-8);
            }
            close(normal_cdf(normal_quantile(p)), p, 1e-8);
            for shape in [0.5, 1.0, 6.8, 400.0] {
                close(gamma_cdf(gamma_quantile(p, shape), shape), p, 1e-8);
            }
        }
        // Chi-square with ten degrees of freedom, from its table.
        close(2.0 * gamma_quantile(0.95, 5.0), 18.307_038_053_275_14, 1e-9);
        close(normal_quantile(0.975), 1.959_963_984_540_054, 1e-9);
    }

    #[test]
    fn gamma_of_one_is_exponential() {
        for x in [0.01, 0.5, 1.9, 2.1, 30.0] {
            close(gamma_cdf(x, 1.0), 1.0 - (-x).exp(), 1e-12);
            // Chi-squared with four degrees of freedom.
            close(gamma_cdf(x, 2.0), 1.0 - (-x).exp() * (1.0 + x), 1e-9);
        }
    }
}
