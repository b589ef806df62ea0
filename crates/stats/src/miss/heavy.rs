//! The upper bound where stalls differ much in length.
//!
//! The index of dispersion describes sums of many bursts. Where a few stalls hold most of the
//! misses, the sum is as large as the longest stall that came, and the next run's may be many
//! times as long. So the lengths of the longest stalls are carried on by a generalised Pareto
//! distribution above a threshold (peaks over threshold), to a twentieth of the run, beyond which no
//! run says anything. The bound is that of the profile likelihood of their number, their shape and
//! their scale together; the number's part is divided by its dispersion. The stalls below the
//! threshold are bounded as all misses else are. Of few stalls the highest latencies that kept the
//! limit are taken in addition: where the misses continue these, they say how steep the tail is, and
//! where they don't, that it is heavy. One threshold is low and steady, the other one
//! sees the end of the tail alone; if either finds the tail heavy, the stricter of them holds.
//! Stalls that come in groups are tried as groups too.

use super::burst_aware_upper;
use super::stalls::{Stall, carried_dispersion, joined};
use crate::golden::section;
use crate::special::normal_quantile;

/// Fewest blocks that a dispersion is looked at with.
const FEWEST_BLOCKS: f64 = 10.0;
/// No stall is taken to be longer than this part of the run.
const LONGEST_PART: f64 = 20.0;
/// Shapes of the tail that are tried: from an end point to a mean that is the longest stall's.
const SHAPES: (f64, f64) = (-0.4, 1.8);
const SHAPE_STEP: f64 = 0.1;
/// A tail is heavy from these shapes on: by the low threshold, and by the high one.
const HEAVY: (f64, f64) = (0.25, 0.45);
/// How much of the likelihood's distance is asked for a tail that is not heavy.
const LIGHT: f64 = 0.85;
/// How many times as far a likelihood of one or two values reaches.
const MOST_WIDER: f64 = 4.0;

/// Where the threshold lies: above it is this share of the stalls, of so many at least and at most.
#[derive(Clone, Copy)]
struct Threshold {
    share: f64,
    least: usize,
    most: usize,
}

const LOW: Threshold = Threshold {
    share: 0.5,
    least: 40,
    most: 150,
};
const HIGH: Threshold = Threshold {
    share: 0.25,
    least: 15,
    most: 100,
};

/// From so many stalls on, they alone are looked at.
pub(super) const ENOUGH: usize = 30;
/// Fewer are filled up to so many.
pub(super) const FILLED: usize = LOW.least + 1;

/// What is known of the misses of a run.
pub(super) struct Known<'a> {
    /// With those that kept the limit, which lasted less than nothing beyond it.
    pub(super) stalls: &'a [Stall],
    /// Misses that no stall holds, as those of wake-ups that were not kept.
    pub(super) others: f64,
    /// The dispersion that these have.
    pub(super) dispersion: f64,
    pub(super) cycles: f64,
    pub(super) duration_ns: f64,
    pub(super) confidence: f64,
}

/// The bound with the tail carried on.
#[derive(Clone, Copy, Debug)]
pub(super) struct Carried {
    /// On the probability of a miss.
    pub(super) upper: f64,
    /// Whether the tail was found heavy.
    pub(super) is_heavy: bool,
}

/// A fitted tail, with the misses that it doesn't hold.
struct Tail {
    fit: Fit,
    /// Each shape with its likeliest scale.
    likeliest: Vec<Likeliest>,
    /// The likeliest shape of all.
    best: Likeliest,
    /// Misses of stalls above the threshold.
    misses: f64,
    /// The other ones, and how many more of these there may be.
    rest: f64,
    more_rest: f64,
    cycles: f64,
}

