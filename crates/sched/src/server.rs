//! Where ordinary tasks may take the CPU from real-time tasks: the fair server and RT throttling.
//!
//! From Linux 6.12 on, each CPU has a reservation for its ordinary tasks (`fair_server`,
//! kernel/sched/deadline.c and fair.c): a runtime `Q` in each period `P`, by default 50 ms in 1 s. As
//! a `SCHED_DEADLINE` entity it is above all fixed priorities, but it is *deferred* (`dl_defer`):
//!
//! - When an ordinary task wakes up and none was there (`dl_server_start`), the server gets a deadline
//!   `P` later and the runtime `Q`; it is throttled, and its timer set to `deadline - runtime`
//!   (`replenish_dl_new_period`: `dl_defer_armed`; `start_dl_timer`).
//! - What ordinary tasks execute meanwhile in the background is taken from that runtime
//!   (`update_curr_dl_se`), and so is time in which the CPU is idle (`dl_server_update_idle_time`). If
//!   that is all of it, a new period begins, deferred again.
//! - At the timer, what was taken since then moves it (`dl_server_timer`: `hrtimer_forward_now`, if more
//!   than `dl_server_min_res`, 1 ms, is left). Only otherwise the server runs (`dl_defer_running`).
//!
//! So it runs no earlier than at an instant at which `P` less the runtime that is left has passed since
//! its period began, less 1 ms: the CPU was neither idle nor with ordinary tasks for `P - Q` less 1 ms,
//! within less than `P`. **Where real-time tasks and the kernel can't take that much of any interval of
//! length `P`, the server never runs above them.** A busy period that is shorter doesn't exclude it: many
//! of them, each followed by a short pause, leave ordinary tasks less than `Q` too. The pauses are noticed
//! up to a tick late, which is counted.
//!
//! Once it runs, it goes on for `Q` and up to the next tick, and at once in the next period
//! (`replenish_dl_entity`, while `dl_defer_running`): it is counted as a task above all others, with
//! the rest of the period as jitter. A CPU on which something else starved ordinary tasks just before
//! the set began isn't modelled.
//!
//! RT throttling (`sched_rt_runtime_us`; before 6.12, and with `RT_GROUP_SCHED`) stops real-time tasks
//! that have executed for `P - Q` within a period, until its end: the same condition excludes it, and it
//! takes no more.

use std::collections::{BTreeMap, BTreeSet};

use crate::analysis::{Analysis, cost};
use crate::blocking::Locks;
use crate::bound::Source;
use crate::model::{MAX_NS, Policy, Rank, Server, TaskSet};
use crate::steps::{Request, sum_in_window};

/// `dl_server_min_res` of the kernel: so much earlier the server may run.
const EARLY_NS: u64 = 1_000_000;

/// Steps to the end of a busy period before it counts as not bounded.
const MOST_STEPS: usize = 10_000;

/// What is known of a server on a CPU.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ServerCase {
    /// Ordinary tasks may get its runtime while real-time tasks wait: that is counted in the bounds.
    /// Otherwise they never do.
    pub may_run: bool,
    /// What real-time tasks and the kernel take at most of an interval as long as its period; none where
    /// that isn't bounded.
    pub taken_ns: Option<u64>,
}

/// What it asks for where it may run.
pub(crate) fn request(index: usize, of: &Server) -> Request {
    let cost_ns = of.runtime_ns.saturating_add(of.overrun_ns);
    let jitter_ns = of.period_ns - of.runtime_ns;
    Request::new(Source::Server(index), cost_ns, of.period_ns, jitter_ns)
}

/// All servers on all CPUs of which they must be known.
pub(crate) fn everywhere(set: &TaskSet) -> BTreeSet<(usize, u32)> {
    let real_time = set.tasks.iter().filter(|task| task.rank() != Rank::Other);
    let cpus: BTreeSet<u32> = real_time.map(|task| task.cpu).collect();
    let servers = set.servers.iter().enumerate();
    let each = servers.flat_map(|(at, of)| {
        let all = cpus.iter().chain(&of.also);
        all.map(move |cpu| (at, *cpu))
    });
    each.collect()
}

