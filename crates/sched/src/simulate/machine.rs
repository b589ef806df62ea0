//! The machine: threads, CPUs and interrupts, from one event to the next.

use std::collections::VecDeque;

use super::job::{Piece, Running, pieces};
use super::server::Server;
use super::{Job, Lateness, Options, Random, Simulation};
use crate::model::TaskSet;

/// A simulation ends here at the latest.
const LATEST_NS: u64 = 1 << 62;

/// The most jobs of one task that wait.
const BACKLOG: usize = 10_000;

/// One thread.
pub(super) struct Thread {
    /// The next arrival by the clock; none for those that another task releases.
    arrival: Option<u64>,
    /// Arrival and release of jobs that aren't released, and of those that are.
    coming: VecDeque<(u64, u64)>,
    released: VecDeque<(u64, u64)>,
    pub current: Option<Running>,
    pub server: Option<Server>,
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

pub(super) struct Machine<'a> {
    pub set: &'a TaskSet,
    options: &'a Options,
    random: Random,
    pub now: u64,
    pub threads: Vec<Thread>,
    interrupts: Vec<Interrupt>,
    /// The numbers of the CPUs, and the work of interrupts that is left on each.
    cpus: Vec<u32>,
    pub pending: Vec<u64>,
    pub cpu_of: Vec<usize>,
    pub owners: Vec<Option<usize>>,
    /// Who runs on each CPU.
    pub runs: Vec<Option<usize>>,
    result: Simulation,
}

impl<'a> Machine<'a> {
    pub fn new(set: &'a TaskSet, options: &'a Options) -> Self {
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

    /// What has happened.
    pub fn ended(mut self) -> Simulation {
        self.result.ended_ns = self.now;
        self.result
    }

    /// To the next event; false where there is none.
    pub fn step(&mut self) -> bool {
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
            let pending = &mut self.pending[self.cpu_of[task]];
            *pending = pending.saturating_add(interrupt);
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
            let it = &self.set.tasks[follower];
            if it.after != Some(task) {
                continue;
            }
            let every = it.period_ns / self.set.tasks[task].period_ns;
            if self.result.finished[task] % every == it.offset_ns % every {
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
