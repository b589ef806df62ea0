//! What a thread leaves behind: the instants of a timer for which it came no more, at its end or because another
//! timer took the place of that one.

use super::{Followed, RHYTHMS};
use crate::conduct::watch::paced::{Anew, Key, Paced};
use crate::conduct::watch::stopped::Instants;
use crate::probe::cycle::Sample;
use punctual_trace::watch::Wake;

/// A timer with a period.
struct PeriodicTimer {
    key: Key,
    instants: u64,
    last_ns: u64,
    period_ns: u64,
}

/// From giving up its priority to its end: what a thread does after its loop, in ns.
const SOON_NS: u64 = 100_000_000;

impl Followed {
    /// Makes room for a timer that is new. If the program makes it in the place of another one, the instants of that
    /// which passed before may have been late.
    pub(super) fn meet(&mut self, key: Key, begun_ns: Option<u64>) {
        let is_object = |key: &Key| matches!(key, Key::Object(_));
        let others = self.periodic().filter(|it| is_object(&it.key));
        let latest = others.max_by_key(|it| (it.last_ns, it.period_ns, it.key));
        let latest = latest.filter(|_| is_object(&key));
        if let Some((before, begun_ns)) = latest.zip(begun_ns) {
            let passed = self.passed((before.last_ns, before.period_ns), begun_ns);
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
        if self.sleeper.worst_job_ns > self.limits.strictest_ns() {
            let woken = self.by_timer.count() + self.by_others.count();
            let yielded = self.sleeper.jobs.saturating_sub(woken);
            self.perhaps_late += self.sleeper.late_jobs.min(yielded);
        }
        let left: u64 = self.rhythms.values().map(|paced| paced.left).sum();
        self.perhaps_late += left;
        if self.period_ns().is_none() {
            self.perhaps_late += self.anew.leaps;
        }
        let Some(end_ns) = self.over_ns(end_ns) else {
            return;
        };
        let pending = self.count_pending(end_ns);
        // Of a timer that others serve too, all of them together leave it: see `Followed::count_left`.
        let others = |key| matches!(key, Key::Object(timer) if self.shares(timer));
        let periodic = self.periodic().filter(|it| !others(it.key));
        let most = periodic.max_by_key(|it| (it.instants, it.last_ns, it.period_ns));
        if let Some(most) = most {
            let passed = self.passed((most.last_ns, most.period_ns), end_ns);
            let counted = pending.is_some_and(|due_ns| due_ns > most.last_ns);
            let passed = passed.saturating_sub(u64::from(counted));
            let first_ns = most.last_ns.saturating_add(most.period_ns);
            match self.left_ns {
                // It goes on elsewhere: how late it became there is not known.
                Some(_) => self.perhaps_late += passed,
                None => self.may_be_late(passed, end_ns.saturating_sub(first_ns)),
            }
        }
    }

    /// Counts a wake-up that has not ended: it is later than this at least. Returns the instant of its timer.
    fn count_pending(&mut self, end_ns: u64) -> Option<u64> {
        let pending = self.sleeper.pending?;
        let from_ns = pending.due_ns.unwrap_or(pending.waking_ns);
        let late_ns = i64::try_from(end_ns.checked_sub(from_ns)?).unwrap_or(i64::MAX);
        // It ran between the reading of the counts and that of the rings.
        if pending.waking_ns <= self.last_end_ns {
            return None;
        }
        let sample = self.stops.left_of(Sample {
            requested_ns: from_ns,
            late_ns,
            missed: 0,
        })?;
        if sample.latency_ns() <= self.limits.strictest_ns() {
            return None;
        }
        // If it had not gone to sleep, or the kernel does not show everything, it may run.
        if self.sleeper.asleep && self.sleeper.unseen == 0 {
            self.count(sample, pending.due_ns.is_some());
        } else {
            self.perhaps_late += 1;
        }
        pending.due_ns
    }

    /// Counts an instant of a timer that never woke it: it may not wait for it.
    pub(super) fn add_unsure(&mut self, wake: &Wake) {
        let (from_ns, end_ns) = (wake.from_ns(), wake.end_ns);
        let late_ns = end_ns - from_ns.min(end_ns);
        let undecided = self.limits.are_undecided(0, late_ns);
        let within = from_ns >= self.tally.start_ns() && !self.stops.between(from_ns, end_ns);
        self.may_be_late(u64::from(undecided && within), late_ns);
    }

    /// So many may have been late, each by no more than a time.
    pub(super) fn may_be_late(&mut self, count: u64, most_ns: u64) {
        self.perhaps_late += count;
        if count > 0 {
            self.bounded = (self.bounded.0 + count, self.bounded.1.max(most_ns));
        }
    }

    /// By how much each that went unseen was late at most, if that is known of all.
    pub fn unseen_most_ns(&self) -> Option<u64> {
        let (count, most_ns) = self.bounded;
        (count > 0 && self.sleeper.unseen == 0 && count == self.perhaps_late).then_some(most_ns)
    }

    /// Counts what nobody took of a timer that other threads serve too, until a time: that of the end, or they may be
    /// taken later.
    pub fn count_left(&mut self, instants: &Anew, at_ns: u64, is_end: bool) {
        self.perhaps_late += instants.leaps;
        if let Some(timer) = instants.last() {
            let passed = self.passed(timer, at_ns);
            match is_end {
                true => {
                    let first_ns = timer.0.saturating_add(timer.1);
                    self.may_be_late(passed, at_ns.saturating_sub(first_ns));
                }
                false => self.perhaps_late += passed,
            }
        }
    }

    /// When it ended or was followed no longer: at this time, or earlier; `None` if that is not known. One that gave up
    /// its priority did so at its end if it ends soon: else it may have lost it, and go on with its loop unseen.
    pub fn over_ns(&self, end_ns: u64) -> Option<u64> {
        let ended_ns = self.sleeper.ended_ns;
        let ends_soon =
            |at_ns: &u64| ended_ns.is_some_and(|it| it <= at_ns.saturating_add(SOON_NS));
        let gave_up_ns = self.sleeper.unfollowed_ns.filter(ends_soon);
        let ends = [ended_ns, gave_up_ns, self.left_ns];
        match ends.into_iter().flatten().min() {
            Some(over_ns) => Some(over_ns.min(end_ns)),
            None => (!self.gone).then_some(end_ns),
        }
    }

    /// Its program is not watched any more, since then if that is known: what it was woken for it may have run for.
    pub fn leave(&mut self, at_ns: Option<u64>) {
        self.sleeper.pending = None;
        self.left_ns = self.left_ns.or(at_ns);
    }

    /// Whether it slept all the time, and ran only because it was stopped and continued.
    #[must_use]
    pub fn slept_but_for_stops(&self) -> bool {
        let sleeper = &self.sleeper;
        // A stop wakes it, and so does the end of the stop.
        let by_stops = self.stops.count.saturating_mul(2);
        let by_itself = sleeper.switches.saturating_sub(sleeper.preempted);
        let alone = self.before.is_none();
        alone && sleeper.asleep && self.tally.count() == 0 && by_itself <= by_stops
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

    /// How many instants after the last one of a timer, by its period, were over by more than a limit at a time, and in
    /// no stop.
    fn passed(&mut self, (last_ns, period_ns): (u64, u64), at_ns: u64) -> u64 {
        let over_ns = at_ns.saturating_sub(self.limits.strictest_ns());
        let instants = Instants {
            at_ns: last_ns.saturating_add(period_ns),
            count: over_ns.saturating_sub(last_ns) / period_ns.max(1),
            period_ns,
        };
        let outside = self.stops.outside(instants, at_ns);
        outside.iter().map(|part| part.count).sum()
    }
}
