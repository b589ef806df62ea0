//! A set as the analysis takes it: each task bound to one CPU, with known times; and why a task isn't.
//!
//! Tasks keep their indices. A task that can't be modelled stands on a CPU of its own, where it
//! disturbs nobody, and those that it may disturb have no bound either.

use punctual_record::taskset::analysis::{NoBound, SetOverheads};
use punctual_record::taskset::{LockProtocol, Task, TaskPolicy, TaskSet, Timer, Wake};
use punctual_sched as sched;

use crate::work::{Held, JobWork};

/// A set, converted.
#[derive(Debug)]
pub(crate) struct Converted {
    /// As many tasks as the set has.
    pub set: sched::TaskSet,
    /// The tasks without a bound; not the ordinary ones.
    pub reasons: Vec<Option<NoBound>>,
    /// The longest execution times of jobs.
    pub execution_ns: Vec<Option<u64>>,
    /// `SCHED_DEADLINE` tasks that share the CPUs of the machine.
    pub global: Vec<usize>,
}

/// The highest number of a CPU; what can't be modelled stands beyond.
const BEYOND: u32 = 1 << 20;

/// A task with what its phases come to.
struct Known<'a> {
    task: &'a Task,
    /// Where it is bound to one CPU.
    cpu: Option<usize>,
    period_ns: u64,
    work: Vec<JobWork>,
    /// For each lock that it uses, the longest section.
    sections: Vec<(usize, u64)>,
    /// Why a section can't be modelled.
    bad_section: Option<(usize, NoBound)>,
    /// All locks that it uses.
    locks: Vec<usize>,
}

pub(crate) fn convert(set: &TaskSet, cpus: u32, overheads: &SetOverheads) -> Converted {
    let known: Vec<Known<'_>> = (0..set.tasks.len())
        .map(|index| Known::of(set, index, cpus))
        .collect();
    let execution_ns = known.iter().map(Known::execution_ns).collect();
    let rules = Rules {
        set,
        known: &known,
        interrupts: overheads.release_interrupt_ns > 0,
    };
    let reasons = rules.reasons();
    let global = (0..known.len())
        .filter(|index| known[*index].is_global() && reasons[*index].is_none())
        .collect();
    let mut converted = Converted {
        set: sched::TaskSet {
            locks: set.locks.iter().map(lock).collect(),
            overheads: kernel(overheads),
            ..sched::TaskSet::default()
        },
        reasons,
        execution_ns,
        global,
    };
    for index in 0..known.len() {
        let task = converted.task(&known, index);
        converted.set.tasks.push(task);
    }
    for (index, it) in known.iter().enumerate() {
        // Where the interrupts of a task come that isn't bound to a CPU.
        if !it.is_modelled() && rules.interrupts {
            for cpu in it.may_run_on(cpus) {
                converted.set.interference.push(sched::Interference {
                    name: it.task.name.clone(),
                    cpu,
                    period_ns: converted.set.tasks[index].period_ns,
                    jitter_ns: it.task.jitter_ns,
                    execution_ns: overheads.release_interrupt_ns,
                });
            }
        }
    }
    converted
}

fn lock(lock: &punctual_record::taskset::Lock) -> sched::Lock {
    sched::Lock {
        name: lock.name.clone(),
        protocol: match lock.protocol {
            LockProtocol::Inherit => sched::Protocol::Inherit,
            LockProtocol::Protect { ceiling } => sched::Protocol::Ceiling { priority: ceiling },
            LockProtocol::Plain => sched::Protocol::Plain,
        },
    }
}

fn kernel(of: &SetOverheads) -> sched::Overheads {
    sched::Overheads {
        release_interrupt_ns: of.release_interrupt_ns,
        wake_ns: of.wake_and_sleep_ns,
        sleep_ns: 0,
        // A switch to the holder and back is a part of that.
        contention_ns: of.wake_and_sleep_ns,
        nonpreemptible_ns: 0,
        tick: of.tick.map(|tick| sched::Tick {
            period_ns: tick.period_ns,
            execution_ns: tick.execution_ns,
        }),
    }
}

pub(crate) fn policy(policy: TaskPolicy) -> sched::Policy {
    match policy {
        TaskPolicy::Fifo { priority } | TaskPolicy::Rr { priority } => {
            sched::Policy::Fixed { priority }
        }
        TaskPolicy::Deadline {
            runtime_ns,
            deadline_ns,
            period_ns,
        } => sched::Policy::Deadline {
            runtime_ns,
            deadline_ns,
            period_ns,
        },
        TaskPolicy::Other { .. } => sched::Policy::Other,
    }
}

