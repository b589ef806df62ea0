//! The probability that a cycle misses its deadline, with bounds that hold
//! their confidence when misses come in bursts.
//!
//! # Definition
//! A wake-up that comes too late is one miss; if it is so late that N further
//! periods pass, these are N more. Misses = late samples + missed periods,
//! cycles = samples + missed periods, and the probability is misses/cycles in
//! the long run.
//!
//! # Bounds
//! Were cycles independent, Clopper and Pearson's interval would do
//! ([`crate::binomial`]). They aren't: one stall of the machine is a burst of
//! misses on every CPU. Bursts with weights `W` that arrive at random make the
//! number of misses `K` a compound Poisson variable with variance `D·K`, where
//! the index of dispersion is `D = E[W²]/E[W]`; such a sum is close to `D` times
//! a Poisson variable with `K/D` events (Fay and Feuer, *Confidence intervals
//! for directly standardized rates*, Statistics in Medicine 16, 1997). So the
//! bounds are Clopper-Pearson's for `K/D` misses in `N/D` cycles. For the upper
//! bound one more burst, as heavy as the heaviest, is put in as Fay and Feuer
//! do; with unit weights that gives Clopper-Pearson exactly.
//!
//! `D` is the largest of:
//! 1. the dispersion of the bursts that the intervals estimator separates;
//! 2. the dispersion of misses per block of time, for blocks from a few cycles
//!    to 1/20 of the run: this sees bursts of bursts;
//! 3. with fewer than 30 bursts, 1/θ, where θ is a lower limit of the extremal
//!    index at levels below the deadline: with no miss at all this is all that
//!    is known of bursts;
//! 4. when there were more misses than peaks are kept, the dispersion of the
//!    kept ones scaled up to all, and that of the seconds with a miss.
//!
//! # What it can't know
//! Without a miss, the size of the bursts is that of the highest samples that
//! were seen. Should misses, when they come, come in larger bursts than these,
//! the bound holds for bursts ([`MissBound::burst_upper`]), not for cycles.

mod bursts;

use crate::binomial;
use crate::extremal::{ExtremalIndex, extremal_index};
use crate::peaks::Peaks;
use crate::special::beta_quantile;
use bursts::{Event, dispersion_at, separate};
use serde::{Deserialize, Serialize};

/// Bursts from which on the misses themselves say enough about their bursts.
const ENOUGH_BURSTS: usize = 30;
/// Strength of the correction for few bursts: with this many, what the
/// dispersion has above 1 is doubled.
const FEW_BURSTS: f64 = 3.0;
/// Fewest blocks whose dispersion is looked at.
const MIN_BLOCKS: f64 = 20.0;

/// What is known about misses of one limit.
#[derive(Clone, Debug)]
pub struct MissEvidence<'a> {
    /// Later than this (ns) is a miss.
    pub limit_ns: u64,
    /// Samples and missed periods of all threads.
    pub cycles: u64,
    /// Samples later than the limit, counted exactly.
    pub late: u64,
    /// Periods that passed while a thread was late.
    pub missed: u64,
    /// The highest samples of all threads.
    pub peaks: &'a Peaks,
    /// Measuring threads.
    pub threads: usize,
    /// Duration of the run in ns.
    pub duration_ns: u64,
    /// Whole seconds of the run.
    pub seconds: u64,
    /// Seconds with a miss, when they were counted for this limit.
    pub seconds_with_miss: Option<u64>,
}

/// The probability of a miss, bounded.
///
/// Both bounds are one-sided: each is wrong in at most `1 - confidence` of all
/// runs.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct MissBound {
    /// Later than this (ns) is a miss.
    pub limit_ns: u64,
    /// One-sided confidence of each bound, within (0, 1).
    pub confidence: f64,
    /// Samples and missed periods of all threads.
    pub cycles: u64,
    /// Late samples and missed periods.
    pub misses: u64,
    /// Late samples alone.
    pub late: u64,
    /// Missed periods alone.
    pub missed: u64,
    /// misses/cycles; 0 without cycles.
    pub observed_probability: f64,
    /// Upper bound if cycles were independent.
    pub independent_upper: f64,
    /// Lower bound if cycles were independent.
    pub independent_lower: f64,
    /// Cycles divided by the dispersion: how many independent cycles would
    /// tell as much.
    pub effective_cycles: f64,
    /// Index of dispersion that the bounds rest on, at least 1.
    pub dispersion: f64,
    /// Weight of the burst that the upper bound adds, at least 1.
    pub burst_weight: f64,
    /// The extremal index at levels up to the limit; `None` with too few
    /// samples.
    pub extremal_index: Option<ExtremalIndex>,
    /// Bursts that the misses fall into; `None` when there were more misses
    /// than peaks are kept.
    pub bursts: Option<u64>,
    /// Most misses in one burst; `None` as for `bursts`.
    pub largest_burst: Option<u64>,
    /// Upper bound on the rate of bursts per cycle; `None` as for `bursts`.
    pub burst_upper: Option<f64>,
    /// Upper bound on the probability of a miss.
    pub upper: f64,
    /// Lower bound on the probability of a miss.
    pub lower: f64,
    /// Whole seconds of the run.
    pub seconds: u64,
    /// Seconds with a miss, when they were counted for this limit.
    pub seconds_with_miss: Option<u64>,
    /// Duration of the run in ns.
    pub duration_ns: u64,
}

