//! The analysis of a whole set: every task, on its CPU, with what depends on other tasks' bounds.
//!
//! A task that another one releases has that one's response time as jitter, and a task that
//! suspends itself delays those below with a jitter that follows from its own: the bounds are
//! computed again until none grows (holistic analysis: Tindell, Clark 1994). Where only every `n`-th
//! job releases one, arrivals are `n` periods apart, and the response is that of any job: it covers
//! those that release.

use std::collections::{BTreeMap, BTreeSet};

use crate::blocking::Locks;
use crate::bound::{Outcome, Source, Unbounded};
use crate::chain::ChainLimit;
use crate::demand::Demand;
use crate::model::{Fault, Policy, Protocol, Rank, TaskSet};
use crate::offsets::{at_offsets, offsets};
use crate::reservation::{self, Reserved};
use crate::response::{Above, Own, Released, response};
use crate::server::{self, ServerCase};
use crate::steps::{Request, Work};

/// What is known of a set.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Analysis {
    /// Of each task, in the order of the set.
    pub tasks: Vec<Outcome>,
    /// Of each CPU that has `SCHED_DEADLINE` tasks: the demand test.
    pub demand: BTreeMap<u32, Demand>,
    /// Of each server and CPU: whether ordinary tasks may get that time there.
    pub servers: Vec<BTreeMap<u32, ServerCase>>,
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
    Ok(analysed(set, Wanted::Bounds))
}

/// Whether all tasks with a real-time policy meet their deadlines, as [`analyse`] has it; false where
/// something is wrong with the set.
pub(crate) fn meets(set: &TaskSet, chains: &[ChainLimit]) -> bool {
    let wanted = match chains {
        [] => Wanted::Verdict,
        _ => Wanted::Bounds,
    };
    if !set.faults().is_empty() {
        return false;
    }
    let analysis = analysed(set, wanted);
    analysis.all_meet(set) && chains.iter().all(|chain| chain.is_met(set, &analysis))
}

/// What an analysis is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Wanted {
    /// The least bounds.
    Bounds,
    /// Whether deadlines are met: what is on time with all tasks arriving together needs no less bound.
    Verdict,
}

fn analysed(set: &TaskSet, wanted: Wanted) -> Analysis {
    // A server adds to what delays tasks, also those of other CPUs that they release: until no other
    // one may run.
    let mut running = server::certain(set);
    let (mut round, mut cases) = (0, Vec::new());
    loop {
        let mut analysis = with_servers(set, &running, wanted);
        cases = server::cases(set, &analysis, &running, cases);
        analysis.servers.clone_from(&cases);
        let more = analysis.servers.iter().enumerate().flat_map(|(at, of)| {
            let may_run = of.iter().filter(|(_, case)| case.may_run);
            may_run.map(move |(cpu, _)| (at, *cpu))
        });
        let more: BTreeSet<(usize, u32)> = more.collect();
        if more == running {
            return analysis;
        }
        round += 1;
        running = match round < ROUNDS {
            true => more,
            false => server::everywhere(set),
        };
    }
}

/// How often servers are added before they are taken to run on all CPUs.
const ROUNDS: u32 = 8;

