//! How high the rare latencies go: peaks over threshold.
//!
//! The excesses of burst maxima over a high threshold follow a generalised
//! Pareto distribution in the limit (Pickands 1975; Davison and Smith, *Models
//! for exceedances over high thresholds*, J. R. Statist. Soc. B 52, 1990). From
//! its fit follows the level that one burst in 10⁹ cycles exceeds, with an
//! interval from the profile likelihood (Coles, *An Introduction to Statistical
//! Modeling of Extreme Values*, 4.3).
//!
//! An extrapolation is an assumption about what was not seen, so it is refused
//! wherever the assumption shows cracks, with the reason: too few bursts, a
//! poor fit (Anderson-Darling, p-value by parametric bootstrap), a tail so heavy
//! that it has no bound, a run that changed under way, values too coarse, or a
//! level too far beyond the run.

use crate::extremal::{intervals_estimator, ring_gaps, separating_gap};
use crate::pareto::Pareto;
use crate::peaks::{Peak, Peaks};
use crate::random::Random;
use serde::{Deserialize, Serialize};

/// The level asked for is exceeded by one burst in this many cycles.
pub const RETURN_CYCLES: f64 = 1e9;
/// Bursts that a fit is tried with, most first.
const BURSTS: [usize; 4] = [400, 250, 150, 80];
/// Fewest bursts.
pub const MIN_BURSTS: usize = 80;
/// Furthest that a run may be extrapolated: a level once in at most this many
/// times its own cycles.
pub const MAX_EXTRAPOLATION: f64 = 1000.0;
/// Tails at or above this shape are not extrapolated.
pub const MAX_SHAPE: f64 = 0.5;
/// Fits with a lower p-value are refused.
const MIN_P_VALUE: f64 = 0.05;
const RESAMPLES: usize = 99;
/// Fewest distinct values among the excesses, as a share.
const MIN_DISTINCT: f64 = 0.25;

/// An extrapolated tail.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct TailEstimate {
    /// Threshold in ns whose excesses were fitted.
    pub threshold_ns: u64,
    /// Bursts above it.
    pub bursts: usize,
    /// Shape ξ of the generalised Pareto distribution; below 0 the tail ends.
    pub shape: f64,
    /// Its scale σ in ns.
    pub scale_ns: f64,
    /// Anderson-Darling p-value of the fit, 0..=1.
    pub p_value: f64,
    /// One burst in this many cycles exceeds the level.
    pub return_cycles: f64,
    /// That level in ns.
    pub level_ns: f64,
    /// Lower end of its two-sided interval, in ns.
    pub level_lower_ns: f64,
    /// Upper end of its two-sided interval, in ns.
    pub level_upper_ns: f64,
    /// Confidence of the interval, within (0, 1).
    pub confidence: f64,
    /// Where the fitted tail ends, in ns; `None` when it has no end.
    pub end_point_ns: Option<f64>,
}

/// Why a tail is not extrapolated.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(tag = "reason", rename_all = "kebab-case")]
pub enum TailRefusal {
    /// Fewer bursts than a fit needs.
    TooFewBursts {
        /// Bursts that there were.
        bursts: usize,
    },
    /// The excesses do not follow a generalised Pareto distribution.
    PoorFit {
        /// The best p-value of any threshold.
        p_value: f64,
    },
    /// The tail is so heavy that any level is a guess.
    Unbounded {
        /// The fitted shape.
        shape: f64,
    },
    /// The level lies too far beyond the run.
    TooFar {
        /// How many times the cycles of the run.
        times: f64,
    },
    /// The run changed under way.
    NotStationary,
    /// The clock or the histogram has too few distinct values up there.
    TooCoarse {
        /// Distinct values.
        distinct: usize,
        /// Among so many excesses.
        bursts: usize,
    },
}

