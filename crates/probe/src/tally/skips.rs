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
