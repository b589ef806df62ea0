//! What a run hands over to be judged.

use crate::histogram::Histogram;
use crate::miss::definition::{misses_of, skipped_misses};
use crate::miss::{MissEvent, MissEvidence, MissRows};
use crate::peaks::{Peak, Peaks};
use serde::{Deserialize, Serialize};

/// What [`ThreadEvidence::missed`] are.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Skipped {
    /// Periods that passed before a late wake-up: none is later than it.
    ByWakeUps,
    /// Periods of which only what was kept of them says how late they were.
    #[default]
    Alone,
    /// Jobs that were not done: those that miss the deadline miss each longer limit, too.
    Undone,
    /// Cycles that never end: messages without a reply.
    Never,
}

/// The evidence of one measuring thread.
#[derive(Clone, Debug)]
pub struct ThreadEvidence<'a> {
    /// The CPU that it was pinned to, where that is known.
    pub cpu: Option<u32>,
    /// Every latency that was measured.
    pub histogram: &'a Histogram,
    /// All but the highest were rounded up, each by less than the n-th part of it: for example the 64th. `None` where
    /// they are exact to the width of a bucket.
    pub rounded_up: Option<u64>,
    /// Samples later than [`RunEvidence::deadline_ns`], counted exactly by the
    /// collector. Ignored when there is no deadline.
    pub late: u64,
    /// The interval that wake-ups are due at, in ns: the nominal one where intervals vary.
    pub interval_ns: Option<u64>,
    /// Periods that were skipped because the thread was late.
    pub missed: u64,
    /// Those of them that miss [`RunEvidence::deadline_ns`]
    /// ([`crate::miss::definition`]). Ignored when there is no deadline.
    pub missed_late: u64,
    /// Samples that were lost on their way to the collector.
    pub lost: u64,
    /// Wake-ups that are known to have been, and of which nothing else is known.
    pub unseen: u64,
    /// By how much each of these was late at most, if that is known.
    pub unseen_most_ns: Option<u64>,
    /// Whether it may be without a sample, as a thread that ended before its first wake-up.
    /// Of any other that means that it was never woken, and nothing was measured.
    pub may_be_empty: bool,
    /// What its skipped periods are.
    pub skipped: Skipped,
    /// The highest samples.
    pub peaks: &'a Peaks,
}

impl ThreadEvidence<'_> {
    /// Cycles: samples, skipped periods, and wake-ups that went unseen.
    pub fn cycles(&self) -> u64 {
        let seen = self.histogram.count().saturating_add(self.missed);
        seen.saturating_add(self.unseen)
    }

    /// Samples that surely are later than `limit_ns`.
    fn surely_above(&self, limit_ns: u64) -> u64 {
        let above = |ns| self.histogram.count_surely_above(ns);
        let Some(part) = self.rounded_up else {
            return above(limit_ns);
        };
        let highest = u64::from(self.histogram.max() > Some(limit_ns));
        let rounded_ns = limit_ns.saturating_add(limit_ns.div_ceil(part.max(1)));
        above(rounded_ns).max(highest)
    }

    /// The skipped periods of which the peaks say by which wake-up.
    fn by_wake_ups(&self) -> u64 {
        self.peaks.samples().iter().map(|it| it.skipped).sum()
    }

    /// The misses of `limit_ns` that the peaks hold.
    fn events(&self, limit_ns: u64, count_skipped: bool) -> impl Iterator<Item = MissEvent> {
        // A record may say how many periods were skipped, and not by which wake-up. What no wake-up skipped
        // is in none.
        let skips = self.peaks.skips();
        let skips_known = self.missed == 0
            || self.skipped != Skipped::ByWakeUps
            || !skips.is_empty()
            || self.peaks.samples().iter().any(|p| p.skipped > 0);
        let of_wake_ups = self.peaks.samples().iter().map(move |peak| {
            let skipped = match self.interval_ns {
                _ if !count_skipped => 0,
                Some(interval_ns) if !skips_known => peak.latency_ns / interval_ns.max(1),
                _ => peak.skipped,
            };
            let misses = misses_of(peak.latency_ns, skipped, self.interval_ns, limit_ns);
            (peak.asked_ns, peak.latency_ns, misses, self.interval_ns)
        });
        let of_skips = skips
            .iter()
            .filter(move |_| count_skipped)
            .map(move |skip| {
                let misses = skip.later(limit_ns).1;
                (skip.at_ns, skip.most_ns, misses, Some(skip.period_ns))
            });
        of_wake_ups
            .chain(of_skips)
            .filter(|(_, _, misses, _)| *misses > 0)
            .map(move |(at_ns, late_ns, misses, interval_ns)| {
                let weight = misses as f64;
                let interval_ns = interval_ns.filter(|interval_ns| *interval_ns > 0);
                let beyond_ns = late_ns.saturating_sub(limit_ns) as f64;
                MissEvent {
                    at_ns,
                    until_ns: at_ns.saturating_add(late_ns),
                    weight,
                    beyond: interval_ns
                        .map_or(weight, |interval_ns| beyond_ns / interval_ns as f64),
                }
            })
    }
}