/// Extrapolates the tail to one burst in [`RETURN_CYCLES`] cycles.
///
/// `cycles` are those of all threads in `duration_ns`; `steady` is whether the
/// run stayed the same ([`mod@crate::stationarity`]); `confidence` is that of
/// the two-sided interval.
pub fn extrapolate(
    peaks: &Peaks,
    cycles: u64,
    duration_ns: u64,
    steady: bool,
    confidence: f64,
) -> Result<TailEstimate, TailRefusal> {
    if !steady {
        return Err(TailRefusal::NotStationary);
    }
    let times = RETURN_CYCLES / cycles.max(1) as f64;
    if times > MAX_EXTRAPOLATION {
        return Err(TailRefusal::TooFar { times });
    }
    let clock = Clock {
        spacing_ns: duration_ns as f64 / cycles.max(1) as f64,
        duration_ns,
    };
    let in_order = peaks.in_order();
    let mut refusal = None;
    let mut best_p = 0.0;
    for wanted in BURSTS {
        let Some((threshold_ns, excesses)) = burst_excesses(&in_order, peaks, clock, wanted) else {
            continue;
        };
        let mut distinct = excesses.clone();
        distinct.dedup();
        let bursts = excesses.len();
        if (distinct.len() as f64) < MIN_DISTINCT * bursts as f64 {
            refusal.get_or_insert(TailRefusal::TooCoarse {
                distinct: distinct.len(),
                bursts,
            });
            continue;
        }
        let fit = Pareto::fit(&excesses);
        let p_value = goodness_of_fit(&fit, &excesses);
        if p_value < MIN_P_VALUE {
            best_p = f64::max(best_p, p_value);
            refusal = Some(TailRefusal::PoorFit { p_value: best_p });
            continue;
        }
        if fit.shape >= MAX_SHAPE {
            return Err(TailRefusal::Unbounded { shape: fit.shape });
        }
        // Bursts above the threshold until the level is exceeded once.
        let events = (RETURN_CYCLES * bursts as f64 / cycles as f64).max(1.0);
        let (lower, upper) = profile_interval(&fit, &excesses, events, confidence);
        let threshold = threshold_ns as f64;
        return Ok(TailEstimate {
            threshold_ns,
            bursts,
            shape: fit.shape,
            scale_ns: fit.scale,
            p_value,
            return_cycles: RETURN_CYCLES,
            level_ns: threshold + fit.exceeded_once_in(events),
            level_lower_ns: threshold + lower,
            level_upper_ns: threshold + upper,
            confidence,
            end_point_ns: (fit.shape < 0.0).then(|| threshold - fit.scale / fit.shape),
        });
    }
    Err(refusal.unwrap_or(TailRefusal::TooFewBursts {
        bursts: bursts_in_all(&in_order, clock),
    }))
}

/// Time in cycles.
#[derive(Clone, Copy)]
struct Clock {
    spacing_ns: f64,
    duration_ns: u64,
}

/// Threshold and ascending excesses of the burst maxima for about `wanted`
/// bursts; `None` when the peaks do not hold as many.
fn burst_excesses(
    in_order: &[Peak],
    peaks: &Peaks,
    clock: Clock,
    wanted: usize,
) -> Option<(u64, Vec<f64>)> {
    let mut latencies: Vec<u64> = in_order.iter().map(|peak| peak.latency_ns).collect();
    latencies.sort_unstable_by(|a, b| b.cmp(a));
    // Bursts have several samples each: go down until there are enough.
    let mut samples = wanted;
    loop {
        let threshold_ns = match latencies.get(samples) {
            Some(threshold) => *threshold,
            None if latencies.len() >= wanted => peaks.threshold(),
            None => return None,
        };
        let maxima = burst_maxima(in_order, threshold_ns, clock);
        if maxima.len() >= wanted || (maxima.len() >= MIN_BURSTS && samples >= latencies.len()) {
            let threshold = threshold_ns as f64;
            let mut excesses: Vec<f64> =
                maxima.iter().map(|peak| *peak as f64 - threshold).collect();
            excesses.sort_unstable_by(f64::total_cmp);
            return Some((threshold_ns, excesses));
        }
        if samples >= latencies.len() {
            return None;
        }
        samples = (samples * 3 / 2).min(latencies.len());
    }
}

