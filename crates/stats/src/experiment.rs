//! Which knob helped? Experiments that switch knobs in random order, block by block.
//!
//! Latency drifts, and comes in bursts: samples of one block are not independent, and "all off,
//! then all on" takes a drift for an effect. So the unit is a pair of blocks that follow each
//! other, one with the knob on and one with it off, in an order drawn at random. Only that draw
//! is assumed: the p-values are those of the randomisation itself.
//!
//! | step | what it gives |
//! |---|---|
//! | [`Spread`] | from a pilot without switching: how much blocks vary |
//! | [`Power`] | how many pairs an effect takes, and which effect so many pairs can show |
//! | [`screen`] | of many knobs at once, those that are worth a closer look |
//! | [`judge_knobs`] | of each knob: helps, harms, or no effect shown |
//! | [`judge_seeds`] | the same of runs that repeat exactly, in pairs of one seed |

mod judge;
mod order;
mod power;
mod screening;
mod seeds;

use serde::{Deserialize, Serialize};

use crate::histogram::Histogram;
pub use judge::{
    Effect, KnobConclusion, KnobPairs, KnobResult, LEAST_PAIRS, NAMED_FROM, Pair, judge_knobs,
};
pub use order::{PairPlan, pair_order, round_order, screening_order};
pub use power::{Power, Spread};
pub use screening::{MainEffect, Screened, ScreeningPair, screen};
pub use seeds::{EXACT_NAMED_FROM, SeedPairs, judge_seeds, least_seeds};

/// What is compared. Each is judged on its logarithm: effects are ratios.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub enum Measure {
    /// The median latency.
    #[serde(rename = "p50")]
    P50,
    /// The latency that 1 of 100 wake-ups exceeds.
    #[serde(rename = "p99")]
    P99,
    /// The latency that 1 of 1,000 wake-ups exceeds.
    #[serde(rename = "p99.9")]
    P999,
    /// The sum of what latencies exceed the deadline by.
    #[serde(rename = "excess")]
    Excess,
    /// The highest latency: of runs that repeat exactly, and of messages to another machine.
    /// Elsewhere it is that of the rarest disturbance.
    #[serde(rename = "worst")]
    Worst,
    /// The share of messages that were late, skipped or lost.
    #[serde(rename = "late")]
    Late,
}

impl Measure {
    /// Those that are compared on a machine.
    pub const ALL: [Measure; 4] = [Self::P50, Self::P99, Self::P999, Self::Excess];
    /// Those that are compared of runs that repeat exactly.
    pub const EXACT: [Measure; 5] = [Self::P50, Self::P99, Self::P999, Self::Worst, Self::Excess];
    /// Those that are compared of messages to another machine.
    pub const PATH: [Measure; 4] = [Self::P50, Self::P99, Self::Worst, Self::Late];
    /// Those of any experiment.
    pub const EVERY: [Measure; 6] = [
        Self::P50,
        Self::P99,
        Self::P999,
        Self::Worst,
        Self::Excess,
        Self::Late,
    ];

    /// As it is written.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::P50 => "p50",
            Self::P99 => "p99",
            Self::P999 => "p99.9",
            Self::Excess => "excess",
            Self::Worst => "worst",
            Self::Late => "late",
        }
    }
}

/// The latencies of one block.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct BlockLatencies {
    /// Wake-ups; in an experiment on this machine with the periods that they skipped.
    pub count: u64,
    /// Quantiles in ns, as far as ten or more samples lie beyond.
    pub p50_ns: Option<u64>,
    /// The same.
    pub p99_ns: Option<u64>,
    /// The same.
    pub p999_ns: Option<u64>,
    /// The highest in ns.
    pub max_ns: u64,
    /// The sum of what latencies exceed the limit by, in ns.
    pub excess_ns: u64,
    /// Of messages: how they were late or never came.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub messages: Option<MessageCounts>,
}

/// How the messages of a block missed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct MessageCounts {
    /// Those whose reply came later than the limit.
    pub late: u64,
    /// Those without a reply: skipped or lost. They are later than any limit.
    pub missed: u64,
}

/// Below this an excess is as good as none: its logarithm must not decide.
const EXCESS_FLOOR_NS: f64 = 1_000.0;
/// What a block without a late message has.
const HALF: f64 = 0.5;