impl Known<'_> {
    /// The bound; `None` without a stall.
    pub(super) fn carried(&self) -> Option<Carried> {
        let count = self.stalls.len();
        if count == 0 {
            return None;
        }
        let distance = normal_quantile(self.confidence).max(0.0).powi(2);
        // A likelihood of few values is wider than its limit says, most of all in a heavy tail.
        let few = (count.clamp(2, 41) - 1) as f64;
        let wider = (1.0 + 60.0 / (few * few)).min(MOST_WIDER);
        let others = (count.max(2) - 1) as f64;
        let heavy = distance * wider.max((1.0 + 20.0 / others).min(MOST_WIDER));
        let distance = distance * wider;
        // Few may look light by chance.
        let light = if count < ENOUGH {
            heavy
        } else {
            LIGHT * distance
        };
        let low = self.tail(self.stalls, LOW);
        let high = self.tail(self.stalls, HIGH);
        let is_heavy = low.best.shape > HEAVY.0 || high.best.shape > HEAVY.1;
        let mut upper = low.upper(light);
        if is_heavy {
            upper = upper.max(low.upper(heavy)).max(high.upper(heavy));
        }
        let groups = joined(
            self.stalls.iter().copied(),
            self.duration_ns / count as f64 / 5.0,
            f64::INFINITY,
        );
        if in_groups(count, groups.len()) {
            upper = upper.max(self.tail(&groups, LOW).upper(distance));
        }
        Some(Carried {
            upper: upper.min(1.0),
            is_heavy,
        })
    }

    fn dispersion_of(&self, stalls: &[Stall], weight: impl Fn(&Stall) -> f64) -> f64 {
        let weights: Vec<_> = stalls.iter().map(|it| (it.at_ns, weight(it))).collect();
        let spacing_ns = self.duration_ns / self.cycles;
        carried_dispersion(&weights, self.duration_ns, 4.0 * spacing_ns, FEWEST_BLOCKS)
    }

    /// The stalls above a threshold fitted, and the other misses bounded.
    fn tail(&self, stalls: &[Stall], threshold: Threshold) -> Tail {
        let count = stalls.len();
        let mut longest: Vec<f64> = stalls.iter().map(|stall| stall.beyond).collect();
        longest.sort_unstable_by(|a, b| b.total_cmp(a));
        let above =
            ((count as f64 * threshold.share) as usize).clamp(threshold.least, threshold.most);
        let above = above.min(count - 1).max(1);
        let level = longest.get(above).copied().unwrap_or(0.0);
        let (above, below): (Vec<Stall>, Vec<Stall>) =
            stalls.iter().partition(|stall| stall.beyond > level);
        let misses = |of: &[Stall]| of.iter().map(|stall| stall.misses).sum::<f64>();
        let beyond = |of: &[Stall]| -> f64 {
            let longer = of.iter().map(|stall| stall.beyond - level.max(0.0));
            longer.filter(|longer| *longer > 0.0).sum()
        };
        // As many as are longest; several may be as long as the threshold.
        let excesses: Vec<f64> = longest[..above.len().max(1)]
            .iter()
            .map(|beyond| (beyond - level).max(TRIFLE))
            .collect();
        let number = excesses.len() as f64;
        let tail_misses = misses(&above);
        let fit = Fit {
            // What a stall misses beside what it lasts beyond limit and threshold.
            before: (tail_misses - beyond(&above)).max(0.0)
                / above
                    .iter()
                    .filter(|stall| stall.misses > 0.0)
                    .count()
                    .max(1) as f64,
            number,
            to_limit: (-level).max(0.0),
            dispersion: self.dispersion_of(&above, |_| 1.0).min(number),
            cap: self.cycles / LONGEST_PART,
            excesses,
        };
        let likeliest = fit.likeliest();
        let best = likeliest.iter().copied();
        let best = best.max_by(|a, b| a.likelihood.total_cmp(&b.likelihood));
        let rest = misses(&below) + self.others;
        let mut more_rest = 0.0;
        if rest > 0.0 {
            let weights = below.iter().map(|stall| stall.misses);
            let squares: f64 = weights.clone().map(|weight| weight * weight).sum();
            let mut dispersion = self
                .dispersion_of(&below, |stall| stall.misses)
                .max(squares / rest);
            if self.others > 0.0 {
                dispersion = dispersion.max(self.dispersion);
            }
            let weight = weights.fold(1.0, f64::max);
            let bound = burst_aware_upper(rest, self.cycles, dispersion, weight, self.confidence);
            more_rest = bound * self.cycles - rest;
        }
        Tail {
            fit,
            likeliest,
            best: best.unwrap_or_default(),
            misses: tail_misses,
            rest,
            more_rest,
            cycles: self.cycles,
        }
    }
}

impl Tail {
    /// The bound on the probability of a miss, at that distance of the likelihood.
    fn upper(&self, distance: f64) -> f64 {
        let most = self.most(distance);
        // Both at their bounds at once is rarer than either.
        let more = f64::hypot(self.more_rest, (most - self.misses).max(0.0));
        (self.rest + self.misses + more) / self.cycles
    }