/// Bounds where these servers run, and no others.
fn with_servers(set: &TaskSet, running: &BTreeSet<(usize, u32)>, wanted: Wanted) -> Analysis {
    let coupled = set
        .tasks
        .iter()
        .any(|task| task.after.is_some() || task.suspension.count > 0);
    let mut order: Vec<usize> = (0..set.tasks.len()).collect();
    order.sort_by_key(|task| std::cmp::Reverse(set.tasks[*task].rank()));
    let mut holistic = Holistic {
        set,
        running,
        // Others depend on the responses of such tasks.
        wanted: if coupled { Wanted::Bounds } else { wanted },
        locks: Locks::of(set),
        offsets: offsets(set),
        known: vec![None; set.tasks.len()],
        work: Work::new(),
        offset_work: Work::of_offsets(),
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
    Analysis {
        tasks,
        demand,
        servers: Vec::new(),
    }
}

/// Execution with the kernel's paths from and to sleep, the interrupts that end its suspensions, and the paths to the
/// holders of its locks and back: those delay every task below, whoever holds the lock.
pub(crate) fn cost(set: &TaskSet, task: usize) -> u64 {
    let of = &set.overheads;
    let waits = waits(set, task).saturating_mul(of.contention_ns);
    let task = &set.tasks[task];
    let path = of.wake_ns.saturating_add(of.sleep_ns);
    let suspensions = u64::from(task.suspension.count);
    let paths = (suspensions + 1).saturating_mul(path);
    let wakes = suspensions.saturating_mul(of.release_interrupt_ns);
    task.execution_ns
        .saturating_add(paths)
        .saturating_add(wakes)
        .saturating_add(waits)
}

/// Whether a job of the one task follows the end of a job of the other one with nothing but work of that
/// one's rank or above in between, on its CPU: where that one has none to do, none of these is pending.
fn released_at_once(set: &TaskSet, by: usize, task: usize) -> bool {
    let first = &set.tasks[by];
    let mut at = task;
    while at != by {
        let of = &set.tasks[at];
        let here = of.cpu == first.cpu && matches!(of.policy, Policy::Fixed { .. });
        let at_once = of.jitter_ns == 0 && of.suspension.count == 0;
        match of.after {
            Some(before) if here && at_once && of.rank() >= first.rank() => at = before,
            _ => return false,
        }
    }
    first.suspension.count == 0
}

/// How often a job may find a lock held by a task below on its CPU, and sleep until that one has left it: once in each
/// section, if it sleeps before it; else the one below does not get to hold the lock again. With a ceiling it never does.
fn waits(set: &TaskSet, task: usize) -> u64 {
    let (rank, cpu) = (set.tasks[task].rank(), set.tasks[task].cpu);
    let held_below = |lock: usize| {
        let mut below = set
            .tasks
            .iter()
            .filter(|it| it.cpu == cpu && it.rank() < rank);
        below.any(|it| it.sections.iter().any(|section| section.lock == lock))
    };
    let sections = set.tasks[task].sections.iter();
    let waited_for = sections.filter(|it| {
        !matches!(set.locks[it.lock].protocol, Protocol::Ceiling { .. }) && held_below(it.lock)
    });
    let stretches = set.tasks[task].suspension.count.saturating_add(1);
    waited_for
        .map(|it| u64::from(it.times.clamp(1, stretches)))
        .sum()
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
    /// Which servers run on which CPUs.
    running: &'a BTreeSet<(usize, u32)>,
    wanted: Wanted,
    locks: Locks<'a>,
    /// When tasks arrive, where it is known.
    offsets: Vec<Option<u64>>,
    /// Lower bounds of the result, growing.
    known: Vec<Option<Outcome>>,
    work: Work,
    offset_work: Work,
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

    fn cost(&self, task: usize) -> u64 {
        cost(self.set, task)
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

    /// The same of a task that delays another one, which has no bound either where this has none.
    fn jitter_of_other(&self, task: usize) -> Result<u64, Unbounded> {
        self.jitter(task)
            .map_err(|_| Unbounded::Suspending { task })
    }

    /// What preempts all tasks of a CPU.
    fn top(&self, cpu: u32) -> Result<Vec<Request>, Unbounded> {
        let (set, of) = (self.set, &self.set.overheads);
        let mut top = Vec::new();
        for (index, one) in set.interference.iter().enumerate() {
            if one.cpu == cpu {
                let source = Source::Interference(index);
                top.push(Request::new(
                    source,
                    one.execution_ns,
                    one.period_ns,
                    one.jitter_ns,
                ));
            }
        }
        for (index, one) in set.servers.iter().enumerate() {
            if self.running.contains(&(index, cpu)) {
                top.push(server::request(index, one));
            }
        }
        if let Some(tick) = of.tick {
            let (cost_ns, period_ns) = (tick.execution_ns, tick.period_ns);
            top.push(Request::new(Source::Tick, cost_ns, period_ns, 0));
        }
        if of.release_interrupt_ns > 0 {
            for (index, task) in set.tasks.iter().enumerate() {
                if task.cpu == cpu {
                    let source = Source::ReleaseInterrupt(index);
                    let (cost_ns, jitter_ns) =
                        (of.release_interrupt_ns, self.jitter_of_other(index)?);
                    top.push(Request {
                        offset_ns: self.offsets[index],
                        ..Request::new(source, cost_ns, task.period_ns, jitter_ns)
                    });
                }
            }
        }
        Ok(top)
    }

    /// The interrupts that end suspensions of tasks below a rank: they preempt it too. Those of others are in what these
    /// cost, but of reservations, which limit only what they execute.
    fn wakes_below(&self, cpu: u32, rank: Rank) -> Result<Vec<Request>, Unbounded> {
        let interrupt_ns = self.set.overheads.release_interrupt_ns;
        let mut wakes = Vec::new();
        for (index, task) in self.set.tasks.iter().enumerate() {
            let suspensions = u64::from(task.suspension.count);
            let is_in_cost = matches!(task.policy, Policy::Fixed { .. }) && task.rank() >= rank;
            let none = suspensions == 0 || interrupt_ns == 0;
            if task.cpu != cpu || none || is_in_cost {
                continue;
            }
            // They come at any time of a job.
            let jitter_ns = match &self.known[index] {
                Some(Ok(bound)) => bound.response_ns,
                Some(Err(_)) => return Err(Unbounded::Suspending { task: index }),
                None => task.jitter_ns,
            };
            let source = Source::ReleaseInterrupt(index);
            let cost_ns = suspensions.saturating_mul(interrupt_ns);
            wakes.push(Request::new(source, cost_ns, task.period_ns, jitter_ns));
        }
        Ok(wakes)
    }

    fn reserved(&mut self, cpu: u32) -> Result<Reservations, Unbounded> {
        let top = self.top(cpu)?;
        let mut above = top.clone();
        above.extend(self.wakes_below(cpu, Rank::Deadline)?);
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
                &above,
            ));
        }
        let of = &self.set.overheads;
        let nonpreemptible = of.nonpreemptible_ns;
        let overrun = self.overrun();
        let demand =
            reservation::demand(&reserved, &above, nonpreemptible, overrun, &mut self.work);
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
        above.extend(self.wakes_below(it.cpu, it.rank())?);
        let overrun = self.overrun();
        let on_time = demand.0 == Demand::Met;
        let mut released = Vec::new();
        above.extend(reserved.iter().map(|one| one.request(on_time, overrun)));
        for (index, other) in set.tasks.iter().enumerate() {
            let fixed = matches!(other.policy, Policy::Fixed { .. });
            if !fixed || index == task || other.cpu != it.cpu || other.rank() < it.rank() {
                continue;
            }
            if released_at_once(set, task, index) {
                released.push(Released {
                    task: index,
                    cost_ns: self.cost(index),
                    every: (other.period_ns / it.period_ns).max(1),
                });
                continue;
            }
            let cost_ns = self.cost(index);
            let mut jitter_ns = self.jitter_of_other(index)?;
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
                offset_ns: self.offsets[index].filter(|_| other.suspension.count == 0),
                ..Request::new(Source::Task(index), cost_ns, other.period_ns, jitter_ns)
            });
        }
        let own = Own {
            cost_ns: self.cost(task),
            suspended_ns: it.suspension.total_ns,
            suspensions: u64::from(it.suspension.count),
            period_ns: it.period_ns,
            jitter_ns,
            delay_ns: 0,
            offset_ns: self.offsets[task],
            blocking_ns,
            nonpreemptible_ns: set.overheads.nonpreemptible_ns,
            released,
        };
        let above = Above {
            requests: above,
            groups: Vec::new(),
        };
        let together = response(&own, &above, &mut self.work)?;
        let (above, work) = (&above.requests, &mut self.offset_work);
        Ok(match self.wanted {
            Wanted::Verdict if together.response_ns <= it.deadline_ns => together,
            Wanted::Verdict => at_offsets(&own, above, together, it.deadline_ns, work),
            Wanted::Bounds => at_offsets(&own, above, together, u64::MAX, work),
        })
    }
}
