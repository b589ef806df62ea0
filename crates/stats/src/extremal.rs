//! How far the highest samples come in bursts: the extremal index.
//!
//! Of a stationary stream with extremal index θ (0 < θ ≤ 1), high exceedances
//! arrive in bursts with a mean size of 1/θ, and N cycles tell as much about
//! the tail as Nθ independent ones. θ is taken by the intervals estimator of
//! Ferro and Segers (*Inference for clusters of extreme values*, J. R. Statist.
//! Soc. B 65, 2003) from the times between exceedances. It needs no choice of a
//! burst length: the ⌊θn⌋ longest gaps lie between bursts, the others within.
//!
//! Time is counted in cycles: the time between two exceedances divided by the
//! mean time between any two cycles of all threads, so that several CPUs
//! stopped by one event are one burst.

use crate::peaks::Peaks;
use crate::random::Random;
use serde::{Deserialize, Serialize};

/// Fewest exceedances that an estimate is made from.
pub const MIN_EXCEEDANCES: usize = 30;
/// Exceedances at the levels that are looked at, highest level first.
const LEVELS: [usize; 4] = [100, 200, 400, 800];
const RESAMPLES: usize = 200;
/// One-sided confidence of the lower limit of θ at one level. The smallest of
/// several levels is used, which makes up for what 0.90 lacks.
const LOWER_CONFIDENCE: f64 = 0.90;

/// The extremal index at one level.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct ExtremalLevel {
    /// Samples above this latency (ns) are the exceedances.
    pub threshold_ns: u64,
    /// Their number.
    pub exceedances: usize,
    /// Bursts they fall into.
    pub bursts: usize,
    /// The extremal index, 0..=1.
    pub theta: f64,
    /// One-sided lower limit of it, from resampled bursts.
    pub theta_lower: f64,
}

/// The extremal index over several levels.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ExtremalIndex {
    /// The index at the median of the levels, 0..=1.
    pub theta: f64,
    /// The smallest lower limit of any level.
    pub theta_lower: f64,
    /// The levels, highest threshold first.
    pub levels: Vec<ExtremalLevel>,
}

/// The intervals estimator from `gaps` between exceedances, in cycles.
///
/// Gaps below one cycle (two CPUs at once) count as one. `None` without gaps.
pub fn intervals_estimator(gaps: &[f64]) -> Option<f64> {
    if gaps.is_empty() {
        return None;
    }
    let n = gaps.len() as f64;
    let longest = gaps.iter().copied().fold(0.0, f64::max);
    let (mut sum, mut squares) = (0.0, 0.0);
    for gap in gaps {
        let gap = gap.round().max(1.0);
        if longest <= 2.0 {
            sum += gap;
            squares += gap * gap;
        } else {
            sum += gap - 1.0;
            squares += (gap - 1.0) * (gap - 2.0);
        }
    }
    if squares <= 0.0 {
        return Some(1.0);
    }
    Some((2.0 * sum * sum / (n * squares)).clamp(1.0 / (n + 1.0), 1.0))
}

/// Splits exceedances at their longest gaps into about θn bursts.
///
/// Returns the shortest gap (cycles) that separates two bursts; gaps below it
/// lie within one. Infinite when all of them are one burst.
pub fn separating_gap(gaps: &[f64], theta: f64) -> f64 {
    let bursts = (theta * (gaps.len() + 1) as f64).floor() as usize;
    let separators = bursts.saturating_sub(1).min(gaps.len());
    if separators == 0 {
        return f64::INFINITY;
    }
    let mut sorted = gaps.to_vec();
    sorted.sort_unstable_by(|a, b| b.total_cmp(a));
    let candidate = sorted[separators - 1];
    // Equal gaps fall on one side: with a tie across the border all are within.
    if separators < sorted.len() && sorted[separators] == candidate && theta < 1.0 {
        let longer = sorted.iter().copied().filter(|gap| *gap > candidate);
        return longer.fold(f64::INFINITY, f64::min);
    }
    candidate
}

/// Gaps in cycles between ascending times in ns.
pub fn gaps_in_cycles(times_ns: &[u64], cycle_spacing_ns: f64) -> Vec<f64> {
    times_ns
        .windows(2)
        .map(|pair| pair[1].saturating_sub(pair[0]) as f64 / cycle_spacing_ns)
        .collect()
}

