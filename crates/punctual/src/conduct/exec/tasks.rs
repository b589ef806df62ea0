//! The threads of a set, and the rings that their figures come through.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, mpsc};
use std::time::{Duration, Instant};
use std::{fmt, io};

use punctual_rt::clock;
use punctual_rt::ring::{Consumer, Producer, ring};
use punctual_rt::sys::task;
use punctual_rt::thread::{Refusal, StartLine};

use super::calls::Launched;
use super::plan::ExecPlan;
use crate::conduct::error::ConductError;
use crate::probe::collector::Collector;
use crate::probe::cycle::Sample;
use punctual_exec::{
    End, Fault, Job, Outcome, Passed, Prepared, Ready, Running, Sink, Speed, StartError, Unended,
    prepare,
};
use punctual_record::taskset::{CpuSpeed, TaskFault, TaskSet};

/// How long tasks may take to set themselves up.
const READY_WITHIN: Duration = Duration::from_secs(30);
/// How long the set waits for its start after all threads exist: none is late for it.
const RUN_UP_NS: u64 = 50_000_000;
/// How long a task may take to end, in addition to its period.
const END_WITHIN: Duration = Duration::from_secs(2);

/// Jobs that may wait to be explained; more are counted, and not explained.
const SUSPECTS: usize = 1 << 12;

/// Outputs of a chain that have room, however slow it is.
const LEAST_OUTPUTS: usize = 1 << 12;

/// Why a set was not executed.
#[derive(Debug)]
pub enum ExecError {
    /// The speed of this CPU isn't known.
    Speed(usize, punctual_exec::SpeedError),
    /// The set can't be started.
    Start(Box<TaskSet>, StartError),
    /// A task did not get what it asks for, by its name.
    Refused(String, Refusal),
    /// A task can't do its work, by its name.
    Faulty(String, TaskFault),
    /// Only so many tasks were ready in time.
    NotReady(usize),
    /// No ring for the figures of a task.
    Ring(io::Error),
    /// The kernel would kill this task.
    TimeLimit {
        /// Its name.
        task: String,
        /// How long a job of it executes without sleeping.
        needs_us: u64,
        /// RLIMIT_RTTIME, hard, in µs.
        hard_us: u64,
    },
}

impl fmt::Display for ExecError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Speed(cpu, error) => write!(f, "cannot measure how fast CPU {cpu} is: {error}"),
            Self::Start(set, error) => write!(f, "{}", Start(set, error)),
            Self::Refused(task, refusal) => write!(f, "task {task}: {refusal}"),
            Self::Faulty(task, fault) => match fault {
                TaskFault::Wait { error } => write!(f, "task {task}: cannot wait: {error}"),
                TaskFault::Release { error } => {
                    write!(f, "task {task}: cannot release another task: {error}")
                }
                TaskFault::Step { phase, step, error } => write!(
                    f,
                    "task {task}: step {} of phase {}: {error}",
                    step + 1,
                    phase + 1
                ),
                TaskFault::StillBusy {} => write!(f, "task {task}: it does not end"),
            },
            Self::NotReady(ready) => write!(
                f,
                "only {ready} tasks were ready within 30 s: does a real-time task occupy a CPU?"
            ),
            Self::Ring(error) => write!(f, "no memory for the figures of the tasks: {error}"),
            Self::TimeLimit {
                task,
                needs_us,
                hard_us,
            } => write!(
                f,
                "RLIMIT_RTTIME is {hard_us} µs: the kernel kills a real-time thread that runs longer \
                 without sleeping, and a job of task {task} executes for {needs_us} µs: expected less than \
                 half of the limit. Raise the limit (`ulimit -R unlimited`, or LimitRTTIME=infinity in a \
                 systemd unit), or let the job sleep in between"
            ),
        }
    }
}

impl ExecError {
    /// The step that can't be done: its task, its phase, and the step within that.
    #[must_use]
    pub fn step(&self) -> Option<(usize, usize, usize)> {
        match self {
            Self::Start(_, StartError::Step(task, phase, refused)) => {
                Some((*task, *phase, refused.step))
            }
            _ => None,
        }
    }
}

impl std::error::Error for ExecError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Speed(_, error) => Some(error),
            Self::Ring(error) => Some(error),
            _ => None,
        }
    }
}

/// What can't be started, with the names of the set.
struct Start<'a>(&'a TaskSet, &'a StartError);