/// One of the runs that a sum was made of.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct RunPart {
    /// Where it begins on the clock of the sum.
    pub start_ns: u64,
    /// Its wake-ups that are known to have been, and of which nothing else is known.
    pub unseen: u64,
}

/// One half of a run, to see whether it changed under way.
#[derive(Clone, Debug)]
pub struct HalfEvidence<'a> {
    /// The latencies of all threads in this half.
    pub histogram: &'a Histogram,
    /// Late samples, and skipped periods that miss, of all threads in this half.
    pub misses: u64,
}

/// The evidence of a run.
#[derive(Clone, Debug)]
pub struct RunEvidence<'a> {
    /// One entry for each measuring thread.
    pub threads: Vec<ThreadEvidence<'a>>,
    /// Duration of the measurement in ns.
    pub duration_ns: u64,
    /// The runs that this is the sum of, in order of time: nothing extends from one into the next. None of a
    /// single run.
    pub parts: Vec<RunPart>,
    /// The deadline that the collector counted `late` for.
    pub deadline_ns: Option<u64>,
    /// Whole seconds of the run.
    pub seconds: u64,
    /// Seconds with a miss on any thread.
    pub seconds_with_miss: u64,
    /// The misses of the deadline by rows of time, where they were kept.
    pub rows: Option<MissRows>,
    /// The two halves of the run, when the collector kept them.
    pub halves: Option<[HalfEvidence<'a>; 2]>,
}

