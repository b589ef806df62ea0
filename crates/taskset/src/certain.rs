//! What follows from a bound that is too long: that a deadline is missed, or only that it isn't known to be met.

use punctual_record::taskset::analysis::NoBound;
use punctual_record::taskset::{Chain, Task, TaskPolicy, TaskSet, Wake};
use punctual_sched as sched;
use punctual_sched::admission::{Global, Reservation, global};
use punctual_sched::demand::{Demand, EdfTask, From, Sharing, edf};

use crate::analyse::{Outcomes, is_other, may_skip, ppm};
use crate::convert::Converted;
use crate::work;

/// Of which tasks the bound counts what need not come together: of an overload all that is not one in the long run;
/// of a bound what it and the tasks above it do in sleeps and phases, and what waits and the kernel's time for ordinary
/// tasks take at most; of reservations what no job is known to need. `least` is the outcome without interrupts.
pub(crate) fn counts_worst(
    set: &TaskSet,
    cpus: u32,
    converted: &Converted,
    all: &Outcomes,
    least: Option<&Outcomes>,
) -> Vec<bool> {
    let rank = |of: &TaskPolicy| match *of {
        TaskPolicy::Deadline { .. } => u8::MAX,
        TaskPolicy::Fifo { priority } | TaskPolicy::Rr { priority } => priority,
        TaskPolicy::Other { .. } => 0,
    };
    let of = &converted.set.overheads;
    let tick_ppm = of
        .tick
        .map_or(0, |tick| ppm(tick.execution_ns, tick.period_ns));
    let each = set.tasks.iter().enumerate().map(|(at, own)| {
        let outcome = &all[at];
        if let Err(NoBound::Demand { .. }) = outcome {
            return !is_demand_certain(set, cpus, converted, own);
        }
        // A reservation's bound is its deadline, and its job may end at any time before: only what it executes
        // alone shows that it is late.
        let reserved = matches!(own.policy, TaskPolicy::Deadline { .. });
        if reserved && outcome.is_ok() {
            let is_longer = |it: u64| it > own.deadline_ns;
            return work::varies(own) || !converted.execution_ns[at].is_some_and(is_longer);
        }
        let [cpu] = own.cpus[..] else { return false };
        let here = || {
            let tasks = set.tasks.iter().enumerate();
            tasks.filter(move |(_, task)| !is_other(task.policy) && task.cpus == [cpu])
        };
        let is_above = |task: &Task| rank(&task.policy) >= rank(&own.policy);
        match outcome {
            Ok(bound) => {
                let may_vary = |(index, task): (usize, &Task)| {
                    // Of one whose jobs may come closer than its period, the runtime is counted, which they
                    // may not need.
                    let unused = match task.policy {
                        TaskPolicy::Deadline { period_ns, .. } => {
                            let of = &converted.set.tasks[index];
                            let bunched = of.period_ns.saturating_sub(of.jitter_ns) < period_ns;
                            bunched || all[index].is_err()
                        }
                        _ => false,
                    };
                    let same = !std::ptr::eq(task, own) && rank(&task.policy) == rank(&own.policy);
                    let released = matches!(task.wake, Wake::After { .. });
                    // Jobs that are not executed are counted.
                    let skips = !std::ptr::eq(task, own) && may_skip(set, converted, all, index);
                    is_above(task) && (work::varies(task) || released || same || unused || skips)
                };
                // Of both only the most is known.
                let waits = |part: &sched::Part| {
                    matches!(
                        part.source,
                        sched::Source::Blocking | sched::Source::Server(_)
                    )
                };
                // Which interrupts come within it nobody knows: without them it is late too, or that isn't known.
                let is_late = |it: &&sched::Bound| it.response_ns > own.deadline_ns;
                let least = match least {
                    Some(least) => least[at].as_ref().ok().filter(is_late),
                    None => Some(bound),
                };
                let Some(least) = least else { return true };
                let counted = here().filter(|(_, task)| is_above(task));
                let counted = counted.map(|(at, _)| &converted.set.tasks[at]);
                here().any(may_vary)
                    || bound.parts.iter().any(waits)
                    || come_apart(counted, least.at_offsets)
            }
            Err(NoBound::Overload) => {
                let shares = here().map(|(index, task)| {
                    // It waits for its own jobs: where it is delayed, it asks for less.
                    if set.drifts(index) {
                        return 0;
                    }
                    let period_ns = set.mean_period_ns(index).unwrap_or(1);
                    let kernel = ppm(of.release_interrupt_ns, period_ns);
                    if !is_above(task) {
                        return kernel;
                    }
                    let own = work::share_ppm(set, index).saturating_add(kernel);
                    own.saturating_add(ppm(of.wake_ns, period_ns))
                });
                shares.fold(tick_ppm, u64::saturating_add) <= 1_000_000
            }
            Err(_) => false,
        }
    });
    each.collect()
}

