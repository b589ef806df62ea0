//! The constant bandwidth server of a `SCHED_DEADLINE` task, by the rules of
//! kernel/sched/deadline.c: `update_dl_entity`, `update_dl_revised_wakeup`,
//! `dl_check_constrained_dl`, `replenish_dl_entity`.

use crate::model::Policy;

/// One reservation, as time goes by.
#[derive(Debug, Clone)]
pub(super) struct Server {
    runtime: u64,
    deadline: u64,
    period: u64,
    /// The absolute deadline.
    pub due: u64,
    /// What is left of the runtime.
    pub left: u64,
    /// No runtime until then.
    pub throttled_until: Option<u64>,
    fresh: bool,
}

impl Server {
    pub fn of(policy: Policy) -> Option<Self> {
        let Policy::Deadline {
            runtime_ns,
            deadline_ns,
            period_ns,
        } = policy
        else {
            return None;
        };
        Some(Server {
            runtime: runtime_ns,
            deadline: deadline_ns,
            period: period_ns,
            due: 0,
            left: 0,
            throttled_until: None,
            fresh: true,
        })
    }

    fn next_period(&self) -> u64 {
        self.due - self.deadline + self.period
    }

    fn renew(&mut self, now: u64) {
        self.due = now + self.deadline;
        self.left = self.runtime;
        self.fresh = false;
    }

    /// The task wakes up.
    pub fn wake(&mut self, now: u64) {
        if self.throttled_until.is_some() {
            return;
        }
        if self.fresh {
            return self.renew(now);
        }
        let implicit = self.deadline == self.period;
        if !implicit && self.due < now && now < self.next_period() {
            self.left = 0;
            self.throttled_until = Some(self.next_period());
            return;
        }
        let laxity = self.due.saturating_sub(now);
        let dense = u128::from(self.left) * u128::from(self.deadline)
            > u128::from(laxity) * u128::from(self.runtime);
        if self.due < now || dense {
            if implicit || self.due < now {
                self.renew(now);
            } else {
                let left = u128::from(laxity) * u128::from(self.runtime);
                self.left = (left / u128::from(self.deadline)) as u64;
            }
        }
    }

    /// Throttles the task if it has no runtime left, or gives it the next if it is boosted.
    pub fn check(&mut self, now: u64, boosted: bool) {
        if self.left > 0 || self.throttled_until.is_some() {
            return;
        }
        if self.fresh {
            return self.renew(now);
        }
        if boosted || self.next_period() <= now {
            self.replenish(now);
        } else {
            self.throttled_until = Some(self.next_period());
        }
    }

    /// Ends the throttling when its time has come.
    pub fn tick(&mut self, now: u64) {
        if self.throttled_until.is_some_and(|until| until <= now) {
            self.throttled_until = None;
            self.replenish(now);
        }
    }

    fn replenish(&mut self, now: u64) {
        self.due += self.period;
        self.left = self.runtime;
        if self.due < now {
            self.renew(now);
        }
    }
}
