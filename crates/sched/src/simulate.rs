//! Executes a task set, event by event, in whole nanoseconds.
//!
//! Fixed priorities (equal ones in the order in which they became ready), `SCHED_DEADLINE` with its
//! server, locks with all protocols, jitter, suspension, interference, the tick and the interrupts
//! of releases. Not simulated: round robin within a priority, switching for a contended lock, and
//! times in which the kernel isn't preemptible.
//!
//! A simulation shows what can happen, not the worst that can: [`analyse`](crate::analyse) bounds it.

use std::collections::VecDeque;

use crate::model::{Fault, Protocol, Rank, TaskSet};

mod job;
mod random;
mod server;

pub use job::Job;
pub use random::Random;

use job::{Piece, Running, pieces};
use server::Server;

/// How a set is executed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Options {
    /// The seed of all that is random.
    pub seed: u64,
    /// No job arrives later.
    pub until_ns: u64,
    /// How long jobs, sections and suspensions are, up to what the set says.
    pub execution: Times,
    /// How late jobs and interference are released, up to their jitter.
    pub jitter: Lateness,
    /// Interference and tick begin at random phases, not at 0.
    pub random_phases: bool,
    /// How many jobs are kept, beside the worst of each task.
    pub keep: usize,
    /// The simulation ends after this many events.
    pub most_events: u64,
}

impl Options {
    /// Jobs of full length, with random jitter, one million events, no jobs kept.
    #[must_use]
    pub fn new(seed: u64, until_ns: u64) -> Self {
        Options {
            seed,
            until_ns,
            execution: Times::Most,
            jitter: Lateness::Random,
            random_phases: false,
            keep: 0,
            most_events: 1_000_000,
        }
    }
}

/// How long something takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Times {
    /// The longest that it may.
    Most,
    /// Uniform from 0 to that.
    Random,
}

/// How late a release is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Lateness {
    /// Uniform from 0 to the jitter.
    Random,
    /// The first by the whole jitter, all others not at all: they come as close as they can.
    FirstOnly,
}

/// What happened.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Simulation {
    /// The first finished jobs, in the order of their ends.
    pub jobs: Vec<Job>,
    /// Of each task, the job with the longest response.
    pub worst: Vec<Option<Job>>,
    /// Of each task, how many jobs finished.
    pub finished: Vec<u64>,
    /// When the simulation ended: later than asked for where jobs were late, and earlier where it
    /// had too many events.
    pub ended_ns: u64,
}

/// The most jobs of one task that wait.
const BACKLOG: usize = 10_000;

/// A simulation ends here at the latest.
const LATEST_NS: u64 = 1 << 62;

/// A rank in which deadlines and inheritance are counted in: the highest runs.
type Key = (u8, u64);

/// Executes a set.
///
/// # Errors
/// What is wrong with the set.
pub fn simulate(set: &TaskSet, options: &Options) -> Result<Simulation, Vec<Fault>> {
    let faults = set.faults();
    if !faults.is_empty() {
        return Err(faults);
    }
    let mut machine = Machine::new(set, options);
    for _ in 0..options.most_events {
        if !machine.step() {
            break;
        }
    }
    machine.result.ended_ns = machine.now;
    Ok(machine.result)
}

/// One thread.
struct Thread {
    /// The next arrival by the clock; none for those that another task releases.
    arrival: Option<u64>,
    /// Arrival and release of jobs that aren't released, and of those that are.
    coming: VecDeque<(u64, u64)>,
    released: VecDeque<(u64, u64)>,
    current: Option<Running>,
    server: Option<Server>,
    last_release: u64,
    first: bool,
}

/// A source of interference on a CPU: next arrival, its release, and the rest.
struct Interrupt {
    cpu: usize,
    arrival: u64,
    release: u64,
    period: u64,
    jitter: u64,
    cost: u64,
}

struct Machine<'a> {
    set: &'a TaskSet,
    options: &'a Options,
    random: Random,
    now: u64,
    threads: Vec<Thread>,
    interrupts: Vec<Interrupt>,
    /// The numbers of the CPUs, and the work of interrupts that is left on each.
    cpus: Vec<u32>,
    pending: Vec<u64>,
    cpu_of: Vec<usize>,
    owners: Vec<Option<usize>>,
    /// Who runs on each CPU.
    runs: Vec<Option<usize>>,
    result: Simulation,
}

