//! How far the highest samples come in bursts: the extremal index.
//!
//! Of a stationary stream with extremal index θ (0 < θ ≤ 1), high exceedances
//! arrive in bursts with a mean size of 1/θ, and N cycles tell as much about
//! the tail as Nθ independent ones. θ is taken by the intervals estimator of
//! Ferro and Segers (*Inference for clusters of extreme values*, J. R. Statist.
//! Soc. B 65, 2003) from the times between exceedances. It needs no choice of a
//! burst length: the θn longest gaps lie between bursts, the others within.
//!
//! Two changes make it hold for few bursts too. The run is closed to a ring, so
//! that the time before the first and after the last exceedance counts: forty
//! late cycles in a row in an hour are one burst, which their own gaps alone
//! can't tell from forty exceedances in a stream that always exceeds. And with
//! m bursts at random places of a ring of length M, `2M²/Σgap²` is m + 1 in
//! the mean, so 1 is taken off.
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
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
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
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ExtremalIndex {
    /// The index at the median of the levels, 0..=1.
    pub theta: f64,
    /// The smallest lower limit of any level.
    pub theta_lower: f64,
    /// The levels, highest threshold first.
    pub levels: Vec<ExtremalLevel>,
}

/// What the estimator needs of a set of gaps; sets add up.
#[derive(Clone, Copy, Default)]
struct GapSums {
    count: f64,
    longest: f64,
    /// Sums of T and T², for exceedances so dense that no gap is above 2.
    plain: (f64, f64),
    /// Sums of T−1 and (T−1)(T−2), which take the discreteness of T out.
    reduced: (f64, f64),
}

impl GapSums {
    fn of(gaps: &[f64]) -> Self {
        let mut sums = Self::default();
        for gap in gaps {
            sums.add(*gap);
        }
        sums
    }

    fn add(&mut self, gap: f64) {
        let gap = gap.round().max(1.0);
        self.count += 1.0;
        self.longest = self.longest.max(gap);
        self.plain.0 += gap;
        self.plain.1 += gap * gap;
        self.reduced.0 += gap - 1.0;
        self.reduced.1 += (gap - 1.0) * (gap - 2.0);
    }

    fn add_all(&mut self, other: &Self) {
        self.count += other.count;
        self.longest = self.longest.max(other.longest);
        self.plain.0 += other.plain.0;
        self.plain.1 += other.plain.1;
        self.reduced.0 += other.reduced.0;
        self.reduced.1 += other.reduced.1;
    }

    fn theta(&self) -> Option<f64> {
        let (sum, squares) = if self.longest <= 2.0 {
            self.plain
        } else {
            self.reduced
        };
        if self.count == 0.0 {
            None
        } else if squares <= 0.0 {
            Some(1.0)
        } else {
            let bursts = 2.0 * sum * sum / squares - 1.0;
            Some((bursts / self.count).clamp(1.0 / self.count, 1.0))
        }
    }
}

/// The intervals estimator from the `gaps` of a ring of exceedances, in cycles
/// ([`ring_gaps`]).
///
/// Gaps below one cycle (two CPUs at once) count as one. `None` without gaps.
pub fn intervals_estimator(gaps: &[f64]) -> Option<f64> {
    GapSums::of(gaps).theta()
}

/// Splits exceedances at their longest gaps into about θn bursts.
///
/// Returns the shortest gap (cycles) that separates two bursts; gaps below it
/// lie within one. Infinite without gaps.
pub fn separating_gap(gaps: &[f64], theta: f64) -> f64 {
    if gaps.is_empty() {
        return f64::INFINITY;
    }
    let separators = ((theta * gaps.len() as f64).round() as usize).clamp(1, gaps.len());
    let mut sorted = gaps.to_vec();
    sorted.sort_unstable_by(|a, b| b.total_cmp(a));
    let candidate = sorted[separators - 1];
    // Equal gaps fall on one side: with a tie across the border all are within.
    if separators < sorted.len() && sorted[separators] == candidate && sorted[0] > candidate {
        let longer = sorted.iter().copied().filter(|gap| *gap > candidate);
        return longer.fold(f64::INFINITY, f64::min);
    }
    candidate
}

