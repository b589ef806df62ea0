//! From the blocks of a ladder to what each step does.

use std::collections::BTreeMap;

use punctual_stats::experiment::{BlockLatencies, KnobPairs, Pair, judge_knobs};

use super::{Ladder, LadderBlock, LadderStep, Rung, StepKind};

/// A block's place in its round: its rung, and whether it is the second of the control.
type Place = (Rung, bool);

impl Ladder {
    /// Puts in what the blocks so far say. Each comparison is one of pairs: two blocks of one
    /// round, whose order in time was drawn. All are judged together.
    pub fn judge(&mut self) {
        let compared = self.compared();
        let rounds = self.rounds();
        let pairs = |from: Place, to: Place| KnobPairs {
            pairs: rounds
                .values()
                .filter_map(|round| {
                    Some(Pair {
                        off: (*round.get(&from)?).clone(),
                        on: (*round.get(&to)?).clone(),
                    })
                })
                .collect(),
        };
        let knobs: Vec<KnobPairs> = compared
            .iter()
            .map(|(kind, from, to)| pairs((*from, false), (*to, *kind == StepKind::Control)))
            .collect();
        let results = judge_knobs(&knobs, self.design.confidence);
        let steps = compared.into_iter().zip(results);
        self.steps = steps
            .map(|((kind, from, to), result)| LadderStep {
                kind,
                from,
                to,
                result,
            })
            .collect();
    }

    /// What is compared: each measured rung with the one below it, the ends, and the control.
    fn compared(&self) -> Vec<(StepKind, Rung, Rung)> {
        let measured = self.measured();
        let steps = measured.windows(2);
        let mut compared: Vec<_> = steps
            .map(|pair| (StepKind::Step, pair[0], pair[1]))
            .collect();
        if let ([lowest, .., highest], true) = (measured.as_slice(), measured.len() > 2) {
            compared.push((StepKind::All, *lowest, *highest));
        }
        if let Some(control) = self.control {
            compared.push((StepKind::Control, control, control));
        }
        compared
    }

    /// The blocks that count, by round and place.
    fn rounds(&self) -> BTreeMap<u64, BTreeMap<Place, &BlockLatencies>> {
        let mut rounds: BTreeMap<u64, BTreeMap<Place, &BlockLatencies>> = BTreeMap::new();
        let counts = |block: &&LadderBlock| block.left_out.is_none();
        for block in self.blocks.iter().filter(counts) {
            let round = rounds.entry(block.round).or_default();
            round.insert((block.rung, block.is_second), &block.figures);
        }
        rounds
    }
}