/// Those that may run whatever the set does.
pub(crate) fn certain(set: &TaskSet) -> BTreeSet<(usize, u32)> {
    let all = everywhere(set).into_iter();
    all.filter(|(at, cpu)| set.servers[*at].certain.contains(cpu))
        .collect()
}

/// Each server on each CPU, as these bounds have it; those that run already stay as they are known.
pub(crate) fn cases(
    set: &TaskSet,
    analysis: &Analysis,
    running: &BTreeSet<(usize, u32)>,
    known: Vec<BTreeMap<u32, ServerCase>>,
) -> Vec<BTreeMap<u32, ServerCase>> {
    let mut cases = known;
    cases.resize(set.servers.len(), BTreeMap::new());
    if set.servers.is_empty() {
        return cases;
    }
    let blocking = blocking(set);
    for (at, cpu) in everywhere(set) {
        let of = &set.servers[at];
        if cases[at].get(&cpu).is_some_and(|known| known.may_run) {
            continue;
        }
        let certain = of.certain.contains(&cpu);
        let busy_ns = busy_ns(set, running, cpu);
        let taken_ns = taken_ns(set, analysis, (&blocking, busy_ns), cpu, of).filter(|_| !certain);
        let early_ns = EARLY_NS.saturating_add(of.overrun_ns);
        let left = |taken: u64| taken.saturating_add(early_ns) < of.period_ns - of.runtime_ns;
        let may_run = running.contains(&(at, cpu)) || !taken_ns.is_some_and(left);
        cases[at].insert(cpu, ServerCase { may_run, taken_ns });
    }
    cases
}

/// For each task how long ordinary tasks that inherit its priority may execute for one of its jobs.
fn blocking(set: &TaskSet) -> Vec<Option<u64>> {
    let locks = Locks::of(set);
    let of = |task: usize| {
        let once = locks.blocking_by_ordinary_ns(task).ok()?;
        let times = u64::from(set.tasks[task].suspension.count) + 1;
        Some(once.saturating_mul(times))
    };
    (0..set.tasks.len()).map(of).collect()
}

/// The jitter of the task whose arrivals release this one, directly or by others' ends: until then this CPU
/// has the work of one of them. None where one of them is elsewhere or ordinary, or waits after that end.
fn first_jitter_ns(set: &TaskSet, task: usize) -> Option<u64> {
    let of = &set.tasks[task];
    let mut first = of;
    while let Some(before) = first.after {
        let earlier = &set.tasks[before];
        let here = earlier.cpu == of.cpu && matches!(earlier.policy, Policy::Fixed { .. });
        if !here || first.jitter_ns > 0 {
            return None;
        }
        first = earlier;
    }
    Some(first.jitter_ns)
}

/// How long a CPU can be busy with real-time tasks without a pause, in whatever order: so long after its
/// release each job has ended, also one of a task without a bound, as its CPU has real-time work to do until
/// then. None where a job may wait for anything else: a sleep, the end of a task elsewhere, another CPU or an
/// ordinary task that holds a lock, a reservation.
fn busy_ns(set: &TaskSet, running: &BTreeSet<(usize, u32)>, cpu: u32) -> Option<u64> {
    let overheads = &set.overheads;
    let foreign = |lock: usize| {
        let mut users = set.tasks.iter().filter(|it| {
            let mut sections = it.sections.iter();
            sections.any(|section| section.lock == lock)
        });
        users.any(|it| it.cpu != cpu || it.rank() == Rank::Other)
    };
    let mut all = Vec::new();
    for (index, one) in set.interference.iter().enumerate() {
        if one.cpu == cpu {
            let source = Source::Interference(index);
            let (cost_ns, jitter_ns) = (one.execution_ns, one.jitter_ns);
            all.push(Request::new(source, cost_ns, one.period_ns, jitter_ns));
        }
    }
    for (index, one) in set.servers.iter().enumerate() {
        if running.contains(&(index, cpu)) {
            all.push(request(index, one));
        }
    }
    if let Some(tick) = overheads.tick {
        let (cost_ns, period_ns) = (tick.execution_ns, tick.period_ns);
        all.push(Request::new(Source::Tick, cost_ns, period_ns, 0));
    }
    let of_cpu = set.tasks.iter().enumerate().filter(|(_, it)| it.cpu == cpu);
    for (index, task) in of_cpu {
        let interrupt_ns = overheads.release_interrupt_ns;
        let unknown = task.after.is_some() || task.suspension.count > 0;
        let cost_ns = match task.policy {
            Policy::Other if unknown && interrupt_ns > 0 => return None,
            Policy::Other => 0,
            Policy::Deadline { .. } => return None,
            Policy::Fixed { .. } => {
                let waits = task.suspension.count > 0;
                if waits || task.sections.iter().any(|it| foreign(it.lock)) {
                    return None;
                }
                cost(set, index)
            }
        };
        let (source, cost_ns) = (Source::Task(index), cost_ns.saturating_add(interrupt_ns));
        let jitter_ns = first_jitter_ns(set, index)?;
        all.push(Request::new(source, cost_ns, task.period_ns, jitter_ns));
    }
    // An ordinary task that can't be preempted may come first.
    let mut busy_ns = overheads.nonpreemptible_ns.saturating_add(1);
    for _ in 0..MOST_STEPS {
        let next_ns = sum_in_window(&all, busy_ns).saturating_add(overheads.nonpreemptible_ns);
        if next_ns <= busy_ns {
            return Some(busy_ns);
        }
        busy_ns = next_ns;
        if busy_ns > MAX_NS {
            return None;
        }
    }
    None
}

