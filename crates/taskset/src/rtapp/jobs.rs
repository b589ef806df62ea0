//! The jobs of a thread: what it does between two waits.

use std::collections::BTreeMap;

use punctual_record::taskset::{NESTED, PHASES, Phase, STEPS, Step};

use super::events::{Event, Thread, What};
use crate::fault::Fault;
use crate::work::JobWork;

/// For what a thread waits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Wait {
    Timer,
    Sleep,
    Suspend,
}

/// What a thread's loop comes to.
#[derive(Debug)]
pub(super) struct Jobs {
    /// Where it waits for the first time.
    pub line: usize,
    pub wait: Wait,
    /// Of the first phase.
    pub period_ns: u64,
    pub phases: Vec<Phase>,
    /// Jobs of one pass through all phases.
    pub count: u64,
    /// By which name it waits, where that isn't the thread's own.
    pub suspends: Option<String>,
    /// How many of those jobs resume a thread, by name.
    pub resumes: BTreeMap<String, u64>,
}

/// A job, and the wait that ends it.
#[derive(Debug, Clone, PartialEq)]
struct Job {
    times: u64,
    events: Vec<Event>,
    wait: Event,
}

impl Jobs {
    pub fn of(thread: &Thread, lock: &mut impl FnMut(&str, usize) -> usize) -> Result<Self, Fault> {
        let mut jobs = cut(thread)?;
        // What adjacent jobs have in common is one phase.
        jobs.dedup_by(|next, job| {
            let same = job.wait.what == next.wait.what
                && job.events.len() == next.events.len()
                && job
                    .events
                    .iter()
                    .zip(&next.events)
                    .all(|(a, b)| a.what == b.what);
            if same {
                job.times = job.times.saturating_add(next.times);
            }
            same
        });
        if jobs.len() > PHASES {
            let why = format!("{}: more than {PHASES} phases", thread.name);
            return Err(Fault::new(thread.line, why));
        }
        let first = &jobs[0].wait;
        let (line, wait) = (first.line, kind(&first.what));
        let mut all = Jobs {
            line,
            wait,
            period_ns: length(&first.what),
            phases: Vec::new(),
            count: 0,
            suspends: None,
            resumes: BTreeMap::new(),
        };
        for job in &jobs {
            all.add(thread, job, lock)?;
        }
        Ok(all)
    }

    fn add(
        &mut self,
        thread: &Thread,
        job: &Job,
        lock: &mut impl FnMut(&str, usize) -> usize,
    ) -> Result<(), Fault> {
        let refuse =
            |line: usize, why: &str| Err(Fault::new(line, format!("{}: {why}", thread.name)));
        if kind(&job.wait.what) != self.wait {
            return refuse(
                job.wait.line,
                "it waits for a timer and for a resume: expected one of them",
            );
        }
        if let What::Suspend(name) = &job.wait.what {
            if self.count > 0 && self.suspends != *name {
                return refuse(
                    job.wait.line,
                    "it suspends itself by several names: expected one",
                );
            }
            self.suspends.clone_from(name);
        }
        let mut events = &job.events[..];
        while let [rest @ .., last] = events {
            let What::Resume(name) = &last.what else {
                break;
            };
            let times = self.resumes.entry(name.clone()).or_default();
            *times = times.saturating_add(job.times);
            events = rest;
        }
        let mut events = events.iter();
        let work = steps(thread, &mut events, &mut Vec::new(), lock)?;
        let own = length(&job.wait.what);
        self.phases.push(Phase {
            jobs: job.times,
            period_ns: (own != self.period_ns).then_some(own),
            deadline_ns: None,
            work,
        });
        self.count = self.count.saturating_add(job.times);
        Ok(())
    }

    /// How long one pass through all phases takes, at least.
    pub fn length_ns(&self) -> u64 {
        let of = |phase: &Phase| {
            let period_ns = phase.period_ns.unwrap_or(self.period_ns);
            let work = JobWork::of(phase);
            let more = match self.wait {
                Wait::Sleep => work.execution_ns.saturating_add(work.slept_ns),
                _ => 0,
            };
            period_ns.saturating_add(more).saturating_mul(phase.jobs)
        };
        self.phases.iter().map(of).fold(0, u64::saturating_add)
    }
}

fn kind(wait: &What) -> Wait {
    match wait {
        What::Timer(_) => Wait::Timer,
        What::Suspend(_) => Wait::Suspend,
        _ => Wait::Sleep,
    }
}

