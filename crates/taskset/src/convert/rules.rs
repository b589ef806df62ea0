//! Which tasks have no bound, and why, before anything is computed.

use punctual_record::taskset::analysis::NoBound;
use punctual_record::taskset::{LockProtocol, TaskPolicy, TaskSet, Wake};
use punctual_sched as sched;

use super::known::Known;
use crate::work;

/// Which tasks have no bound, before anything is computed.
pub(super) struct Rules<'a> {
    pub set: &'a TaskSet,
    pub known: &'a [Known<'a>],
    pub interrupts: bool,
}

impl Rules<'_> {
    pub fn reasons(&self) -> Vec<Option<NoBound>> {
        let mut reasons: Vec<Option<NoBound>> =
            (0..self.known.len()).map(|task| self.own(task)).collect();
        loop {
            let mut changed = false;
            for task in 0..self.known.len() {
                if reasons[task].is_none() && self.known[task].rank() != sched::Rank::Other {
                    reasons[task] = self.through_others(task, &reasons);
                    changed |= reasons[task].is_some();
                }
            }
            if !changed {
                return reasons;
            }
        }
    }

    /// By itself.
    fn own(&self, index: usize) -> Option<NoBound> {
        let it = &self.known[index];
        if it.rank() == sched::Rank::Other {
            return None;
        }
        if it.cpu.is_none() && !it.is_global() {
            return Some(NoBound::SeveralCpus);
        }
        if let Some((_, why)) = it.bad_section {
            return Some(match (why, it.untimed()) {
                (NoBound::LockUser { .. }, Some(step)) => NoBound::Untimed { step },
                _ => why,
            });
        }
        if it.execution_ns().is_none() {
            return it.untimed().map(|step| NoBound::Untimed { step });
        }
        if it.rank() == sched::Rank::Deadline {
            if it.work.iter().any(|work| work.yields) {
                return Some(NoBound::YieldsReservation);
            }
            if it.is_global() {
                return self.own_of_global(it);
            }
        }
        None
    }

    fn own_of_global(&self, it: &Known<'_>) -> Option<NoBound> {
        let TaskPolicy::Deadline {
            runtime_ns,
            period_ns,
            ..
        } = it.task.policy
        else {
            return None;
        };
        if let Some(lock) = it.locks.first() {
            return Some(NoBound::LockAcrossCpus { lock: *lock });
        }
        if it.work.iter().any(|work| work.sleeps > 0) {
            return Some(NoBound::SleepsInReservation);
        }
        if let Wake::After { .. } = it.task.wake {
            return Some(NoBound::SeveralCpus);
        }
        if it.period_ns.saturating_sub(it.task.jitter_ns) < period_ns {
            return Some(NoBound::FasterThanReservation);
        }
        let needed_ns = it.execution_ns().unwrap_or(u64::MAX);
        (needed_ns > runtime_ns).then_some(NoBound::Throttled { needed_ns })
    }

    /// Because of others that have none.
    fn through_others(&self, index: usize, reasons: &[Option<NoBound>]) -> Option<NoBound> {
        let it = &self.known[index];
        if let Wake::After { task, .. } = it.task.wake
            && (reasons[task].is_some() || self.known[task].rank() == sched::Rank::Other)
        {
            return Some(NoBound::After { task });
        }
        for (task, other) in self.known.iter().enumerate() {
            if task == index || !it.meets_on_a_cpu(other) {
                continue;
            }
            let above = other.rank() >= it.rank() && other.rank() != sched::Rank::Other;
            let unknown = reasons[task].is_some();
            // What a reservation takes is limited, whatever the task does: on one CPU that is modelled.
            let limited = other.rank() == sched::Rank::Deadline && other.is_modelled();
            let apart = other.is_global() != it.is_global();
            if above
                && ((unknown && !(limited && it.cpu.is_some())) || (apart && other.is_global()))
            {
                return Some(NoBound::Interferer { task });
            }
            // A reservation of one CPU beside those of all.
            if it.is_global() && other.rank() == sched::Rank::Deadline && !other.is_global() {
                return Some(NoBound::Interferer { task });
            }
            // How late its releases may interrupt isn't known, nor how its jobs bunch that sleep.
            let unbounded = unknown || other.rank() == sched::Rank::Other;
            if let Wake::After { task: before, .. } = other.task.wake
                && self.interrupts
                && (reasons[before].is_some()
                    || self.known[before].rank() == sched::Rank::Other
                    || !other.is_modelled()
                    || (unbounded && work::sleeps(other.task) > 0))
            {
                return Some(NoBound::Interferer { task });
            }
        }
        self.through_locks(index, reasons)
    }

    fn through_locks(&self, index: usize, reasons: &[Option<NoBound>]) -> Option<NoBound> {
        let it = &self.known[index];
        for (lock, of) in self.set.locks.iter().enumerate() {
            let users = || self.known.iter().enumerate();
            let uses = |user: &Known<'_>| user.locks.contains(&lock);
            let ceiling = match of.protocol {
                LockProtocol::Protect { ceiling } => Some(sched::Rank::Fixed(ceiling)),
                _ => None,
            };
            let highest = users()
                .filter(|(_, user)| uses(user))
                .map(|(_, user)| user.rank());
            let highest = highest.chain(ceiling).max();
            let here = users().any(|(_, user)| uses(user) && user.meets_on_a_cpu(it));
            let matters = uses(it) || (here && highest >= Some(it.rank()));
            if !matters {
                continue;
            }
            for (task, user) in users().filter(|(task, user)| *task != index && uses(user)) {
                if let Some((_, why)) = user.bad_section {
                    return Some(why);
                }
                let moved = user.cpu.is_none();
                // One of the same or a higher rank without a bound is an interferer already.
                let waits_for = reasons[task].is_some() && user.rank() >= it.rank() && uses(it);
                if moved || waits_for {
                    return Some(NoBound::LockUser { lock, task });
                }
            }
        }
        None
    }
}