/// What real-time tasks and the kernel execute at most in an interval as long as the server's period.
///
/// A job executes between its arrival and its response: of a task with execution `C`, period `T` and
/// bound `R` no more than `ceil((L + R - C) / T) C` in an interval of length `L`. Without a bound, `R` is the
/// longest busy time of the CPU.
fn taken_ns(
    set: &TaskSet,
    analysis: &Analysis,
    (blocking, busy_ns): (&[Option<u64>], Option<u64>),
    cpu: u32,
    of: &Server,
) -> Option<u64> {
    let length_ns = of.period_ns;
    let overheads = &set.overheads;
    let mut taken = of.roaming_ns;
    let mut add = |request: &Request| {
        taken = taken.saturating_add(request.in_window(length_ns));
    };
    for (index, one) in set.interference.iter().enumerate() {
        if one.cpu == cpu {
            let source = Source::Interference(index);
            add(&Request::new(
                source,
                one.execution_ns,
                one.period_ns,
                one.jitter_ns,
            ));
        }
    }
    if let Some(tick) = overheads.tick {
        add(&Request::new(
            Source::Tick,
            tick.execution_ns,
            tick.period_ns,
            0,
        ));
    }
    for (index, task) in set.tasks.iter().enumerate() {
        if task.cpu != cpu {
            continue;
        }
        let bound = analysis.tasks[index].as_ref();
        let source = Source::Task(index);
        let wakes = overheads.release_interrupt_ns > 0 && task.suspension.count > 0;
        let (cost_ns, late_ns) = match (task.policy, bound) {
            // When its suspensions end isn't known.
            (_, Err(_)) if wakes => return None,
            // Its interrupts come as they may.
            (Policy::Other, _) if task.after.is_none() => (0, task.jitter_ns),
            (Policy::Other, _) if overheads.release_interrupt_ns == 0 => continue,
            (Policy::Other, _) => return None,
            (_, Ok(bound)) => {
                let cost_ns = cost(set, index).saturating_add(blocking[index]?);
                (cost_ns, bound.response_ns)
            }
            (
                Policy::Deadline {
                    runtime_ns,
                    deadline_ns,
                    period_ns,
                },
                Err(_),
            ) => {
                // Whatever it does, its reservation limits it.
                let overrun_ns = of.overrun_ns.saturating_add(2 << 10);
                let cost_ns = runtime_ns.saturating_add(overrun_ns);
                add(&Request::new(source, cost_ns, period_ns, deadline_ns));
                (0, task.jitter_ns)
            }
            (Policy::Fixed { .. }, Err(_)) => {
                let jitter_ns = first_jitter_ns(set, index)?;
                (cost(set, index), jitter_ns.saturating_add(busy_ns?))
            }
        };
        let jitter_ns = late_ns.saturating_sub(cost_ns);
        add(&Request::new(source, cost_ns, task.period_ns, jitter_ns));
        let interrupt_ns = overheads.release_interrupt_ns;
        add(&Request::new(source, interrupt_ns, task.period_ns, late_ns));
    }
    Some(taken)
}
