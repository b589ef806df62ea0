//! Periods that a thread skipped: those whose instants passed while it did not wait for them.
//!
//! A skipped period is no wake-up, and it has no latency. How late its cycle is, the thread's
//! next wake-up tells: the time from the skipped instant to that wake-up. By this it misses a
//! deadline or keeps it, whatever was to blame: a late wake-up, or the thread's own work.

use serde::{Deserialize, Serialize};

/// Periods that were skipped one after the other.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Skip {
    /// The first of their instants, in ns of the run's clock.
    pub at_ns: u64,
    /// How many.
    pub count: u64,
    /// How late the first was, in ns: the most of them.
    pub most_ns: u64,
    /// How late the last was, in ns: the least of them.
    pub least_ns: u64,
    /// From one to the next, in ns; of several that were joined the shortest.
    pub period_ns: u64,
    /// The longest of them, where they differ; else 0.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub longest_period_ns: u64,
    /// Whether several were joined for want of room: then how late those between were isn't known.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub joined: bool,
}

impl Skip {
    /// How many miss `limit_ns`: fewest and most that agree with what is known. Where the limit
    /// is not above the period, all: none got a wake-up of its own, and the next one belongs to a
    /// period that is due later. Else those that the thread was later for than the limit.
    pub fn later(&self, limit_ns: u64) -> (u64, u64) {
        if limit_ns <= self.period_ns || self.least_ns > limit_ns {
            return (self.count, self.count);
        }
        // Those with a period that is not shorter than the limit.
        if limit_ns <= self.longest_period_ns {
            return (0, self.count);
        }
        if self.most_ns <= limit_ns {
            return (0, 0);
        }
        // The first was later, the last was not.
        let others = self.count.saturating_sub(1);
        if self.joined {
            return (1, others.max(1));
        }
        let span = u128::from(self.most_ns - self.least_ns);
        let beyond = u128::from(self.most_ns - limit_ns);
        let later = (beyond * u128::from(others)).div_ceil(span.max(1));
        let later = u64::try_from(later)
            .unwrap_or(u64::MAX)
            .clamp(1, others.max(1));
        (later, later)
    }

    fn longest_ns(&self) -> u64 {
        self.longest_period_ns.max(self.period_ns)
    }

    fn join(&mut self, other: &Skip) {
        self.at_ns = self.at_ns.min(other.at_ns);
        self.count = self.count.saturating_add(other.count);
        self.most_ns = self.most_ns.max(other.most_ns);
        self.least_ns = self.least_ns.min(other.least_ns);
        let longest_ns = self.longest_ns().max(other.longest_ns());
        self.period_ns = self.period_ns.min(other.period_ns);
        self.longest_period_ns = match longest_ns > self.period_ns {
            true => longest_ns,
            false => 0,
        };
        self.joined = true;
    }
}

#[allow(clippy::trivially_copy_pass_by_ref, reason = "serde's signature")]
fn is_zero(ns: &u64) -> bool {
    *ns == 0
}

/// All periods that were skipped, in order of time. Where there is no more room, neighbours are
/// joined: their number stays exact.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(transparent)]
pub struct Skips(Vec<Skip>);

impl Skips {
    /// Entries that are kept at most.
    pub const MOST: usize = 4096;

    /// Takes the next.
    pub fn push(&mut self, skip: Skip) {
        if skip.count == 0 {
            return;
        }
        if self.0.len() >= Self::MOST {
            self.halve();
        }
        self.0.push(skip);
    }

    /// Adds those of another thread, or of another run.
    pub fn merge(&mut self, other: &Skips) {
        self.0.extend(&other.0);
        self.0.sort_by_key(|skip| skip.at_ns);
        while self.0.len() > Self::MOST {
            self.halve();
        }
    }

    fn halve(&mut self) {
        let pairs = self.0.chunks(2).map(|pair| {
            let mut first = pair[0];
            pair[1..].iter().for_each(|second| first.join(second));
            first
        });
        self.0 = pairs.collect();
    }