/// Whether these tasks never all arrive together, and the bound is not that of their offsets alone.
fn come_apart<'t>(tasks: impl Iterator<Item = &'t sched::Task>, at_offsets: bool) -> bool {
    let all: Vec<&sched::Task> = tasks.collect();
    let is_strict = |task: &&sched::Task| task.arrivals == sched::Arrivals::Periodic;
    // Those that come when they are done drift past one another, or never meet.
    if all.len() > 1 && !all.iter().all(is_strict) {
        return true;
    }
    // Each as late as it may be released.
    let arrivals = all.iter().map(|it| {
        let latest_ns = it.offset_ns.saturating_add(it.jitter_ns);
        (it.period_ns, latest_ns % it.period_ns.max(1))
    });
    let periods = all.iter().map(|it| it.period_ns);
    let exact = at_offsets && sched::is_one_group(periods);
    !sched::coincide(&arrivals.collect::<Vec<_>>()) && !exact
}

/// Whether jobs need more than there is, by what they execute and not by what is reserved for them: of those beside a
/// task that is.
fn is_demand_certain(set: &TaskSet, all_cpus: u32, converted: &Converted, own: &Task) -> bool {
    let beside = set.tasks.iter().enumerate();
    let beside = beside.filter(|(_, task)| {
        matches!(task.policy, TaskPolicy::Deadline { .. }) && task.cpus == own.cpus
    });
    let of = |(index, task): (usize, &Task)| {
        let Wake::Timer { offset_ns: 0, .. } = task.wake else {
            return None;
        };
        let strict = converted.set.tasks[index].arrivals == sched::Arrivals::Periodic;
        if !strict || work::varies(task) || task.jitter_ns > 0 {
            return None;
        }
        Some(Reservation {
            runtime_ns: converted.execution_ns[index]?,
            deadline_ns: task.deadline_ns,
            period_ns: converted.set.tasks[index].period_ns,
        })
    };
    let Some(jobs) = beside.map(of).collect::<Option<Vec<_>>>() else {
        return false;
    };
    let cpus = match own.cpus.len() {
        0 => all_cpus,
        cpus => cpus as u32,
    };
    if cpus > 1 {
        return matches!(global(&jobs, cpus), Global::Impossible { .. });
    }
    let each = jobs.iter().map(|job| EdfTask {
        execution_ns: job.runtime_ns,
        period_ns: job.period_ns,
        jitter_ns: 0,
        deadline_ns: job.deadline_ns,
        deadline_from: From::Arrival,
        sections: Vec::new(),
    });
    let each: Vec<EdfTask> = each.collect();
    matches!(edf(&each, Sharing::Inherit), Demand::Exceeded { .. })
}

/// Whether a limit of a chain is below what it takes at least: from one reading to the next, and through all its jobs.
/// How its tasks come one after the other beyond that, no bound knows.
pub(crate) fn is_beyond_least(set: &TaskSet, converted: &Converted, chain: &Chain) -> bool {
    // Of one whose jobs differ only the longest is known.
    let alike = chain
        .tasks
        .iter()
        .filter(|task| !work::varies(&set.tasks[**task]));
    let jobs_ns = alike.fold(0u64, |sum, task| {
        sum.saturating_add(converted.execution_ns[*task].unwrap_or(0))
    });
    let first = chain.tasks.first();
    let between_ns = first.map_or(0, |first| converted.set.tasks[*first].period_ns);
    let below = |limit_ns: Option<u64>, least_ns: u64| limit_ns.is_some_and(|it| it < least_ns);
    below(chain.reaction_ns, between_ns.saturating_add(jobs_ns)) || below(chain.age_ns, jobs_ns)
}
