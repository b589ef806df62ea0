//! The analysis of a whole set: every task, on its CPU, with what depends on other tasks' bounds.
//!
//! A task that another one releases has that one's response time as jitter, and a task that
//! suspends itself delays those below with a jitter that follows from its own: the bounds are
//! computed again until none grows (holistic analysis: Tindell, Clark 1994). Where only every `n`-th
//! job releases one, arrivals are `n` periods apart, and the response is that of any job: it covers
//! those that release.

use std::collections::BTreeMap;

use crate::blocking::Locks;
use crate::bound::{Outcome, Source, Unbounded};
use crate::demand::Demand;
use crate::model::{Fault, Policy, Rank, TaskSet};
use crate::reservation::{self, Reserved};
use crate::response::{Own, response};
use crate::steps::{Request, Work};

/// What is known of a set.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Analysis {
    /// Of each task, in the order of the set.
    pub tasks: Vec<Outcome>,
    /// Of each CPU that has `SCHED_DEADLINE` tasks: the demand test.
    pub demand: BTreeMap<u32, Demand>,
}

impl Analysis {
    /// Whether a task has a bound, and meets its deadline with it.
    #[must_use]
    pub fn meets(&self, set: &TaskSet, task: usize) -> bool {
        let bound = self.tasks[task].as_ref();
        bound.is_ok_and(|bound| bound.response_ns <= set.tasks[task].deadline_ns)
    }

    /// Whether all tasks with a real-time policy meet their deadlines.
    #[must_use]
    pub fn all_meet(&self, set: &TaskSet) -> bool {
        let real_time = |task: &usize| set.tasks[*task].rank() != Rank::Other;
        (0..set.tasks.len())
            .filter(real_time)
            .all(|task| self.meets(set, task))
    }
}

/// Bounds the response times of all tasks.
///
/// # Errors
/// What is wrong with the set.
pub fn analyse(set: &TaskSet) -> Result<Analysis, Vec<Fault>> {
    let faults = set.faults();
    if !faults.is_empty() {
        return Err(faults);
    }
    let coupled = set
        .tasks
        .iter()
        .any(|task| task.after.is_some() || task.suspension.count > 0);
    let mut order: Vec<usize> = (0..set.tasks.len()).collect();
    order.sort_by_key(|task| std::cmp::Reverse(set.tasks[*task].rank()));
    let mut holistic = Holistic {
        set,
        locks: Locks::of(set),
        known: vec![None; set.tasks.len()],
        work: Work::new(),
    };
    let mut demand = BTreeMap::new();
    // Each round either changes nothing or costs work; without work, all tasks are unbounded.
    loop {
        let mut changed = false;
        for &task in &order {
            let (outcome, of_cpu) = holistic.outcome(task);
            if let Some(of_cpu) = of_cpu {
                demand.insert(set.tasks[task].cpu, of_cpu);
            }
            // Bounds only grow: one that is none stays none, for the reason that came first. Those that
            // follow from it would name each other.
            if let Some(Err(_)) = holistic.known[task] {
                continue;
            }
            let outcome = Some(outcome);
            if holistic.known[task] != outcome {
                holistic.known[task] = outcome;
                changed = true;
            }
        }
        if !coupled || !changed {
            break;
        }
    }
    let tasks = holistic.known.into_iter();
    let tasks = tasks
        .map(|known| known.unwrap_or(Err(Unbounded::TooManySteps)))
        .collect();
    Ok(Analysis { tasks, demand })
}

/// The `SCHED_DEADLINE` tasks of a CPU.
struct Reservations {
    reserved: Vec<Reserved>,
    demand: (Demand, u64),
    /// What runs above them.
    top: Vec<Request>,
}

struct Holistic<'a> {
    set: &'a TaskSet,
    locks: Locks<'a>,
    /// Lower bounds of the result, growing.
    known: Vec<Option<Outcome>>,
    work: Work,
}

