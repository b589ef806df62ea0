//! Cycles that went unseen.
//!
//! Each of them may have missed, and when they were is not known. So the upper bound is the one that the
//! evidence would have had if all of them had been seen to miss, in one burst with the heaviest that was
//! seen: no other places of theirs make the misses come in larger bursts. How long stalls last they don't
//! say.

use super::{MissEvent, MissEvidence};

impl MissEvidence<'_> {
    /// The evidence, had what went unseen been seen to miss.
    pub(super) fn all_missed(&self) -> Self {
        let mut all = self.clone();
        let unseen = std::mem::take(&mut all.unseen);
        all.late = all.late.saturating_add(unseen);
        let heaviest = all.events.iter_mut();
        let heaviest = heaviest.max_by(|a, b| a.weight.total_cmp(&b.weight));
        match heaviest {
            Some(event) => event.weight += unseen as f64,
            None => all.events.push(MissEvent {
                at_ns: 0,
                until_ns: 0,
                weight: unseen as f64,
                beyond: 0.0,
            }),
        }
        let rows = all.rows.iter_mut().flat_map(|rows| &mut rows.misses);
        if let Some(row) = rows.max() {
            *row = row.saturating_add(unseen);
        }
        all
    }

    /// The upper bound that what went unseen leads to by itself: a longer run, of which as large a share goes
    /// unseen, has no lower one.
    pub(crate) fn unseen_upper(&self, confidence: f64) -> f64 {
        if self.unseen == 0 {
            return 0.0;
        }
        let alone = Self {
            late: 0,
            missed: 0,
            events: Vec::new(),
            events_complete: true,
            ..self.clone()
        };
        alone.bound(confidence).upper
    }
}