impl BlockLatencies {
    /// The figures of a block; what latencies have above `limit_ns` is their excess, to the three
    /// digits of the histogram.
    #[must_use]
    pub fn of(latencies: &Histogram, limit_ns: u64) -> Self {
        let highest_ns = latencies.max().unwrap_or(0);
        let excess = latencies
            .buckets()
            .map(|bucket| {
                let middle = (bucket.low_ns / 2 + bucket.high_ns / 2).min(highest_ns);
                middle.saturating_sub(limit_ns).saturating_mul(bucket.count)
            })
            .fold(0_u64, u64::saturating_add);
        Self {
            count: latencies.count(),
            p50_ns: latencies.supported_quantile(0.5),
            p99_ns: latencies.supported_quantile(0.99),
            p999_ns: latencies.supported_quantile(0.999),
            max_ns: highest_ns,
            excess_ns: excess,
            messages: None,
        }
    }

    /// The figures of a block of messages, of which `missed` have no reply.
    #[must_use]
    pub fn of_messages(latencies: &Histogram, missed: u64, limit_ns: u64) -> Self {
        let late = latencies.buckets().filter(|it| it.low_ns > limit_ns);
        let messages = MessageCounts {
            late: late.map(|it| it.count).sum(),
            missed,
        };
        Self {
            messages: Some(messages),
            ..Self::of(latencies, limit_ns)
        }
    }

    /// How many messages were late or have no reply, of how many; none of wake-ups.
    #[must_use]
    pub fn late_of_all(&self) -> Option<(u64, u64)> {
        let MessageCounts { late, missed } = self.messages?;
        let all = self.count.saturating_add(missed);
        Some((late.saturating_add(missed), all))
    }

    /// The natural logarithm of a measure, if the block has enough samples for it. An excess has
    /// 1 us added, and half a late message is added to each block: none at all has a logarithm too.
    #[must_use]
    pub fn log(&self, measure: Measure) -> Option<f64> {
        let quantile = |value: Option<u64>| value.map(|ns| (ns.max(1) as f64).ln());
        match measure {
            Measure::P50 => quantile(self.p50_ns),
            Measure::P99 => quantile(self.p99_ns),
            Measure::P999 => quantile(self.p999_ns),
            // Where no message came back, nothing is known of how late they were.
            Measure::Excess if self.count == 0 && self.messages.is_some() => None,
            Measure::Excess => Some((self.excess_ns as f64 + EXCESS_FLOOR_NS).ln()),
            Measure::Worst => quantile((self.count > 0).then_some(self.max_ns)),
            Measure::Late => {
                let (late, all) = self.late_of_all().filter(|(_, all)| *all > 0)?;
                Some(((late as f64 + HALF) / (all as f64 + HALF)).ln())
            }
        }
    }
}

/// A logarithm as the figure it stands for, in ns.
fn figure_ns(measure: Measure, log: f64) -> f64 {
    match measure {
        Measure::Excess => (log.exp() - EXCESS_FLOOR_NS).max(0.0),
        _ => log.exp(),
    }
}

/// The measures that all of these blocks have: those of messages, or of wake-ups.
fn known_measures<'b>(blocks: impl Iterator<Item = &'b BlockLatencies> + Clone) -> Vec<Measure> {
    let measures = match blocks.clone().any(|block| block.messages.is_some()) {
        true => &Measure::PATH,
        false => &Measure::ALL,
    };
    known_of(measures, blocks)
}

/// Those of `measures` that all of these blocks have.
fn known_of<'b>(
    measures: &[Measure],
    blocks: impl Iterator<Item = &'b BlockLatencies> + Clone,
) -> Vec<Measure> {
    let known = |measure: &Measure| blocks.clone().all(|block| block.log(*measure).is_some());
    measures.iter().copied().filter(known).collect()
}

/// The difference of two blocks in each of `measures`, which both have.
fn differences(first: &BlockLatencies, second: &BlockLatencies, measures: &[Measure]) -> Vec<f64> {
    let log = |block: &BlockLatencies, measure| block.log(measure).unwrap_or(0.0);
    let of = |measure: &Measure| log(second, *measure) - log(first, *measure);
    measures.iter().map(of).collect()
}
