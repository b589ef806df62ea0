//! Bounds on the response times of a set, and why there are none.

use punctual_record::document::Printed;
use std::borrow::Cow;
use std::collections::BTreeMap;

use punctual_record::taskset::analysis::{
    Admission, AnalysisOutcome, BoundPart, BoundSource, ChainAnalysis, ChainLatency, CpuLoad,
    NoBound, OrdinaryBy, OrdinaryTime, Response, SetAnalysis, SetOverheads, TaskAnalysis,
};
use punctual_record::taskset::{Chain, TaskPolicy, TaskSet, Wake};
use punctual_sched as sched;
use punctual_sched::admission::{Answer, Global, Reservation, admit, global};
use punctual_sched::chain::{Broken, ChainLimit, latency};
use punctual_sched::demand::Demand;
use punctual_sched::sensitivity::{largest_factor_ppm, slack_ns};

pub use punctual_sched::admission::Limits;

use crate::certain::{counts_worst, is_beyond_least};
use crate::convert::{Converted, convert, none_skipped_ns, not_periodic};
use crate::work;

/// How much longer the jobs of each task may take is computed for sets of at most so many tasks.
pub const MOST_SLACKS: usize = 24;

/// Where a set is to run.
#[derive(Debug, Clone, Copy)]
pub struct Machine {
    /// What the kernel admits; with the number of CPUs.
    pub limits: Limits,
    /// What the kernel takes.
    pub overheads: SetOverheads,
}

/// Analyses a set that was read: nothing is wrong with it.
#[must_use]
pub fn analyse(set: &TaskSet, machine: &Machine) -> SetAnalysis {
    let cpus = machine.limits.cpus.max(1);
    let asked = set;
    let set = &*placed(set, cpus);
    let (converted, analysed, of_all) = on(set, machine);
    let all_bounded =
        (0..set.tasks.len()).all(|task| is_other(set.tasks[task].policy) || of_all[task].is_ok());
    let any = set.tasks.iter().any(|task| !is_other(task.policy));
    let computable = any && all_bounded && converted.global.is_empty();
    let answers = answers(asked, &machine.limits);
    let least = uninterrupted(machine).map(|machine| on(set, &machine).2);
    let worst = counts_worst(set, cpus, &converted, &of_all, least.as_ref());
    let chains: Vec<ChainAnalysis> = set
        .chains
        .iter()
        .map(|chain| ChainAnalysis {
            counts_worst: !is_beyond_least(set, &converted, chain),
            ..of_chain(set, &converted, &of_all, chain)
        })
        .collect();
    let limits = limits(&chains);
    let tasks: Vec<TaskAnalysis> = set
        .tasks
        .iter()
        .enumerate()
        .map(|(index, task)| {
            let real_time = !is_other(task.policy);
            let slack = computable && real_time && set.tasks.len() <= MOST_SLACKS;
            let more = slack.then(|| slack_ns(&converted.set, index, &limits).ok().flatten());
            TaskAnalysis {
                name: task.name.clone(),
                policy: task.policy,
                cpus: asked.tasks[index].cpus.clone(),
                period_ns: converted.set.tasks[index].period_ns,
                deadline_ns: task.deadline_ns,
                execution_ns: converted.execution_ns[index],
                response: match &of_all[index] {
                    _ if !real_time => Response::BestEffort,
                    Ok(bound) => bounded(bound, &converted, set, &kinds(&machine.overheads)),
                    Err(why) => Response::Unbounded { why: *why },
                },
                counts_worst: worst[index],
                may_take_longer_ns: more.flatten(),
                admission: answers[index],
            }
        })
        .collect();
    let factor = computable.then(|| largest_factor_ppm(&converted.set, &limits).ok());
    SetAnalysis {
        version: SetAnalysis::VERSION,
        name: set.name.clone(),
        cpus,
        overheads: machine.overheads,
        outcome: outcome(&tasks, &chains),
        locks: set.locks.iter().map(|lock| lock.name.clone()).collect(),
        loads: loads(set, &converted, analysed.as_ref(), &machine.overheads),
        tasks,
        chains,
        largest_factor_ppm: factor.flatten(),
    }
}