impl<'a> Machine<'a> {
    fn new(set: &'a TaskSet, options: &'a Options) -> Self {
        let mut random = Random::new(options.seed);
        let mut cpus: Vec<u32> = set.tasks.iter().map(|task| task.cpu).collect();
        cpus.sort_unstable();
        cpus.dedup();
        let place = |cpu: u32| cpus.binary_search(&cpu).ok();
        let mut interrupts = Vec::new();
        let mut interrupt = |cpu: Option<usize>, period: u64, jitter: u64, cost: u64| {
            let phase = if options.random_phases {
                random.up_to(period - 1)
            } else {
                0
            };
            if let (Some(cpu), true) = (cpu, cost > 0) {
                let first = match options.jitter {
                    Lateness::FirstOnly => jitter,
                    Lateness::Random => random.up_to(jitter),
                };
                let release = phase + first;
                interrupts.push(Interrupt {
                    cpu,
                    arrival: phase,
                    release,
                    period,
                    jitter,
                    cost,
                });
            }
        };
        for one in &set.interference {
            interrupt(
                place(one.cpu),
                one.period_ns,
                one.jitter_ns,
                one.execution_ns,
            );
        }
        for cpu in 0..cpus.len() {
            if let Some(tick) = set.overheads.tick {
                interrupt(Some(cpu), tick.period_ns, 0, tick.execution_ns);
            }
        }
        let threads = set.tasks.iter().map(|task| Thread {
            arrival: task.after.is_none().then_some(task.offset_ns),
            coming: VecDeque::new(),
            released: VecDeque::new(),
            current: None,
            server: Server::of(task.policy),
            last_release: 0,
            first: true,
        });
        Machine {
            set,
            options,
            now: 0,
            threads: threads.collect(),
            interrupts,
            cpu_of: set
                .tasks
                .iter()
                .filter_map(|task| place(task.cpu))
                .collect(),
            pending: vec![0; cpus.len()],
            runs: vec![None; cpus.len()],
            cpus,
            owners: vec![None; set.locks.len()],
            random,
            result: Simulation {
                jobs: Vec::new(),
                worst: vec![None; set.tasks.len()],
                finished: vec![0; set.tasks.len()],
                ended_ns: 0,
            },
        }
    }

    /// To the next event; false where there is none.
    fn step(&mut self) -> bool {
        self.interrupt();
        for task in 0..self.threads.len() {
            if !self.release(task) {
                return false;
            }
        }
        let keys = self.keys();
        for cpu in 0..self.cpus.len() {
            self.choose(cpu, &keys);
        }
        let Some(next) = self.next_event() else {
            return false;
        };
        let next = next.max(self.now);
        if next > LATEST_NS {
            return false;
        }
        let passed = next - self.now;
        self.account(passed);
        self.now = next;
        for cpu in 0..self.cpus.len() {
            self.execute(cpu, passed);
        }
        true
    }

    fn interrupt(&mut self) {
        for one in &mut self.interrupts {
            // One in each step, so that a hostile source can't keep a step from ending.
            if one.release <= self.now {
                self.pending[one.cpu] = self.pending[one.cpu].saturating_add(one.cost);
                one.arrival += one.period;
                let late = match self.options.jitter {
                    Lateness::FirstOnly => 0,
                    Lateness::Random => self.random.up_to(one.jitter),
                };
                one.release = (one.arrival + late).max(one.release);
            }
        }
    }

    /// Makes a task's jobs come, releases them, and begins one; false where too many wait.
    fn release(&mut self, task: usize) -> bool {
        while let Some(arrival) = self.threads[task].arrival {
            if arrival > self.options.until_ns.min(LATEST_NS) || self.threads[task].coming.len() > 1
            {
                break;
            }
            self.come(task, arrival, arrival);
            self.threads[task].arrival = Some(arrival + self.set.tasks[task].period_ns);
        }
        let now = self.now;
        let interrupt = self.set.overheads.release_interrupt_ns;
        let thread = &mut self.threads[task];
        while let Some(&(arrival, release)) = thread.coming.front() {
            if release > now {
                break;
            }
            thread.coming.pop_front();
            thread.released.push_back((arrival, release));
            let pending = &mut self.pending[self.cpu_of[task]];
            *pending = pending.saturating_add(interrupt);
        }
        if thread.released.len() > BACKLOG {
            return false;
        }
        if let Some(server) = &mut thread.server {
            server.tick(now);
        }
        if let Some(current) = &mut thread.current
            && current.suspended_until.is_some_and(|until| until <= now)
        {
            current.suspended_until = None;
            current.queued_ns = now;
            if let Some(server) = &mut thread.server {
                server.wake(now);
            }
            self.advance(task);
        }
        self.begin(task);
        true
    }