fn length(wait: &What) -> u64 {
    match wait {
        What::Timer(ns) | What::Sleep(ns) => *ns,
        _ => 0,
    }
}

/// Cuts a thread's loop into jobs, at least one.
fn cut(thread: &Thread) -> Result<Vec<Job>, Fault> {
    let refuse = |line: usize, why: &str| Err(Fault::new(line, format!("{}: {why}", thread.name)));
    let all = || thread.phases.iter().flat_map(|phase| &phase.events);
    let by_sleep = !all().any(|event| matches!(event.what, What::Timer(_) | What::Suspend(_)));
    let waits = |event: &Event| match event.what {
        What::Timer(_) | What::Suspend(_) => true,
        What::Sleep(ns) => by_sleep && ns > 0,
        _ => false,
    };
    let mut jobs: Vec<Job> = Vec::new();
    let mut pending: Vec<Event> = Vec::new();
    for phase in &thread.phases {
        let whole = phase.events.last().is_some_and(waits) && pending.is_empty();
        let one = phase.events.iter().filter(|event| waits(event)).count() == 1;
        if let (true, true, [events @ .., wait]) = (whole, one, &phase.events[..]) {
            jobs.push(Job {
                times: phase.loops,
                events: events.to_vec(),
                wait: wait.clone(),
            });
            continue;
        }
        for _ in 0..phase.loops {
            for event in &phase.events {
                if waits(event) {
                    jobs.push(Job {
                        times: 1,
                        events: std::mem::take(&mut pending),
                        wait: event.clone(),
                    });
                } else {
                    pending.push(event.clone());
                }
            }
            if jobs.len() > 16 * PHASES || pending.len() > STEPS {
                return refuse(
                    thread.line,
                    "its phases can't be mapped: expected a timer, sleep or suspend at the end of \
                     each phase that loops",
                );
            }
            if phase.events.is_empty() {
                break;
            }
        }
    }
    let Some(first) = jobs.first_mut() else {
        return refuse(
            thread.line,
            "it never waits: expected a timer, sleep or suspend in its loop",
        );
    };
    // The loop goes on at its beginning.
    if !pending.is_empty() {
        let own = first.events.clone();
        let mut joined = first.clone();
        joined.times = 1;
        joined.events = pending;
        joined.events.extend(own);
        first.times -= 1;
        if first.times == 0 {
            jobs.remove(0);
        }
        jobs.insert(0, joined);
    }
    Ok(jobs)
}

/// The steps up to the unlock of the lock that is held, or to the end.
fn steps<'a>(
    thread: &Thread,
    events: &mut std::slice::Iter<'a, Event>,
    held: &mut Vec<(&'a str, usize)>,
    lock: &mut impl FnMut(&str, usize) -> usize,
) -> Result<Vec<Step>, Fault> {
    let refuse =
        |line: usize, why: String| Err(Fault::new(line, format!("{}: {why}", thread.name)));
    let mut work = Vec::new();
    while let Some(Event { line, what }) = events.next() {
        match what {
            What::Run(0) | What::Sleep(0) => {}
            What::Run(ns) => work.push(Step::Run { ns: *ns }),
            What::Sleep(ns) => work.push(Step::Sleep { ns: *ns }),
            What::Memory(bytes) => work.push(Step::Memory { bytes: *bytes }),
            What::Yield => work.push(Step::Yield),
            What::Lock(name) => {
                if held.len() == NESTED {
                    let why = format!("lock '{name}': expected at most {NESTED} at once");
                    return refuse(*line, why);
                }
                let lock_index = lock(name, *line);
                held.push((name, *line));
                let within = steps(thread, events, held, lock)?;
                work.push(Step::Lock {
                    lock: lock_index,
                    work: within,
                });
            }
            What::Unlock(name) => match held.pop() {
                Some((held, _)) if held == name => return Ok(work),
                _ => {
                    return refuse(
                        *line,
                        format!("unlock '{name}': expected the lock that was taken last"),
                    );
                }
            },
            What::Resume(name) => {
                return refuse(
                    *line,
                    format!(
                        "keyword 'resume' ('{name}') in the middle of a job can't be mapped: \
                         expected it before a timer or suspend"
                    ),
                );
            }
            What::Timer(_) | What::Suspend(_) => {}
        }
    }
    match held.pop() {
        None => Ok(work),
        Some((name, line)) => refuse(
            line,
            format!("lock '{name}': expected its unlock before the next timer, sleep or suspend"),
        ),
    }
}