/// Gaps in cycles between ascending times in ns, the last one from the last
/// time around to the first: as many gaps as times.
pub fn ring_gaps(times_ns: &[u64], cycle_spacing_ns: f64, duration_ns: u64) -> Vec<f64> {
    let (Some(first), Some(last)) = (times_ns.first(), times_ns.last()) else {
        return Vec::new();
    };
    let closing = duration_ns.saturating_sub(last.saturating_sub(*first));
    times_ns
        .windows(2)
        .map(|pair| pair[1].saturating_sub(pair[0]))
        .chain([closing])
        .map(|gap| gap as f64 / cycle_spacing_ns)
        .collect()
}

/// The extremal index of the samples above the highest usable levels that lie
/// at or below `ceiling_ns` (`u64::MAX`: no ceiling). Half of the samples exceed a level at most.
///
/// `samples` are those of all threads in `duration_ns`, and `cycles` what they and the cycles without a sample are
/// together. `None` with fewer than twice [`MIN_EXCEEDANCES`] samples.
pub fn extremal_index(
    peaks: &Peaks,
    (samples, cycles): (u64, u64),
    duration_ns: u64,
    ceiling_ns: u64,
) -> Option<ExtremalIndex> {
    let cycle_spacing_ns = duration_ns as f64 / cycles as f64;
    if !cycle_spacing_ns.is_finite() || cycle_spacing_ns <= 0.0 {
        return None;
    }
    let in_order = peaks.in_order();
    let mut latencies: Vec<u64> = in_order.iter().map(|peak| peak.latency_ns).collect();
    latencies.sort_unstable_by(|a, b| b.cmp(a));
    let above_ceiling = latencies.partition_point(|latency| *latency > ceiling_ns);
    let mut thresholds = Vec::new();
    let half = usize::try_from(samples / 2).unwrap_or(usize::MAX);
    for wanted in [half.min(LEVELS[0])].into_iter().chain(LEVELS) {
        let wanted = wanted.max(above_ceiling);
        // The level just below the exceedance of that rank, or the lowest there is.
        let mut threshold = latencies
            .get(wanted)
            .copied()
            .unwrap_or_else(|| peaks.threshold());
        // A clock with coarse steps gives many samples the same length: that of this rank may be that of most above it.
        let above = latencies.partition_point(|latency| *latency > threshold);
        if above < wanted / 2 && threshold > peaks.threshold() {
            threshold -= 1;
        }
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
            // What most samples exceed is no high level: the few that don't make the gaps.
            let is_high = times.len() as u64 <= samples / 2;
            is_high.then(|| level(&times, cycle_spacing_ns, duration_ns, threshold_ns))?
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

fn level(
    times_ns: &[u64],
    cycle_spacing_ns: f64,
    duration_ns: u64,
    threshold_ns: u64,
) -> Option<ExtremalLevel> {
    if times_ns.len() < MIN_EXCEEDANCES {
        return None;
    }
    let gaps = ring_gaps(times_ns, cycle_spacing_ns, duration_ns);
    let theta = intervals_estimator(&gaps)?;
    let separator = separating_gap(&gaps, theta);
    let bursts = gaps.iter().filter(|gap| **gap >= separator).count();
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
    let Some(start) = gaps.iter().position(|gap| *gap >= separator) else {
        return 1.0 / gaps.len() as f64;
    };
    // Once around the ring from a gap between bursts.
    let (mut between, mut within) = (Vec::new(), Vec::new());
    for gap in gaps[start..].iter().chain(&gaps[..start]) {
        if *gap >= separator {
            between.push(*gap);
            within.push(GapSums::default());
        } else if let Some(burst) = within.last_mut() {
            burst.add(*gap);
        }
    }
    let mut random = Random::new(0x7468_6574_6100 ^ seed);
    let mut thetas = Vec::with_capacity(RESAMPLES);
    for _ in 0..RESAMPLES {
        let mut drawn = GapSums::default();
        for _ in 0..between.len() {
            drawn.add_all(&within[random.below(within.len())]);
            drawn.add(between[random.below(between.len())]);
        }
        thetas.extend(drawn.theta());
    }
    thetas.sort_unstable_by(f64::total_cmp);
    let rank = ((1.0 - LOWER_CONFIDENCE) * thetas.len() as f64) as usize;
    thetas.get(rank).copied().unwrap_or(1.0)
}
