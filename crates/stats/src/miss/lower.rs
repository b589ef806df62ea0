//! The lower bound on the probability of a miss: more misses never lower it, more good cycles
//! never raise it.
//!
//! The unit of evidence is a block of time. For blocks of several lengths the misses of each
//! block are counted, and the bound is that of the least favourable length. One heavy block says
//! little about how often blocks are heavy: taken at its full weight it would hide what many
//! light ones show. But a part of the misses is no more probable than all of them, so any part
//! gives a lower bound too. The parts tried are those in which no block counts for more than a
//! cap; the best cap is taken. A miss that is added then leaves the best part as good as it was,
//! or is a part of it: for the variance of the sum, Σ weight², grows by at most what the best cap
//! has been found to be worth. The misses left out leave the number of cycles too.

use super::bursts::{for_few, index_of_dispersion};
use crate::binomial;
use crate::golden::section;

/// Misses in blocks of one length.
pub(super) struct Blocks {
    /// The blocks with a miss, fewest misses first.
    weights: Vec<f64>,
    /// Sums of the first n weights and of their squares.
    sums: Vec<(f64, f64)>,
    /// Number of blocks, with those without a miss.
    blocks: f64,
}

/// The figures of a part of the misses.
#[derive(Clone, Copy)]
struct Part {
    misses: f64,
    dispersion: f64,
}

impl Blocks {
    /// `weights` are the misses of the blocks that held any, of `blocks` in all.
    pub(super) fn new(mut weights: Vec<f64>, blocks: f64) -> Self {
        weights.retain(|weight| *weight > 0.0);
        weights.sort_unstable_by(f64::total_cmp);
        let mut sum = (0.0, 0.0);
        let sums = std::iter::once(sum)
            .chain(weights.iter().map(|weight| {
                sum = (sum.0 + weight, sum.1 + weight * weight);
                sum
            }))
            .collect();
        let blocks = blocks.max(weights.len() as f64).max(1.0);
        Blocks {
            weights,
            sums,
            blocks,
        }
    }

    fn heaviest(&self) -> f64 {
        self.weights.last().copied().unwrap_or(0.0)
    }

    /// The misses when no block counts for more than `cap`.
    fn part(&self, cap: f64) -> Part {
        let below = self.weights.partition_point(|weight| *weight <= cap);
        let above = (self.weights.len() - below) as f64;
        let (sum, squares) = self.sums[below];
        let misses = sum + above * cap;
        let squares = squares + above * cap * cap;
        let mut dispersion: f64 = 1.0;
        if misses > 0.0 && self.blocks > 1.0 {
            dispersion = dispersion.max(index_of_dispersion(misses, squares, self.blocks));
        } else if misses > 0.0 {
            dispersion = dispersion.max(squares / misses);
        }
        Part {
            misses,
            dispersion: for_few(dispersion, misses),
        }
    }

    /// Lower bound from the part under `cap`; `misses` and `cycles` are those of the run.
    fn capped(&self, cap: f64, misses: f64, cycles: f64, confidence: f64) -> f64 {
        let part = self.part(cap);
        let counted = cycles - (misses - part.misses);
        binomial::lower(
            part.misses / part.dispersion,
            counted / part.dispersion,
            confidence,
        )
    }

    /// The best lower bound over all caps.
    pub(super) fn lower(&self, misses: f64, cycles: f64, confidence: f64) -> f64 {
        const STEP: f64 = 1.25;
        const REFINED: usize = 23;
        let heaviest = self.heaviest();
        if heaviest <= 0.0 {
            return 0.0;
        }
        let at = |cap: f64| self.capped(cap, misses, cycles, confidence);
        // Coarse caps that do not depend on the misses, then the neighbourhood of the best.
        let (mut best_cap, mut best) = (1.0, at(1.0));
        let mut cap = STEP;
        while cap / STEP < heaviest {
            let bound = at(cap);
            if bound > best {
                (best_cap, best) = (cap, bound);
            }
            cap *= STEP;
        }
        let around = (f64::max(best_cap / STEP, 1.0), best_cap * STEP);
        let refine = |cap: f64| {
            let bound = at(cap);
            best = best.max(bound);
            bound
        };
        section(refine, around, REFINED, 0.0);
        best
    }
}