fn burst_maxima(in_order: &[Peak], threshold_ns: u64, clock: Clock) -> Vec<u64> {
    let above = in_order
        .iter()
        .filter(|peak| peak.latency_ns > threshold_ns);
    let above: Vec<&Peak> = above.collect();
    let times: Vec<u64> = above.iter().map(|peak| peak.asked_ns).collect();
    let gaps = ring_gaps(&times, clock.spacing_ns, clock.duration_ns);
    let theta = intervals_estimator(&gaps).unwrap_or(1.0);
    let separator = separating_gap(&gaps, theta);
    let mut maxima: Vec<u64> = Vec::new();
    for (i, peak) in above.iter().enumerate() {
        match maxima.last_mut() {
            Some(maximum) if i > 0 && gaps[i - 1] < separator => {
                *maximum = (*maximum).max(peak.latency_ns);
            }
            _ => maxima.push(peak.latency_ns),
        }
    }
    maxima
}

fn bursts_in_all(in_order: &[Peak], clock: Clock) -> usize {
    burst_maxima(in_order, 0, clock).len()
}

/// p-value of the Anderson-Darling distance by parametric bootstrap.
fn goodness_of_fit(fit: &Pareto, ascending: &[f64]) -> f64 {
    let observed = fit.anderson_darling(ascending);
    let mut random = Random::new(0x7461_696c ^ ascending.len() as u64);
    let mut as_far = 1;
    let mut drawn = vec![0.0; ascending.len()];
    for _ in 0..RESAMPLES {
        drawn.fill_with(|| fit.sample(&mut random));
        drawn.sort_unstable_by(f64::total_cmp);
        as_far += usize::from(Pareto::fit(&drawn).anderson_darling(&drawn) >= observed);
    }
    as_far as f64 / (RESAMPLES + 1) as f64
}

/// Interval for the excess exceeded once in `events`, by profile likelihood:
/// the levels whose best likelihood is within half a χ² quantile of the top.
fn profile_interval(fit: &Pareto, excesses: &[f64], events: f64, confidence: f64) -> (f64, f64) {
    let z = crate::special::normal_quantile(0.5 + confidence / 2.0);
    let floor = fit.log_likelihood(excesses) - 0.5 * z * z;
    let best = fit.exceeded_once_in(events);
    let inside = |level: f64| best_at_level(excesses, level, events, fit.shape) >= floor;
    // Outwards by factors until outside, then bisect.
    let edge = |factor: f64| {
        let mut outside = best;
        for _ in 0..80 {
            let next = outside * factor;
            if !inside(next) {
                let (mut a, mut b) = (outside, next);
                for _ in 0..12 {
                    let middle = 0.5 * (a + b);
                    if inside(middle) {
                        a = middle;
                    } else {
                        b = middle;
                    }
                }
                return b;
            }
            outside = next;
        }
        outside
    };
    (edge(1.0 / 1.15), edge(1.15))
}

/// The best log-likelihood of any shape with the given level.
fn best_at_level(excesses: &[f64], level: f64, events: f64, around: f64) -> f64 {
    let value = |shape: f64| {
        let unit = Pareto { shape, scale: 1.0 };
        let scale = level / unit.exceeded_once_in(events);
        Pareto { shape, scale }.log_likelihood(excesses)
    };
    let coarse = (-12..=12).map(|i| around + f64::from(i) * 0.08);
    let (best, _) =
        coarse
            .map(|shape| (shape, value(shape)))
            .fold(
                (around, f64::NEG_INFINITY),
                |a, b| if b.1 > a.1 { b } else { a },
            );
    let fine = (-8..=8).map(|i| value(best + f64::from(i) * 0.01));
    fine.fold(f64::NEG_INFINITY, f64::max)
}
