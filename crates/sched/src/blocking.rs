//! How long tasks of lower rank hold up a task through locks.
//!
//! For a busy window of a task, in which the CPU always has work of its rank or above: a task below
//! runs in it only to finish a section that it was in when the window began, and, as sections don't
//! nest, it was in one at most.
//!
//! - Priority inheritance: each task below delays at most once, and each lock at most once: the
//!   lesser of the two sums (Sha, Rajkumar, Lehoczky 1990, theorem 12; Buttazzo 2011, 7.6.2).
//! - Immediate ceiling: only one task below can be in a section whose ceiling reaches the rank:
//!   the longest such section (Baker 1991; Sha, Rajkumar, Lehoczky 1990).
//! - Both in one set: their sum.
//!
//! Locks count whose ceiling reaches the rank of the task: also those that it doesn't use, because
//! the holder inherits a rank above it.

use crate::bound::Unbounded;
use crate::model::{Protocol, Rank, Task, TaskSet};

/// The locks of a set, each with its users.
pub(crate) struct Locks<'a> {
    set: &'a TaskSet,
    /// For each lock the ceiling, and the users with their longest sections.
    used: Vec<(Rank, Vec<(usize, u64)>)>,
}

impl<'a> Locks<'a> {
    pub(crate) fn of(set: &'a TaskSet) -> Self {
        let mut used: Vec<(Rank, Vec<(usize, u64)>)> = vec![(Rank::Other, vec![]); set.locks.len()];
        for (lock, of) in set.locks.iter().zip(&mut used) {
            if let Protocol::Ceiling { priority } = lock.protocol {
                of.0 = Rank::Fixed(priority);
            }
        }
        for (index, task) in set.tasks.iter().enumerate() {
            for section in &task.sections {
                let (ceiling, users) = &mut used[section.lock];
                *ceiling = task.rank().max(*ceiling);
                match users.last_mut() {
                    Some((user, longest)) if *user == index => {
                        *longest = section.length_ns.max(*longest);
                    }
                    _ => users.push((index, section.length_ns)),
                }
            }
        }
        Locks { set, used }
    }

    /// The longest time that tasks below delay one busy window of a task, or the lock for which
    /// there is none.
    pub(crate) fn blocking_ns(&self, task: usize) -> Result<u64, Unbounded> {
        self.blocking_by(task, |_| true)
    }

    /// How much of it ordinary tasks execute at most. What real-time tasks do meanwhile is their own
    /// execution, which counts once, not with each of the jobs that wait.
    pub(crate) fn blocking_by_ordinary_ns(&self, task: usize) -> Result<u64, Unbounded> {
        self.blocking_by(task, |lower| lower.rank() == Rank::Other)
    }

    fn blocking_by(&self, task: usize, counts: impl Fn(&Task) -> bool) -> Result<u64, Unbounded> {
        let set = self.set;
        let (rank, cpu) = (set.tasks[task].rank(), set.tasks[task].cpu);
        let mut by_task = vec![0u64; set.tasks.len()];
        let (mut by_lock, mut protected) = (0u64, 0u64);
        for (lock, (ceiling, users)) in self.used.iter().enumerate() {
            self.check(lock, rank, cpu)?;
            if *ceiling < rank {
                continue;
            }
            let mut of_lock = 0;
            for &(user, longest) in users {
                let lower = &set.tasks[user];
                if lower.cpu != cpu || lower.rank() >= rank || !counts(lower) {
                    continue;
                }
                let length = longest.saturating_add(set.overheads.contention_ns);
                match set.locks[lock].protocol {
                    Protocol::Inherit => {
                        of_lock = length.max(of_lock);
                        by_task[user] = by_task[user].max(length);
                    }
                    Protocol::Ceiling { .. } => protected = protected.max(length),
                    // Its users are all below the rank, or `check` had found it.
                    Protocol::Plain => {}
                }
            }
            by_lock = by_lock.saturating_add(of_lock);
        }
        let by_task = by_task.into_iter().fold(0, u64::saturating_add);
        Ok(by_task.min(by_lock).saturating_add(protected))
    }

    /// Whether a lock leaves a task of this rank and CPU with a bound.
    fn check(&self, lock: usize, rank: Rank, cpu: u32) -> Result<(), Unbounded> {
        let (ceiling, users) = &self.used[lock];
        let users = users.iter().map(|(user, _)| &self.set.tasks[*user]);
        let (here, elsewhere): (Vec<_>, Vec<_>) = users.partition(|user| user.cpu == cpu);
        let Some(lowest) = here.iter().map(|user| user.rank()).min() else {
            return Ok(());
        };
        let highest = here.iter().map(|user| user.rank()).max().unwrap_or(lowest);
        if !elsewhere.is_empty() && *ceiling >= rank {
            return Err(Unbounded::LockAcrossCpus { lock });
        }
        if here.len() + elsewhere.len() > 1 && highest == Rank::Deadline {
            return Err(Unbounded::LockWithDeadlineTask { lock });
        }
        let plain = self.set.locks[lock].protocol == Protocol::Plain;
        // Users that are all at or above the rank wait for work that is counted anyway.
        if plain && lowest < rank && highest >= rank {
            return Err(Unbounded::PlainLock { lock });
        }
        Ok(())
    }
}