    /// As they are kept.
    pub fn iter(&self) -> impl Iterator<Item = &Skip> {
        self.0.iter()
    }

    /// Whether no period was skipped.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// How many entries are kept.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// How many periods were skipped.
    pub fn count(&self) -> u64 {
        self.0
            .iter()
            .fold(0, |sum, skip| sum.saturating_add(skip.count))
    }

    /// How many of them miss `limit_ns` ([`Skip::later`]): fewest and most that agree with what is kept.
    pub fn later(&self, limit_ns: u64) -> (u64, u64) {
        let each = self.0.iter().map(|skip| skip.later(limit_ns));
        each.fold((0, 0), |(low, high), (l, h)| {
            (low.saturating_add(l), high.saturating_add(h))
        })
    }

    /// The same, so many ns later or earlier.
    #[must_use]
    pub fn shifted(&self, from_ns: u64, to_ns: u64) -> Self {
        let shifted = self.0.iter().map(|skip| Skip {
            at_ns: skip.at_ns.saturating_sub(from_ns).saturating_add(to_ns),
            ..*skip
        });
        Self(shifted.collect())
    }
}

impl FromIterator<Skip> for Skips {
    fn from_iter<I: IntoIterator<Item = Skip>>(skips: I) -> Self {
        let mut all = Self::default();
        skips.into_iter().for_each(|skip| all.push(skip));
        all
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `count` periods of 10, of which the first was `most` late.
    fn skip(at_ns: u64, count: u64, most_ns: u64) -> Skip {
        Skip {
            at_ns,
            count,
            most_ns,
            least_ns: most_ns - (count - 1) * 10,
            period_ns: 10,
            longest_period_ns: 0,
            joined: false,
        }
    }

    #[test]
    fn each_period_misses_by_its_own_lateness_where_the_limit_is_above_the_period() {
        for (count, most) in [(1, 3), (1, 13), (4, 43), (4, 31), (7, 100)] {
            let run = skip(0, count, most);
            for limit in 0..120 {
                let late = |k: &u64| limit <= 10 || most - k * 10 > limit;
                let by_hand = (0..count).filter(late).count() as u64;
                assert_eq!(run.later(limit), (by_hand, by_hand), "{run:?} {limit}");
            }
        }
    }

    /// A period of 20 that was 12 late and one of 5 that was 8 late: the first alone misses 15.
    #[test]
    fn skips_of_two_periods_are_joined_with_valid_bounds() {
        let of = |period_ns, most_ns| Skip {
            period_ns,
            ..skip(0, 1, most_ns)
        };
        for (a, b) in [(of(20, 12), of(5, 8)), (of(5, 8), of(20, 12))] {
            let mut joined = a;
            joined.join(&b);
            for limit in 0..30 {
                let truth = a.later(limit).0 + b.later(limit).0;
                let (low, high) = joined.later(limit);
                assert!(
                    (low..=high).contains(&truth),
                    "{limit}: {low} {truth} {high}"
                );
            }
        }
    }

    #[test]
    fn skips_joined_for_lack_of_space_keep_their_number_and_valid_bounds() {
        let many = 3 * Skips::MOST as u64 + 1;
        let all = || (0..many).map(|n| skip(n * 1000, 1 + n % 5, 55 + n % 7));
        let skips: Skips = all().collect();
        assert!(skips.len() <= Skips::MOST);
        assert_eq!(skips.count(), all().map(|skip| skip.count).sum::<u64>());
        for limit in [0, 10, 11, 30, 57, 60, 61, 1000] {
            let truth: u64 = all().map(|skip| skip.later(limit).0).sum();
            let (low, high) = skips.later(limit);
            assert!(
                (low..=high).contains(&truth),
                "{limit}: {low} {truth} {high}"
            );
        }
        let mut merged = skips.clone();
        merged.merge(&skips.shifted(0, 1 << 40));
        assert_eq!(merged.count(), 2 * skips.count());
        assert!(merged.len() <= Skips::MOST);
        let times: Vec<u64> = merged.iter().map(|skip| skip.at_ns).collect();
        assert!(times.is_sorted());
    }
}
