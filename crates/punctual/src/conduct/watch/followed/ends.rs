//! What a thread leaves behind: the instants of a timer for which it came no more, at its end or because another
//! timer took the place of that one.

use super::{Followed, RHYTHMS};
use crate::conduct::watch::paced::{Key, Paced};
use crate::conduct::watch::stopped::Instants;

impl Followed {
    /// Makes room for a timer that is new. If the program makes it in the place of another one, the instants of that
    /// which passed before may have been late.
    pub(super) fn meet(&mut self, key: Key, begun_ns: Option<u64>) {
        let periodic = self.rhythms.iter().filter_map(|(key, paced)| {
            let (last, period_ns) = (paced.last?, paced.rhythm.period_ns()?);
            matches!(key, Key::Object(_)).then_some((last.due_ns, period_ns, *key))
        });
        let latest = periodic.max().filter(|_| matches!(key, Key::Object(_)));
        if let Some(((last_ns, period_ns, before), begun_ns)) = latest.zip(begun_ns) {
            let passed = self.passed(last_ns, begun_ns, period_ns);
            if let Some(before) = self.rhythms.get_mut(&before) {
                before.left = passed;
            }
        }
        if self.rhythms.len() < RHYTHMS {
            return;
        }
        let due_ns = |paced: &Paced| paced.last.map(|it| it.due_ns);
        let oldest = self.rhythms.iter().min_by_key(|(_, paced)| due_ns(paced));
        if let Some(oldest) = oldest.map(|(key, _)| *key) {
            self.settle(oldest, true);
            let gone = self.rhythms.remove(&oldest);
            self.perhaps_late += gone.map_or(0, |it| it.left);
        }
    }

    /// Counts the remaining instants at the end. Those for which the thread did not come until then, although their
    /// deadline had passed, may have been late: it hangs, starves, or rests.
    pub fn end(&mut self, end_ns: u64) {
        let keys: Vec<Key> = self.rhythms.keys().copied().collect();
        keys.into_iter().for_each(|key| self.settle(key, true));
        // Jobs that end with `sched_yield` are no wake-ups.
        if self.sleeper.worst_job_ns > self.tally.deadline_ns() {
            let woken = self.by_timer.count() + self.by_others.count();
            let yielded = self.sleeper.jobs.saturating_sub(woken);
            self.perhaps_late += self.sleeper.late_jobs.min(yielded);
        }
        let left: u64 = self.rhythms.values().map(|paced| paced.left).sum();
        self.perhaps_late += left;
        if self.period_ns().is_none() {
            self.perhaps_late += self.anew.leaps;
        }
        let end_ns = match self.sleeper.ended_ns {
            Some(ended_ns) => ended_ns.min(end_ns),
            None if self.gone => return,
            None => end_ns,
        };
        let periodic = self.rhythms.values().filter_map(|paced| {
            let (last, period_ns) = (paced.last?, paced.rhythm.period_ns()?);
            Some((paced.instants, last.due_ns, period_ns))
        });
        let most = periodic.max().filter(|_| self.shared.is_empty());
        if let Some((_, last_ns, period_ns)) = most {
            self.perhaps_late += self.passed(last_ns, end_ns, period_ns);
        }
    }

    /// How many instants after one were over by more than the deadline at a time, and in no stop.
    fn passed(&mut self, last_ns: u64, at_ns: u64, period_ns: u64) -> u64 {
        let over_ns = at_ns.saturating_sub(self.tally.deadline_ns());
        let instants = Instants {
            at_ns: last_ns.saturating_add(period_ns),
            count: over_ns.saturating_sub(last_ns) / period_ns.max(1),
            period_ns,
        };
        let outside = self.stops.outside(instants, at_ns);
        outside.iter().map(|part| part.count).sum()
    }
}
