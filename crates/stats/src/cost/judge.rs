//! Pairs of runs of a command, judged.

use serde::{Deserialize, Serialize};

use super::{CostMeasure, Usage, known};
use crate::compare::{Moments, Sides, pairs_test, ratio_interval, smallest_p_of_pairs};
use crate::experiment::EXACT_NAMED_FROM;

/// More pairs than this are never asked for.
const MOST_PAIRS: usize = 1000;

/// Two runs that followed each other, in an order drawn at random.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UsagePair {
    /// The run without the treatment.
    pub without: Usage,
    /// The run with it.
    pub with: Usage,
}

/// What a treatment did to one measure.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct CostEffect {
    /// The measure.
    pub measure: CostMeasure,
    /// Without the treatment, in ns or a count: the mean over the runs.
    pub without: f64,
    /// With it.
    pub with: f64,
    /// With by without: the geometric mean over the pairs.
    pub ratio: f64,
    /// Interval of the ratio (Student's t on the logarithms of the pairs), at the confidence for
    /// this measure by itself.
    pub interval: (f64, f64),
    /// How often chance alone makes a difference at least as clear in any measure of any
    /// treatment. Of pairs in which nothing differs: for themselves.
    pub p: f64,
    /// Whether it is beyond chance, larger than identical runs differ, and at least 1 %: a machine
    /// on which anything at all differs meets other phases of its tick. Never of pairs in which
    /// nothing differs.
    pub is_named: bool,
}

/// What all pairs say.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct CostResults {
    /// Of the pairs in which nothing differs.
    pub identical: Vec<CostEffect>,
    /// Of each treatment.
    pub treatments: Vec<Vec<CostEffect>>,
}

/// Two pairs leave an interval open that no number holds.
pub(super) fn finite((low, high): (f64, f64)) -> (f64, f64) {
    const MOST: f64 = 1e300;
    let clamp = |ratio: f64| ratio.clamp(1.0 / MOST, MOST);
    (clamp(low), clamp(high))
}

/// The size of a ratio, whichever way it points.
fn size(ratio: f64) -> f64 {
    ratio.ln().abs()
}

impl CostEffect {
    /// How far a ratio may be from 1 for all that this says: the end of the interval that is
    /// farther from 1, above 1.
    #[must_use]
    pub fn farthest(&self) -> f64 {
        size(self.interval.0).max(size(self.interval.1)).exp()
    }

    /// Names what is beyond chance and beyond every one of these.
    fn name(&mut self, identical: &[&CostEffect], confidence: f64) {
        let beyond = |it: &&CostEffect| size(self.ratio) > it.farthest().ln();
        let is_large = size(self.ratio) >= EXACT_NAMED_FROM.ln() - 1e-9;
        self.is_named = is_large
            && self.p <= 1.0 - confidence + 1e-9
            && !identical.is_empty()
            && identical.iter().all(beyond);
    }
}

fn effect(effects: &[CostEffect], measure: CostMeasure) -> Option<&CostEffect> {
    effects.iter().find(|it| it.measure == measure)
}

/// Judges all treatments together: in a world in which none of them costs anything, any is named in
/// at most one of 1/(1 − `confidence`) experiments (Westfall and Young over the measures of a
/// treatment, Holm over the treatments), and the pairs in which nothing differs bound what is named
/// further. With fewer than two pairs of something, nothing is said of it.
#[must_use]
pub fn judge_costs(
    treatments: &[Vec<UsagePair>],
    identical: &[UsagePair],
    confidence: f64,
) -> CostResults {
    let identical = of_pairs(identical, confidence);
    let mut effects: Vec<Vec<CostEffect>> = treatments
        .iter()
        .map(|pairs| of_pairs(pairs, confidence))
        .collect();
    holm(&mut effects);
    for it in effects.iter_mut().flatten() {
        let same: Vec<&CostEffect> = effect(&identical, it.measure).into_iter().collect();
        it.name(&same, confidence);
    }
    CostResults {
        identical,
        treatments: effects,
    }
}

/// Holm's step-down adjustment over the treatments.
fn holm(treatments: &mut [Vec<CostEffect>]) {
    let smallest = |effects: &[CostEffect]| effects.iter().map(|it| it.p).fold(1.0, f64::min);
    let mut order: Vec<usize> = (0..treatments.len()).collect();
    order.sort_by(|a, b| smallest(&treatments[*a]).total_cmp(&smallest(&treatments[*b])));
    let mut least = 0.0_f64;
    for (rank, at) in order.iter().enumerate() {
        let factor = (treatments.len() - rank) as f64;
        for it in &mut treatments[*at] {
            it.p = (it.p * factor).max(least).min(1.0);
        }
        least = smallest(&treatments[*at]).max(least);
    }
}