    /// The most misses of stalls above the threshold in a run.
    fn most(&self, distance: f64) -> f64 {
        let fit = &self.fit;
        let mut most: f64 = 0.0;
        for Likeliest {
            shape,
            scale: likeliest,
            likelihood,
        } in &self.likeliest
        {
            if self.best.likelihood - likelihood > distance {
                continue;
            }
            // Larger scales, as long as both they and the number are likely enough.
            let mut scale = *likeliest;
            while scale <= likeliest + 6.0 {
                let here = 2.0 * log_likelihood(*shape, scale.exp(), &fit.excesses);
                let left = distance - (self.best.likelihood - here);
                if left < 0.0 {
                    break;
                }
                let number = most_events(fit.number / fit.dispersion, left) * fit.dispersion;
                let (reach, rest) = beyond(*shape, scale.exp(), fit.to_limit);
                let mean = mean_capped(*shape, rest, fit.cap);
                most = most.max(number * reach * (fit.before + mean));
                scale += 0.1;
            }
        }
        most
    }
}

/// Shorter than any stall, in cycles.
const TRIFLE: f64 = 1e-6;

/// Whether more of `count` stalls fell together into `groups` than by chance, where those nearer than
/// a fifth of the mean distance count as one.
fn in_groups(count: usize, groups: usize) -> bool {
    let share = -(-0.2f64).exp_m1();
    let expected = count as f64 * share;
    let deviation = (expected * (1.0 - share)).sqrt();
    (count - groups) as f64 > expected + 2.0 * deviation + 1.0
}

/// A shape, the logarithm of its likeliest scale, and twice the log-likelihood there.
#[derive(Clone, Copy, Default)]
struct Likeliest {
    shape: f64,
    scale: f64,
    likelihood: f64,
}

/// Stalls above a threshold.
struct Fit {
    /// The longest first.
    excesses: Vec<f64>,
    number: f64,
    before: f64,
    /// From the threshold to the limit, in cycles.
    to_limit: f64,
    dispersion: f64,
    cap: f64,
}

impl Fit {
    /// Each shape with its likeliest scale.
    fn likeliest(&self) -> Vec<Likeliest> {
        let steps = ((SHAPES.1 - SHAPES.0) / SHAPE_STEP).round() as i32;
        let each = (0..=steps).map(|step| {
            let shape = SHAPES.0 + SHAPE_STEP * f64::from(step);
            let shape = if shape.abs() < 1e-3 { 0.0 } else { shape };
            let (scale, likelihood) = self.likeliest_scale(shape);
            Likeliest {
                shape,
                scale,
                likelihood,
            }
        });
        each.collect()
    }

    /// The logarithm of the likeliest scale of a shape, and twice the log-likelihood there.
    fn likeliest_scale(&self, shape: f64) -> (f64, f64) {
        let at = |scale: f64| 2.0 * log_likelihood(shape, scale.exp(), &self.excesses);
        let mean = self.excesses.iter().sum::<f64>() / self.number;
        let (mut low, mut high) = (mean.ln() - 7.0, mean.ln() + 1.5);
        if shape < 0.0 {
            // The end point lies beyond the longest.
            low = low.max((-shape * self.excesses[0] * 1.0001).ln());
            if low > high {
                high = low + 1.0;
            }
        }
        section(at, (low, high), 14, 0.0).best
    }
}

/// Of the generalised Pareto distribution, for excesses of which the first is the longest. Products of
/// many terms have one logarithm: sixteen of the longest and the smallest scales that are tried stay
/// within 1e200.
fn log_likelihood(shape: f64, scale: f64, excesses: &[f64]) -> f64 {
    let count = excesses.len() as f64;
    if shape.abs() < 1e-6 {
        return -count * scale.ln() - excesses.iter().sum::<f64>() / scale;
    }
    let ratio = shape / scale;
    if 1.0 + ratio * excesses[0] <= 1e-9 {
        return f64::NEG_INFINITY;
    }
    let mut sum = 0.0;
    for block in excesses.chunks(64) {
        let mut products = [1.0; 4];
        for four in block.chunks(4) {
            for (product, excess) in products.iter_mut().zip(four) {
                *product *= 1.0 + ratio * excess;
            }
        }
        sum += products.iter().map(|product| product.ln()).sum::<f64>();
    }
    -count * scale.ln() - (1.0 + 1.0 / shape) * sum
}

