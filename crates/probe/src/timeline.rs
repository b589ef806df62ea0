//! What happened when: rows of equal width, in constant memory however long the
//! run, and the exact seconds in which a deadline was missed.

use punctual_stats::histogram::Extremes;

use punctual_record::{Timeline, TimelineRow};

/// Width of a row at the start of a run: 100 ms.
const FIRST_ROW_NS: u64 = 100_000_000;
const SECOND_NS: u64 = 1_000_000_000;
/// Seconds that are distinguished: 34 years. Later ones count as the last.
const MAX_SECONDS: u64 = 1 << 30;

/// The timeline of one thread, in progress. Times count from the start of the run.
#[derive(Debug, Clone)]
pub struct Rows {
    row_ns: u64,
    rows: Vec<TimelineRow>,
    /// The greatest number of rows.
    most: usize,
    /// One bit for each second that contains a miss.
    missed_seconds: Vec<u64>,
}

impl Default for Rows {
    fn default() -> Self {
        Self::within(Timeline::ROWS)
    }
}

impl Rows {
    /// A timeline with at most this many rows.
    #[must_use]
    pub fn within(most: usize) -> Self {
        Self {
            row_ns: FIRST_ROW_NS,
            rows: Vec::with_capacity(most),
            most,
            missed_seconds: Vec::new(),
        }
    }

    /// Its rows, and the length of a row.
    #[must_use]
    pub fn rows(&self) -> (u64, &[TimelineRow]) {
        (self.row_ns, &self.rows)
    }

    /// Extends the rows to `at_ns`, and returns when its row ends.
    pub fn reach(&mut self, at_ns: u64) -> u64 {
        while at_ns / self.row_ns >= self.most as u64 {
            self.fold();
        }
        let row = (at_ns / self.row_ns) as usize;
        if self.rows.len() <= row {
            self.rows.resize(row + 1, TimelineRow::default());
        }
        (row as u64 + 1) * self.row_ns
    }

    /// The last row; [`Rows::reach`] must have been called.
    #[inline]
    pub fn last(&mut self) -> Option<&mut TimelineRow> {
        self.rows.last_mut()
    }

    /// The row of an instant; the last one, if it is later.
    pub fn at(&mut self, at_ns: u64) -> Option<&mut TimelineRow> {
        let last = self.rows.len().checked_sub(1)?;
        self.rows.get_mut(last.min((at_ns / self.row_ns) as usize))
    }

    /// Adds samples to the last row.
    #[inline]
    pub fn add(&mut self, count: u64, sum_ns: u64, extremes: Extremes) {
        if count == 0 {
            return;
        }
        if let Some(row) = self.rows.last_mut() {
            row.add(count, sum_ns, (extremes.min_ns, extremes.max_ns));
        }
    }

    /// Notes that the seconds from one instant to another contained a miss.
    pub fn note_miss(&mut self, from_ns: u64, to_ns: u64) {
        let first = (from_ns / SECOND_NS).min(MAX_SECONDS);
        let last = (to_ns / SECOND_NS).clamp(first, MAX_SECONDS);
        let words = (last / 64 + 1) as usize;
        if self.missed_seconds.len() < words {
            self.missed_seconds.resize(words, 0);
        }
        for second in first..=last {
            self.missed_seconds[(second / 64) as usize] |= 1 << (second % 64);
        }
    }

    fn fold(&mut self) {
        fold_pairs(&mut self.rows);
        self.row_ns *= 2;
    }
}

/// Joins neighbouring rows in pairs.
fn fold_pairs(rows: &mut Vec<TimelineRow>) {
    let halved = rows
        .chunks(2)
        .map(|pair| {
            let mut joined = pair[0];
            if let Some(second) = pair.get(1) {
                join(&mut joined, second);
            }
            joined
        })
        .collect();
    *rows = halved;
}

fn join(row: &mut TimelineRow, other: &TimelineRow) {
    row.min_ns = match (row.count, other.count) {
        (0, _) => other.min_ns,
        (_, 0) => row.min_ns,
        _ => row.min_ns.min(other.min_ns),
    };
    row.count += other.count;
    row.sum_ns = row.sum_ns.saturating_add(other.sum_ns);
    row.max_ns = row.max_ns.max(other.max_ns);
    row.late += other.late;
    row.missed += other.missed;
    row.misses += other.misses;
}

/// The number of seconds of a run, and of those that contain a miss.
///
/// A run of 10 s measures from its first to its last instant, a little less or more than
/// 10 s: it has 10 seconds. So the last second consists of the rest of the run, half a second
/// to one and a half, and includes the misses that ended after it.
fn count_seconds(missed: &[u64], measured_ns: u64) -> (u64, u64) {
    let any = missed.iter().any(|word| *word != 0);
    let rounded = measured_ns.saturating_add(SECOND_NS / 2) / SECOND_NS;
    let seconds = rounded.max(u64::from(any || measured_ns > 0));
    let mut beyond = false;
    let mut with_miss = 0;
    for (index, word) in (0u64..).zip(missed) {
        // Bits of this word from the last second on.
        let last = seconds.saturating_sub(1).saturating_sub(index * 64);
        let before = if last >= 64 { !0 } else { (1u64 << last) - 1 };
        with_miss += u64::from((word & before).count_ones());
        beyond |= word & !before != 0;
    }
    (seconds, with_miss + u64::from(beyond))
}

