//! From the blocks of an experiment to its results.

use std::collections::BTreeMap;

use punctual_stats::experiment::{
    BlockLatencies, KnobPairs, Pair, ScreeningPair, judge_knobs, screen,
};

use super::{Experiment, ExperimentBlock, Phase};
use crate::explanation::Cause;

/// What a cause took with a knob off and on, in all pairs of the knob.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Costs {
    /// The cause.
    pub cause: Cause,
    /// With the knob off, in ns.
    pub off_ns: u64,
    /// With the knob on, in ns.
    pub on_ns: u64,
}

/// Two blocks of a pair that count, in their order in time.
type Both<'e> = (&'e ExperimentBlock, &'e ExperimentBlock);

impl Experiment {
    /// Puts in what the blocks so far say.
    pub fn judge(&mut self) {
        let screening: Vec<ScreeningPair> = self
            .whole_pairs(Phase::Screening)
            .map(|(first, second)| ScreeningPair {
                on_first: (0..self.knobs.len())
                    .map(|at| first.on.contains(&at))
                    .collect(),
                first: figures(first),
                second: figures(second),
            })
            .collect();
        let mut knobs = vec![KnobPairs::default(); self.knobs.len()];
        for (first, second) in self.whole_pairs(Phase::Pairs) {
            let Some(at) = first.knob.filter(|at| *at < knobs.len()) else {
                continue;
            };
            let (off, on) = match first.on.contains(&at) {
                true => (second, first),
                false => (first, second),
            };
            knobs[at].pairs.push(Pair {
                off: figures(off),
                on: figures(on),
            });
        }
        self.screened = match screening.is_empty() {
            true => Vec::new(),
            false => screen(&screening, self.confidence),
        };
        self.results = judge_knobs(&knobs, self.confidence);
    }

    /// The time that late wake-ups cost with a knob off and on, by cause, the greatest difference first.
    #[must_use]
    pub fn costs(&self, knob: usize) -> Vec<Costs> {
        let mut sums: BTreeMap<&Cause, (u64, u64)> = BTreeMap::new();
        let pairs = self.whole_pairs(Phase::Pairs);
        let of_knob = pairs.filter(|(first, _)| first.knob == Some(knob));
        for block in of_knob.flat_map(|(first, second)| [first, second]) {
            let is_on = block.on.contains(&knob);
            for cost in &block.costs {
                let (off, on) = sums.entry(&cost.cause).or_default();
                let sum = if is_on { on } else { off };
                *sum = sum.saturating_add(cost.ns);
            }
        }
        let costs = sums.into_iter().map(|(cause, (off_ns, on_ns))| Costs {
            cause: cause.clone(),
            off_ns,
            on_ns,
        });
        let mut costs: Vec<Costs> = costs.collect();
        costs.sort_by_key(|it| std::cmp::Reverse(it.off_ns.abs_diff(it.on_ns)));
        costs
    }

    /// The pairs of a phase of which both blocks count.
    fn whole_pairs(&self, phase: Phase) -> impl Iterator<Item = Both<'_>> {
        let counts = move |block: &&ExperimentBlock| {
            block.phase == phase && block.figures.is_some() && block.left_out.is_none()
        };
        let mut pairs: BTreeMap<u64, Vec<&ExperimentBlock>> = BTreeMap::new();
        for block in self.blocks.iter().filter(counts) {
            if let Some(pair) = block.pair {
                pairs.entry(pair).or_default().push(block);
            }
        }
        pairs.into_values().filter_map(|blocks| match blocks[..] {
            [first, second] => Some((first, second)),
            _ => None,
        })
    }
}

/// Those of a block that counts: it has some.
fn figures(block: &ExperimentBlock) -> BlockLatencies {
    block.figures.clone().unwrap_or_default()
}
