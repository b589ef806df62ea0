//! What the collector keeps of one probe thread, in constant memory: every
//! sample counted, the exact maximum, the highest ones complete.

mod skips;

use punctual_stats::histogram::{Batch, Extremes, Histogram};
use punctual_stats::miss::definition::skipped_misses;
use punctual_stats::peaks::{Peak, Peaks};

use super::cycle::Sample;
use super::timeline::Rows;

/// How a run is divided into two halves.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Halves {
    /// The run's length is known: the second half begins after this many ns.
    At(u64),
    /// It isn't: a first part of this many ns is followed by at most as much again, and
    /// is doubled whenever that is full.
    Doubling(u64),
}

/// The lowest and highest of usual latencies, which change only a count, a sum and these:
/// no peak, no miss, no skipped period, not early. All of them are below 2^32, so they are exact as
/// floating-point numbers.
#[derive(Clone, Copy)]
struct Span {
    low_ns: f64,
    high_ns: f64,
}

impl Span {
    const EMPTY: Self = Self {
        low_ns: f64::INFINITY,
        high_ns: 0.0,
    };

    /// One comparison for each end; `f64::min` and `max` would also check for NaN.
    #[inline]
    fn with(self, ns: f64) -> Self {
        Self {
            low_ns: if self.low_ns < ns { self.low_ns } else { ns },
            high_ns: if self.high_ns > ns { self.high_ns } else { ns },
        }
    }

    #[inline]
    fn is_usual(self, ordinary_ns: f64) -> bool {
        self.low_ns >= f64::from(Batch::USUAL_FROM_NS) && self.high_ns <= ordinary_ns
    }

    #[inline]
    fn include_in(self, extremes: &mut Extremes) {
        if self.low_ns <= self.high_ns {
            extremes.include(self.low_ns as u64);
            extremes.include(self.high_ns as u64);
        }
    }
}

/// Samples that are counted in one batch.
const NOTED: usize = 256;
/// Samples that are compared before any of them is counted.
const AT_ONCE: usize = 4;

/// The figures of one thread.
#[derive(Debug, Clone)]
pub struct Tally {
    start_ns: u64,
    deadline_ns: u64,
    halves: Halves,
    /// Latencies before and after the split.
    parts: [Histogram; 2],
    /// Misses before and after the split.
    part_misses: [u64; 2],
    part: usize,
    /// The next instant at which a row or a half ends.
    boundary_ns: u64,
    /// A latency above this is more than a figure: a peak, a miss, a skipped period, or an
    /// early wake-up, which is negative and so, as unsigned, above everything.
    ordinary_ns: u64,
    /// For the current row, as far as it is in one half.
    extremes: Extremes,
    shortest_interval_ns: u64,
    /// The nominal interval, if there is one.
    interval_ns: Option<u64>,
    peaks: Peaks,
    rows: Rows,
    /// Wake-ups later than the deadline.
    pub late: u64,
    /// Periods that were skipped because the thread was late.
    pub missed: u64,
    /// Those of them that missed the deadline: [`skipped_misses`].
    pub missed_late: u64,
    /// Wake-ups before they were due.
    pub early: u64,
    /// Samples before the start.
    pub warm_up: u64,
    /// Latency of the last sample.
    pub last_latency_ns: u64,
    /// The last requested instant.
    pub last_requested_ns: u64,
    cycle: u64,
}

impl Tally {
    /// When it begins: earlier samples are not counted.
    #[must_use]
    pub fn start_ns(&self) -> u64 {
        self.start_ns
    }

    /// A tally of samples that were due at or after `start_ns`; `deadline_ns` is
    /// `u64::MAX` if there is none. `peaks` is the number of highest samples that are kept.
    #[must_use]
    pub fn new(start_ns: u64, deadline_ns: u64, halves: Halves, peaks: usize) -> Self {
        Self {
            start_ns,
            deadline_ns,
            halves,
            parts: [Histogram::allocated(), Histogram::allocated()],
            part_misses: [0; 2],
            part: 0,
            boundary_ns: start_ns,
            ordinary_ns: 0,
            extremes: Extremes::default(),
            shortest_interval_ns: 1,
            interval_ns: None,
            peaks: Peaks::with_capacity(peaks),
            rows: Rows::default(),
            late: 0,
            missed: 0,
            missed_late: 0,
            early: 0,
            warm_up: 0,
            last_latency_ns: 0,
            last_requested_ns: start_ns,
            cycle: 0,
        }
    }