impl<'a> Known<'a> {
    fn of(set: &'a TaskSet, index: usize, cpus: u32) -> Self {
        let task = &set.tasks[index];
        let cpu = match (&task.cpus[..], cpus) {
            ([cpu], _) => Some(*cpu),
            ([], 1) => Some(0),
            _ => None,
        };
        let base_ns = set.period_ns(index).unwrap_or(1);
        // Arrivals are at least the shortest period of all phases apart.
        let periods = task.phases.iter().filter_map(|phase| phase.period_ns);
        let all_have_one = task.phases.iter().all(|phase| phase.period_ns.is_some());
        let own = (!all_have_one).then_some(base_ns);
        let period_ns = periods.chain(own).min().unwrap_or(base_ns);
        let mut known = Known {
            task,
            cpu,
            period_ns,
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
        // Nested locks with ceilings: while any of them is held, as if it were the highest.
        let highest = held.locks.iter().copied().max_by_key(|lock| ceiling(lock));
        let lock = highest.unwrap_or(outer);
        match self.sections.iter_mut().find(|one| one.0 == lock) {
            Some(one) => one.1 = one.1.max(length_ns),
            None => self.sections.push((lock, length_ns)),
        }
    }

    fn rank(&self) -> sched::Rank {
        match policy(self.task.policy) {
            sched::Policy::Fixed { priority } => sched::Rank::Fixed(priority),
            sched::Policy::Deadline { .. } => sched::Rank::Deadline,
            sched::Policy::Other => sched::Rank::Other,
        }
    }

    fn is_global(&self) -> bool {
        self.cpu.is_none() && self.rank() == sched::Rank::Deadline
    }

    /// Whether it stands on its CPU in the analysis, and not apart.
    fn is_modelled(&self) -> bool {
        self.cpu.is_some() && self.bad_section.is_none()
    }

    fn may_run_on(&self, cpus: u32) -> Vec<u32> {
        match (&self.task.cpus[..], self.cpu) {
            (_, Some(cpu)) => vec![cpu as u32],
            ([], None) => (0..cpus).collect(),
            (some, None) => some.iter().map(|cpu| *cpu as u32).collect(),
        }
    }

    fn meets_on_a_cpu(&self, other: &Known<'_>) -> bool {
        match (self.cpu, other.cpu) {
            (Some(one), Some(two)) => one == two,
            _ => {
                let (one, two) = (&self.task.cpus, &other.task.cpus);
                one.is_empty() || two.is_empty() || one.iter().any(|cpu| two.contains(cpu))
            }
        }
    }

    fn execution_ns(&self) -> Option<u64> {
        if self.task.execution_ns.is_some() {
            return self.task.execution_ns;
        }
        let timed = self.work.iter().all(|work| work.untimed.is_none());
        let longest = self.work.iter().map(|work| work.execution_ns).max();
        longest.filter(|_| timed)
    }
}

/// Which tasks have no bound, before anything is computed.
struct Rules<'a> {
    set: &'a TaskSet,
    known: &'a [Known<'a>],
    interrupts: bool,
}

impl Rules<'_> {
    fn reasons(&self) -> Vec<Option<NoBound>> {
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
            // How late its releases may interrupt isn't known.
            if let Wake::After { task: before, .. } = other.task.wake
                && self.interrupts
                && (reasons[before].is_some()
                    || self.known[before].rank() == sched::Rank::Other
                    || !other.is_modelled())
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

impl Known<'_> {
    fn untimed(&self) -> Option<punctual_record::taskset::analysis::UntimedStep> {
        self.work.iter().find_map(|work| work.untimed)
    }
}

impl Converted {
    fn task(&self, known: &[Known<'_>], index: usize) -> sched::Task {
        let it = &known[index];
        let reason = self.reasons[index];
        let after = match it.task.wake {
            Wake::After { task, .. } => Some(task),
            Wake::Timer { .. } => None,
        };
        let mut task = sched::Task::new(&it.task.name, policy(it.task.policy), it.period_ns, 1);
        task.deadline_ns = it.task.deadline_ns;
        task.jitter_ns = it.task.jitter_ns;
        let Some(cpu) = it.cpu.filter(|_| it.is_modelled()) else {
            // Apart from all others; with its releases as interference where it may run.
            task.cpu = BEYOND + index as u32;
            task.policy = sched::Policy::Other;
            return task;
        };
        task.cpu = cpu as u32;
        task.sections = it
            .sections
            .iter()
            .filter(|(_, length_ns)| *length_ns > 0)
            .map(|(lock, length_ns)| sched::Section {
                lock: *lock,
                length_ns: *length_ns,
            })
            .collect();
        let held: u64 = task.sections.iter().map(|section| section.length_ns).sum();
        let least = held.max(1);
        task.execution_ns = self.execution_ns[index].unwrap_or(least).max(least);
        if let (Some(_), TaskPolicy::Deadline { runtime_ns, .. }) = (reason, it.task.policy) {
            // It may use all of its reservation, at any time: as one whose jobs are too long for it.
            task.execution_ns = runtime_ns.saturating_add(1).max(least);
            return task;
        }
        let unknown_release = match after {
            Some(before) => {
                self.reasons[before].is_some() || known[before].rank() == sched::Rank::Other
            }
            None => false,
        };
        if !unknown_release {
            task.after = after;
        }
        if let Some(before) = task.after {
            // The period follows from the other task's, as the shortest of its phases gives it.
            let every = match it.task.wake {
                Wake::After { every, .. } => u64::from(every),
                Wake::Timer { .. } => 1,
            };
            task.period_ns = known_period(known, before).saturating_mul(every);
        }
        let sleeps = it.work.iter().map(|work| work.sleeps).max().unwrap_or(0);
        let slept = it.work.iter().map(|work| work.slept_ns).max().unwrap_or(0);
        task.suspension = sched::Suspension {
            count: sleeps,
            total_ns: slept,
        };
        task
    }
}

/// The least distance of arrivals, through those that release it.
fn known_period(known: &[Known<'_>], index: usize) -> u64 {
    let (mut at, mut times) = (index, 1u64);
    for _ in 0..=known.len() {
        match known[at].task.wake {
            Wake::Timer { .. } => return known[at].period_ns.saturating_mul(times),
            Wake::After { task, every, .. } => {
                times = times.saturating_mul(every.into());
                at = task;
            }
        }
    }
    1
}

/// The first task of a chain whose arrivals aren't at one exact distance.
pub(crate) fn not_periodic(set: &TaskSet, chain: &[usize]) -> Option<usize> {
    chain.iter().copied().find(|index| {
        let task = &set.tasks[*index];
        let Wake::Timer {
            timer, period_ns, ..
        } = task.wake
        else {
            return false;
        };
        let other = |own: Option<u64>| own.is_some_and(|own| own != period_ns);
        timer == Timer::Relative || task.phases.iter().any(|phase| other(phase.period_ns))
    })
}
