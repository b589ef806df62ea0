//! Periods that a watched thread skipped: they are reported apart from its wake-ups.

use punctual_stats::skips::Skip;

use super::Tally;

impl Tally {
    /// Counts skipped periods, and returns whether they count: those before the start do not.
    /// Those later than the deadline miss it.
    pub fn skip(&mut self, skip: &Skip) -> bool {
        if skip.at_ns < self.start_ns {
            return false;
        }
        let (late, _) = skip.later(self.deadline_ns);
        self.missed += skip.count;
        self.missed_late += late;
        self.cycle += skip.count;
        self.part_misses[self.part] += late;
        // It is found later, when its thread comes.
        if let Some(row) = self.rows.at(skip.at_ns - self.start_ns) {
            row.missed += skip.count;
            row.misses += late;
        }
        if late > 0 {
            let from_ns = skip.at_ns - self.start_ns;
            self.rows
                .note_miss(from_ns, from_ns.saturating_add(skip.most_ns));
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cycle::Sample;
    use crate::tally::Halves;

    #[test]
    fn skipped_periods_are_in_the_row_of_their_instant() {
        let mut tally = Tally::new(0, 100_000, Halves::At(u64::MAX), 16);
        let on_time = |requested_ns| Sample {
            requested_ns,
            late_ns: 5_000,
            missed: 0,
        };
        tally.record_all(&[on_time(0), on_time(950_000_000)]);
        // Found when a later period is known to be on the grid, or at the end.
        for at_ns in [250_000_000, 2_000_000_000] {
            assert!(tally.skip(&Skip {
                at_ns,
                count: 3,
                most_ns: 3_000_000,
                least_ns: 1_000_000,
                period_ns: 1_000_000,
                longest_period_ns: 0,
                joined: false,
            }));
        }
        let (_, rows) = tally.rows().rows();
        let misses: Vec<u64> = rows.iter().map(|row| row.misses).collect();
        assert_eq!(misses, [0, 0, 3, 0, 0, 0, 0, 0, 0, 3]);
    }
}