    fn begin(&mut self, task: usize) {
        let now = self.now;
        let thread = &mut self.threads[task];
        if thread.current.is_some() {
            return;
        }
        let Some((arrival_ns, release_ns)) = thread.released.pop_front() else {
            return;
        };
        // A thread whose next job waits already doesn't sleep.
        if let (Some(server), true) = (&mut thread.server, release_ns == now) {
            server.wake(now);
        }
        thread.current = Some(Running {
            job: Job {
                task,
                arrival_ns,
                release_ns,
                behind_ns: now - release_ns,
                ..Job::default()
            },
            pieces: pieces(self.set, task, self.options, &mut self.random),
            holds: None,
            suspended_until: None,
            started: false,
            queued_ns: now,
        });
        self.advance(task);
    }

    fn come(&mut self, task: usize, arrival: u64, earliest: u64) {
        let jitter = self.set.tasks[task].jitter_ns;
        let late = match self.options.jitter {
            Lateness::Random => self.random.up_to(jitter),
            Lateness::FirstOnly if self.threads[task].first => jitter,
            Lateness::FirstOnly => 0,
        };
        let thread = &mut self.threads[task];
        thread.first = false;
        thread.last_release = (earliest + late).max(thread.last_release);
        thread.coming.push_back((arrival, thread.last_release));
    }

    /// Who comes first, without those that can't run.
    fn keys(&mut self) -> Vec<Option<Key>> {
        let mut boosts: Vec<Key> = vec![(0, 0); self.threads.len()];
        for task in 0..self.threads.len() {
            let Some(current) = &self.threads[task].current else {
                continue;
            };
            let key = self.key(task);
            let protocol = |lock: usize| self.set.locks[lock].protocol;
            if let Some((lock, owner)) = self.waits_for(task)
                && protocol(lock) == Protocol::Inherit
            {
                boosts[owner] = boosts[owner].max(key);
            }
            if let Some(Protocol::Ceiling { priority }) = current.holds.map(protocol) {
                boosts[task] = boosts[task].max((1, u64::from(priority)));
            }
        }
        let mut keys = vec![None; self.threads.len()];
        for task in 0..self.threads.len() {
            let key = self.key(task);
            let now = self.now;
            let thread = &mut self.threads[task];
            let Some(current) = &thread.current else {
                continue;
            };
            if current.suspended_until.is_some() || self.waits_for(task).is_some() {
                continue;
            }
            let boosted = boosts[task] > key;
            let thread = &mut self.threads[task];
            if let Some(server) = &mut thread.server {
                server.check(now, boosted);
                if server.throttled_until.is_some() && !boosted {
                    continue;
                }
            }
            keys[task] = Some(self.key(task).max(boosts[task]));
        }
        keys
    }

    /// The key that a task has by itself.
    fn key(&self, task: usize) -> Key {
        match (self.set.tasks[task].rank(), &self.threads[task].server) {
            (Rank::Deadline, Some(server)) => (2, u64::MAX - server.due),
            (Rank::Fixed(priority), _) => (1, u64::from(priority)),
            _ => (0, 0),
        }
    }

    /// The holder of the lock that a task waits for, and the lock.
    fn waits_for(&self, task: usize) -> Option<(usize, usize)> {
        let current = self.threads[task].current.as_ref()?;
        let lock = current.lock().filter(|_| current.holds.is_none())?;
        self.owners[lock].map(|owner| (lock, owner))
    }

    fn choose(&mut self, cpu: usize, keys: &[Option<Key>]) {
        let mut best: Option<(Key, std::cmp::Reverse<u64>, bool, usize)> = None;
        for (task, key) in keys.iter().enumerate() {
            let (Some(key), true) = (key, self.cpu_of[task] == cpu) else {
                continue;
            };
            let Some(current) = &self.threads[task].current else {
                continue;
            };
            let runs = self.runs[cpu] == Some(task);
            let this = (*key, std::cmp::Reverse(current.queued_ns), runs, task);
            if best.is_none_or(|best| this > best) {
                best = Some(this);
            }
        }
        self.runs[cpu] = best.map(|best| best.3);
        let (Some(task), 0) = (self.runs[cpu], self.pending[cpu]) else {
            return;
        };
        if let Some(current) = &mut self.threads[task].current {
            if !current.started {
                current.started = true;
                current.job.start_ns = self.now;
            }
            if let Some(lock) = current.lock() {
                current.holds = Some(lock);
                self.owners[lock] = Some(task);
            }
        }
    }

