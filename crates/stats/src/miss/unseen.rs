//! Cycles that went unseen.
//!
//! Each of them may have missed, and when they were is not known. So the upper bound is the one that the
//! evidence would have had if all of them had been seen to miss, those of a run in one burst with the heaviest
//! that was seen of it: that makes the largest burst. How long stalls last they don't say.

use std::cmp::Reverse;

use super::bursts::run_of;
use super::{Episodes, MissEvent, MissEvidence};

impl MissEvidence<'_> {
    /// What went unseen as few bursts: of each run one, with an instant of the run, and how many it has.
    pub(super) fn unseen_bursts(&self) -> Vec<(u64, u64)> {
        let mut left = self.unseen;
        let mut parts = self.parts.clone();
        // Some of a run may have been in time for this limit: how many of each isn't known.
        parts.sort_by_key(|part| Reverse(part.unseen));
        let of_parts = parts.iter().map(|part| {
            let count = part.unseen.min(left);
            left -= count;
            (part.start_ns, count)
        });
        let mut bursts: Vec<_> = of_parts.collect();
        bursts.push((0, left));
        bursts.retain(|(_, count)| *count > 0);
        bursts
    }

    /// The evidence, had what went unseen been seen to miss.
    pub(super) fn all_missed(&self) -> Self {
        let mut all = self.clone();
        let unseen = std::mem::take(&mut all.unseen);
        all.late = all.late.saturating_add(unseen);
        let at = |index: usize| self.events.get(index).map_or(u64::MAX, |event| event.at_ns);
        let to_nearest_ns = |index: usize| {
            let before = index
                .checked_sub(1)
                .map_or(u64::MAX, |it| at(index) - at(it));
            before.min(at(index + 1).saturating_sub(at(index)))
        };
        for (at_ns, count) in self.unseen_bursts() {
            let run = run_of(&self.parts, at_ns);
            let of_run = (0..self.events.len()).filter(|it| run_of(&self.parts, at(*it)) == run);
            // Of equal ones that in the densest place.
            let heaviest = of_run.max_by(|a, b| {
                let by_weight = self.events[*a].weight.total_cmp(&self.events[*b].weight);
                by_weight.then_with(|| to_nearest_ns(*b).cmp(&to_nearest_ns(*a)))
            });
            match heaviest {
                Some(index) => all.events[index].weight += count as f64,
                None => all.events.push(MissEvent {
                    at_ns,
                    until_ns: at_ns,
                    weight: count as f64,
                    beyond: 0.0,
                }),
            }
        }
        all.events.sort_by_key(|event| event.at_ns);
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

    /// The same on the mean number of episodes.
    pub(crate) fn unseen_episodes(&self, confidence: f64) -> f64 {
        if self.unseen == 0 {
            return 0.0;
        }
        let (unseen, limit_ns) = (self.unseen_bursts(), self.limit_ns);
        Episodes::new(&[], &unseen, limit_ns, self.duration_ns, confidence).upper
    }
}