/// The limits of chains that have a bound.
fn limits(chains: &[ChainAnalysis]) -> Vec<ChainLimit> {
    let bounded = chains
        .iter()
        .filter(|it| matches!(it.latency, ChainLatency::Bounded { .. }));
    let limited = bounded.filter(|it| it.reaction_limit_ns.or(it.age_limit_ns).is_some());
    let limit = |of: &ChainAnalysis| ChainLimit {
        tasks: of.tasks.clone(),
        reaction_ns: of.reaction_limit_ns,
        age_ns: of.age_limit_ns,
    };
    limited.map(limit).collect()
}

/// The set where each task has its CPU: of one that has only one.
fn placed(set: &TaskSet, cpus: u32) -> Cow<'_, TaskSet> {
    if cpus > 1 || set.tasks.iter().all(|task| !task.cpus.is_empty()) {
        return Cow::Borrowed(set);
    }
    let mut placed = set.clone();
    for task in &mut placed.tasks {
        if task.cpus.is_empty() {
            task.cpus = vec![0];
        }
    }
    Cow::Owned(placed)
}

/// A set on a machine as the analysis takes it, the analysis, and what it says of each task.
fn on(set: &TaskSet, machine: &Machine) -> (Converted, Option<sched::Analysis>, Outcomes) {
    let converted = convert(set, machine.limits.cpus.max(1), &machine.overheads);
    // The limits of a set that was read are narrower than those of the analysis.
    let analysed = sched::analyse(&converted.set).ok();
    let outcomes = outcomes(set, &converted, analysed.as_ref(), machine);
    (converted, analysed, outcomes)
}

/// The same machine without interrupts, if it has any.
fn uninterrupted(machine: &Machine) -> Option<Machine> {
    let overheads = SetOverheads {
        release_interrupt_ns: 0,
        tick: None,
        ..machine.overheads
    };
    (overheads != machine.overheads).then_some(Machine {
        overheads,
        ..*machine
    })
}

pub(crate) fn is_other(policy: TaskPolicy) -> bool {
    matches!(policy, TaskPolicy::Other { .. })
}

fn outcome(tasks: &[TaskAnalysis], chains: &[ChainAnalysis]) -> AnalysisOutcome {
    let judged = tasks
        .iter()
        .filter(|task| task.response != Response::BestEffort);
    let limited = chains
        .iter()
        .filter(|chain| chain.reaction_limit_ns.is_some() || chain.age_limit_ns.is_some());
    let all: Vec<Option<bool>> = judged
        .map(TaskAnalysis::meets)
        .chain(limited.map(ChainAnalysis::meets))
        .collect();
    if all.contains(&Some(false)) {
        AnalysisOutcome::NotMet
    } else if all.is_empty() || all.contains(&None) {
        AnalysisOutcome::Unbounded
    } else {
        AnalysisOutcome::Met
    }
}

pub(crate) type Outcomes = Vec<Result<sched::Bound, NoBound>>;

fn outcomes(
    set: &TaskSet,
    converted: &Converted,
    analysed: Option<&sched::Analysis>,
    machine: &Machine,
) -> Outcomes {
    let of = |index: usize| match (&converted.reasons[index], analysed) {
        (Some(why), _) => Err(*why),
        (None, Some(analysis)) => analysis.tasks[index].clone().map_err(|why| no_bound(&why)),
        (None, None) => Err(NoBound::TooManySteps),
    };
    let mut all: Outcomes = (0..set.tasks.len()).map(of).collect();
    let servers = analysed.map_or(&[][..], |analysis| &analysis.servers);
    let server_runs = servers
        .iter()
        .zip(&converted.set.servers)
        .any(|(cases, of)| {
            let mut shared = of.also.iter().filter_map(|cpu| cases.get(cpu));
            shared.any(|case| case.may_run)
        });
    of_global(set, converted, machine, server_runs, &mut all);
    beside_unbounded(set, servers, &mut all);
    for (index, outcome) in all.iter_mut().enumerate() {
        let Wake::After { means, .. } = set.tasks[index].wake else {
            continue;
        };
        let most_ns = none_skipped_ns(means, converted.set.tasks[index].period_ns);
        if outcome.as_ref().is_ok_and(|it| it.response_ns > most_ns) {
            let pending = means.most_pending();
            *outcome = Err(NoBound::ReleasesSkipped { pending });
        }
    }
    all
}