    fn next_event(&mut self) -> Option<u64> {
        let now = self.now;
        let mut next: Option<u64> = None;
        let mut work = false;
        let mut at = |time: u64| next = Some(next.map_or(time, |next| next.min(time)));
        for thread in &self.threads {
            if let Some((_, release)) = thread.coming.front() {
                at(*release);
                work = true;
            }
            if let Some(current) = &thread.current {
                work = true;
                if let Some(until) = current.suspended_until {
                    at(until);
                }
            }
            let throttled = thread
                .server
                .as_ref()
                .and_then(|server| server.throttled_until);
            if let Some(until) = throttled {
                at(until);
            }
        }
        for one in &self.interrupts {
            at(one.release);
        }
        for (runs, pending) in self.runs.iter().zip(&self.pending) {
            if *pending > 0 {
                at(now.saturating_add(*pending));
            } else if let Some(task) = runs {
                let thread = &mut self.threads[*task];
                if let Some(current) = &mut thread.current {
                    at(now + *current.left());
                }
                if let Some(server) = &thread.server {
                    at(now + server.left.max(1));
                }
            }
        }
        next.filter(|_| work)
    }

    /// Says for each job that isn't finished where the time went.
    fn account(&mut self, passed: u64) {
        for task in 0..self.threads.len() {
            let cpu = self.cpu_of[task];
            let waits = self.waits_for(task);
            let own = self.key(task);
            let runs = self.runs[cpu];
            let above = runs.map(|runs| self.key(runs) >= own);
            let held = runs.and_then(|runs| self.threads[runs].current.as_ref()?.holds);
            let thread = &mut self.threads[task];
            let throttled = thread
                .server
                .as_ref()
                .is_some_and(|s| s.throttled_until.is_some());
            let Some(current) = &mut thread.current else {
                continue;
            };
            let job = &mut current.job;
            if current.suspended_until.is_some() {
                job.suspended_ns += passed;
            } else if self.pending[cpu] > 0 {
                job.interrupted_ns += passed;
            } else if runs == Some(task) {
                job.executed_ns += passed;
            } else if throttled && waits.is_none() {
                job.throttled_ns += passed;
            } else {
                match (runs, above, held, waits) {
                    // It waits, and whoever runs isn't above it.
                    (Some(runs), Some(true), _, Some((_, owner))) if runs != owner => {
                        job.preempt(runs, passed);
                    }
                    (_, _, _, Some((lock, owner))) => job.block(lock, owner, passed),
                    // A task below runs because it inherited, or by a ceiling.
                    (Some(runs), Some(false), Some(lock), None) => job.block(lock, runs, passed),
                    (Some(runs), ..) => job.preempt(runs, passed),
                    (None, ..) => {}
                }
            }
        }
    }

    fn execute(&mut self, cpu: usize, passed: u64) {
        if self.pending[cpu] > 0 {
            self.pending[cpu] -= passed;
            return;
        }
        let Some(task) = self.runs[cpu] else { return };
        let thread = &mut self.threads[task];
        if let Some(server) = &mut thread.server {
            server.left = server.left.saturating_sub(passed);
        }
        let Some(current) = &mut thread.current else {
            return;
        };
        *current.left() -= passed;
        if *current.left() == 0 {
            current.pieces.pop();
            if let Some(lock) = current.holds.take() {
                self.owners[lock] = None;
            }
            self.advance(task);
        }
    }

    /// Begins a suspension, or ends the job.
    fn advance(&mut self, task: usize) {
        let now = self.now;
        let Some(current) = &mut self.threads[task].current else {
            return;
        };
        match current.pieces.last() {
            Some(Piece::Suspend(length)) => {
                current.suspended_until = Some(now + length);
                current.pieces.pop();
            }
            Some(_) => {}
            None => self.finish(task),
        }
    }

    fn finish(&mut self, task: usize) {
        let Some(Running { mut job, .. }) = self.threads[task].current.take() else {
            return;
        };
        job.finish_ns = self.now;
        for follower in 0..self.threads.len() {
            if self.set.tasks[follower].after == Some(task) {
                self.come(follower, job.arrival_ns, self.now);
            }
        }
        let result = &mut self.result;
        result.finished[task] += 1;
        let worst = &mut result.worst[task];
        if worst
            .as_ref()
            .is_none_or(|worst| worst.response_ns() < job.response_ns())
        {
            *worst = Some(job.clone());
        }
        if result.jobs.len() < self.options.keep {
            result.jobs.push(job);
        }
    }
}