/// Why more time would not show the claim.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum TimeUnknown {
    /// Nothing is allowed, and no finite run shows that.
    NothingAllowed,
    /// Misses were as frequent as allowed, or more so.
    RateTooHigh,
    /// There were no cycles to extrapolate from.
    NoCycles,
    /// More than a thousand years.
    TooLong,
}

impl std::fmt::Display for TimeUnknown {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            TimeUnknown::NothingAllowed => "no finite run shows that nothing is ever late",
            TimeUnknown::RateTooHigh => "misses were as frequent as allowed or more so",
            TimeUnknown::NoCycles => "there were no cycles",
            TimeUnknown::TooLong => "it would take more than a thousand years",
        })
    }
}

impl MissEvidence<'_> {
    /// Late samples and missed periods.
    pub fn misses(&self) -> u64 {
        self.late.saturating_add(self.missed)
    }

    /// Mean time between two cycles of all threads, in ns.
    pub fn cycle_spacing_ns(&self) -> f64 {
        self.duration_ns as f64 / self.cycles as f64
    }

    /// Bounds the probability of a miss at one-sided `confidence` (within 0..1).
    pub fn bound(&self, confidence: f64) -> MissBound {
        let misses = self.misses();
        let (k, n) = (misses as f64, self.cycles as f64);
        let spacing = self.cycle_spacing_ns();
        let theta = extremal_index(self.peaks, self.cycles, self.duration_ns, self.limit_ns);
        let theta_weight = theta.as_ref().map_or(1.0, |index| 1.0 / index.theta_lower);

        let events = self.events();
        let known: f64 = events.iter().map(|event| event.weight).sum();
        let complete = self.peaks.threshold() <= self.event_floor();
        let bursts = separate(&events, spacing, self.duration_ns);
        let mut dispersion: f64 = 1.0;
        if misses > 0 {
            dispersion = dispersion
                .max(bursts.dispersion)
                .max(self.block_dispersion(&events));
            // Few bursts know little of how they differ: at least as much as
            // geometric sizes do, and more the fewer there are.
            let geometric = 2.0 * known / (bursts.count.max(1) as f64) - 1.0;
            dispersion = dispersion.max(geometric);
            let effective_bursts = (known / dispersion).max(1.0);
            dispersion = 1.0 + (dispersion - 1.0) * (1.0 + FEW_BURSTS / effective_bursts);
            if !complete {
                let share = (known / k).clamp(f64::MIN_POSITIVE, 1.0);
                dispersion = 1.0 + (dispersion - 1.0) / share;
                dispersion = dispersion.max(self.seconds_dispersion()).min(k);
            }
        }
        let enough = bursts.count >= ENOUGH_BURSTS;
        if !enough {
            dispersion = dispersion.max(theta_weight);
        }
        let burst_weight = dispersion.max(bursts.largest);
        let independent_upper = binomial::upper(k, n, confidence);
        let independent_lower = binomial::lower(k, n, confidence);
        let (k_effective, n_effective) = (k / dispersion, n / dispersion);
        MissBound {
            limit_ns: self.limit_ns,
            confidence,
            cycles: self.cycles,
            misses,
            late: self.late,
            missed: self.missed,
            observed_probability: if self.cycles > 0 { k / n } else { 0.0 },
            independent_upper,
            independent_lower,
            effective_cycles: n_effective,
            dispersion,
            burst_weight,
            extremal_index: theta,
            bursts: complete.then_some(bursts.count as u64),
            largest_burst: complete.then_some(bursts.largest.round() as u64),
            burst_upper: complete.then(|| binomial::upper(bursts.count as f64, n, confidence)),
            upper: burst_aware_upper(k, n, dispersion, burst_weight, confidence)
                .max(independent_upper),
            lower: binomial::lower(k_effective, n_effective, confidence).min(independent_lower),
            seconds: self.seconds,
            seconds_with_miss: self.seconds_with_miss,
            duration_ns: self.duration_ns,
        }
    }

    /// Mean interval of one thread in ns.
    fn interval_ns(&self) -> f64 {
        self.cycle_spacing_ns() * self.threads.max(1) as f64
    }

    /// Samples above this latency may carry a miss.
    fn event_floor(&self) -> u64 {
        if self.missed > 0 {
            self.limit_ns.min(self.interval_ns() as u64)
        } else {
            self.limit_ns
        }
    }

    /// The misses that the peaks hold, in order of time. The missed periods
    /// are put down to the late wake-ups in proportion to their latency.
    fn events(&self) -> Vec<Event> {
        let interval = self.interval_ns();
        let periods = |latency: u64| {
            if self.missed > 0 && interval > 0.0 {
                (latency as f64 / interval).floor()
            } else {
                0.0
            }
        };
        let in_order = self.peaks.in_order();
        let passed: f64 = in_order.iter().map(|p| periods(p.latency_ns)).sum();
        let scale = if passed > 0.0 {
            self.missed as f64 / passed
        } else {
            0.0
        };
        let mut events: Vec<Event> = in_order
            .iter()
            .map(|peak| Event {
                at_ns: peak.asked_ns,
                weight: f64::from(peak.latency_ns > self.limit_ns)
                    + scale * periods(peak.latency_ns),
            })
            .filter(|event| event.weight > 0.0)
            .collect();
        if passed == 0.0 && self.missed > 0 {
            // Nothing explains the missed periods: the worst case is one stall.
            match events
                .iter_mut()
                .max_by(|a, b| a.weight.total_cmp(&b.weight))
            {
                Some(event) => event.weight += self.missed as f64,
                None => events.push(Event {
                    at_ns: 0,
                    weight: self.missed as f64,
                }),
            }
        }
        events
    }

    /// Largest index of dispersion of misses per block, over block lengths
    /// from four cycles to a twentieth of the run.
    fn block_dispersion(&self, events: &[Event]) -> f64 {
        let total: f64 = events.iter().map(|event| event.weight).sum();
        let duration = self.duration_ns as f64;
        let mut length = 4.0 * self.cycle_spacing_ns();
        let mut worst: f64 = 1.0;
        if total <= 0.0 || length.is_nan() || length <= 0.0 {
            return worst;
        }
        let longest = duration / MIN_BLOCKS;
        while length <= longest {
            worst = worst.max(dispersion_at(events, total, duration / length, length));
            if length == longest {
                break;
            }
            length = (length * 4.0).min(longest);
        }
        worst
    }

    /// Index of dispersion that the share of seconds with a miss hints at, for
    /// bursts of geometric size.
    fn seconds_dispersion(&self) -> f64 {
        let Some(with_miss) = self.seconds_with_miss else {
            return 1.0;
        };
        let (all, with) = (self.seconds as f64, with_miss as f64);
        if with <= 0.0 || all - with < 20.0 {
            return 1.0;
        }
        let bursts = -all * (1.0 - with / all).ln();
        (2.0 * self.misses() as f64 / bursts - 1.0).max(1.0)
    }
}

