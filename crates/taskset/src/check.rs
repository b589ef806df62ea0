//! What a set must not have, whatever it was read from.

use std::collections::BTreeMap;

use punctual_record::taskset::{
    CHAINS, Chain, HOPS, LOCKS, LockProtocol, NESTED, PHASES, STEPS, Step, TASKS, Task, TaskPolicy,
    TaskSet, Wake,
};

use punctual_record::text::clean;

use crate::fault::Fault;
use crate::work::{JobWork, WHOLE, share};

/// Where tasks, locks and chains are written.
#[derive(Debug, Clone, Default)]
pub(crate) struct Lines {
    pub tasks: Vec<TaskLines>,
    pub locks: Vec<usize>,
    pub chains: Vec<usize>,
}

/// Where what a task has is written.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct TaskLines {
    pub task: usize,
    pub wake: usize,
    pub execution: usize,
}

/// The longest name, in letters.
const MOST_LETTERS: usize = 64;

/// Refuses what isn't a sound set. The lines must be as many as what they are of.
pub(crate) fn check(set: &TaskSet, lines: &Lines) -> Result<(), Fault> {
    if set.tasks.is_empty() {
        return Err(Fault::new(1, "no task: expected [[task]] with a name"));
    }
    counted(lines.tasks.iter().map(|at| at.task), TASKS, "tasks")?;
    counted(lines.locks.iter().copied(), LOCKS, "locks")?;
    counted(lines.chains.iter().copied(), CHAINS, "chains")?;
    let tasks = set.tasks.iter().zip(&lines.tasks);
    names(tasks.map(|(task, at)| (&task.name, at.task)), "task")?;
    let locks = set.locks.iter().zip(&lines.locks);
    names(locks.map(|(lock, at)| (&lock.name, *at)), "lock")?;
    let chains = set.chains.iter().zip(&lines.chains);
    names(chains.map(|(chain, at)| (&chain.name, *at)), "chain")?;
    for (index, at) in lines.tasks.iter().enumerate() {
        circle(set, index, at.wake)?;
    }
    for (task, at) in set.tasks.iter().zip(&lines.tasks) {
        of_task(set, task, at)?;
    }
    ceilings(set, lines)?;
    lock_order(set, lines)?;
    utilisation(set, lines)?;
    for (chain, at) in set.chains.iter().zip(&lines.chains) {
        of_chain(set, chain, *at)?;
    }
    Ok(())
}

/// Refuses a name that can't be shown as it is.
pub(crate) fn name(name: &str, line: usize, what: &str) -> Result<(), Fault> {
    let letters = name.chars().count();
    if name.trim().is_empty() || letters > MOST_LETTERS || clean(name) != name {
        let why = format!(
            "{what} '{name}': expected a name of 1 to {MOST_LETTERS} letters without control characters"
        );
        return Err(Fault::new(line, why));
    }
    Ok(())
}

fn counted(mut all: impl Iterator<Item = usize>, most: usize, what: &str) -> Result<(), Fault> {
    all.nth(most).map_or(Ok(()), |line| {
        Err(Fault::new(
            line,
            format!("too many {what}: expected at most {most}"),
        ))
    })
}

fn names<'a>(all: impl Iterator<Item = (&'a String, usize)>, what: &str) -> Result<(), Fault> {
    let mut known: BTreeMap<&str, usize> = BTreeMap::new();
    for (name, line) in all {
        self::name(name, line, what)?;
        if let Some(first) = known.insert(name, line) {
            let why =
                format!("{what} {name}: line {first} has this name already: expected another one");
            return Err(Fault::new(line, why));
        }
    }
    Ok(())
}

/// Refuses tasks that release each other in a circle.
fn circle(set: &TaskSet, task: usize, line: usize) -> Result<(), Fault> {
    let name = |task: usize| set.tasks.get(task).map_or("", |it| it.name.as_str());
    let (mut at, mut way) = (task, vec![name(task)]);
    while let Some(Wake::After { task: before, .. }) = set.tasks.get(at).map(|it| it.wake) {
        at = before;
        way.push(name(at));
        if at == task {
            let why = format!(
                "the tasks release each other in a circle ({}): expected one of them with a period",
                way.join(" after ")
            );
            return Err(Fault::new(line, why));
        }
        // A circle that this task leads to, but isn't part of: one of its own tasks says it.
        if way.len() > set.tasks.len() {
            break;
        }
    }
    Ok(())
}