/// The probability that an excess is longer than that, and the scale of what it is longer by.
fn beyond(shape: f64, scale: f64, length: f64) -> (f64, f64) {
    if shape.abs() < 1e-6 {
        return ((-length / scale).exp(), scale);
    }
    let left = 1.0 + shape * length / scale;
    if left <= 1e-9 {
        return (0.0, scale);
    }
    (left.powf(-1.0 / shape), scale * left)
}

/// The mean of an excess of which no more than `cap` counts.
fn mean_capped(shape: f64, scale: f64, cap: f64) -> f64 {
    if shape.abs() < 1e-6 {
        return -scale * (-cap / scale).exp_m1();
    }
    let end = 1.0 + shape * cap / scale;
    if end <= 0.0 {
        return scale / (1.0 - shape);
    }
    if (shape - 1.0).abs() < 1e-6 {
        return scale * end.ln() / shape;
    }
    scale / (1.0 - shape) * (1.0 - end.powf(1.0 - 1.0 / shape))
}

/// The largest mean of a Poisson count whose deviance is at most `distance`: Newton's method from above,
/// where the deviance is convex.
fn most_events(count: f64, distance: f64) -> f64 {
    let mut mean = count + distance + 2.0 * (count * distance).sqrt();
    for _ in 0..30 {
        let deviance = 2.0 * (count * (count / mean).ln() - count + mean);
        let step = (deviance - distance) / (2.0 * (1.0 - count / mean));
        if step.is_nan() || step <= mean * 1e-12 {
            break;
        }
        mean -= step;
    }
    mean
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_likelihood_of_a_product_is_the_sum_of_logarithms() {
        let excesses: Vec<f64> = (0..150).map(|i| 1e4 / f64::from(1 + i)).collect();
        for shape in [-0.3, 0.0, 0.2, 1.8] {
            for scale in [1e4, 4e3, 1e6] {
                let each = excesses.iter().map(|excess| match shape {
                    0.0 => -excess / scale,
                    _ => -(1.0 + 1.0 / shape) * (1.0 + shape * excess / scale).ln(),
                });
                let sum = each.sum::<f64>() - 150.0 * f64::ln(scale);
                let found = log_likelihood(shape, scale, &excesses);
                assert!((found - sum).abs() < 1e-9 * sum.abs(), "{found} {sum}");
            }
        }
        assert_eq!(log_likelihood(-0.3, 1e3, &excesses), f64::NEG_INFINITY);
    }

    #[test]
    fn the_most_events_are_at_the_distance() {
        for count in [1.0, 7.5, 40.0, 150.0] {
            for distance in [0.01, 1.0, 2.7, 10.8] {
                let mean = most_events(count, distance);
                let deviance = 2.0 * (count * (count / mean).ln() - count + mean);
                assert!(
                    mean > count && (deviance - distance).abs() < 1e-9,
                    "{deviance}"
                );
            }
        }
        assert!((most_events(5.0, 0.0) - 5.0).abs() < 1e-5);
    }

    /// Integrated numerically.
    #[test]
    fn capped_means_and_what_is_beyond_are_right() {
        for (shape, scale) in [(-0.3, 2.0), (0.0, 2.0), (0.4, 1.0), (1.0, 1.0), (1.5, 0.5)] {
            let survival = |x: f64| match shape {
                0.0 => (-x / scale).exp(),
                _ => (1.0 + shape * x / scale).max(0.0).powf(-1.0 / shape),
            };
            let (cap, steps) = (50.0, 200_000);
            let width = cap / f64::from(steps);
            let mean: f64 = (0..steps)
                .map(|i| survival((f64::from(i) + 0.5) * width) * width)
                .sum();
            let found = mean_capped(shape, scale, cap);
            assert!(
                (found - mean).abs() < 1e-4 * mean,
                "{shape}: {found} {mean}"
            );
            let (reach, rest) = beyond(shape, scale, 1.5);
            assert!((reach - survival(1.5)).abs() < 1e-12);
            let above: f64 = (0..steps)
                .map(|i| survival(1.5 + (f64::from(i) + 0.5) * width) * width)
                .sum();
            let found = reach * mean_capped(shape, rest, cap);
            assert!(
                (found - above).abs() < 1e-4 * above,
                "{shape}: {found} {above}"
            );
        }
    }

    #[test]
    fn groups_are_more_than_chance_brings_together() {
        assert!(!in_groups(100, 100));
        assert!(!in_groups(100, 80));
        assert!(in_groups(100, 60));
        assert!(!in_groups(1, 1));
    }
}