/// Upper bound for `k` misses in `n` cycles with an index of dispersion, and
/// one more burst of the given weight put in.
fn burst_aware_upper(k: f64, n: f64, dispersion: f64, weight: f64, confidence: f64) -> f64 {
    if n.is_nan() || n <= 0.0 {
        return 1.0;
    }
    let mean = k + weight;
    let variance = dispersion * k + weight * weight;
    let scale = variance / mean;
    let shape = mean / scale;
    let rest = n / scale - shape + 1.0;
    if rest <= 0.0 {
        return 1.0;
    }
    beta_quantile(confidence, shape, rest)
}

impl MissBound {
    /// How much longer the run has to be, in ns, until it shows that a miss is
    /// no more probable than `allowed`, if misses come as they did.
    pub fn time_needed(&self, allowed: f64) -> Result<u64, TimeUnknown> {
        if allowed.is_nan() || allowed <= 0.0 {
            return Err(TimeUnknown::NothingAllowed);
        }
        if self.cycles == 0 || self.duration_ns == 0 {
            return Err(TimeUnknown::NoCycles);
        }
        if self.observed_probability >= allowed {
            return Err(TimeUnknown::RateTooHigh);
        }
        let enough = |times: f64| {
            let (k, n) = (self.misses as f64 * times, self.cycles as f64 * times);
            burst_aware_upper(k, n, self.dispersion, self.burst_weight, self.confidence) <= allowed
        };
        let longest = 1000.0 * 365.25 * 86_400e9 / self.duration_ns as f64;
        let mut high = 1.0;
        while !enough(high) {
            if high > longest {
                return Err(TimeUnknown::TooLong);
            }
            high *= 2.0;
        }
        let mut low = if high > 1.0 { high / 2.0 } else { 1.0 };
        while high - low > 1e-4 * high {
            let middle = 0.5 * (low + high);
            if enough(middle) {
                high = middle;
            } else {
                low = middle;
            }
        }
        Ok(((high - 1.0) * self.duration_ns as f64) as u64)
    }
}