/// A bound beyond its deadline says nothing against the set where it counts time of ordinary tasks only
/// because a task of that CPU has no bound: what is missing is that task's.
fn beside_unbounded(
    set: &TaskSet,
    servers: &[BTreeMap<u32, sched::server::ServerCase>],
    all: &mut Outcomes,
) {
    let unbounded = |cpu: usize| {
        let mut tasks = set.tasks.iter().zip(all.iter()).enumerate();
        let (found, _) = tasks.find(|(_, (task, outcome))| {
            !is_other(task.policy) && outcome.is_err() && task.cpus.contains(&cpu)
        })?;
        Some(found)
    };
    let unknown = |source: sched::Source, cpu: usize| {
        let sched::Source::Server(at) = source else {
            return false;
        };
        let case = servers.get(at).and_then(|cases| cases.get(&(cpu as u32)));
        case.is_some_and(|case| case.taken_ns.is_none())
    };
    let reasons = set.tasks.iter().zip(all.iter()).map(|(task, outcome)| {
        let (Ok(bound), [cpu]) = (outcome, &task.cpus[..]) else {
            return None;
        };
        let counted = bound.parts.iter().any(|part| unknown(part.source, *cpu));
        let task = (counted && bound.response_ns > task.deadline_ns).then(|| unbounded(*cpu))??;
        Some(NoBound::OrdinaryTasks { task })
    });
    let reasons: Vec<_> = reasons.collect();
    for (outcome, reason) in all.iter_mut().zip(reasons) {
        if let Some(why) = reason {
            *outcome = Err(why);
        }
    }
}

/// `SCHED_DEADLINE` tasks that share all CPUs: each as a sporadic task that needs its whole runtime.
fn of_global(
    set: &TaskSet,
    converted: &Converted,
    machine: &Machine,
    server_runs: bool,
    all: &mut Outcomes,
) {
    let reservation = |index: &usize| reservation(set.tasks[*index].policy);
    let reserved: Vec<Reservation> = converted.global.iter().filter_map(reservation).collect();
    let masks: Vec<&Vec<usize>> = converted
        .global
        .iter()
        .map(|index| &set.tasks[*index].cpus)
        .collect();
    let one_domain = masks.windows(2).all(|pair| pair[0] == pair[1]);
    let cpus = match masks.first() {
        Some(mask) if !mask.is_empty() => mask.len() as u32,
        _ => machine.limits.cpus,
    };
    let verdict = global(&reserved, cpus);
    for (&index, reservation) in converted.global.iter().zip(&reserved) {
        let task = &set.tasks[index];
        let needed_ns = needed(
            set,
            converted,
            machine,
            (index, reservation.deadline_ns),
            all,
        );
        let response_ns = task.jitter_ns.saturating_add(reservation.deadline_ns);
        all[index] = match verdict {
            _ if !one_domain => Err(NoBound::SeveralCpus),
            _ if needed_ns > reservation.runtime_ns => Err(NoBound::Throttled { needed_ns }),
            Global::Met if server_runs => Err(NoBound::FairServer),
            Global::Met => Ok(sched::Bound {
                response_ns,
                from_release_ns: reservation.deadline_ns,
                job: 0,
                jitter_ns: task.jitter_ns,
                arrival_in_window_ns: 0,
                at_offsets: false,
                parts: Vec::new(),
            }),
            Global::Impossible {
                interval_ns,
                demand_ns,
            } => Err(NoBound::Demand {
                interval_ns,
                demand_ns,
            }),
            Global::Unknown => Err(NoBound::GlobalUndecided),
        };
    }
}

/// What a job needs within a deadline, with the interrupts of all tasks, wherever they come.
fn needed(
    set: &TaskSet,
    converted: &Converted,
    machine: &Machine,
    (index, window_ns): (usize, u64),
    known: &Outcomes,
) -> u64 {
    let of = &machine.overheads;
    let mut all = converted.execution_ns[index].unwrap_or(u64::MAX);
    all = all.saturating_add(of.wake_and_sleep_ns);
    if let Some(tick) = of.tick {
        let ticks = window_ns.div_ceil(tick.period_ns.max(1)).saturating_add(1);
        all = all.saturating_add(ticks.saturating_mul(tick.execution_ns));
    }
    for (other, task) in set.tasks.iter().enumerate() {
        let period_ns = converted.set.tasks[other].period_ns.max(1);
        let releases = window_ns.saturating_add(task.jitter_ns).div_ceil(period_ns);
        // Where a job ends that sleeps within it, the interrupts are no later.
        let late_ns = match &known[other] {
            Ok(bound) => bound.response_ns,
            Err(_) => work::bunched_ns(task, period_ns),
        };
        let jobs = window_ns.saturating_add(late_ns).div_ceil(period_ns);
        let wakes = jobs.saturating_mul(work::sleeps(task).into());
        let interrupts = releases.saturating_add(1).saturating_add(wakes);
        let interrupts = interrupts.saturating_mul(of.release_interrupt_ns);
        all = all.saturating_add(interrupts);
    }
    all
}