impl fmt::Display for Start<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self(set, error) = self;
        let task = |index: &usize| set.tasks.get(*index).map_or("?", |task| task.name.as_str());
        match error {
            StartError::Lock(index, error) => {
                let name = set.locks.get(*index).map_or("?", |lock| lock.name.as_str());
                write!(f, "lock {name}: {error}")
            }
            StartError::Means(index, means, error) => {
                write!(f, "task {}: {means:?}: {error}", task(index))
            }
            StartError::Step(index, phase, refused) => write!(
                f,
                "task {}: step {} of phase {}: {}",
                task(index),
                refused.step + 1,
                phase + 1,
                refused.error
            ),
            StartError::Task(index) => write!(f, "task {}: it can't be executed", task(index)),
            StartError::Chain(index) => {
                let name = set.chains.get(*index).map_or("?", |it| it.name.as_str());
                write!(f, "chain {name}: a task of it isn't there")
            }
            StartError::Thread(index, error) => write!(f, "task {}: {error}", task(index)),
        }
    }
}

/// The ends that a task writes to.
struct Rings {
    wake_ups: Producer<Sample>,
    jobs: Producer<Sample>,
    passed: Producer<Passed>,
    /// Late jobs, and each that is longer than all before it.
    suspects: Producer<Job>,
    deadline_ns: u64,
    longest_ns: u64,
    /// The longest of the jobs whose phases may take longer than the deadline, with all of their time.
    longest_taken_ns: Arc<AtomicU64>,
    /// When its first job read its input; 0 before that.
    first_read_ns: Arc<AtomicU64>,
    has_read: bool,
}

impl Sink for Rings {
    #[inline]
    fn job(&mut self, job: Job) {
        self.wake_ups.push(Sample {
            requested_ns: job.released_ns,
            late_ns: job.started_ns.wrapping_sub(job.released_ns) as i64,
            missed: 0,
        });
        if !self.has_read {
            self.has_read = true;
            self.first_read_ns.store(job.started_ns, Ordering::Relaxed);
        }
        let response_ns = job.response_ns();
        self.jobs.push(Sample {
            requested_ns: job.arrival_ns,
            late_ns: response_ns as i64,
            missed: job.skipped,
        });
        if job.more_ns > 0 && job.taken_ns() > self.longest_taken_ns.load(Ordering::Relaxed) {
            self.longest_taken_ns
                .store(job.taken_ns(), Ordering::Relaxed);
        }
        if response_ns > self.longest_ns.min(self.deadline_ns) {
            self.longest_ns = self.longest_ns.max(response_ns);
            self.suspects.push(job);
        }
    }

    #[cold]
    fn dropped(&mut self, at_ns: u64, jobs: u64) {
        // A job that is never done misses every deadline.
        self.jobs.push(Sample::lost(at_ns, jobs - 1));
    }

    #[inline]
    fn passed(&mut self, passed: Passed) {
        self.passed.push(passed);
    }
}

/// The ends that the figures of a task are read from.
pub struct Figures {
    pub wake_ups: Consumer<Sample>,
    pub jobs: Consumer<Sample>,
    pub passed: Consumer<Passed>,
    pub suspects: Consumer<Job>,
}

/// The threads of a set.
pub struct Tasks {
    /// Ends them.
    pub end: Arc<End>,
    /// The thread of each task.
    pub tids: Vec<i32>,
    /// The addresses of the locks of the set: futexes.
    pub locks: Vec<u64>,
    /// Of each task, the threads that execute code of the user's own for it.
    pub helpers: Vec<Vec<u32>>,
    longest_taken_ns: Vec<Arc<AtomicU64>>,
    first_read_ns: Vec<Arc<AtomicU64>>,
    line: Arc<StartLine>,
    running: Option<Running>,
    patience: Duration,
    /// How long the last jobs may take after the end: as long as the longest deadline and period.
    last_jobs: Duration,
}

/// Measures how fast the CPUs of the tasks are.
///
/// # Errors
/// A CPU's speed isn't known.
pub fn speeds(plan: &ExecPlan) -> Result<Vec<CpuSpeed>, ConductError> {
    let cpus = plan.cpus();
    let of = cpus.len();
    let each = cpus.into_iter().map(|cpu| {
        let speed = Speed::of_cpu(cpu, of);
        let speed = speed.map_err(|error| ConductError::Exec(ExecError::Speed(cpu, error)))?;
        Ok(CpuSpeed {
            cpu,
            turns: speed.turns,
            ns: speed.ns,
            spread: speed.spread,
        })
    });
    each.collect()
}