/// The extremal index of the samples above the highest usable levels that lie
/// at or below `ceiling_ns` (`u64::MAX`: no ceiling).
///
/// `cycle_spacing_ns` is the duration of the run divided by the cycles of all
/// threads. `None` with fewer than [`MIN_EXCEEDANCES`] usable samples.
pub fn extremal_index(
    peaks: &Peaks,
    cycle_spacing_ns: f64,
    ceiling_ns: u64,
) -> Option<ExtremalIndex> {
    if !cycle_spacing_ns.is_finite() || cycle_spacing_ns <= 0.0 {
        return None;
    }
    let in_order = peaks.in_order();
    let mut latencies: Vec<u64> = in_order.iter().map(|peak| peak.latency_ns).collect();
    latencies.sort_unstable_by(|a, b| b.cmp(a));
    let above_ceiling = latencies.partition_point(|latency| *latency > ceiling_ns);
    let mut thresholds = Vec::new();
    for wanted in LEVELS {
        let wanted = wanted.max(above_ceiling);
        // The level just below the exceedance of that rank, or the lowest there is.
        let threshold = latencies
            .get(wanted)
            .copied()
            .unwrap_or_else(|| peaks.threshold());
        if !thresholds.contains(&threshold) {
            thresholds.push(threshold);
        }
    }
    if !thresholds.contains(&peaks.threshold()) && latencies.len() < 2 * LEVELS[3] {
        thresholds.push(peaks.threshold());
    }
    let levels: Vec<ExtremalLevel> = thresholds
        .into_iter()
        .filter_map(|threshold_ns| {
            let times: Vec<u64> = in_order
                .iter()
                .filter(|peak| peak.latency_ns > threshold_ns)
                .map(|peak| peak.asked_ns)
                .collect();
            level(&times, cycle_spacing_ns, threshold_ns)
        })
        .take(LEVELS.len())
        .collect();
    if levels.is_empty() {
        return None;
    }
    let mut thetas: Vec<f64> = levels.iter().map(|level| level.theta).collect();
    thetas.sort_unstable_by(f64::total_cmp);
    Some(ExtremalIndex {
        theta: thetas[(thetas.len() - 1) / 2],
        theta_lower: levels.iter().map(|l| l.theta_lower).fold(1.0, f64::min),
        levels,
    })
}

fn level(times_ns: &[u64], cycle_spacing_ns: f64, threshold_ns: u64) -> Option<ExtremalLevel> {
    if times_ns.len() < MIN_EXCEEDANCES {
        return None;
    }
    let gaps = gaps_in_cycles(times_ns, cycle_spacing_ns);
    let theta = intervals_estimator(&gaps)?;
    let separator = separating_gap(&gaps, theta);
    let bursts = 1 + gaps.iter().filter(|gap| **gap >= separator).count();
    let theta_lower = lower_limit(&gaps, separator, times_ns.len() as u64).min(theta);
    Some(ExtremalLevel {
        threshold_ns,
        exceedances: times_ns.len(),
        bursts,
        theta,
        theta_lower,
    })
}

/// Lower limit of θ: bursts and the gaps between them are drawn anew with
/// replacement (Ferro and Segers, section 4), θ is estimated again.
fn lower_limit(gaps: &[f64], separator: f64, seed: u64) -> f64 {
    let mut between = Vec::new();
    let mut within: Vec<Vec<f64>> = vec![Vec::new()];
    for gap in gaps {
        if *gap >= separator {
            between.push(*gap);
            within.push(Vec::new());
        } else {
            within.last_mut().expect("never empty").push(*gap);
        }
    }
    if between.is_empty() {
        return 1.0 / (gaps.len() + 1) as f64;
    }
    let mut random = Random::new(0x7468_6574_6100 ^ seed);
    let mut thetas = Vec::with_capacity(RESAMPLES);
    let mut drawn = Vec::with_capacity(2 * gaps.len());
    for _ in 0..RESAMPLES {
        drawn.clear();
        for _ in 0..between.len() {
            drawn.extend_from_slice(&within[random.below(within.len())]);
            drawn.push(between[random.below(between.len())]);
        }
        thetas.extend(intervals_estimator(&drawn));
    }
    thetas.sort_unstable_by(f64::total_cmp);
    let rank = ((1.0 - LOWER_CONFIDENCE) * thetas.len() as f64) as usize;
    thetas.get(rank).copied().unwrap_or(1.0)
}