fn of_pairs(pairs: &[UsagePair], confidence: f64) -> Vec<CostEffect> {
    if pairs.len() < 2 {
        return Vec::new();
    }
    let measures = known(pairs.iter().flat_map(|pair| [&pair.without, &pair.with]));
    let rows: Vec<Vec<f64>> = pairs
        .iter()
        .map(|pair| differences(&pair.without, &pair.with, &measures))
        .collect();
    let p = pairs_test(&rows);
    let of = |(at, measure): (usize, &CostMeasure)| {
        let difference = Moments::of(rows.iter().map(|row| row[at]));
        CostEffect {
            measure: *measure,
            without: mean(pairs.iter().map(|pair| &pair.without), *measure),
            with: mean(pairs.iter().map(|pair| &pair.with), *measure),
            ratio: difference.mean.exp(),
            interval: finite(ratio_interval(
                difference.mean,
                difference.error2,
                difference.count - 1.0,
                confidence,
            )),
            p: p[at],
            is_named: false,
        }
    };
    measures.iter().enumerate().map(of).collect()
}

fn differences(without: &Usage, with: &Usage, measures: &[CostMeasure]) -> Vec<f64> {
    let log = |usage: &Usage, measure| usage.log(measure).unwrap_or(0.0);
    let of = |measure: &CostMeasure| log(with, *measure) - log(without, *measure);
    measures.iter().map(of).collect()
}

fn mean<'u>(usages: impl Iterator<Item = &'u Usage> + Clone, measure: CostMeasure) -> f64 {
    let count = usages.clone().count().max(1) as f64;
    let figures = usages.filter_map(|usage| usage.of(measure));
    figures.map(|figure| figure as f64).sum::<f64>() / count
}

/// Judges two arms that were not interleaved: those before and after a reboot. Each arm is a
/// series of pairs of identical runs; their differences bound what is named, in both arms. A drift
/// between the arms is no chance that any of this sees.
#[must_use]
pub fn judge_apart(before: &[UsagePair], after: &[UsagePair], confidence: f64) -> CostResults {
    let identical = [before, after].map(|arm| of_pairs(arm, confidence));
    let both = || before.iter().chain(after);
    if before.len() < 2 || after.len() < 2 {
        return CostResults::default();
    }
    let measures = known(both().flat_map(|pair| [&pair.without, &pair.with]));
    // The unit is a pair: runs that follow each other share their minute.
    let rows = [before, after].map(|arm| -> Vec<Vec<f64>> {
        let of = |pair: &UsagePair| {
            let halves = differences(&pair.without, &pair.with, &measures);
            let begin = |measure: &CostMeasure| pair.without.log(*measure).unwrap_or(0.0);
            let sum = measures.iter().zip(halves);
            sum.map(|(measure, half)| begin(measure) + half / 2.0)
                .collect()
        };
        arm.iter().map(of).collect()
    });
    let tested = Sides::test(&rows[0], &rows[1], confidence);
    let runs = |arm: &[UsagePair], measure| {
        let runs: Vec<Usage> = arm
            .iter()
            .flat_map(|pair| [pair.without, pair.with])
            .collect();
        mean(runs.iter(), measure)
    };
    let of = |(measure, side): (&CostMeasure, Sides)| {
        let mut it = CostEffect {
            measure: *measure,
            without: runs(before, *measure),
            with: runs(after, *measure),
            ratio: side.ratio,
            interval: finite(side.interval),
            p: side.p,
            is_named: false,
        };
        let same = identical.iter().filter_map(|arm| effect(arm, *measure));
        it.name(&same.collect::<Vec<_>>(), confidence);
        it
    };
    let effects = measures.iter().zip(tested).map(of).collect();
    // Of the two series the one that is farther from 1 in this measure.
    let wider = |measure: &CostMeasure| {
        let of = identical.iter().filter_map(|arm| effect(arm, *measure));
        of.max_by(|a, b| a.farthest().total_cmp(&b.farthest()))
            .copied()
    };
    CostResults {
        identical: measures.iter().filter_map(wider).collect(),
        treatments: vec![effects],
    }
}

/// The pairs of each treatment that an experiment takes at least: with fewer, no p-value could be
/// small enough. `None` where no number is enough.
#[must_use]
pub fn least_pairs(treatments: usize, confidence: f64) -> Option<usize> {
    let is_enough =
        |pairs: &usize| smallest_p_of_pairs(*pairs) * treatments as f64 <= 1.0 - confidence + 1e-9;
    (2..=MOST_PAIRS).find(is_enough)
}
