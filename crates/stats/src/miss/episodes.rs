//! How often there are misses at all.

use serde::{Deserialize, Serialize};

use super::burst_aware_upper;
use super::stalls::{Stall, carried_dispersion, joined};

/// Misses less than this apart belong to one episode, if the limit is short.
const GAP_NS: u64 = 1_000_000_000;
/// And those less than so many limits apart.
const GAP_LIMITS: u64 = 10;
/// Fewest blocks that a dispersion is looked at with.
const FEWEST_BLOCKS: f64 = 7.0;

/// Misses by episodes: those that are less than a gap apart are one. That is a count that a stall of any
/// length enters once: a longer one than any that was seen is bounded too.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Episodes {
    /// The gap in ns: a second, or ten limits if that is more.
    pub gap_ns: u64,
    /// How many were seen.
    pub seen: u64,
    /// Upper bound on their mean number in a run as long as this.
    pub upper: f64,
}

impl Episodes {
    pub(super) fn new(stalls: &[Stall], limit_ns: u64, duration_ns: u64, confidence: f64) -> Self {
        let gap_ns = limit_ns.saturating_mul(GAP_LIMITS).max(GAP_NS);
        let duration = duration_ns as f64;
        let episodes = joined(stalls.iter().copied(), gap_ns as f64);
        let at: Vec<_> = episodes.iter().map(|it| (it.at_ns, 1.0)).collect();
        let dispersion = carried_dispersion(&at, duration, gap_ns as f64, FEWEST_BLOCKS);
        let seen = episodes.len() as f64;
        // As many instants as there could be: their number is bounded as a Poisson variable is.
        let instants = 1e9 * (seen + 1.0);
        let upper = burst_aware_upper(seen, instants, dispersion, dispersion, confidence);
        Episodes {
            gap_ns,
            seen: episodes.len() as u64,
            upper: upper * instants,
        }
    }

    /// The upper bound per hour of a run of that duration in ns.
    #[must_use]
    pub fn per_hour(&self, duration_ns: u64) -> f64 {
        self.upper * 3.6e12 / duration_ns as f64
    }
}
