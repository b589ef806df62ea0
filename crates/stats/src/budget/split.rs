//! Which part of a deadline each hop gets.

use super::{Exceedance, STEPS};

/// What a hop gets.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Share {
    /// Its part of the deadline, in ns.
    pub within_ns: u64,
    /// How often it exceeds this part.
    pub above: f64,
}

/// A deadline split among hops.
#[derive(Debug, Clone, PartialEq)]
pub struct Split {
    /// One for each hop. Their parts add up to the deadline, or less.
    pub shares: Vec<Share>,
    /// The sum exceeds the deadline with this probability at most, however the hops depend on each
    /// other: what the hops exceed their parts with, added up; at most 1.
    pub above: f64,
}

/// The split with which the sum is exceeded least often; `None` if there is no way to split it,
/// because the shortest times are longer together, or there is no hop.
#[must_use]
pub fn best_split(hops: &[Exceedance], deadline_ns: u64) -> Option<Split> {
    let mut sums = vec![Exceedance::constant(0)];
    for hop in hops {
        let sum = sums[sums.len() - 1].plus_any(hop, STEPS);
        sums.push(sum);
    }
    let mut left_ns = deadline_ns;
    let mut shares = Vec::with_capacity(hops.len());
    for (hop, before) in hops.iter().zip(&sums).rev() {
        let (step, others_ns) = best_pair(hop, before, left_ns)?;
        shares.push(step);
        left_ns = others_ns;
    }
    shares.reverse();
    let above: f64 = shares.iter().map(|share: &Share| share.above).sum();
    let split = Split {
        shares,
        above: above.min(1.0),
    };
    (!hops.is_empty()).then_some(split)
}

/// The last hop's share, and the time of the others.
fn best_pair(hop: &Exceedance, before: &Exceedance, within_ns: u64) -> Option<(Share, u64)> {
    let mut best: Option<(f64, Share, u64)> = None;
    for step in hop.steps() {
        let Some(left_ns) = within_ns.checked_sub(step.at_ns) else {
            break;
        };
        let earlier = before.steps();
        let next = earlier.partition_point(|its| its.at_ns <= left_ns);
        let Some(other) = next.checked_sub(1).map(|index| earlier[index]) else {
            break;
        };
        let sum = step.above + other.above;
        if best.is_none_or(|(least, _, _)| sum < least) {
            let share = Share {
                within_ns: step.at_ns,
                above: step.above,
            };
            best = Some((sum, share, other.at_ns));
        }
    }
    best.map(|(_, share, others_ns)| (share, others_ns))
}
