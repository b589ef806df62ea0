//! What a thread leaves behind: the instants of a timer for which it came no more, at its end or because another
//! timer took the place of that one.

use super::{Followed, RHYTHMS};
use crate::conduct::watch::paced::{Key, Paced};
use crate::conduct::watch::stopped::Instants;

/// A timer with a period.
struct PeriodicTimer {
    key: Key,
    instants: u64,
    last_ns: u64,
    period_ns: u64,
}

impl Followed {
    /// Makes room for a timer that is new. If the program makes it in the place of another one, the instants of that
    /// which passed before may have been late.
    pub(super) fn meet(&mut self, key: Key, begun_ns: Option<u64>) {
        let is_object = |key: &Key| matches!(key, Key::Object(_));
        let others = self.periodic().filter(|it| is_object(&it.key));
        let latest = others.max_by_key(|it| (it.last_ns, it.period_ns, it.key));
        let latest = latest.filter(|_| is_object(&key));
        if let Some((before, begun_ns)) = latest.zip(begun_ns) {
            let passed = self.passed(&before, begun_ns);
            if let Some(before) = self.rhythms.get_mut(&before.key) {
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
        let periodic = self.periodic();
        let most = periodic.max_by_key(|it| (it.instants, it.last_ns, it.period_ns));
        if let Some(most) = most.filter(|_| self.shared.is_empty()) {
            self.perhaps_late += self.passed(&most, end_ns);
        }
    }

    /// Its timers with a period.
    fn periodic(&self) -> impl Iterator<Item = PeriodicTimer> {
        self.rhythms.iter().filter_map(|(key, paced)| {
            Some(PeriodicTimer {
                key: *key,
                instants: paced.instants,
                last_ns: paced.last?.due_ns,
                period_ns: paced.rhythm.period_ns()?,
            })
        })
    }

    /// How many instants after the last one of a timer were over by more than the deadline at a time, and in no stop.
    fn passed(&mut self, timer: &PeriodicTimer, at_ns: u64) -> u64 {
        let PeriodicTimer {
            last_ns, period_ns, ..
        } = *timer;
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
