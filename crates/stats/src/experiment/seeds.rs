//! Pairs of runs that repeat exactly: one seed, without and with a knob.
//!
//! Nothing of a host is in such figures, and yet they are no proof by themselves: whatever is
//! added to a machine moves all that follows by some instructions, so that wake-ups meet other
//! phases of the load and of the tick. Under the hypothesis that a knob does only that, the two
//! figures of a pair are exchangeable, as in a draw. The control does only that, so it shows how
//! much that is.

use super::judge::{Effect, KnobResult, LEAST_PAIRS, Pair, adjust, conclude, judge};
use super::{KnobConclusion, Measure};
use crate::compare::smallest_p_of_pairs;

/// A smaller change than this is not named of runs that repeat exactly.
pub const EXACT_NAMED_FROM: f64 = 1.01;
/// More seeds than this are never asked for.
const MOST_SEEDS: usize = 1000;

/// All pairs of one knob on one machine under one load.
#[derive(Clone, Debug, PartialEq, Default)]
pub struct SeedPairs {
    /// A pair for each seed.
    pub pairs: Vec<Pair>,
    /// The place of the control of the same machine and load; absent of the control itself.
    pub control: Option<usize>,
}

impl Effect {
    /// Whether an effect on runs that repeat exactly is beyond chance, large enough to name, and
    /// larger than that of the control may be: the end of its interval that is farther from 1.
    /// Where the control lacks the measure, nothing is known of what any word changes: it is not
    /// named.
    #[must_use]
    pub fn is_named_beyond(&self, control: Option<&KnobResult>, confidence: f64) -> bool {
        let size = |ratio: f64| ratio.ln().abs();
        let farthest = |it: &Effect| size(it.interval.0).max(size(it.interval.1));
        let of_control = match control.map(|it| it.effect(self.measure)) {
            None => 0.0,
            Some(Some(effect)) => farthest(effect),
            Some(None) => return false,
        };
        let least = of_control.max(EXACT_NAMED_FROM.ln());
        self.p <= 1.0 - confidence + 1e-9 && size(self.ratio) > least
    }
}

/// Judges all rows of an experiment together, as [`super::judge_knobs`] does; controls are no
/// claims, and share no error with the knobs. A row whose control has too few pairs has too few
/// itself.
#[must_use]
pub fn judge_seeds(rows: &[SeedPairs], measures: &[Measure], confidence: f64) -> Vec<KnobResult> {
    let of = |row: &SeedPairs| judge(&row.pairs, measures, confidence);
    let mut results: Vec<KnobResult> = rows.iter().map(of).collect();
    let knobs = results.iter_mut().zip(rows);
    let knobs = knobs.filter(|(_, row)| row.control.is_some());
    adjust(&mut knobs.map(|(result, _)| result).collect::<Vec<_>>());
    let controls = results.clone();
    for (result, row) in results.iter_mut().zip(rows) {
        let control = row.control.and_then(|at| controls.get(at));
        result.conclusion = match control {
            Some(control) if control.effects.is_empty() => KnobConclusion::TooFewPairs,
            _ => conclude(result, |effect| effect.is_named_beyond(control, confidence)),
        };
    }
    results
}

/// The seeds that an experiment with this number of rows takes at least: with fewer, no p-value
/// could be small enough. `None` where no number is enough.
#[must_use]
pub fn least_seeds(rows: usize, confidence: f64) -> Option<usize> {
    let is_enough =
        |seeds: &usize| smallest_p_of_pairs(*seeds) * rows as f64 <= 1.0 - confidence + 1e-9;
    (LEAST_PAIRS..=MOST_SEEDS).find(is_enough)
}