impl Holistic<'_> {
    fn outcome(&mut self, task: usize) -> (Outcome, Option<Demand>) {
        match self.set.tasks[task].policy {
            Policy::Other => (Err(Unbounded::NoGuarantee), None),
            Policy::Fixed { .. } => (self.fixed(task), None),
            Policy::Deadline { .. } => match self.reserved(self.set.tasks[task].cpu) {
                Ok(of_cpu) => {
                    let own = of_cpu.reserved.iter().find(|one| one.task == task);
                    let outcome = self.jitter(task).and_then(|_| {
                        own.map_or(Err(Unbounded::TooManySteps), |one| {
                            one.outcome(of_cpu.demand)
                        })
                    });
                    (outcome, Some(of_cpu.demand.0))
                }
                Err(error) => (Err(error), None),
            },
        }
    }

    /// How far a reservation runs over its runtime: to the tick that notices, and what is lost where
    /// the kernel compares runtimes in steps of 1024 ns (`DL_SCALE`), twice.
    fn overrun(&self) -> u64 {
        self.set
            .overheads
            .tick
            .map_or(0, |tick| tick.period_ns.saturating_add(2 << 10))
    }

    /// Execution with the kernel's paths from and to sleep.
    fn cost(&self, task: usize) -> u64 {
        let (task, of) = (&self.set.tasks[task], &self.set.overheads);
        let path = of.wake_ns.saturating_add(of.sleep_ns);
        let paths = (u64::from(task.suspension.count) + 1).saturating_mul(path);
        task.execution_ns.saturating_add(paths)
    }

    /// How late a job may be released after the arrival.
    fn jitter(&self, task: usize) -> Result<u64, Unbounded> {
        let own = self.set.tasks[task].jitter_ns;
        let Some(before) = self.set.tasks[task].after else {
            return Ok(own);
        };
        match &self.known[before] {
            Some(Ok(bound)) => Ok(own.saturating_add(bound.response_ns)),
            Some(Err(_)) => Err(Unbounded::After { task: before }),
            None => Ok(own),
        }
    }

    /// What preempts all tasks of a CPU.
    fn top(&self, cpu: u32) -> Result<Vec<Request>, Unbounded> {
        let (set, of) = (self.set, &self.set.overheads);
        let mut top = Vec::new();
        for (index, one) in set.interference.iter().enumerate() {
            if one.cpu == cpu {
                top.push(Request {
                    source: Source::Interference(index),
                    cost_ns: one.execution_ns,
                    period_ns: one.period_ns,
                    jitter_ns: one.jitter_ns,
                    once_ns: 0,
                });
            }
        }
        if let Some(tick) = of.tick {
            top.push(Request {
                source: Source::Tick,
                cost_ns: tick.execution_ns,
                period_ns: tick.period_ns,
                jitter_ns: 0,
                once_ns: 0,
            });
        }
        if of.release_interrupt_ns > 0 {
            for (index, task) in set.tasks.iter().enumerate() {
                if task.cpu == cpu {
                    top.push(Request {
                        source: Source::ReleaseInterrupt(index),
                        cost_ns: of.release_interrupt_ns,
                        period_ns: task.period_ns,
                        jitter_ns: self.jitter(index)?,
                        once_ns: 0,
                    });
                }
            }
        }
        Ok(top)
    }

    fn reserved(&mut self, cpu: u32) -> Result<Reservations, Unbounded> {
        let top = self.top(cpu)?;
        let mut reserved = Vec::new();
        for index in 0..self.set.tasks.len() {
            if self.set.tasks[index].cpu != cpu {
                continue;
            }
            // Whose release isn't bounded is still held to its reservation: as bunched as can be.
            let jitter = self.jitter(index).unwrap_or(u64::MAX);
            reserved.extend(Reserved::of(
                (self.set, &self.locks),
                index,
                self.cost(index),
                jitter,
                &top,
            ));
        }
        let of = &self.set.overheads;
        let nonpreemptible = of.nonpreemptible_ns;
        let overrun = self.overrun();
        let demand = reservation::demand(&reserved, &top, nonpreemptible, overrun, &mut self.work);
        Ok(Reservations {
            reserved,
            demand,
            top,
        })
    }

    fn fixed(&mut self, task: usize) -> Outcome {
        let set = self.set;
        let it = &set.tasks[task];
        let jitter_ns = self.jitter(task)?;
        let blocking_ns = self.locks.blocking_ns(task)?;
        let Reservations {
            reserved,
            demand,
            top: mut above,
        } = self.reserved(it.cpu)?;
        let overrun = self.overrun();
        let on_time = demand.0 == Demand::Met;
        above.extend(reserved.iter().map(|one| one.request(on_time, overrun)));
        for (index, other) in set.tasks.iter().enumerate() {
            let fixed = matches!(other.policy, Policy::Fixed { .. });
            if !fixed || index == task || other.cpu != it.cpu || other.rank() < it.rank() {
                continue;
            }
            let cost_ns = self.cost(index);
            let mut jitter_ns = self.jitter(index)?;
            if other.suspension.count > 0 {
                match &self.known[index] {
                    Some(Ok(bound)) => {
                        jitter_ns = jitter_ns.max(bound.response_ns.saturating_sub(cost_ns));
                    }
                    Some(Err(_)) => return Err(Unbounded::Suspending { task: index }),
                    None => {}
                }
            }
            above.push(Request {
                source: Source::Task(index),
                cost_ns,
                period_ns: other.period_ns,
                jitter_ns,
                once_ns: 0,
            });
        }
        let own = Own {
            cost_ns: self.cost(task),
            suspended_ns: it.suspension.total_ns,
            suspensions: u64::from(it.suspension.count),
            period_ns: it.period_ns,
            jitter_ns,
            blocking_ns,
            nonpreemptible_ns: set.overheads.nonpreemptible_ns,
        };
        response(&own, &above, &mut self.work)
    }
}
