//! How often there are misses at all.

use serde::{Deserialize, Serialize};

use super::stalls::{Stall, carried_dispersion, joined};
use super::time::{HOUR_NS, LONGEST_NS, TimeNeeded, TimeUnknown};
use super::{MissRows, burst_aware_upper};
use crate::binomial;

/// Misses less than this apart belong to one episode, if the limit is short.
const GAP_NS: u64 = 1_000_000_000;
/// And those less than so many limits apart.
const GAP_LIMITS: u64 = 10;
/// Misses that go on for so many gaps are the next episode: a machine that is always late has many.
const LONGEST_GAPS: f64 = 10.0;
/// Fewest blocks that a dispersion is looked at with.
const FEWEST_BLOCKS: f64 = 7.0;

/// Misses by episodes: those that are less than a gap apart are one, for up to ten gaps. That is a count that a
/// stall of any length enters once: a longer one than any that was seen is bounded too.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Episodes {
    /// The gap in ns: a second, or ten limits if that is more.
    pub gap_ns: u64,
    /// How many were seen; of more misses than are kept one by one, at least.
    pub seen: u64,
    /// Upper bound on their mean number in a run as long as this, even if each cycle that went unseen was one.
    pub upper: f64,
    /// Lower bound on it.
    #[serde(default)]
    pub lower: f64,
    /// Index of dispersion that both rest on, at least 1.
    #[serde(default = "one")]
    pub dispersion: f64,
}

fn one() -> f64 {
    1.0
}

/// As many instants as there could be: of so many, what was seen so often is bounded as a Poisson variable is.
fn instants(seen: f64) -> f64 {
    1e9 * (seen + 1.0)
}

/// Index of dispersion of episodes at these instants.
fn dispersion_of(at: &[(f64, f64)], duration_ns: u64, gap: f64) -> f64 {
    carried_dispersion(at, duration_ns as f64, gap, FEWEST_BLOCKS)
}

/// The same, if as many more began in a row as cycles went unseen.
fn with_unseen(at: &[(f64, f64)], unseen: &[(u64, u64)], duration_ns: u64, gap: f64) -> f64 {
    let unseen = unseen.iter().map(|(at, count)| (*at as f64, *count as f64));
    let mut all: Vec<_> = unseen.chain(at.iter().copied()).collect();
    all.sort_unstable_by(|a, b| a.0.total_cmp(&b.0));
    dispersion_of(&all, duration_ns, gap)
}

fn count_of(unseen: &[(u64, u64)]) -> f64 {
    unseen.iter().map(|(_, count)| *count as f64).sum()
}

/// Upper bound on the mean of what was seen so often.
fn upper(seen: f64, dispersion: f64, confidence: f64) -> f64 {
    let instants = instants(seen);
    burst_aware_upper(seen, instants, dispersion, dispersion, confidence) * instants
}

/// Misses that are less than this apart, in ns, are one episode.
fn gap_of(limit_ns: u64) -> u64 {
    limit_ns.saturating_mul(GAP_LIMITS).max(GAP_NS)
}

/// The most that may be allowed in an hour: a machine that is always late has one each ten gaps, and the next a gap
/// later at most.
#[must_use]
pub fn most_per_hour(limit_ns: u64) -> f64 {
    HOUR_NS / ((LONGEST_GAPS + 2.0) * gap_of(limit_ns) as f64)
}

/// Lower bound on it.
fn lower(seen: f64, dispersion: f64, confidence: f64) -> f64 {
    let instants = instants(seen);
    binomial::lower(seen / dispersion, instants / dispersion, confidence) * instants
}

/// When episodes began of which each must have been, if no miss was earlier or later than its row by more than `slack`.
fn begins(
    rows: &MissRows,
    (stalls, longest_other_ns): (&[Stall], u64),
    gap: f64,
    slack: f64,
) -> Vec<(f64, f64)> {
    let width = rows.width_ns as f64;
    // Without the rows' start it is not known which have the stalls: each miss may have been the longest of them.
    let origin = rows.start_ns.map(|it| it as f64);
    let unplaced = stalls.iter().filter(|_| origin.is_none());
    let longest = unplaced.map(|stall| stall.until_ns - stall.at_ns);
    let longest = longest.fold(longest_other_ns as f64, f64::max);
    let placed = stalls.iter().filter_map(|stall| {
        let origin = origin?;
        Some((stall.at_ns - origin, stall.until_ns - origin))
    });
    let mut placed = placed.peekable();
    let mut at: Vec<(f64, f64)> = Vec::new();
    let (mut until, mut first_end) = (f64::MIN, f64::MIN);
    for (row, _) in rows.misses.iter().enumerate().filter(|(_, it)| **it > 0) {
        let start = row as f64 * width - slack;
        let end = (row + 1) as f64 * width + slack;
        while let Some((_, end)) = placed.next_if(|(at, _)| *at < start) {
            until = until.max(end);
        }
        // Those of the episode before began at the end of its first row at the latest.
        if start - until >= gap || start - first_end >= LONGEST_GAPS * gap {
            at.push((start, 1.0));
            first_end = end;
        }
        until = until.max(end + longest);
    }
    at
}