fn reservation(policy: TaskPolicy) -> Option<Reservation> {
    let TaskPolicy::Deadline {
        runtime_ns,
        deadline_ns,
        period_ns,
    } = policy
    else {
        return None;
    };
    Some(Reservation {
        runtime_ns,
        deadline_ns,
        period_ns,
    })
}

/// What the kernel answers to each task's reservation, in the order of the set.
fn answers(set: &TaskSet, limits: &Limits) -> Vec<Option<Admission>> {
    let reserved: Vec<Reservation> = set
        .tasks
        .iter()
        .filter_map(|task| reservation(task.policy))
        .collect();
    let mut answers = admit(&reserved, limits).into_iter();
    set.tasks
        .iter()
        .map(|task| {
            reservation(task.policy)?;
            answers.next().map(|answer| match answer {
                Answer::Admitted => Admission::Admitted,
                Answer::Invalid => Admission::Invalid,
                Answer::Busy => Admission::Busy,
            })
        })
        .collect()
}

fn bounded(
    bound: &sched::Bound,
    converted: &Converted,
    set: &TaskSet,
    kinds: &[OrdinaryBy],
) -> Response {
    let source = |source: sched::Source| match source {
        sched::Source::Itself => BoundSource::Itself,
        sched::Source::Suspension => BoundSource::Sleep,
        sched::Source::Task(task) => BoundSource::Task { task },
        sched::Source::Blocking => BoundSource::Blocking,
        sched::Source::ReleaseInterrupt(task) => BoundSource::ReleaseInterrupt { task },
        sched::Source::Tick => BoundSource::Tick,
        sched::Source::Server(index) => match kinds.get(index) {
            Some(OrdinaryBy::RtThrottling) => BoundSource::RtThrottling,
            _ => BoundSource::FairServer,
        },
        sched::Source::Interference(index) => {
            let name = converted.set.interference.get(index).map(|one| &one.name);
            let task = set.tasks.iter().position(|task| Some(&task.name) == name);
            task.map_or(BoundSource::Other, |task| BoundSource::ReleaseInterrupt {
                task,
            })
        }
        _ => BoundSource::Other,
    };
    Response::Bounded {
        response_ns: bound.response_ns,
        job: bound.job,
        jitter_ns: bound.jitter_ns,
        arrival_in_window_ns: bound.at_offsets.then_some(bound.arrival_in_window_ns),
        parts: bound
            .parts
            .iter()
            .map(|part| BoundPart {
                source: source(part.source),
                ns: part.ns,
            })
            .collect(),
    }
}

fn no_bound(why: &sched::Unbounded) -> NoBound {
    use sched::Unbounded as From;
    match *why {
        From::Overload => NoBound::Overload,
        From::PlainLock { lock } => NoBound::PlainLock { lock },
        From::LockAcrossCpus { lock } => NoBound::LockAcrossCpus { lock },
        From::LockWithDeadlineTask { lock } => NoBound::LockWithDeadlineTask { lock },
        From::After { task } => NoBound::After { task },
        From::Suspending { task } => NoBound::Interferer { task },
        From::Throttled { needed_ns } => NoBound::Throttled { needed_ns },
        From::FasterThanReservation => NoBound::FasterThanReservation,
        From::SuspendingDeadlineTask => NoBound::SleepsInReservation,
        From::Demand {
            interval_ns,
            demand_ns,
        } => NoBound::Demand {
            interval_ns,
            demand_ns,
        },
        From::TooLong => NoBound::TooLong,
        _ => NoBound::TooManySteps,
    }
}

/// What the servers of the analysis are, in their order.
fn kinds(of: &SetOverheads) -> Vec<OrdinaryBy> {
    let fair = of.fair_server.map(|_| OrdinaryBy::FairServer);
    let throttling = of.rt_throttling.map(|_| OrdinaryBy::RtThrottling);
    fair.into_iter().chain(throttling).collect()
}

