//! Who runs, and who waits for whom.

use super::machine::Machine;
use crate::model::{Protocol, Rank};

/// A rank in which deadlines and inheritance are counted in: the highest runs.
type Key = (u8, u64);

impl Machine<'_> {
    /// Who comes first, without those that can't run.
    pub fn keys(&mut self) -> Vec<Option<Key>> {
        let mut boosts: Vec<Key> = vec![(0, 0); self.threads.len()];
        for task in 0..self.threads.len() {
            let Some(current) = &self.threads[task].current else {
                continue;
            };
            let key = self.key(task);
            let protocol = |lock: usize| self.set.locks[lock].protocol;
            if let Some((lock, owner)) = self.waits_for(task)
                && protocol(lock) == Protocol::Inherit
            {
                boosts[owner] = boosts[owner].max(key);
            }
            if let Some(Protocol::Ceiling { priority }) = current.holds.map(protocol) {
                boosts[task] = boosts[task].max((1, u64::from(priority)));
            }
        }
        let mut keys = vec![None; self.threads.len()];
        for task in 0..self.threads.len() {
            let key = self.key(task);
            let now = self.now;
            let thread = &mut self.threads[task];
            let Some(current) = &thread.current else {
                continue;
            };
            if current.suspended_until.is_some() || self.waits_for(task).is_some() {
                continue;
            }
            let boosted = boosts[task] > key;
            let thread = &mut self.threads[task];
            if let Some(server) = &mut thread.server {
                server.check(now, boosted);
                if server.throttled_until.is_some() && !boosted {
                    continue;
                }
            }
            keys[task] = Some(self.key(task).max(boosts[task]));
        }
        keys
    }

    /// The key that a task has by itself.
    fn key(&self, task: usize) -> Key {
        match (self.set.tasks[task].rank(), &self.threads[task].server) {
            (Rank::Deadline, Some(server)) => (2, u64::MAX - server.due),
            (Rank::Fixed(priority), _) => (1, u64::from(priority)),
            _ => (0, 0),
        }
    }

    /// The holder of the lock that a task waits for, and the lock.
    fn waits_for(&self, task: usize) -> Option<(usize, usize)> {
        let current = self.threads[task].current.as_ref()?;
        let lock = current.lock().filter(|_| current.holds.is_none())?;
        self.owners[lock].map(|owner| (lock, owner))
    }

    pub fn choose(&mut self, cpu: usize, keys: &[Option<Key>]) {
        let mut best: Option<(Key, std::cmp::Reverse<u64>, bool, usize)> = None;
        for (task, key) in keys.iter().enumerate() {
            let (Some(key), true) = (key, self.cpu_of[task] == cpu) else {
                continue;
            };
            let Some(current) = &self.threads[task].current else {
                continue;
            };
            let runs = self.runs[cpu] == Some(task);
            let this = (*key, std::cmp::Reverse(current.queued_ns), runs, task);
            if best.is_none_or(|best| this > best) {
                best = Some(this);
            }
        }
        self.runs[cpu] = best.map(|best| best.3);
        let (Some(task), 0) = (self.runs[cpu], self.pending[cpu]) else {
            return;
        };
        if let Some(current) = &mut self.threads[task].current {
            if !current.started {
                current.started = true;
                current.job.start_ns = self.now;
            }
            if let Some(lock) = current.lock() {
                current.holds = Some(lock);
                self.owners[lock] = Some(task);
            }
        }
    }

    /// Says for each job that isn't finished where the time went.
    pub fn account(&mut self, passed: u64) {
        for task in 0..self.threads.len() {
            let cpu = self.cpu_of[task];
            let waits = self.waits_for(task);
            let own = self.key(task);
            let runs = self.runs[cpu];
            let above = runs.map(|runs| self.key(runs) >= own);
            let held = runs.and_then(|runs| self.threads[runs].current.as_ref()?.holds);
            let thread = &mut self.threads[task];
            let throttled = thread
                .server
                .as_ref()
                .is_some_and(|s| s.throttled_until.is_some());
            let Some(current) = &mut thread.current else {
                continue;
            };
            let job = &mut current.job;
            if current.suspended_until.is_some() {
                job.suspended_ns += passed;
            } else if self.pending[cpu] > 0 {
                job.interrupted_ns += passed;
            } else if runs == Some(task) {
                job.executed_ns += passed;
            } else if throttled && waits.is_none() {
                job.throttled_ns += passed;
            } else {
                match (runs, above, held, waits) {
                    // It waits, and the task that runs isn't above it.
                    (Some(runs), Some(true), _, Some((_, owner))) if runs != owner => {
                        job.preempt(runs, passed);
                    }
                    (_, _, _, Some((lock, owner))) => job.block(lock, owner, passed),
                    // A task below runs because it inherited, or by a ceiling.
                    (Some(runs), Some(false), Some(lock), None) => job.block(lock, runs, passed),
                    (Some(runs), ..) => job.preempt(runs, passed),
                    (None, ..) => {}
                }
            }
        }
    }
}