impl RunEvidence<'_> {
    /// Samples of all threads.
    pub fn samples(&self) -> u64 {
        self.threads.iter().map(|t| t.histogram.count()).sum()
    }

    /// Skipped periods of all threads.
    pub fn missed(&self) -> u64 {
        self.threads.iter().map(|t| t.missed).sum()
    }

    /// Samples and skipped periods of all threads.
    pub fn cycles(&self) -> u64 {
        self.threads.iter().map(ThreadEvidence::cycles).sum()
    }

    /// Samples that were lost on their way to the collector.
    pub fn lost(&self) -> u64 {
        self.threads.iter().map(|t| t.lost).sum()
    }

    /// Wake-ups that are known to have been, and of which nothing else is known.
    pub fn unseen(&self) -> u64 {
        self.threads.iter().map(|t| t.unseen).sum()
    }

    /// Those of them that may have been later than `limit_ns`.
    pub fn perhaps_late(&self, limit_ns: u64) -> u64 {
        let may_be = |t: &&ThreadEvidence<'_>| t.unseen_most_ns.is_none_or(|it| it > limit_ns);
        let threads = self.threads.iter().filter(may_be);
        threads.map(|t| t.unseen).sum()
    }

    /// Exact maximum of all threads in ns, `None` without samples.
    pub fn max_ns(&self) -> Option<u64> {
        self.threads.iter().filter_map(|t| t.histogram.max()).max()
    }

    /// How late the latest cycle was in ns: a wake-up, or a skipped period of a watched thread.
    pub fn worst_ns(&self) -> Option<u64> {
        let skips = self.threads.iter().flat_map(|t| t.peaks.skips().iter());
        skips.map(|skip| skip.most_ns).chain(self.max_ns()).max()
    }

    /// The peaks of all threads under their common threshold.
    pub fn peaks(&self) -> Peaks {
        Peaks::merged(self.threads.iter().map(|t| t.peaks))
    }

    /// Samples later than `limit_ns`: fewest and most that agree with what was
    /// kept. They are equal for the deadline that the collector counted and
    /// wherever the peaks are complete.
    pub fn late(&self, limit_ns: u64) -> (u64, u64) {
        let counted = self.deadline_ns == Some(limit_ns);
        self.threads
            .iter()
            .map(|thread| {
                let exact = if counted {
                    Some(thread.late)
                } else {
                    thread.peaks.count_above(limit_ns)
                };
                exact.map_or_else(
                    || {
                        (
                            thread.surely_above(limit_ns),
                            thread.histogram.count_above(limit_ns),
                        )
                    },
                    |late| (late, late),
                )
            })
            .fold((0, 0), |(low, high), (l, h)| (low + l, high + h))
    }

    /// Skipped periods that miss `limit_ns`: fewest and most that agree with what was kept.
    /// They are equal for the deadline that the collector counted, where the limit is not above
    /// the interval, and where it is kept how late each of them was.
    pub fn missed_late(&self, limit_ns: u64) -> (u64, u64) {
        let of = |thread: &ThreadEvidence<'_>| {
            let skips = thread.peaks.skips();
            let within = thread
                .interval_ns
                .is_some_and(|interval_ns| limit_ns <= interval_ns);
            match self.deadline_ns {
                _ if thread.skipped == Skipped::Never => (thread.missed, thread.missed),
                Some(deadline_ns) if limit_ns == deadline_ns => {
                    (thread.missed_late, thread.missed_late)
                }
                Some(deadline_ns)
                    if thread.skipped == Skipped::Undone && limit_ns > deadline_ns =>
                {
                    (thread.missed_late, thread.missed)
                }
                _ if thread.missed > 0 && skips.count() == thread.missed => skips.later(limit_ns),
                _ if thread.missed > 0 && thread.by_wake_ups() == thread.missed => {
                    let of = |it: &Peak| {
                        skipped_misses(it.latency_ns, it.skipped, thread.interval_ns, limit_ns)
                    };
                    let misses = thread.peaks.samples().iter().map(of).sum();
                    // Without one interval that is the most.
                    (thread.interval_ns.map_or(0, |_| misses), misses)
                }
                _ if within => (thread.missed, thread.missed),
                _ if thread.skipped == Skipped::ByWakeUps
                    && thread.histogram.max().is_none_or(|max| max <= limit_ns) =>
                {
                    (0, 0)
                }
                Some(deadline_ns) if limit_ns < deadline_ns => (thread.missed_late, thread.missed),
                Some(_) => (0, thread.missed_late),
                None => (0, thread.missed),
            }
        };
        let each = self.threads.iter().map(of);
        each.fold((0, 0), |(low, high), (l, h)| (low + l, high + h))
    }

    /// The evidence on misses of `limit_ns`.
    ///
    /// `peaks` are those of [`RunEvidence::peaks`]; `late` is a count out of
    /// [`RunEvidence::late`]; `missed` is one out of [`RunEvidence::missed_late`],
    /// or `None` where a skipped period is no cycle.
    pub fn misses<'p>(
        &self,
        limit_ns: u64,
        late: u64,
        missed: Option<u64>,
        peaks: &'p Peaks,
    ) -> MissEvidence<'p> {
        let counted = self.deadline_ns == Some(limit_ns) && missed.is_some();
        let unplaced = self.threads.iter().filter(|thread| {
            let placed = thread.skipped == Skipped::ByWakeUps;
            !placed && thread.peaks.skips().count() < thread.missed
        });
        let unplaced: u64 = unplaced.map(|thread| thread.missed).sum();
        let mut events: Vec<MissEvent> = self
            .threads
            .iter()
            .flat_map(|thread| thread.events(limit_ns, missed.is_some()))
            .collect();
        events.sort_by_key(|event| event.at_ns);
        let total = late.saturating_add(missed.unwrap_or(0)) as f64;
        let mut known: f64 = events.iter().map(|event| event.weight).sum();
        // What is taken in proportion is not known one by one.
        let exact = known <= total + 0.5;
        if known > total {
            // The wake-ups that skipped periods are not known: in proportion.
            let scale = total / known;
            for event in &mut events {
                event.weight *= scale;
                event.beyond *= scale;
            }
            events.retain(|event| event.weight > 0.0);
            known = total;
        }
        let few_kept = self
            .threads
            .iter()
            .any(|thread| thread.rounded_up.is_some());
        // Those of one limit are among those of a lower one: as many are the same.
        let rows = self.rows.as_ref().filter(|rows| {
            let sum: u64 = rows.misses.iter().fold(0, |sum, n| sum.saturating_add(*n));
            missed.is_some() && sum as f64 == total
        });
        MissEvidence {
            limit_ns,
            interval_ns: self.threads.iter().filter_map(|t| t.interval_ns).min(),
            cycles: if missed.is_some() {
                self.cycles()
            } else {
                self.samples() + self.unseen()
            },
            late,
            missed: missed.unwrap_or(0),
            unseen: self.perhaps_late(limit_ns),
            samples: self.samples(),
            parts: self.parts.clone(),
            events,
            few_kept: few_kept.then(|| self.rows.as_ref().map_or(0, |rows| rows.misses.len())),
            events_complete: exact && known + 0.5 >= total,
            rows: rows.cloned(),
            unplaced: unplaced.min(missed.unwrap_or(0)),
            peaks,
            duration_ns: self.duration_ns,
            seconds: self.seconds,
            seconds_with_miss: counted.then_some(self.seconds_with_miss),
        }
    }
}
