//! How much longer a run has to be.

use serde::{Deserialize, Serialize};

use super::{MissBound, burst_aware_upper};
use crate::binomial;

/// The advice shall be enough in this share of cases.
const ENOUGH_IN: f64 = 0.9;
/// What a run without a miss is taken to have seen, and one with misses to have seen in addition.
/// In simulated runs that were extended as advised, 9 in 10 then pass
/// (`crates/stats/tests/stats/advice.rs`).
const ADDED_BURSTS: f64 = 0.5;
/// A run so short that it says nothing is taken to meet the requirement this many times over.
const AT_LEAST_BETTER: f64 = 2.0;
/// How far chance alone makes few misses look like bursts: of 12 every other run by a half.
const CHANCE: f64 = 8.0;
/// Nobody waits longer.
pub(super) const LONGEST_NS: f64 = 1000.0 * 365.25 * 86_400e9;
pub(super) const HOUR_NS: f64 = 3.6e12;

/// Why more time would not show the claim.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum TimeUnknown {
    /// Nothing is allowed, and no finite run shows that.
    NothingAllowed,
    /// Misses were as frequent as allowed, or more so.
    RateTooHigh,
    /// Misses were less frequent than allowed, but so few bursts of them were seen that another
    /// run may show more.
    TooFewBursts,
    /// Wake-ups went unseen, and each of them may have been late.
    Unseen,
    /// There were no cycles to extrapolate from.
    NoCycles,
    /// More than a thousand years.
    TooLong,
}

/// How much longer a run has to be to show that misses are rare enough.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct TimeNeeded {
    /// In ns, if no further miss comes.
    pub without_miss_ns: u64,
    /// In ns, so that 9 in 10 such runs pass if misses come as they did.
    pub likely_ns: u64,
}

impl MissBound {
    /// How long the run was, in hours.
    #[must_use]
    pub fn hours(&self) -> f64 {
        self.duration_ns as f64 / HOUR_NS
    }

    /// How much longer the run has to be until it shows that a miss is no more probable than
    /// `allowed`.
    ///
    /// # Errors
    /// [`TimeUnknown`].
    pub fn time_needed(&self, allowed: f64) -> Result<TimeNeeded, TimeUnknown> {
        if allowed.is_nan() || allowed <= 0.0 {
            return Err(TimeUnknown::NothingAllowed);
        }
        if self.cycles == 0 || self.duration_ns == 0 {
            return Err(TimeUnknown::NoCycles);
        }
        if self.observed_probability >= allowed {
            return Err(TimeUnknown::RateTooHigh);
        }
        let as_now = (self.dispersion, self.burst_weight);
        let without_miss_ns = self.first_enough(|extra| self.shown(0.0, extra, allowed, as_now))?;
        let expected = self.expected_probability(allowed);
        if expected >= allowed {
            return Err(TimeUnknown::TooFewBursts);
        }
        let likely_ns = self.first_enough(|extra| {
            let misses = self.most_likely_misses(expected, extra);
            let dispersion = self.later_dispersion(self.misses as f64 + misses);
            let later = (dispersion, self.burst_weight.max(dispersion));
            self.shown(misses, extra, allowed, later)
        })?;
        Ok(TimeNeeded {
            without_miss_ns,
            likely_ns: likely_ns.max(without_miss_ns),
        })
    }

    /// Whether `misses` more in `extra` more cycles would show it.
    fn shown(
        &self,
        misses: f64,
        extra: f64,
        allowed: f64,
        (dispersion, weight): (f64, f64),
    ) -> bool {
        let (k, n) = (self.misses as f64 + misses, self.cycles as f64 + extra);
        burst_aware_upper(k, n, dispersion, weight, self.confidence) <= allowed
    }

    /// Misses of a burst: of the seen ones on average, without one what the bound reckons with.
    fn weight(&self) -> f64 {
        match (self.misses, self.bursts) {
            (0, _) => self.burst_weight,
            (misses, Some(bursts)) if bursts > 0 => misses as f64 / bursts as f64,
            _ => self.dispersion,
        }
    }

    /// The probability that the further run is taken to have.
    fn expected_probability(&self, allowed: f64) -> f64 {
        let weight = self.weight();
        let expected = (self.misses as f64 + ADDED_BURSTS * weight) / self.cycles as f64;
        if self.misses == 0 {
            expected.min(allowed / AT_LEAST_BETTER)
        } else {
            expected
        }
    }

    /// The dispersion that a longer run with as many misses will be taken to have. Few misses fall
    /// together by chance, and look like bursts, or like larger ones.
    fn later_dispersion(&self, misses: f64) -> f64 {
        let seen = match self.misses {
            // Of bursts of geometric size with as many misses on average.
            0 => 2.0 * self.dispersion - 1.0,
            _ => self.dispersion,
        };
        seen * (1.0 + CHANCE / (misses / seen + CHANCE / 2.0))
    }

    /// As many misses in `extra` cycles as nine in ten runs stay within.
    fn most_likely_misses(&self, probability: f64, extra: f64) -> f64 {
        let weight = self.weight();
        let trials = extra / weight;
        let within = |bursts: f64| binomial::at_most(bursts, trials, probability) >= ENOUGH_IN;
        let mut high = (probability * trials).ceil().max(1.0);
        while !within(high) {
            high *= 2.0;
        }
        let mut low = -1.0;
        while high - low > 1.0 {
            let middle = ((low + high) / 2.0).floor();
            if within(middle) {
                high = middle;
            } else {
                low = middle;
            }
        }
        high * weight
    }

    /// The first length in ns, on a grid of 2 %, with as many further cycles as are `enough`.
    fn first_enough(&self, enough: impl Fn(f64) -> bool) -> Result<u64, TimeUnknown> {
        const STEP: f64 = 1.02;
        let spacing = self.duration_ns as f64 / self.cycles as f64;
        let mut extra: f64 = 1.0;
        while !enough(extra) {
            // Single cycles while they are few.
            extra = (extra * STEP).max(extra + 1.0);
            if extra * spacing > LONGEST_NS {
                return Err(TimeUnknown::TooLong);
            }
        }
        Ok((extra * spacing) as u64)
    }
}
