//! A task with what its phases come to.

use punctual_record::taskset::analysis::{NoBound, UntimedStep};
use punctual_record::taskset::{LockProtocol, Task, TaskSet};
use punctual_sched as sched;

use super::policy;
use crate::work::{Held, JobWork};

/// A task with what its phases come to.
pub(super) struct Known<'a> {
    pub task: &'a Task,
    /// Where it is bound to one CPU.
    pub cpu: Option<usize>,
    pub period_ns: u64,
    pub work: Vec<JobWork>,
    /// For each lock that it uses, the longest section.
    pub sections: Vec<(usize, u64)>,
    /// Why a section can't be modelled.
    pub bad_section: Option<(usize, NoBound)>,
    /// All locks that it uses.
    pub locks: Vec<usize>,
}

impl<'a> Known<'a> {
    pub fn of(set: &'a TaskSet, index: usize, cpus: u32) -> Self {
        let task = &set.tasks[index];
        let cpu = match (&task.cpus[..], cpus) {
            ([cpu], _) => Some(*cpu),
            ([], 1) => Some(0),
            _ => None,
        };
        let mut known = Known {
            task,
            cpu,
            period_ns: set.period_ns(index).unwrap_or(1),
            work: task.phases.iter().map(JobWork::of).collect(),
            sections: Vec::new(),
            bad_section: None,
            locks: Vec::new(),
        };
        for phase in 0..known.work.len() {
            for at in 0..known.work[phase].sections.len() {
                let held = known.work[phase].sections[at].clone();
                known.section(set, index, &held);
            }
        }
        known
    }

    fn section(&mut self, set: &TaskSet, index: usize, held: &Held) {
        let outer = held.locks[0];
        self.locks.extend(&held.locks);
        let ceiling = |lock: &usize| match set.locks[*lock].protocol {
            LockProtocol::Protect { ceiling } => Some(ceiling),
            _ => None,
        };
        let ceilings: Option<Vec<u8>> = held.locks.iter().map(ceiling).collect();
        let bad = if held.sleeps {
            Some(NoBound::SleepsInLock {
                lock: outer,
                task: index,
            })
        } else if held.locks.len() > 1 && ceilings.is_none() {
            Some(NoBound::NestedLocks {
                lock: outer,
                task: index,
            })
        } else if held.untimed.is_some() && self.task.execution_ns.is_none() {
            Some(NoBound::LockUser {
                lock: outer,
                task: index,
            })
        } else {
            None
        };
        if let Some(bad) = bad {
            self.bad_section.get_or_insert((outer, bad));
            return;
        }
        let length_ns = match (held.untimed, self.task.execution_ns) {
            (Some(_), Some(all)) => all,
            _ => held.execution_ns,
        };
        // Nested locks with ceilings: while any of them is held, as if it were the highest. The others have a
        // user in it nevertheless: tasks of other CPUs wait for them.
        let highest = held.locks.iter().copied().max_by_key(|lock| ceiling(lock));
        let longest = highest.unwrap_or(outer);
        for &lock in &held.locks {
            let length_ns = if lock == longest { length_ns } else { 0 };
            match self.sections.iter_mut().find(|one| one.0 == lock) {
                Some(one) => one.1 = one.1.max(length_ns),
                None => self.sections.push((lock, length_ns)),
            }
        }
    }

    /// How often a job holds a lock, at most.
    pub fn times(&self, lock: usize) -> u32 {
        let of = |work: &JobWork| {
            let its = work.sections.iter().filter(|it| it.locks.contains(&lock));
            its.count() as u32
        };
        self.work.iter().map(of).max().unwrap_or(0)
    }

    pub fn rank(&self) -> sched::Rank {
        match policy(self.task.policy) {
            sched::Policy::Fixed { priority } => sched::Rank::Fixed(priority),
            sched::Policy::Deadline { .. } => sched::Rank::Deadline,
            sched::Policy::Other => sched::Rank::Other,
        }
    }

    pub fn is_global(&self) -> bool {
        self.cpu.is_none() && self.rank() == sched::Rank::Deadline
    }

    /// Whether it stands on its CPU in the analysis, and not apart.
    pub fn is_modelled(&self) -> bool {
        self.cpu.is_some() && self.bad_section.is_none()
    }

    pub fn may_run_on(&self, cpus: u32) -> Vec<u32> {
        match (&self.task.cpus[..], self.cpu) {
            (_, Some(cpu)) => vec![cpu as u32],
            ([], None) => (0..cpus).collect(),
            (some, None) => some.iter().map(|cpu| *cpu as u32).collect(),
        }
    }

    pub fn meets_on_a_cpu(&self, other: &Known<'_>) -> bool {
        match (self.cpu, other.cpu) {
            (Some(one), Some(two)) => one == two,
            _ => {
                let (one, two) = (&self.task.cpus, &other.task.cpus);
                one.is_empty() || two.is_empty() || one.iter().any(|cpu| two.contains(cpu))
            }
        }
    }

    pub fn execution_ns(&self) -> Option<u64> {
        if self.task.execution_ns.is_some() {
            return self.task.execution_ns;
        }
        let timed = self.work.iter().all(|work| work.untimed.is_none());
        let longest = self.work.iter().map(|work| work.execution_ns).max();
        longest.filter(|_| timed)
    }

    pub fn untimed(&self) -> Option<UntimedStep> {
        self.work.iter().find_map(|work| work.untimed)
    }
}
