//! Pairs of blocks, judged.

use serde::{Deserialize, Serialize};

use super::seeds::least_seeds;
use super::{BlockLatencies, Measure, differences, figure_ns, known_measures, known_of};
use crate::compare::{Moments, pairs_test, ratio_interval};

/// With fewer pairs than this nothing is concluded.
pub const LEAST_PAIRS: usize = 12;
/// A smaller change than this is not named, however sure it is.
pub const NAMED_FROM: f64 = 1.05;

/// Two blocks that followed each other.
#[derive(Clone, Debug, PartialEq)]
pub struct Pair {
    /// The block with the knob off.
    pub off: BlockLatencies,
    /// The block with the knob on.
    pub on: BlockLatencies,
}

/// All pairs of one knob.
#[derive(Clone, Debug, PartialEq, Default)]
pub struct KnobPairs {
    /// In any order.
    pub pairs: Vec<Pair>,
}

/// What a knob did to one measure.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Effect {
    /// The measure.
    pub measure: Measure,
    /// With the knob off, in ns: the geometric mean over the blocks. Of [`Measure::Late`] the share of
    /// all messages, from 0 to 1.
    pub off_ns: f64,
    /// With the knob on.
    pub on_ns: f64,
    /// On by off.
    pub ratio: f64,
    /// Interval of the ratio (Student's t on the logarithms of the pairs), at the experiment's
    /// confidence for this measure by itself.
    pub interval: (f64, f64),
    /// How often chance alone makes a difference at least as large in any measure of any knob.
    pub p: f64,
}

impl Effect {
    /// Whether it is beyond chance and large enough to name.
    #[must_use]
    pub fn is_named(&self, confidence: f64) -> bool {
        let is_large = !(1.0 / NAMED_FROM..=NAMED_FROM).contains(&self.ratio);
        is_large && self.p <= 1.0 - confidence + 1e-9
    }
}

/// What was found out about a knob.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum KnobConclusion {
    /// It makes latencies shorter.
    Helps,
    /// It makes them longer.
    Harms,
    /// Shorter in one measure and longer in another.
    Mixed,
    /// No effect that is both beyond chance and large enough to name. That is no proof that
    /// there is none.
    NoEffectShown,
    /// Too few pairs to say anything.
    TooFewPairs,
}

/// A knob, judged.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct KnobResult {
    /// Pairs of blocks.
    pub pairs: usize,
    /// Its effects, one for each measure that all of its blocks have.
    pub effects: Vec<Effect>,
    /// What follows.
    pub conclusion: KnobConclusion,
}

impl KnobResult {
    /// The effect on a measure.
    #[must_use]
    pub fn effect(&self, measure: Measure) -> Option<&Effect> {
        self.effects.iter().find(|effect| effect.measure == measure)
    }
}

/// Judges all knobs of an experiment together: in a world without effects, any of them is named
/// in at most one of 1/(1 − `confidence`) experiments (Westfall and Young over the measures of
/// a knob, Holm over the knobs).
#[must_use]
pub fn judge_knobs(knobs: &[KnobPairs], confidence: f64) -> Vec<KnobResult> {
    let of = |knob: &KnobPairs| {
        let blocks = knob.pairs.iter().flat_map(|pair| [&pair.off, &pair.on]);
        judge(&knob.pairs, &known_measures(blocks), confidence)
    };
    let mut results: Vec<KnobResult> = knobs.iter().map(of).collect();
    adjust(&mut results.iter_mut().collect::<Vec<_>>());
    // Of fewer pairs no effect, however large, could be named.
    let rows = results.iter().filter(|it| !it.effects.is_empty()).count();
    let least = least_seeds(rows, confidence);
    for result in &mut results {
        result.conclusion = match least.is_some_and(|least| result.pairs >= least) {
            true => conclude(result, |effect| effect.is_named(confidence)),
            false => KnobConclusion::TooFewPairs,
        };
    }
    results
}

/// The effects of one knob by itself.
pub(super) fn judge(pairs: &[Pair], measures: &[Measure], confidence: f64) -> KnobResult {
    let mut result = KnobResult {
        pairs: pairs.len(),
        effects: Vec::new(),
        conclusion: KnobConclusion::TooFewPairs,
    };
    if pairs.len() < LEAST_PAIRS {
        return result;
    }
    let blocks = pairs.iter().flat_map(|pair| [&pair.off, &pair.on]);
    let measures = known_of(measures, blocks);
    let rows: Vec<Vec<f64>> = pairs
        .iter()
        .map(|pair| differences(&pair.off, &pair.on, &measures))
        .collect();
    let p = pairs_test(&rows);
    for (at, measure) in measures.into_iter().enumerate() {
        let difference = Moments::of(rows.iter().map(|row| row[at]));
        let mean = |block: fn(&Pair) -> &BlockLatencies| {
            if measure == Measure::Late {
                return share_late(pairs.iter().map(block));
            }
            let logs = pairs.iter().filter_map(|pair| block(pair).log(measure));
            figure_ns(measure, logs.sum::<f64>() / pairs.len() as f64)
        };
        result.effects.push(Effect {
            measure,
            off_ns: mean(|pair| &pair.off),
            on_ns: mean(|pair| &pair.on),
            ratio: difference.mean.exp(),
            interval: ratio_interval(
                difference.mean,
                difference.error2,
                difference.count - 1.0,
                confidence,
            ),
            p: p[at],
        });
    }
    result
}

/// The share of late messages in all blocks together.
fn share_late<'p>(blocks: impl Iterator<Item = &'p BlockLatencies>) -> f64 {
    let counts = blocks.filter_map(BlockLatencies::late_of_all);
    let (late, all) = counts.fold((0_u64, 0_u64), |sum, it| {
        (sum.0.saturating_add(it.0), sum.1.saturating_add(it.1))
    });
    late as f64 / all.max(1) as f64
}

/// Holm's step-down adjustment: the smallest p-value of each knob decides its rank.
pub(super) fn adjust(results: &mut [&mut KnobResult]) {
    let smallest = |result: &KnobResult| result.effects.iter().map(|it| it.p).fold(1.0, f64::min);
    let mut order: Vec<usize> = (0..results.len())
        .filter(|at| !results[*at].effects.is_empty())
        .collect();
    let mut left = order.len();
    order.sort_by(|a, b| smallest(results[*a]).total_cmp(&smallest(results[*b])));
    let mut least = 0.0_f64;
    for at in order {
        let factor = left as f64;
        for effect in &mut results[at].effects {
            // A knob is never surer than one with a smaller p-value.
            effect.p = (effect.p * factor).max(least).min(1.0);
        }
        least = smallest(results[at]);
        left -= 1;
    }
}

/// What follows from the effects that are named.
pub(super) fn conclude(result: &KnobResult, is_named: impl Fn(&Effect) -> bool) -> KnobConclusion {
    if result.effects.is_empty() {
        return KnobConclusion::TooFewPairs;
    }
    let named = result.effects.iter().filter(|it| is_named(it));
    let ratios: Vec<f64> = named.map(|effect| effect.ratio).collect();
    let shorter = ratios.iter().any(|ratio| *ratio < 1.0);
    let longer = ratios.iter().any(|ratio| *ratio > 1.0);
    match (shorter, longer) {
        (true, true) => KnobConclusion::Mixed,
        (true, false) => KnobConclusion::Helps,
        (false, true) => KnobConclusion::Harms,
        (false, false) => KnobConclusion::NoEffectShown,
    }
}
