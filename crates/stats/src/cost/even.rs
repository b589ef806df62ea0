//! Where predictability pays off: a job of length L is complete, at quantile q, after L × price +
//! the tail of the wake-up before it. The two configurations cross at L* = (tail without − tail
//! with) / (price − 1).

use serde::{Deserialize, Serialize};

use super::judge::finite;
use super::{CostMeasure, UsagePair};
use crate::compare::{Moments, ratio_interval, student};
use crate::histogram::{Histogram, MIN_SAMPLES_BEYOND};

/// A quantile of a latency, with an interval that takes whole runs as its units.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct TailQuantile {
    /// The quantile of all runs together, in ns.
    pub ns: u64,
    /// The lower end of its interval, in ns.
    pub low_ns: u64,
    /// The upper end; absent where the runs leave it open.
    pub high_ns: Option<u64>,
}

/// A quantile of several runs, with its interval (Woodruff 1952: the interval of the share of
/// samples beyond it, mapped to latencies; its error is that of runs as clusters, or that of
/// independent samples if that is larger). `None` where too few samples lie beyond it, or with
/// fewer than two runs.
#[must_use]
pub fn tail_of_runs(runs: &[&Histogram], quantile: f64, confidence: f64) -> Option<TailQuantile> {
    let all = Histogram::merged(runs.iter().copied());
    let (count, clusters) = (all.count() as f64, runs.len() as f64);
    let beyond = 1.0 - quantile;
    if runs.len() < 2 || count * beyond < MIN_SAMPLES_BEYOND as f64 - 1e-6 {
        return None;
    }
    let ns = all.quantile(quantile)?;
    let share = all.count_above(ns) as f64 / count;
    let squares: f64 = runs
        .iter()
        .map(|run| (run.count_above(ns) as f64 - share * run.count() as f64).powi(2))
        .sum();
    let clustered = (squares * clusters / (clusters - 1.0)).sqrt() / count;
    let independent = (beyond * quantile / count).sqrt();
    let half = student(confidence, clusters - 1.0) * clustered.max(independent);
    let at = |share: f64| all.quantile(1.0 - share);
    let low = (beyond + half).min(1.0);
    let high = beyond - half;
    Some(TailQuantile {
        ns,
        low_ns: at(low).unwrap_or(ns),
        // An end beyond the last sample is no end.
        high_ns: (high * count >= 1.0).then(|| at(high)).flatten(),
    })
}

/// What work costs: time with the treatment by time without.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Price {
    /// The ratio.
    pub ratio: f64,
    /// Its interval at the joint confidence of the break-even; where identical runs differ by
    /// more, it reaches as far.
    pub interval: (f64, f64),
    /// Whether it was named.
    pub is_named: bool,
}

impl Price {
    /// The price of these pairs in one measure. `resolution` is how far identical runs may be
    /// apart, as a ratio above 1.
    #[must_use]
    pub fn of(
        pairs: &[UsagePair],
        measure: CostMeasure,
        confidence: f64,
        resolution: f64,
        is_named: bool,
    ) -> Option<Self> {
        let log = |pair: &UsagePair| Some(pair.with.log(measure)? - pair.without.log(measure)?);
        let logs: Vec<f64> = pairs.iter().filter_map(log).collect();
        if logs.len() < 2 {
            return None;
        }
        let moments = Moments::of(logs.into_iter());
        let freedom = moments.count - 1.0;
        let part = joint_part(confidence);
        let interval = ratio_interval(moments.mean, moments.error2, freedom, part);
        Some(Self::new(
            moments.mean.exp(),
            finite(interval),
            resolution,
            is_named,
        ))
    }

    /// One with an interval at the joint confidence: what is not named may be as far from 1 as
    /// identical runs.
    #[must_use]
    pub fn new(ratio: f64, interval: (f64, f64), resolution: f64, is_named: bool) -> Self {
        let (low, high) = interval;
        let interval = match is_named {
            true => (low, high),
            false => (low.min(1.0 / resolution), high.max(resolution)),
        };
        Self {
            ratio,
            interval,
            is_named,
        }
    }
}