    /// A wake-up later than this is late; [`u64::MAX`] where none is.
    #[must_use]
    pub fn deadline_ns(&self) -> u64 {
        self.deadline_ns
    }

    /// Sets the length of the shortest interval: only a wake-up that is this late can have
    /// skipped a period, so others are not checked.
    #[must_use]
    pub fn with_shortest_interval(mut self, interval_ns: u64) -> Self {
        self.shortest_interval_ns = interval_ns.max(1);
        self
    }

    /// Sets the length of the nominal interval: it decides which skipped periods miss the deadline.
    #[must_use]
    pub fn with_interval(mut self, interval_ns: u64) -> Self {
        self.interval_ns = Some(interval_ns.max(1));
        self
    }

    /// Moves the start to another instant, before anything was measured.
    pub fn start_at(&mut self, start_ns: u64) {
        self.start_ns = start_ns;
        self.boundary_ns = start_ns;
        self.last_requested_ns = start_ns;
    }

    /// Counts samples in the order of their instants. A few tens of instructions
    /// each; the only allocation is a row of the timeline now and then, in memory that is
    /// reserved already.
    ///
    /// What holds for a stretch of samples as a whole is not checked for each of them: they
    /// are split where a row or a half ends, and one comparison shows which of them are
    /// more than a figure.
    #[inline]
    pub fn record_all(&mut self, samples: &[Sample]) {
        let mut rest = samples;
        while let Some(first) = rest.first() {
            if first.requested_ns < self.start_ns {
                self.warm_up += 1;
                rest = &rest[1..];
                continue;
            }
            if first.requested_ns >= self.boundary_ns {
                self.cross(first.requested_ns - self.start_ns);
            }
            let end = if rest[rest.len() - 1].requested_ns < self.boundary_ns {
                rest.len()
            } else {
                let boundary_ns = self.boundary_ns;
                let within = rest.partition_point(|sample| sample.requested_ns < boundary_ns);
                within.max(1)
            };
            let (row, later) = rest.split_at(end);
            self.record_row(row);
            rest = later;
        }
    }

    /// Counts samples that are in one row and one half.
    fn record_row(&mut self, samples: &[Sample]) {
        let mut rest = samples;
        while let Some(next) = rest.first() {
            let chunk = &rest[..rest.len().min(NOTED)];
            let taken = self.record_chunk(chunk);
            if taken == 0 {
                self.record_long(next);
            }
            rest = &rest[taken.max(1)..];
        }
        if let Some(last) = samples.last() {
            if !last.is_lost() {
                self.last_latency_ns = last.latency_ns();
            }
            self.last_requested_ns = last.requested_ns;
        }
    }