/// Starts the threads of a set, and waits until each is ready.
///
/// # Errors
/// The set can't be executed.
pub fn start(plan: &ExecPlan, speeds: &[CpuSpeed]) -> Result<(Tasks, Vec<Figures>), ConductError> {
    started(plan, speeds).map_err(ConductError::Exec)
}

fn started(plan: &ExecPlan, speeds: &[CpuSpeed]) -> Result<(Tasks, Vec<Figures>), ExecError> {
    let set = &plan.set;
    let cannot = |error| ExecError::Start(Box::new(set.clone()), error);
    let prepared = prepared(plan, speeds).map_err(cannot)?;
    let (locks, helpers) = (prepared.locks(), prepared.threads());
    let (line, end) = (Arc::<StartLine>::default(), Arc::<End>::default());
    let (tell, told) = mpsc::channel();
    let mut figures = Vec::new();
    let mut sinks = Vec::new();
    let (mut longest_taken_ns, mut first_read_ns) = (Vec::new(), Vec::new());
    for task in 0..set.tasks.len() {
        let (sink, ends) = rings(set, task).map_err(ExecError::Ring)?;
        longest_taken_ns.push(Arc::clone(&sink.longest_taken_ns));
        first_read_ns.push(Arc::clone(&sink.first_read_ns));
        sinks.push(Some(sink));
        figures.push(ends);
    }
    let mut sinks = sinks.into_iter();
    let next = |_| sinks.next().flatten().unwrap_or_else(no_rings);
    let running = prepared.start(&line, &end, &tell, next).map_err(cannot)?;
    drop(tell);
    let mut tids = vec![0; set.tasks.len()];
    for count in 0..set.tasks.len() {
        let ready: Ready = told
            .recv_timeout(READY_WITHIN)
            .map_err(|_| ExecError::NotReady(count))?;
        let name = set
            .tasks
            .get(ready.task)
            .map_or_else(String::new, |task| task.name.clone());
        if let Some(refusal) = ready.refused.into_iter().find(|it| it.step != "name") {
            return Err(ExecError::Refused(name, refusal));
        }
        if let Some(fault) = ready.fault {
            return Err(ExecError::Faulty(name, fault_of(fault)));
        }
        tids[ready.task] = ready.tid;
    }
    let longest_ns = (0..set.tasks.len())
        .filter_map(|task| set.period_ns(task))
        .max();
    let deadlines = set.tasks.iter().map(|task| task.deadline_ns);
    // Without a deadline of its own a job has that of its period.
    let last_ns = deadlines
        .filter(|it| *it < u64::MAX)
        .chain(longest_ns)
        .max();
    let tasks = Tasks {
        end,
        tids,
        locks,
        helpers,
        longest_taken_ns,
        first_read_ns,
        line,
        running: Some(running),
        last_jobs: END_WITHIN + Duration::from_nanos(last_ns.unwrap_or(0)),
        patience: END_WITHIN + Duration::from_nanos(longest_ns.unwrap_or(0)).min(END_WITHIN),
    };
    Ok((tasks, figures))
}

fn prepared(plan: &ExecPlan, speeds: &[CpuSpeed]) -> Result<Prepared, StartError> {
    // A task that may run on several CPUs executes for its time on the fastest.
    let of = |task: usize| {
        let cpus = plan.cpus_of(task);
        let own = speeds.iter().filter(|speed| cpus.contains(&speed.cpu));
        own.map(|speed| Speed {
            turns: speed.turns,
            ns: speed.ns,
            spread: speed.spread,
        })
        .max_by(|a, b| {
            let rate = |speed: &Speed| speed.turns as f64 / speed.ns.max(1) as f64;
            rate(a).total_cmp(&rate(b))
        })
    };
    let each: Option<Vec<Speed>> = (0..plan.set.tasks.len()).map(of).collect();
    let each = each.ok_or(StartError::Task(0))?;
    let mut calls = Launched::default();
    prepare(&plan.set, &each, &mut calls)
}