/// The confidence of each of the three parts (two tails, one price) with which all three hold
/// together at `confidence` (Bonferroni).
#[must_use]
fn joint_part(confidence: f64) -> f64 {
    1.0 - (1.0 - confidence) / 3.0
}

/// Where the two configurations cross. Lengths are in ns of work without the treatment.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(tag = "kind", rename_all = "kebab-case")]
pub enum BreakEvenKind {
    /// The tail is shorter and work slower: the treatment pays off for work shorter than this.
    Below {
        /// Where they cross.
        ns: u64,
        /// The lower end of the interval.
        low_ns: u64,
        /// The upper end; absent where it is open.
        high_ns: Option<u64>,
    },
    /// The tail is longer and work faster: it pays off for work longer than this.
    Above {
        /// Where they cross.
        ns: u64,
        /// The lower end of the interval.
        low_ns: u64,
        /// The upper end; absent where it is open.
        high_ns: Option<u64>,
    },
    /// The tail is shorter and work no slower.
    Always,
    /// The tail is no shorter, and work is slower.
    Never,
    /// The tail is shorter and no price is shown: it pays off for work up to at least this.
    UpToAtLeast {
        /// The length.
        ns: u64,
    },
    /// No gain in the tail is shown, but a price: it pays off at most for work below this, if for
    /// any.
    AtMostBelow {
        /// The length; absent where it is open.
        ns: Option<u64>,
    },
    /// Neither is shown, or they leave everything possible.
    NotDistinguishable,
}

/// A break-even with what it follows from.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct BreakEven {
    /// The measure of the price.
    pub measure: CostMeasure,
    /// The price.
    pub price: Price,
    /// Where the configurations cross.
    #[serde(flatten)]
    pub kind: BreakEvenKind,
}

/// Where two configurations cross, at the joint confidence of the parts: the interval is that of all
/// tails and prices within theirs, whatever they have in common.
#[must_use]
pub fn break_even(without: TailQuantile, with: TailQuantile, price: Price) -> BreakEvenKind {
    // The gain, and the interval of it.
    let gain = without.ns as f64 - with.ns as f64;
    let least = with.high_ns.map(|with| without.low_ns as f64 - with as f64);
    let most = without.high_ns.map(|it| it as f64 - with.low_ns as f64);
    let is_shorter = least.is_some_and(|least| least > 0.0);
    let is_longer = most.is_some_and(|most| most < 0.0);
    let (low, high) = (price.interval.0 - 1.0, price.interval.1 - 1.0);
    let is_slower = price.is_named && low > 0.0;
    let is_faster = price.is_named && high < 0.0;
    let length = |gain: f64, price: f64| (gain / price).clamp(0.0, u64::MAX as f64) as u64;
    match (is_shorter, is_longer) {
        (true, _) if is_slower => BreakEvenKind::Below {
            ns: length(gain, price.ratio - 1.0),
            low_ns: length(least.unwrap_or(0.0), high),
            high_ns: most.map(|most| length(most, low)),
        },
        (true, _) if is_faster => BreakEvenKind::Always,
        (true, _) => BreakEvenKind::UpToAtLeast {
            ns: length(least.unwrap_or(0.0), high),
        },
        (_, true) if is_faster => BreakEvenKind::Above {
            ns: length(gain, price.ratio - 1.0),
            low_ns: length(most.unwrap_or(0.0), low),
            high_ns: least.map(|least| length(least, high)),
        },
        (_, true) if is_slower => BreakEvenKind::Never,
        (false, false) if is_slower => match most {
            Some(most) if most <= 0.0 => BreakEvenKind::Never,
            most => BreakEvenKind::AtMostBelow {
                ns: most.map(|most| length(most, low)),
            },
        },
        _ => BreakEvenKind::NotDistinguishable,
    }
}

impl BreakEven {
    /// The confidence at which [`tail_of_runs`] and [`Price`] hold together at `confidence`.
    #[must_use]
    pub fn joint(confidence: f64) -> f64 {
        joint_part(confidence)
    }
}