    /// Counts samples up to the first of 4.3 s or more, and returns how many; it
    /// notes which are more than figures, and then examines these.
    #[inline]
    fn record_chunk(&mut self, samples: &[Sample]) -> usize {
        let mut noted = [0u8; NOTED];
        let mut notes = 0;
        let ordinary_ns = self.ordinary_ns;
        let mut span = Span::EMPTY;
        let mut extremes = self.extremes;
        let mut batch = self.parts[self.part].batch();
        let (mut sum_ns, mut usual_sum_ns) = (0u64, 0.0);
        let mut index = 0;
        'samples: while index < samples.len() {
            // Nearly all are usual: several are compared at once.
            let (groups, _) = samples[index..].as_chunks::<AT_ONCE>();
            for group in groups {
                let late_ns = group.map(|sample| sample.late_ns as f64);
                let wider = late_ns.into_iter().fold(span, Span::with);
                if !wider.is_usual(ordinary_ns as f64) {
                    break;
                }
                span = wider;
                for ns in late_ns {
                    batch.add_usual(ns);
                    usual_sum_ns += ns;
                }
                index += AT_ONCE;
            }
            // Up to the one that isn't usual.
            for sample in samples[index..].iter().take(AT_ONCE) {
                let Ok(latency_ns) = u32::try_from(sample.latency_ns()) else {
                    break 'samples;
                };
                batch.add(latency_ns);
                extremes.include(u64::from(latency_ns));
                sum_ns += u64::from(latency_ns);
                index += 1;
                // As unsigned, an early one is above all others.
                if sample.late_ns as u64 > ordinary_ns {
                    noted[notes % NOTED] = (index - 1) as u8;
                    notes += 1;
                    break;
                }
            }
        }
        // Whole numbers far below 2^53: the sum is exact.
        let sum_ns = sum_ns + usual_sum_ns as u64;
        let count = index;
        span.include_in(&mut extremes);
        batch.end(count as u64, sum_ns, extremes);
        self.extremes = extremes;
        self.rows.add(count as u64, sum_ns, extremes);
        let first_cycle = self.cycle;
        let missed = self.missed;
        self.cycle += count as u64;
        for &index in &noted[..notes] {
            let index = usize::from(index);
            let cycle = first_cycle + index as u64 + (self.missed - missed);
            self.note(&samples[index], cycle);
        }
        if notes > 0 {
            self.set_ordinary();
        }
        count
    }

    /// Counts a sample of 4.3 s or more.
    #[cold]
    fn record_long(&mut self, sample: &Sample) {
        if sample.is_lost() {
            self.lose(sample);
            return;
        }
        let latency_ns = sample.latency_ns();
        self.parts[self.part].record(latency_ns);
        self.extremes.include(latency_ns);
        self.rows.add(1, latency_ns, self.extremes);
        self.cycle += 1;
        self.note(sample, self.cycle - 1);
        self.set_ordinary();
    }

    /// Counts what never came, and what was skipped after it: cycles without a latency, which miss
    /// every deadline.
    #[cold]
    fn lose(&mut self, sample: &Sample) {
        let cycles = sample.missed.saturating_add(1);
        self.cycle += cycles;
        self.missed += cycles;
        let misses = if self.deadline_ns == u64::MAX {
            0
        } else {
            cycles
        };
        self.missed_late += misses;
        self.part_misses[self.part] += misses;
        if let Some(row) = self.rows.last() {
            row.missed += cycles;
            row.misses += misses;
        }
        if misses != 0 {
            let at_ns = sample.requested_ns - self.start_ns;
            self.rows.note_miss(at_ns, at_ns);
        }
    }

    fn set_ordinary(&mut self) {
        self.ordinary_ns = self
            .peaks
            .threshold()
            .min(self.deadline_ns)
            .min(self.shortest_interval_ns - 1)
            .min(u64::from(u32::MAX));
    }

    /// Examines a counted sample that is more than a figure.
    fn note(&mut self, sample: &Sample, cycle: u64) {
        let latency_ns = sample.latency_ns();
        let peak = Peak::new(cycle, sample.requested_ns, latency_ns);
        self.peaks.offer(peak.with_skipped(sample.missed));
        self.early += u64::from(sample.late_ns < 0);
        if latency_ns > self.deadline_ns || sample.missed != 0 {
            self.miss(sample, latency_ns);
        }
    }

    #[cold]
    fn miss(&mut self, sample: &Sample, latency_ns: u64) {
        let late = u64::from(latency_ns > self.deadline_ns);
        self.late += late;
        self.missed += sample.missed;
        self.cycle += sample.missed;
        let missed_late = if self.deadline_ns == u64::MAX {
            0
        } else {
            skipped_misses(
                latency_ns,
                sample.missed,
                self.interval_ns,
                self.deadline_ns,
            )
        };
        self.missed_late += missed_late;
        self.part_misses[self.part] += late + missed_late;
        if let Some(row) = self.rows.last() {
            row.late += late;
            row.missed += sample.missed;
            row.misses += late + missed_late;
        }
        if late + missed_late != 0 {
            let from_ns = sample.requested_ns - self.start_ns;
            self.rows
                .note_miss(from_ns, sample.woke_ns().saturating_sub(self.start_ns));
        }
    }

    #[cold]
    fn cross(&mut self, at_ns: u64) {
        self.extremes = Extremes::default();
        let row_end_ns = self.rows.reach(at_ns);
        if let Halves::Doubling(length_ns) = &mut self.halves {
            while at_ns >= length_ns.saturating_mul(2) {
                let [first, second] = &mut self.parts;
                first.merge(second);
                second.clear();
                self.part_misses = [self.part_misses[0] + self.part_misses[1], 0];
                *length_ns = length_ns.saturating_mul(2);
            }
        }
        let (Halves::At(split_ns) | Halves::Doubling(split_ns)) = self.halves;
        self.part = usize::from(at_ns >= split_ns);
        let part_end_ns = match (self.part, self.halves) {
            (0, _) => split_ns,
            (_, Halves::At(_)) => u64::MAX,
            (_, Halves::Doubling(_)) => split_ns.saturating_mul(2),
        };
        self.boundary_ns = self.start_ns.saturating_add(row_end_ns.min(part_end_ns));
    }

    /// Every latency.
    #[must_use]
    pub fn latency(&self) -> Histogram {
        Histogram::merged(&self.parts)
    }

    /// Latencies before and after the split.
    #[must_use]
    pub fn parts(&self) -> &[Histogram; 2] {
        &self.parts
    }

    /// Misses before and after the split.
    #[must_use]
    pub fn part_misses(&self) -> [u64; 2] {
        self.part_misses
    }

    /// The highest samples.
    #[must_use]
    pub fn peaks(&self) -> &Peaks {
        &self.peaks
    }

    /// What happened when.
    #[must_use]
    pub fn rows(&self) -> &Rows {
        &self.rows
    }

    /// Samples so far.
    #[must_use]
    pub fn count(&self) -> u64 {
        self.parts.iter().map(Histogram::count).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::timeline;

    fn tally(deadline_ns: u64, halves: Halves) -> Tally {
        Tally::new(1_000_000, deadline_ns, halves, 16)
    }

    fn sample(period: u64, latency_ns: u64, missed: u64) -> Sample {
        let requested_ns = 1_000_000 + period * 1_000_000;
        Sample {
            requested_ns,
            late_ns: latency_ns as i64,
            missed,
        }
    }

    #[test]
    fn every_sample_counts_once_and_warm_up_not_at_all() {
        let mut tally = tally(100_000, Halves::At(2_000_000));
        tally.record_all(&[
            Sample {
                requested_ns: 999_999,
                late_ns: 8_000_001,
                missed: 7,
            },
            sample(0, 50_000, 0),
            sample(1, 100_000, 0),
            sample(2, 100_001, 0),
            sample(3, 20_000, 0),
        ]);
        assert_eq!(
            (tally.warm_up, tally.count(), tally.late, tally.missed),
            (1, 4, 1, 0)
        );
        assert_eq!(tally.parts()[0].count(), 2);
        assert_eq!(tally.parts()[1].count(), 2);
        assert_eq!(tally.part_misses(), [0, 1]);
        assert_eq!(tally.latency().max(), Some(100_001));
        assert_eq!(tally.latency().min(), Some(20_000));
    }

    #[test]
    fn one_stall_is_one_late_wake_up_and_its_skipped_periods_mark_their_seconds() {
        let mut tally = tally(100_000, Halves::At(u64::MAX));
        tally.record_all(&[sample(0, 3_000_000_000, 3_000), sample(3_001, 1_000, 0)]);
        assert_eq!((tally.count(), tally.late, tally.missed), (2, 1, 3_000));
        let timeline = timeline::merged([tally.rows()], 5_000_000_000);
        assert_eq!((timeline.seconds, timeline.seconds_with_miss), (5, 4));
        let peaks = tally.peaks().in_order();
        assert_eq!(peaks[0].latency_ns, 3_000_000_000);
        assert_eq!(peaks[1].cycle, 3_001, "skipped periods are cycles");
    }

    #[test]
    fn what_never_came_is_a_miss_without_a_latency() {
        let lost = |period: u64| Sample::lost(1_000_000 + period * 1_000_000, 0);
        let samples = [
            sample(0, 5_000, 0),
            lost(1),
            lost(2),
            sample(3, 6_000, 2),
            lost(2_500),
        ];
        for length in [1, 5] {
            let mut tally = tally(10_000_000, Halves::At(1_000_000_000)).with_interval(u64::MAX);
            samples.chunks(length).for_each(|it| tally.record_all(it));
            assert_eq!((tally.count(), tally.late, tally.early), (2, 0, 0));
            assert_eq!((tally.missed, tally.missed_late), (5, 5));
            assert_eq!(tally.part_misses(), [4, 1]);
            assert_eq!(tally.latency().max(), Some(6_000));
            assert_eq!(tally.last_latency_ns, 6_000);
            let timeline = timeline::merged([tally.rows()], 3_000_000_000);
            assert_eq!((timeline.seconds, timeline.seconds_with_miss), (3, 2));
        }
    }

    #[test]
    fn an_early_wake_up_is_not_counted_as_a_huge_latency() {
        let mut tally = tally(u64::MAX, Halves::At(u64::MAX));
        tally.record_all(&[Sample {
            requested_ns: 2_000_000,
            late_ns: -1,
            missed: 0,
        }]);
        assert_eq!((tally.early, tally.latency().max()), (1, Some(0)));
    }

    #[test]
    fn a_run_of_unknown_length_keeps_two_parts_of_similar_length() {
        let mut tally = tally(u64::MAX, Halves::Doubling(1_000_000));
        for period in 0..1_000 {
            tally.record_all(&[sample(period, 1_000 + period, 0)]);
        }
        let [first, second] = tally.parts();
        assert_eq!((first.count(), second.count()), (512, 488));
        assert_eq!((first.max(), second.min()), (Some(1_511), Some(1_512)));
    }

    #[test]
    fn the_figures_do_not_depend_on_how_samples_are_batched() {
        // Every kind of sample, over rows, halves and a threshold that rises.
        let samples: Vec<Sample> = (0..5_000)
            .map(|period| {
                let mut taken = sample(period, 1_000 + (period * 7_919) % 60_000, 0);
                match period % 997 {
                    3 => taken.late_ns = -1,
                    5 => taken.late_ns = 100_001,
                    7 => taken.missed = 2,
                    9 => taken.late_ns = 5_000_000_000,
                    _ => {}
                }
                taken
            })
            .collect();
        let by = |length: usize| {
            let mut tally = tally(100_000, Halves::Doubling(1_000_000));
            samples
                .chunks(length)
                .for_each(|batch| tally.record_all(batch));
            tally
        };
        let one = by(1);
        assert_eq!((one.early, one.late, one.missed), (6, 12, 12));
        assert_eq!(one.count(), 5_000);
        let sum: u64 = samples.iter().map(Sample::latency_ns).sum();
        assert_eq!(one.latency().sum(), u128::from(sum));
        for length in [2, 3, 64, 1_000, 5_000] {
            let other = by(length);
            assert_eq!(other.parts(), one.parts());
            assert_eq!(other.part_misses(), one.part_misses());
            assert_eq!(other.peaks(), one.peaks());
            assert_eq!(
                (other.early, other.late, other.missed, other.cycle),
                (one.early, one.late, one.missed, one.cycle)
            );
            assert_eq!(
                (other.last_latency_ns, other.last_requested_ns),
                (one.last_latency_ns, one.last_requested_ns)
            );
            assert_eq!(
                timeline::merged([other.rows()], 5_000_000_000),
                timeline::merged([one.rows()], 5_000_000_000)
            );
        }
    }

    #[test]
    fn a_skipped_period_is_found_although_only_late_samples_are_checked() {
        let samples = [
            sample(0, 5_000, 0),
            sample(1, 999_999, 0),
            sample(2, 1_000_000, 1),
            sample(4, 7_000, 0),
        ];
        let mut tally = tally(u64::MAX, Halves::At(u64::MAX)).with_shortest_interval(1_000_000);
        samples
            .iter()
            .for_each(|sample| tally.record_all(std::slice::from_ref(sample)));
        assert_eq!((tally.count(), tally.missed, tally.cycle), (4, 1, 5));
    }
}