/// Merges the timelines of all threads. `measured_ns` determines how many
/// seconds there were.
#[must_use]
pub fn merged<'a>(threads: impl IntoIterator<Item = &'a Rows>, measured_ns: u64) -> Timeline {
    let threads: Vec<&Rows> = threads.into_iter().collect();
    let row_ns = threads
        .iter()
        .map(|rows| rows.row_ns)
        .max()
        .unwrap_or(FIRST_ROW_NS);
    let mut rows: Vec<TimelineRow> = Vec::new();
    let mut missed: Vec<u64> = Vec::new();
    for thread in threads {
        let mut own = thread.rows.clone();
        let mut width = thread.row_ns;
        while width < row_ns {
            fold_pairs(&mut own);
            width *= 2;
        }
        if rows.len() < own.len() {
            rows.resize(own.len(), TimelineRow::default());
        }
        for (row, other) in rows.iter_mut().zip(&own) {
            join(row, other);
        }
        if missed.len() < thread.missed_seconds.len() {
            missed.resize(thread.missed_seconds.len(), 0);
        }
        for (word, other) in missed.iter_mut().zip(&thread.missed_seconds) {
            *word |= other;
        }
    }
    let (seconds, seconds_with_miss) = count_seconds(&missed, measured_ns);
    Timeline {
        row_ns,
        rows,
        seconds,
        seconds_with_miss,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn add(rows: &mut Rows, at_ns: u64, latency_ns: u64) {
        rows.reach(at_ns);
        let row = rows.last().unwrap();
        join(
            row,
            &TimelineRow {
                count: 1,
                min_ns: latency_ns,
                sum_ns: latency_ns,
                max_ns: latency_ns,
                ..TimelineRow::default()
            },
        );
    }

    #[test]
    fn a_long_run_stays_within_its_rows_and_loses_no_sample() {
        let mut rows = Rows::default();
        for second in 0..100_000 {
            add(&mut rows, second * SECOND_NS, second);
        }
        let timeline = merged([&rows], 100_000 * SECOND_NS);
        assert!(timeline.rows.len() <= Timeline::ROWS);
        assert!(timeline.rows.len() > Timeline::ROWS / 2);
        assert_eq!(
            timeline.rows.iter().map(|row| row.count).sum::<u64>(),
            100_000
        );
        assert_eq!(
            timeline.rows.iter().map(|row| row.sum_ns).sum::<u64>(),
            99_999 * 50_000
        );
        assert_eq!(
            timeline.rows.iter().map(|row| row.max_ns).max(),
            Some(99_999)
        );
        assert_eq!(timeline.rows[0].min_ns, 0);
        assert_eq!(timeline.seconds, 100_000);
    }

    #[test]
    fn a_gap_leaves_empty_rows_in_their_place() {
        let mut rows = Rows::default();
        add(&mut rows, 0, 5);
        add(&mut rows, 3 * FIRST_ROW_NS, 7);
        let counts: Vec<u64> = merged([&rows], 0)
            .rows
            .iter()
            .map(|row| row.count)
            .collect();
        assert_eq!(counts, [1, 0, 0, 1]);
    }

    #[test]
    fn timelines_of_different_row_width_are_merged() {
        let (mut short, mut long) = (Rows::default(), Rows::default());
        add(&mut short, 0, 1);
        add(&mut long, 0, 2);
        add(&mut long, Timeline::ROWS as u64 * FIRST_ROW_NS, 3);
        let timeline = merged([&short, &long], 0);
        assert_eq!(timeline.row_ns, 2 * FIRST_ROW_NS);
        assert_eq!(timeline.rows[0].count, 2);
        assert_eq!((timeline.rows[0].min_ns, timeline.rows[0].max_ns), (1, 2));
    }

    #[test]
    fn a_second_with_a_miss_on_two_threads_counts_once() {
        let (mut one, mut two) = (Rows::default(), Rows::default());
        one.note_miss(0, 1);
        one.note_miss(5 * SECOND_NS, 7 * SECOND_NS);
        two.note_miss(7 * SECOND_NS + 1, 7 * SECOND_NS + 2);
        let timeline = merged([&one, &two], 10 * SECOND_NS);
        assert_eq!((timeline.seconds, timeline.seconds_with_miss), (10, 4));
    }

    #[test]
    fn a_run_of_ten_seconds_has_ten() {
        let counted = |measured_ns, misses: &[(u64, u64)]| {
            let mut rows = Rows::default();
            for &(from_ns, to_ns) in misses {
                rows.note_miss(from_ns, to_ns);
            }
            let timeline = merged([&rows], measured_ns);
            (timeline.seconds, timeline.seconds_with_miss)
        };
        // From the first to the last instant it is a little less or more.
        assert_eq!(counted(9_999_537_000, &[]), (10, 0));
        assert_eq!(counted(10_000_400_000, &[]), (10, 0));
        // A miss that ends after the last second belongs to it.
        let last = (9_999_000_000, 10_001_000_000);
        assert_eq!(counted(9_999_537_000, &[last]), (10, 1));
        assert_eq!(counted(9_999_537_000, &[(0, 30 * SECOND_NS)]), (10, 10));
        let late = (64 * SECOND_NS, 64 * SECOND_NS + 5);
        assert_eq!(counted(64 * SECOND_NS, &[(0, 1), late]), (64, 2));
        assert_eq!(counted(63 * SECOND_NS, &[(0, 1), late]), (63, 2));
        assert_eq!(counted(65 * SECOND_NS, &[(0, 1), late]), (65, 2));
        assert_eq!(counted(20_000_000, &[(0, 1)]), (1, 1));
        assert_eq!(counted(0, &[]), (0, 0));
    }
}
