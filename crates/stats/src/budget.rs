//! The sum of several times, of each of which it is known how often it is exceeded: hops from a
//! sensor to an actuator, with a deadline for all of them together.
//!
//! Percentiles don't add up. What holds without any assumption is the union bound with the best split
//! of the deadline: for any `u1 + u2 + ... <= d`, `P(X1 + X2 + ... > d) <= P(X1 > u1) + P(X2 > u2) +
//! ...`. For two hops its minimum over all splits is sharp: some dependence attains it (Makarov 1981;
//! Rüschendorf 1982; Williamson and Downs 1990). Under independence the distribution of the sum is
//! the convolution; where hops stall together, it is far too small.

mod exceedance;
mod split;

pub use exceedance::{Exceedance, ExceedanceError, Step, Within};
pub use split::{Share, Split, best_split};

/// Steps that a sum keeps: what is beyond is rounded up, by well below 1 % of the time.
pub const STEPS: usize = 2048;

/// How often the sum is exceeded if the hops are independent. Without hops it is 0.
#[must_use]
pub fn independent(hops: &[Exceedance]) -> Exceedance {
    let sum = |sum: Exceedance, hop: &Exceedance| sum.plus_independent(hop, STEPS);
    hops.iter().fold(Exceedance::constant(0), sum)
}

/// How often the sum is exceeded at most, however the hops depend on each other. Without hops it
/// is 0.
#[must_use]
pub fn under_any_dependence(hops: &[Exceedance]) -> Exceedance {
    let sum = |sum: Exceedance, hop: &Exceedance| sum.plus_any(hop, STEPS);
    hops.iter().fold(Exceedance::constant(0), sum)
}

/// How often the sum exceeds the deadline at least, however the hops depend on each other: for any
/// `u1 + u2 + ... >= d`, `P(X1 + X2 + ... > d) >= 1 - P(X1 <= u1) - P(X2 <= u2) - ...`. For two hops its
/// maximum over all splits is sharp, as the other bound is (Makarov 1981).
#[must_use]
pub fn at_least_under_any_dependence(hops: &[Vec<Within>], deadline_ns: u64) -> f64 {
    let none = Within {
        at_ns: 0,
        probability: 0.0,
    };
    let mut sums = vec![none];
    for hop in hops {
        let pairs = sums.iter().flat_map(|sum| {
            hop.iter().map(|it| Within {
                at_ns: sum.at_ns.saturating_add(it.at_ns).min(deadline_ns),
                probability: sum.probability + it.probability,
            })
        });
        let mut pairs: Vec<Within> = pairs.filter(|pair| pair.probability < 1.0).collect();
        pairs.sort_unstable_by(|a, b| {
            let lowest_first = a.probability.total_cmp(&b.probability);
            b.at_ns.cmp(&a.at_ns).then(lowest_first)
        });
        // Of those that are as long the likeliest to be exceeded, and no shorter ones but likelier.
        sums.clear();
        for pair in pairs {
            if sums
                .last()
                .is_none_or(|it| pair.probability < it.probability)
            {
                sums.push(pair);
            }
        }
        // A split that is left out could only raise the bound.
        while sums.len() > STEPS {
            let mut odd = false;
            sums.retain(|_| {
                odd = !odd;
                odd
            });
        }
    }
    let enough = sums.iter().filter(|sum| sum.at_ns >= deadline_ns);
    let least = enough.map(|sum| sum.probability).min_by(f64::total_cmp);
    // A sum of zeros does not exceed a deadline of 0.
    let exceeded = least
        .filter(|_| deadline_ns > 0)
        .map_or(0.0, |least| 1.0 - least);
    exceeded.max(0.0)
}

/// Stretches of time in which all hops were measured.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct CommonBlocks {
    /// How many.
    pub blocks: u64,
    /// Those in which the highest times of all hops add up to more than the deadline: in the others no
    /// sum can have exceeded it.
    pub possible: u64,
}

/// What blocks measured at the same time say of a sum: the rows are the hops, the columns the blocks,
/// the values the highest time of the hop in that block, `None` where it was not measured. A
/// block counts where all hops were measured.
#[must_use]
pub fn common_blocks(hops: &[Vec<Option<u64>>], deadline_ns: u64) -> CommonBlocks {
    let mut common = CommonBlocks::default();
    let length = hops.iter().map(Vec::len).min().unwrap_or(0);
    for block in 0..length {
        let highest: Option<Vec<u64>> = hops.iter().map(|hop| hop[block]).collect();
        let Some(highest) = highest else { continue };
        let sum = highest.iter().fold(0u64, |sum, it| sum.saturating_add(*it));
        common.blocks += 1;
        common.possible += u64::from(sum > deadline_ns);
    }
    common
}
