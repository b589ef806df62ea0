//! From events: which thread ran where, which was ready and did not run, which softirqs ran.

use std::collections::{BTreeMap, BTreeSet};

use punctual_record::explanation::softirq_name;
use punctual_record::path::bill::Runner;

use crate::attribute::event::{Event, Kind, Task};
use crate::attribute::naming;

/// A thread was ready and did not run.
#[derive(Debug, Clone)]
pub struct Wait {
    pub task: Task,
    /// The CPU that it then got.
    pub cpu: u32,
    pub from_ns: u64,
    pub to_ns: u64,
}

/// A thread ran.
#[derive(Debug, Clone)]
struct Run {
    task: Task,
    cpu: u32,
    from_ns: u64,
    to_ns: u64,
    /// It slept afterwards: it had nothing more to do.
    slept: bool,
}

/// A softirq ran.
#[derive(Debug, Clone, Copy)]
pub struct Softirq {
    pub number: u32,
    pub cpu: u32,
    pub from_ns: u64,
    pub to_ns: u64,
}

/// What the events show.
#[derive(Debug, Default)]
pub struct Activity {
    runs: Vec<Run>,
    pub(super) waits: Vec<Wait>,
    pub(super) softirqs: Vec<Softirq>,
}

impl Activity {
    /// From all events of that time, in any order.
    #[must_use]
    pub fn of(events: &[Event]) -> Self {
        let first_ns = events.iter().map(|event| event.at_ns).min();
        Self::since(first_ns.unwrap_or(0), events)
    }

    /// The same of events of which all from `begin_ns` on are known.
    #[must_use]
    pub fn since(begin_ns: u64, events: &[Event]) -> Self {
        let mut ordered: Vec<&Event> = events.iter().collect();
        ordered.sort_by_key(|event| event.at_ns);
        let end_ns = ordered.last().map_or(0, |event| event.at_ns);
        let mut found = Self::default();
        // Of each CPU: who runs since when, and which softirq.
        let mut running: BTreeMap<u32, (Task, u64)> = BTreeMap::new();
        let mut in_softirq: BTreeMap<u32, (u32, u64)> = BTreeMap::new();
        let mut ready: BTreeMap<u32, u64> = BTreeMap::new();
        // Threads that left a CPU: a waking of theirs would be known.
        let mut have_left: BTreeSet<u32> = BTreeSet::new();
        for event in ordered {
            let (at_ns, cpu) = (event.at_ns, event.cpu);
            match &event.kind {
                Kind::Waking { tid, .. } => {
                    ready.entry(*tid).or_insert(at_ns);
                }
                Kind::Switch {
                    from,
                    from_state,
                    preempted,
                    to,
                } => {
                    let (task, from_ns) = running
                        .remove(&cpu)
                        .unwrap_or_else(|| (from.clone(), begin_ns));
                    // One that was woken before it had left is ready at once.
                    let slept = *from_state != 0 && !*preempted;
                    if !slept {
                        ready.insert(from.tid, at_ns);
                    }
                    found.runs.push(Run {
                        task,
                        cpu,
                        from_ns,
                        to_ns: at_ns,
                        slept,
                    });
                    have_left.insert(from.tid);
                    // One whose waking was before the events was ready from their beginning on.
                    let since = match ready.remove(&to.tid) {
                        None if !have_left.contains(&to.tid) => Some(begin_ns),
                        since => since,
                    };
                    if let Some(from_ns) = since.filter(|from_ns| *from_ns < at_ns) {
                        found.waits.push(Wait {
                            task: to.clone(),
                            cpu,
                            from_ns,
                            to_ns: at_ns,
                        });
                    }
                    running.insert(cpu, (to.clone(), at_ns));
                }
                Kind::SoftirqEntry { number } => {
                    in_softirq.insert(cpu, (*number, at_ns));
                }
                Kind::SoftirqExit { number } => {
                    // Without its entry it began before the first event.
                    let (_, from_ns) = in_softirq.remove(&cpu).unwrap_or((*number, begin_ns));
                    found.softirqs.push(Softirq {
                        number: *number,
                        cpu,
                        from_ns,
                        to_ns: at_ns,
                    });
                }
                _ => {}
            }
        }
        for (cpu, (task, from_ns)) in running {
            found.runs.push(Run {
                task,
                cpu,
                from_ns,
                to_ns: end_ns,
                slept: false,
            });
        }
        found
    }

    /// When a thread first slept after an instant; absent if that is later than the events.
    pub fn slept_after(&self, tid: u32, at_ns: u64) -> Option<u64> {
        let ends = self.runs.iter().filter(|it| it.slept && it.task.tid == tid);
        ends.map(|it| it.to_ns).filter(|ns| *ns >= at_ns).min()
    }

    /// Whether a thread whose name begins like this ran.
    pub fn has_run(&self, name: &str) -> bool {
        let mut runs = self.runs.iter();
        runs.any(|it| it.task.name.starts_with(name))
    }

    /// What ran on a CPU for at least half of a time: a softirq, or a thread.
    pub fn ran_most(&self, cpu: u32, from_ns: u64, to_ns: u64) -> Option<Runner> {
        let inside =
            |begin_ns: u64, end_ns: u64| end_ns.min(to_ns).saturating_sub(begin_ns.max(from_ns));
        let least_ns = to_ns.saturating_sub(from_ns) / 2;
        let mut softirqs: BTreeMap<u32, u64> = BTreeMap::new();
        for it in self.softirqs.iter().filter(|it| it.cpu == cpu) {
            let sum = softirqs.entry(it.number).or_default();
            *sum = sum.saturating_add(inside(it.from_ns, it.to_ns));
        }
        let most = softirqs.into_iter().max_by_key(|(_, ns)| *ns);
        if let Some((number, ns)) = most
            && ns > 0
            && ns >= least_ns
        {
            return Some(softirq_runner(number));
        }
        let mut threads: BTreeMap<u32, (u64, &Task)> = BTreeMap::new();
        for run in self
            .runs
            .iter()
            .filter(|it| it.cpu == cpu && it.task.tid != 0)
        {
            let entry = threads.entry(run.task.tid).or_insert((0, &run.task));
            entry.0 = entry.0.saturating_add(inside(run.from_ns, run.to_ns));
        }
        let most = threads.into_values().max_by_key(|(ns, _)| *ns);
        most.filter(|(ns, _)| *ns > 0 && *ns >= least_ns)
            .map(|(_, task)| runner(task))
    }
}

/// A thread as a record names it.
pub fn runner(task: &Task) -> Runner {
    Runner {
        task: task.name.clone(),
        policy: naming::policy(task),
        priority: naming::priority(task),
        tid: task.tid,
    }
}

/// A softirq as a record names it.
pub fn softirq_runner(number: u32) -> Runner {
    Runner {
        task: format!("softirq {}", softirq_name(number)),
        ..Runner::default()
    }
}