fn loads(
    set: &TaskSet,
    converted: &Converted,
    analysed: Option<&sched::Analysis>,
    overheads: &SetOverheads,
) -> Vec<CpuLoad> {
    let demand = |cpu: usize| analysed?.demand.get(&(cpu as u32));
    let ordinary = |cpu: usize| -> Vec<OrdinaryTime> {
        let servers = analysed.map_or(&[][..], |analysis| &analysis.servers);
        let cases = kinds(overheads).into_iter().zip(servers);
        let of = cases.filter_map(|(by, cases)| {
            let case = cases.get(&(cpu as u32))?;
            Some(OrdinaryTime {
                by,
                may_run: case.may_run,
                taken_ns: case.taken_ns,
            })
        });
        of.collect()
    };
    let mut loads: BTreeMap<usize, CpuLoad> = BTreeMap::new();
    let of = &converted.set.overheads;
    for (index, task) in set.tasks.iter().enumerate() {
        let (false, [cpu]) = (is_other(task.policy), &task.cpus[..]) else {
            continue;
        };
        let load = loads.entry(*cpu).or_insert_with(|| CpuLoad {
            cpu: *cpu,
            tasks_ppm: 0,
            all_ppm: of
                .tick
                .map_or(0, |tick| ppm(tick.execution_ns, tick.period_ns)),
            unknown: 0,
            demand_met: demand(*cpu).map(|it| *it == Demand::Met),
            ordinary: ordinary(*cpu),
        });
        if converted.execution_ns[index].is_none() {
            load.unknown += 1;
            continue;
        }
        let period_ns = set.mean_period_ns(index).unwrap_or(1);
        let kernel = of.release_interrupt_ns.saturating_add(of.wake_ns);
        let share = work::share_ppm(set, index);
        load.tasks_ppm = load.tasks_ppm.saturating_add(share);
        let all = share.saturating_add(ppm(kernel, period_ns));
        load.all_ppm = load.all_ppm.saturating_add(all);
    }
    loads.into_values().collect()
}

pub(crate) fn ppm(part: u64, whole: u64) -> u64 {
    let share = u128::from(part) * 1_000_000 / u128::from(whole.max(1));
    u64::try_from(share).unwrap_or(u64::MAX)
}

/// The task whose timer releases a task, directly or by others' ends.
fn timer_of(set: &TaskSet, task: usize) -> usize {
    let mut first = task;
    // A set that was read has no circle.
    for _ in 0..set.tasks.len() {
        match set.tasks[first].wake {
            Wake::After { task: before, .. } => first = before,
            Wake::Timer { .. } => break,
        }
    }
    first
}

/// Whether a job of a task with a timer may end after the deadline of the next one, which then is not executed.
pub(crate) fn may_skip(
    set: &TaskSet,
    converted: &Converted,
    outcomes: &Outcomes,
    task: usize,
) -> bool {
    let (of, period_ns) = (&set.tasks[task], converted.set.tasks[task].period_ns);
    let is_longer = |it: &sched::Bound| it.response_ns > period_ns.saturating_add(of.deadline_ns);
    matches!(of.wake, Wake::Timer { .. }) && outcomes[task].as_ref().is_ok_and(is_longer)
}

fn of_chain(
    set: &TaskSet,
    converted: &Converted,
    outcomes: &Outcomes,
    chain: &Chain,
) -> ChainAnalysis {
    let skips = || {
        let mut timers = chain.tasks.iter().map(|task| timer_of(set, *task));
        timers.find(|task| may_skip(set, converted, outcomes, *task))
    };
    let latency = if let Some(task) = not_periodic(set, &chain.tasks) {
        ChainLatency::NotPeriodic { task }
    } else if let Some(task) = skips() {
        ChainLatency::Skips { task }
    } else {
        let no = |_: &NoBound| sched::Unbounded::NoGuarantee;
        let analysis = sched::Analysis {
            tasks: outcomes
                .iter()
                .map(|outcome| outcome.as_ref().map_err(no).cloned())
                .collect(),
            demand: BTreeMap::new(),
            servers: Vec::new(),
        };
        match latency(&converted.set, &analysis, &chain.tasks) {
            Ok(bound) => ChainLatency::Bounded {
                reaction_ns: bound.reaction_ns,
                age_ns: bound.age_ns,
            },
            Err(Broken::Unbounded(task, _) | Broken::ReleasedElsewhere(task)) => {
                ChainLatency::Unbounded { task }
            }
            Err(_) => ChainLatency::TooLong,
        }
    };
    ChainAnalysis {
        name: chain.name.clone(),
        tasks: chain.tasks.clone(),
        reaction_limit_ns: chain.reaction_ns,
        age_limit_ns: chain.age_ns,
        latency,
        counts_worst: false,
    }
}
