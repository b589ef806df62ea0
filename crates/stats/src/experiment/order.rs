//! The order in which knobs are switched, drawn from a seed.

use crate::random::Random;

/// A pair of blocks to come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PairPlan {
    /// The knob that is switched; all others are off.
    pub knob: usize,
    /// Whether it is on in the first of the two blocks.
    pub on_first: bool,
}

/// The next `rounds` rounds: each has one pair of every knob, in random order. Which block of a
/// pair comes first is a fair and independent draw, as the test assumes.
#[must_use]
pub fn pair_order(knobs: usize, rounds: usize, seed: u64) -> Vec<PairPlan> {
    let mut random = Random::new(seed);
    let mut plans = Vec::with_capacity(knobs * rounds);
    for _ in 0..rounds {
        let round = shuffled(knobs, &mut random);
        plans.extend(round.into_iter().map(|knob| PairPlan {
            knob,
            on_first: random.below(2) == 1,
        }));
    }
    plans
}

/// The order of `conditions` within each of `rounds` rounds; each has every condition once. All
/// orders are equally likely: of any two conditions of a round, the difference may as well have
/// the other sign if they don't differ, which is what a test of pairs takes for granted.
#[must_use]
pub fn round_order(conditions: usize, rounds: usize, seed: u64) -> Vec<Vec<usize>> {
    let mut random = Random::new(seed);
    let mut round = || shuffled(conditions, &mut random);
    (0..rounds).map(|_| round()).collect()
}

/// 0..count in an order drawn at random.
fn shuffled(count: usize, random: &mut Random) -> Vec<usize> {
    let mut order: Vec<usize> = (0..count).collect();
    for last in (1..count).rev() {
        order.swap(last, random.below(last + 1));
    }
    order
}

/// Pairs of blocks for a screening: which knobs are on in the first block; the second has all
/// others on.
#[must_use]
pub fn screening_order(knobs: usize, pairs: usize, seed: u64) -> Vec<Vec<bool>> {
    let mut random = Random::new(seed);
    let mut pair = || (0..knobs).map(|_| random.below(2) == 1).collect();
    (0..pairs).map(|_| pair()).collect()
}