fn rings(set: &TaskSet, task: usize) -> io::Result<(Rings, Figures)> {
    let period_ns = set.period_ns(task).unwrap_or(0);
    let capacity = Collector::ring_capacity(period_ns);
    let (wake_ups, its_wake_ups) = ring_of(capacity)?;
    let (jobs, its_jobs) = ring_of(capacity)?;
    let last_of = set
        .chains
        .iter()
        .filter(|chain| chain.tasks.last() == Some(&task));
    // They are larger than samples, and are taken four times a second: those of 8 s have room.
    let outputs = (capacity / 4).max(LEAST_OUTPUTS);
    let (passed, its_passed) = ring_of(outputs.saturating_mul(last_of.count()).max(2))?;
    let (suspects, its_suspects) = ring_of(SUSPECTS)?;
    let sink = Rings {
        wake_ups,
        jobs,
        passed,
        suspects,
        deadline_ns: set
            .tasks
            .get(task)
            .map_or(u64::MAX, |task| task.deadline_ns),
        longest_ns: 0,
        longest_taken_ns: Arc::default(),
        first_read_ns: Arc::default(),
        has_read: false,
    };
    let figures = Figures {
        wake_ups: its_wake_ups,
        jobs: its_jobs,
        passed: its_passed,
        suspects: its_suspects,
    };
    Ok((sink, figures))
}

fn ring_of<T: Copy + Send + Default>(capacity: usize) -> io::Result<(Producer<T>, Consumer<T>)> {
    punctual_rt::ring::try_ring(capacity)
}

/// There are as many rings as tasks: this is for none of them.
fn no_rings() -> Rings {
    Rings {
        wake_ups: ring(2).0,
        jobs: ring(2).0,
        passed: ring(2).0,
        suspects: ring(2).0,
        deadline_ns: u64::MAX,
        longest_ns: u64::MAX,
        longest_taken_ns: Arc::default(),
        first_read_ns: Arc::default(),
        has_read: false,
    }
}

/// Why a task ended, as the record keeps it.
pub fn fault_of(fault: Fault) -> TaskFault {
    match fault {
        Fault::Wait(error) => TaskFault::Wait {
            error: error.to_string(),
        },
        Fault::Release(error) => TaskFault::Release {
            error: error.to_string(),
        },
        Fault::Step(phase, refused) => TaskFault::Step {
            phase,
            step: refused.step,
            error: refused.error.to_string(),
        },
    }
}

impl Tasks {
    /// When a set that is let go now may start.
    pub fn next_start_ns() -> u64 {
        clock::now_ns().saturating_add(RUN_UP_NS)
    }

    /// Starts all tasks at one instant.
    pub fn go(&self, start_ns: u64, duration_ns: Option<u64>) {
        if let Some(length_ns) = duration_ns {
            self.end.set(start_ns.saturating_add(length_ns));
        }
        self.line.go(start_ns);
    }

    /// Whether each of them has ended.
    pub fn are_over(&self) -> bool {
        self.running.as_ref().is_none_or(Running::is_over)
    }

    /// Whether one of them may be waited for no longer: the set ended some time ago.
    pub fn is_overdue(&self, elapsed_ns: u64, duration_ns: Option<u64>) -> bool {
        duration_ns.is_some_and(|length_ns| {
            Duration::from_nanos(elapsed_ns.saturating_sub(length_ns)) > self.last_jobs
        })
    }

    /// Of each task the longest time of a job whose phase may take longer than the deadline; 0 without such a job.
    pub fn longest_taken_ns(&self) -> Vec<u64> {
        let all = self.longest_taken_ns.iter();
        all.map(|it| it.load(Ordering::Relaxed)).collect()
    }

    /// When the first job of a task read its input, if it has ended.
    pub fn first_read_ns(&self, task: usize) -> Option<u64> {
        let read_ns = self.first_read_ns.get(task)?.load(Ordering::Relaxed);
        (read_ns > 0).then_some(read_ns)
    }

    /// Makes them ordinary threads, which RLIMIT_RTTIME does not end.
    pub fn demote(&self) {
        let helpers = self.helpers.iter().flatten();
        let all = self.tids.iter().copied();
        let helpers = helpers.filter_map(|tid| i32::try_from(*tid).ok());
        for tid in all.chain(helpers) {
            // One that has ended needs none.
            let _ = task::set_scheduling(tid, &task::SchedAttr::default());
        }
    }

    /// Ends them, waits a while for each, and returns their outcomes, and the jobs that have not ended.
    pub fn end(&mut self) -> (Vec<Option<Outcome>>, Vec<Option<Unended>>) {
        self.end.now();
        let patience = Instant::now() + self.patience;
        while !self.are_over() && Instant::now() < patience {
            std::thread::sleep(Duration::from_millis(1));
        }
        let Some(running) = self.running.take() else {
            return Default::default();
        };
        let unended = running.unended();
        (running.finish(), unended)
    }
}