fn of_task(set: &TaskSet, task: &Task, at: &TaskLines) -> Result<(), Fault> {
    let refuse =
        |line: usize, why: &str| Err(Fault::new(line, format!("task {}: {why}", task.name)));
    if let TaskPolicy::Deadline {
        runtime_ns,
        deadline_ns,
        period_ns,
    } = task.policy
        && (runtime_ns > deadline_ns || deadline_ns > period_ns)
    {
        return refuse(
            at.task,
            "its reservation: expected runtime at most its deadline, and that at most its period",
        );
    }
    if task.phases.is_empty() || task.phases.len() > PHASES {
        return refuse(at.task, &format!("expected 1 to {PHASES} phases"));
    }
    for phase in &task.phases {
        let mut held = Vec::new();
        let mut count = 0;
        match steps(&phase.work, &mut held, &mut count) {
            Ok(()) => {}
            Err(LockFault::Twice(lock)) => {
                let name = set.locks.get(lock).map_or("", |lock| &lock.name);
                return refuse(
                    at.task,
                    &format!("it locks {name} while it holds it: expected each lock once"),
                );
            }
            Err(LockFault::Deep) => {
                return refuse(
                    at.task,
                    &format!("it holds more than {NESTED} locks at once: expected fewer"),
                );
            }
        }
        if count > STEPS {
            return refuse(
                at.task,
                &format!("more than {STEPS} steps of work in a phase: expected fewer"),
            );
        }
        let known = JobWork::of(phase).execution_ns;
        if let Some(most) = task.execution_ns.filter(|most| *most < known) {
            return refuse(
                at.execution,
                &format!(
                    "wcet is {most} ns, but its work takes {known} ns: expected at least that"
                ),
            );
        }
    }
    Ok(())
}

enum LockFault {
    Twice(usize),
    Deep,
}

/// Counts the steps.
fn steps(work: &[Step], held: &mut Vec<usize>, count: &mut usize) -> Result<(), LockFault> {
    for step in work {
        *count += 1;
        if let Step::Lock { lock, work } = step {
            if held.contains(lock) {
                return Err(LockFault::Twice(*lock));
            }
            if held.len() == NESTED {
                return Err(LockFault::Deep);
            }
            held.push(*lock);
            steps(work, held, count)?;
            held.pop();
        }
    }
    Ok(())
}

/// Calls this with each lock and those held meanwhile.
fn each_lock(work: &[Step], held: &mut Vec<usize>, found: &mut impl FnMut(usize, &[usize])) {
    for step in work {
        if let Step::Lock { lock, work } = step {
            found(*lock, held);
            held.push(*lock);
            each_lock(work, held, found);
            held.pop();
        }
    }
}

fn ceilings(set: &TaskSet, lines: &Lines) -> Result<(), Fault> {
    for (index, (lock, line)) in set.locks.iter().zip(&lines.locks).enumerate() {
        let LockProtocol::Protect { ceiling } = lock.protocol else {
            continue;
        };
        for task in &set.tasks {
            let mut uses = false;
            for phase in &task.phases {
                each_lock(&phase.work, &mut Vec::new(), &mut |lock, _| {
                    uses |= lock == index
                });
            }
            if !uses {
                continue;
            }
            let name = &task.name;
            let why = match task.policy {
                TaskPolicy::Fifo { priority } | TaskPolicy::Rr { priority } => {
                    if priority <= ceiling {
                        continue;
                    }
                    format!(
                        "lock {}: ceiling {ceiling} is below priority {priority} of task {name}: \
                         expected at least {priority}",
                        lock.name
                    )
                }
                _ => format!(
                    "lock {}: task {name} has no fixed priority: expected protocol \"inherit\", or \
                     policy \"fifo\" or \"rr\" there",
                    lock.name
                ),
            };
            return Err(Fault::new(*line, why));
        }
    }
    Ok(())
}