impl Episodes {
    /// Of misses that are known by rows of time, where not each is kept: at least so many as must have been, wherever
    /// in its row each was. `stalls` are the longest of them, and no other lasted longer than `longest_other_ns`.
    pub(super) fn of_rows(
        rows: &MissRows,
        (stalls, longest_other_ns): (&[Stall], u64),
        unseen: &[(u64, u64)],
        limit_ns: u64,
        duration_ns: u64,
        confidence: f64,
    ) -> Self {
        let gap_ns = gap_of(limit_ns);
        let gap = gap_ns as f64;
        let kept = (stalls, longest_other_ns);
        let at = begins(rows, kept, gap, rows.slack_ns as f64);
        let mut dispersion = dispersion_of(&at, duration_ns, gap);
        if rows.slack_ns > 0 {
            // Those that may be one may also be several.
            let several = begins(rows, kept, gap, 0.0);
            dispersion = dispersion.max(dispersion_of(&several, duration_ns, gap));
        }
        let of_all = dispersion.max(with_unseen(&at, unseen, duration_ns, gap));
        let span_ns = rows
            .width_ns
            .saturating_add(rows.slack_ns.saturating_mul(2));
        let in_a_row = match span_ns <= gap_ns {
            true => 1,
            false => span_ns.div_ceil(gap_ns) + 1,
        };
        let most: u64 = rows.misses.iter().map(|it| in_a_row.min(*it)).sum();
        Self {
            gap_ns,
            seen: at.len() as u64,
            upper: upper(most as f64 + count_of(unseen), of_all, confidence),
            lower: lower(at.len() as f64, dispersion, confidence),
            dispersion,
        }
    }

    pub(super) fn new(
        stalls: &[Stall],
        unseen: &[(u64, u64)],
        limit_ns: u64,
        duration_ns: u64,
        confidence: f64,
    ) -> Self {
        let gap_ns = gap_of(limit_ns);
        let gap = gap_ns as f64;
        let episodes = joined(stalls.iter().copied(), gap, LONGEST_GAPS * gap);
        let at: Vec<_> = episodes.iter().map(|it| (it.at_ns, 1.0)).collect();
        let dispersion = dispersion_of(&at, duration_ns, gap);
        let of_all = dispersion.max(with_unseen(&at, unseen, duration_ns, gap));
        let seen = episodes.len() as f64;
        Episodes {
            gap_ns,
            seen: episodes.len() as u64,
            upper: upper(seen + count_of(unseen), of_all, confidence),
            lower: lower(seen, dispersion, confidence),
            dispersion,
        }
    }

    /// How much longer a run of that duration has to be until it shows that there are at most so many an hour.
    ///
    /// # Errors
    /// As many or more were seen, or it would take too long.
    pub fn time_needed(
        &self,
        duration_ns: u64,
        per_hour: f64,
        confidence: f64,
    ) -> Result<TimeNeeded, TimeUnknown> {
        let hours = duration_ns as f64 / HOUR_NS;
        if hours <= 0.0 {
            return Err(TimeUnknown::NoCycles);
        }
        // Without one, as if they were half as frequent as they may be.
        let expected = match self.seen {
            0 => per_hour / 2.0,
            seen => seen as f64 / hours,
        };
        if expected >= per_hour {
            return Err(TimeUnknown::RateTooHigh);
        }
        let first_enough = |rate: f64| {
            let shown = |more: f64| {
                // Nine in ten runs have no more.
                let mean = rate * more;
                let later = mean + 1.3 * (mean * self.dispersion).sqrt();
                let seen = self.seen as f64 + later;
                upper(seen, self.dispersion, confidence) <= per_hour * (hours + more)
            };
            let mut more = hours.max(1.0 / 60.0) / 16.0;
            while !shown(more) {
                more *= 1.1;
                if more * HOUR_NS > LONGEST_NS {
                    return Err(TimeUnknown::TooLong);
                }
            }
            Ok((more * HOUR_NS) as u64)
        };
        let without_miss_ns = first_enough(0.0)?;
        Ok(TimeNeeded {
            without_miss_ns,
            likely_ns: first_enough(expected)?.max(without_miss_ns),
        })
    }

    /// The upper bound per hour of a run of that duration in ns.
    #[must_use]
    pub fn per_hour(&self, duration_ns: u64) -> f64 {
        self.upper * HOUR_NS / duration_ns as f64
    }
}
