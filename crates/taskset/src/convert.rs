//! A set as the analysis takes it: each task bound to one CPU, with known times; and why a task isn't.
//!
//! Tasks keep their indices. A task that can't be modelled stands on a CPU of its own, where it
//! disturbs nobody, and those that it may disturb have no bound either.

mod known;
mod rules;

use punctual_record::taskset::analysis::{NoBound, ServerTime, SetOverheads};
use punctual_record::taskset::{LockProtocol, Means, TaskPolicy, TaskSet, Timer, Wake};
use punctual_sched as sched;

use crate::work;
use known::Known;
use rules::Rules;

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
        // Where the interrupts of a task come that isn't bound to a CPU, and those of sleeps that may end at any time.
        let interrupt_ns = overheads.release_interrupt_ns;
        let sleeps = match converted.set.tasks[index].suspension.count {
            0 => u64::from(work::sleeps(it.task)),
            _ => 0,
        };
        let releases = u64::from(!it.is_modelled());
        let bunched_ns = work::bunched_ns(it.task, it.period_ns);
        for (times, jitter_ns) in [(releases, it.task.jitter_ns), (sleeps, bunched_ns)] {
            if times == 0 || !rules.interrupts {
                continue;
            }
            for cpu in it.may_run_on(cpus) {
                converted.set.interference.push(sched::Interference {
                    name: it.task.name.clone(),
                    cpu,
                    period_ns: converted.set.tasks[index].period_ns,
                    jitter_ns,
                    execution_ns: times.saturating_mul(interrupt_ns).min(sched::model::MAX_NS),
                });
            }
        }
    }
    converted.set.servers = servers(&known, &converted.reasons, cpus, overheads);
    converted
}

/// The fair server, then RT throttling, as far as there are such.
fn servers(
    known: &[Known<'_>],
    reasons: &[Option<NoBound>],
    cpus: u32,
    overheads: &SetOverheads,
) -> Vec<sched::Server> {
    let real_time = |it: &&Known<'_>| it.rank() != sched::Rank::Other;
    let unknown = known.iter().zip(reasons).filter(|(it, reason)| {
        // A reservation is limited, whatever its task does.
        reason.is_some() && real_time(it) && it.rank() != sched::Rank::Deadline
    });
    let mut certain: Vec<u32> = unknown.flat_map(|(it, _)| it.may_run_on(cpus)).collect();
    certain.sort_unstable();
    certain.dedup();
    let roaming: Vec<_> = known
        .iter()
        .zip(reasons)
        .filter(|(it, _)| it.rank() == sched::Rank::Deadline && !it.is_modelled())
        .collect();
    let mut also: Vec<u32> = roaming
        .iter()
        .flat_map(|(it, _)| it.may_run_on(cpus))
        .collect();
    also.sort_unstable();
    also.dedup();
    let all = [overheads.fair_server, overheads.rt_throttling];
    let server = |of: ServerTime| {
        let taken = roaming.iter().map(|(it, reason)| match it.task.policy {
            TaskPolicy::Deadline {
                runtime_ns,
                deadline_ns,
                period_ns,
            } => {
                let length_ns = of.period_ns.saturating_add(deadline_ns);
                let length_ns = length_ns.saturating_add(it.task.jitter_ns);
                let times = length_ns.div_ceil(period_ns.max(1));
                // Only a job that may be longer than the runtime is stopped, by the tick.
                let overrun_ns = reason.map_or(0, |_| of.overrun_ns);
                times.saturating_mul(runtime_ns.saturating_add(overrun_ns))
            }
            _ => 0,
        });
        let roaming_ns = taken.fold(0, u64::saturating_add).min(sched::model::MAX_NS);
        sched::Server {
            runtime_ns: of.runtime_ns,
            period_ns: of.period_ns,
            overrun_ns: of.overrun_ns,
            certain: certain.clone(),
            roaming_ns,
            also: also.clone(),
        }
    };
    all.into_iter().flatten().map(server).collect()
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
        // The one that waits sleeps and is woken, its holder gets its priority and gives it back, in a system
        // call of each. In the laboratory such a wait took 13.5 us where waking up and going to sleep took
        // 4.9, with a plain lock 9.
        contention_ns: of.wake_and_sleep_ns.saturating_mul(3),
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
        if let Wake::After { means, .. } = it.task.wake {
            // A job that is never done misses any deadline.
            task.deadline_ns = task
                .deadline_ns
                .min(none_skipped_ns(means, it.period_ns))
                .max(1);
        }
        task.jitter_ns = it.task.jitter_ns;
        // The timers of ordinary tasks may be late by their slack.
        if let Some(offset_ns) = strict_offset(it.task)
            && it.rank() != sched::Rank::Other
        {
            (task.arrivals, task.offset_ns) = (sched::Arrivals::Periodic, offset_ns);
        }
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
            .map(|(lock, length_ns)| sched::Section {
                lock: *lock,
                // Also a section without work is a user of its lock.
                length_ns: (*length_ns).max(1),
                times: it.times(*lock),
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
        // Of one without a bound the sleeps end at any time.
        if reason.is_some() || it.rank() == sched::Rank::Other {
            return task;
        }
        let slept = it.work.iter().map(|work| work.slept_ns).max().unwrap_or(0);
        task.suspension = sched::Suspension {
            count: work::sleeps(it.task),
            total_ns: slept,
        };
        task
    }
}

/// Where no job takes longer from its arrival, no release is skipped: all that are pending at an instant have arrived
/// within so long before it, at least a period apart.
pub(crate) fn none_skipped_ns(means: Means, period_ns: u64) -> u64 {
    u64::from(means.most_pending()).saturating_mul(period_ns)
}

/// The first task of a chain whose arrivals aren't at one exact distance.
pub(crate) fn not_periodic(set: &TaskSet, chain: &[usize]) -> Option<usize> {
    chain.iter().copied().find(|index| {
        let task = &set.tasks[*index];
        matches!(task.wake, Wake::Timer { .. }) && strict_offset(task).is_none()
    })
}

/// The offset of a task whose timer arrives at it and at each period after it, strictly: not where a
/// relative timer counts from the end of the job before, or phases have other periods.
fn strict_offset(task: &punctual_record::taskset::Task) -> Option<u64> {
    let Wake::Timer {
        timer,
        period_ns,
        offset_ns,
    } = task.wake
    else {
        return None;
    };
    let other = |own: Option<u64>| own.is_some_and(|own| own != period_ns);
    let drifts = timer == Timer::Relative;
    let varies = task.phases.iter().any(|phase| other(phase.period_ns));
    (!drifts && !varies).then_some(offset_ns)
}