/// Refuses locks that are nested in opposite orders: the tasks would wait for each other forever.
fn lock_order(set: &TaskSet, lines: &Lines) -> Result<(), Fault> {
    let count = set.locks.len();
    let mut inner = vec![vec![false; count]; count];
    for (task, at) in set.tasks.iter().zip(&lines.tasks) {
        let mut more = false;
        for phase in &task.phases {
            each_lock(&phase.work, &mut Vec::new(), &mut |lock, held| {
                for outer in held {
                    more |= !inner[*outer][lock];
                    inner[*outer][lock] = true;
                }
            });
        }
        if !more {
            continue;
        }
        for through in 0..count {
            for from in 0..count {
                if inner[from][through] {
                    let reached = inner[through].clone();
                    for (to, reached) in reached.into_iter().enumerate() {
                        inner[from][to] |= reached;
                    }
                }
            }
        }
        if let Some(lock) = (0..count).find(|lock| inner[*lock][*lock]) {
            let why = format!(
                "task {}: lock {} is nested in the opposite order elsewhere, which can deadlock: \
                 expected one order of the locks in all tasks",
                task.name, set.locks[lock].name
            );
            return Err(Fault::new(at.task, why));
        }
    }
    Ok(())
}

/// Puts all tasks of a set on one CPU, whatever its file says.
///
/// # Errors
/// They need more than all of it.
pub fn put_on_cpu(set: &mut TaskSet, cpu: usize) -> Result<(), String> {
    for task in &mut set.tasks {
        task.cpus = vec![cpu];
    }
    let lines = Lines {
        tasks: vec![TaskLines::default(); set.tasks.len()],
        ..Lines::default()
    };
    utilisation(set, &lines).map_err(|fault| fault.why)
}

fn utilisation(set: &TaskSet, lines: &Lines) -> Result<(), Fault> {
    let mut used: BTreeMap<usize, Vec<(u64, &str)>> = BTreeMap::new();
    for (index, (task, at)) in set.tasks.iter().zip(&lines.tasks).enumerate() {
        let ([cpu], Some(_)) = (&task.cpus[..], set.period_ns(index)) else {
            continue;
        };
        let more = share(set, index);
        let parts = used.entry(*cpu).or_default();
        parts.push((more, &task.name));
        let sum = parts
            .iter()
            .fold(0u64, |sum, part| sum.saturating_add(part.0));
        if sum > WHOLE {
            let why = format!(
                "CPU {cpu} is overloaded: its real-time tasks need {} of its time ({}); expected at \
                 most 1",
                decimals(sum),
                largest(parts)
            );
            return Err(Fault::new(at.task, why));
        }
    }
    Ok(())
}

/// The largest shares, in the order of the set.
fn largest(parts: &[(u64, &str)]) -> String {
    const SHOWN: usize = 4;
    let mut shares: Vec<u64> = parts.iter().map(|part| part.0).collect();
    shares.sort_unstable_by(|a, b| b.cmp(a));
    let least = shares.get(SHOWN - 1).copied().unwrap_or(0);
    let large = parts.iter().filter(|part| part.0 >= least).take(SHOWN);
    let mut said: Vec<String> = large
        .map(|(share, name)| format!("{name} {}", decimals(*share)))
        .collect();
    if parts.len() > said.len() {
        said.push(format!("{} more", parts.len() - said.len()));
    }
    said.join(", ")
}

/// A share with three decimals, rounded up.
fn decimals(share: u64) -> String {
    let thousandths = (u128::from(share) * 1_000).div_ceil(WHOLE.into());
    format!("{}.{:03}", thousandths / 1_000, thousandths % 1_000)
}

fn of_chain(set: &TaskSet, chain: &Chain, line: usize) -> Result<(), Fault> {
    let refuse = |why: &str| Err(Fault::new(line, format!("chain {}: {why}", chain.name)));
    if !(2..=HOPS).contains(&chain.tasks.len()) {
        return refuse(&format!("expected 2 to {HOPS} tasks"));
    }
    let mut previous = None;
    for &index in &chain.tasks {
        let Some(task) = set.tasks.get(index) else {
            return refuse("a task of it isn't there");
        };
        let name = &task.name;
        if chain.tasks.iter().filter(|other| **other == index).count() > 1 {
            return refuse(&format!(
                "task {name} is in it twice: expected each task once"
            ));
        }
        if let Wake::After { task: before, .. } = task.wake
            && previous != Some(before)
        {
            let other = set.tasks.get(before).map_or("", |task| &task.name);
            return refuse(&format!(
                "{name} is released by {other}: expected {other} before it in the chain"
            ));
        }
        previous = Some(index);
    }
    Ok(())
}
