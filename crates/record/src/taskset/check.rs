//! What the record of a set promises beyond its types.

use super::analysis::Response;
use super::{
    CHAINS, ChainHop, ChainSplit, HOPS, JobBills, LOCKS, NESTED, PHASES, STEPS, Step, TASKS,
    TaskRun, TaskSet, Wake,
};
use crate::bounds::{Bounds, Broken, at_most, cpu, ensure, histogram};
use crate::explanation::check_picture;

pub(crate) fn check(run: &TaskRun, threads: usize) -> Result<(), Broken> {
    set(&run.set)?;
    let tasks = run.set.tasks.len();
    ensure(
        (0.0..=1.0).contains(&run.allowed),
        "tasks.allowed",
        format!("{} does not lie between 0 and 1", run.allowed),
    )?;
    at_most(run.speeds.len(), Bounds::CPUS, "tasks.speeds")?;
    for (index, speed) in run.speeds.iter().enumerate() {
        cpu(speed.cpu, format!("tasks.speeds[{index}].cpu"))?;
        ensure(
            speed.spread.is_finite() && speed.spread >= 0.0,
            format!("tasks.speeds[{index}].spread"),
            "not a share",
        )?;
    }
    // A run that was ended early has not measured any yet.
    let all_or_none = |count: usize, all: usize| count == 0 || count == all;
    ensure(
        all_or_none(run.tasks.len(), tasks) && all_or_none(threads, tasks),
        "tasks.tasks",
        format!(
            "{} and {threads} threads for {tasks} tasks",
            run.tasks.len()
        ),
    )?;
    for (index, task) in run.tasks.iter().enumerate() {
        crate::validate::thread(&task.jobs, &format!("tasks.tasks[{index}].jobs"))?;
        let place = format!("tasks.tasks[{index}].timeline.rows");
        at_most(task.timeline.rows.len(), Bounds::ROWS, place)?;
        if let Some(bills) = &task.bills {
            self::bills(bills, &format!("tasks.tasks[{index}].bills"))?;
        }
    }
    if let Some(analysis) = &run.analysis {
        let fits = analysis.tasks.len() == tasks && analysis.chains.len() == run.set.chains.len();
        ensure(fits, "tasks.analysis", "it is of another set")?;
        at_most(analysis.loads.len(), Bounds::CPUS, "tasks.analysis.loads")?;
        at_most(analysis.locks.len(), LOCKS, "tasks.analysis.locks")?;
        for (index, task) in analysis.tasks.iter().enumerate() {
            let place = format!("tasks.analysis.tasks[{index}]");
            at_most(task.cpus.len(), Bounds::CPUS, format!("{place}.cpus"))?;
            if let Response::Bounded { parts, .. } = &task.response {
                at_most(
                    parts.len(),
                    Bounds::SHORT_LIST,
                    format!("{place}.response.parts"),
                )?;
            }
        }
    }
    ensure(
        all_or_none(run.chains.len(), run.set.chains.len()),
        "tasks.chains",
        format!("{} for {} chains", run.chains.len(), run.set.chains.len()),
    )?;
    for (index, chain) in run.chains.iter().enumerate() {
        let place = format!("tasks.chains[{index}]");
        histogram(&chain.reaction, &format!("{place}.reaction"))?;
        histogram(&chain.age, &format!("{place}.age"))?;
        let possible =
            chain.reaction_longer <= chain.reaction.count && chain.age_longer <= chain.age.count;
        ensure(possible, &place, "more are longer than there are")?;
        if let Some(split) = &chain.split {
            let hops = ChainHop::of(&run.set, index).len();
            self::split(split, hops, &format!("{place}.split"))?;
        }
    }
    Ok(())
}

/// Each reaction that was split has a time of each hop.
fn split(split: &ChainSplit, hops: usize, place: &str) -> Result<(), Broken> {
    ensure(
        split.hops.len() == hops,
        format!("{place}.hops"),
        format!("{} where the chain has {hops}", split.hops.len()),
    )?;
    let hops = split.hops.iter().enumerate();
    let all = hops.map(|(index, times)| (times, format!("{place}.hops[{index}]")));
    for (times, place) in all.chain([(&split.whole, format!("{place}.whole"))]) {
        crate::validate::thread(&times.times, &format!("{place}.times"))?;
        let rows = format!("{place}.timeline.rows");
        at_most(times.timeline.rows.len(), Bounds::ROWS, rows)?;
        let as_many = times.times.latency.count == split.whole.times.latency.count;
        ensure(as_many, place, "not as many as reactions")?;
    }
    Ok(())
}

fn set(set: &TaskSet) -> Result<(), Broken> {
    at_most(set.tasks.len(), TASKS, "tasks.set.tasks")?;
    at_most(set.locks.len(), LOCKS, "tasks.set.locks")?;
    at_most(set.chains.len(), CHAINS, "tasks.set.chains")?;
    for (index, task) in set.tasks.iter().enumerate() {
        let place = format!("tasks.set.tasks[{index}]");
        at_most(task.cpus.len(), Bounds::CPUS, format!("{place}.cpus"))?;
        for number in &task.cpus {
            cpu(*number, format!("{place}.cpus"))?;
        }
        at_most(task.phases.len(), PHASES, format!("{place}.phases"))?;
        for phase in &task.phases {
            let mut left = STEPS;
            steps(&phase.work, set.locks.len(), NESTED, &mut left, &place)?;
        }
        if let Wake::After { task, every, .. } = task.wake {
            ensure(
                task < set.tasks.len() && every > 0,
                format!("{place}.wake"),
                "no such task",
            )?;
        }
    }
    for (index, chain) in set.chains.iter().enumerate() {
        let place = format!("tasks.set.chains[{index}].tasks");
        at_most(chain.tasks.len(), HOPS, &place)?;
        let known = chain.tasks.iter().all(|task| *task < set.tasks.len());
        ensure(known, place, "no such task")?;
    }
    Ok(())
}

fn steps(
    work: &[Step],
    locks: usize,
    depth: usize,
    left: &mut usize,
    place: &str,
) -> Result<(), Broken> {
    at_most(work.len(), *left, format!("{place}.phases"))?;
    *left -= work.len();
    for step in work {
        if let Step::Lock { lock, work } = step {
            ensure(
                *lock < locks && depth > 0,
                format!("{place}.phases"),
                "no such lock, or too many at once",
            )?;
            steps(work, locks, depth - 1, left, place)?;
        }
    }
    Ok(())
}

fn bills(bills: &JobBills, place: &str) -> Result<(), Broken> {
    at_most(bills.worst.len(), JobBills::WORST, format!("{place}.worst"))?;
    at_most(
        bills.causes.len(),
        JobBills::CAUSES,
        format!("{place}.causes"),
    )?;
    for (index, bill) in bills.worst.iter().enumerate() {
        let place = format!("{place}.worst[{index}]");
        at_most(bill.rows.len(), Bounds::SHORT_LIST, format!("{place}.rows"))?;
        let ordered = bill.arrival_ns <= bill.released_ns
            && bill.released_ns <= bill.ended_ns
            && bill.started_ns <= bill.ended_ns;
        ensure(ordered, &place, "it ends before it begins")?;
        let sum = bill
            .rows
            .iter()
            .try_fold(0u64, |sum, row| sum.checked_add(row.ns));
        if let Some(picture) = &bill.picture {
            check_picture(picture, &place)?;
        }
        ensure(
            sum == Some(bill.taken_ns()),
            place,
            "its rows do not sum to the time from its arrival to its end",
        )?;
    }
    Ok(())
}
