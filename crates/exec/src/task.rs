//! The threads of a set: prepared, started at one instant, ended.

mod execute;

use std::io;
use std::sync::{Arc, mpsc};

use punctual_record::taskset::{Chain, Means, Task, TaskPolicy, TaskSet, Wake};
use punctual_rt::memory::Disturbances;
use punctual_rt::sched::Policy;
use punctual_rt::thread::{Builder, Handle, Refusal, SpawnError, StartLine};

use crate::call::Calls;
use crate::chain::{Link, Outputs, Reader};
use crate::end::End;
use crate::job::Sink;
use crate::leave::{Leave, Unended, Way};
use crate::release::{Released, Releaser, connect};
use crate::speed::Speed;
use crate::sys::mutex::Mutex;
use crate::sys::spawn::Started;
use crate::timer::TaskTimer;
use crate::work::{Refused, Work};
use execute::Executor;

/// The stack of a task: its own work needs little, code of the user's own runs elsewhere.
const STACK_BYTES: usize = 256 << 10;

/// Why a set can't be executed.
#[derive(Debug)]
pub enum StartError {
    /// A lock can't be made.
    Lock(usize, io::Error),
    /// The means by which a task is woken can't be made.
    Means(usize, Means, io::Error),
    /// A step of a task can't be done: of this task and phase.
    Step(usize, usize, Refused),
    /// The set is not what it should be: this task names what isn't there.
    Task(usize),
    /// A chain names what isn't there.
    Chain(usize),
    /// No thread for this task.
    Thread(usize, SpawnError),
}

/// What a task reports before the set starts.
#[derive(Debug)]
pub struct Ready {
    /// Which task.
    pub task: usize,
    /// Its thread.
    pub tid: i32,
    /// What the kernel refused.
    pub refused: Vec<Refusal>,
    /// Why it can't do its work.
    pub fault: Option<Fault>,
}

/// Why a task ended before the set did.
#[derive(Debug)]
pub enum Fault {
    /// It could not wait for its next job.
    Wait(io::Error),
    /// It could not release the task that follows it.
    Release(io::Error),
    /// A step of this phase could not be done.
    Step(usize, Refused),
}

/// How a task ended.
#[derive(Debug)]
pub enum Ended {
    /// With the set.
    Completed,
    /// Before it.
    Failed(Fault),
}

/// What a task reports at its end.
#[derive(Debug)]
pub struct Outcome {
    /// How it ended.
    pub ended: Ended,
    /// Jobs that it executed.
    pub jobs: u64,
    /// Jobs that it never started: as many releases were pending as may be.
    pub dropped: u64,
    /// So many.
    pub most_pending: u32,
    /// Page faults and preemptions while it executed jobs.
    pub disturbances: Option<Disturbances>,
    /// Processor time meanwhile, in ns.
    pub cpu_ns: u64,
}

/// A set whose tasks can be started.
pub struct Prepared {
    tasks: Vec<PreparedTask>,
    locks: Arc<[Mutex]>,
}

struct PreparedTask {
    task: Task,
    work: Vec<Work>,
    released: Option<Released>,
    /// Each with how many jobs release one.
    releases: Vec<(Releaser, u32)>,
    links: Vec<Link>,
}

/// Prepares the tasks of a set: `speeds` are those of the CPUs of each task, in their order.
///
/// # Errors
/// Why the set can't be executed.
pub fn prepare(
    set: &TaskSet,
    speeds: &[Speed],
    calls: &mut dyn Calls,
) -> Result<Prepared, StartError> {
    let mut locks = Vec::new();
    for (index, lock) in set.locks.iter().enumerate() {
        let made = Mutex::new(lock.protocol).map_err(|error| StartError::Lock(index, error))?;
        locks.push(made);
    }
    let locks: Arc<[Mutex]> = locks.into();
    let mut tasks = Vec::new();
    for (index, task) in set.tasks.iter().enumerate() {
        let speed = speeds.get(index).ok_or(StartError::Task(index))?;
        let mut work = Vec::new();
        for (number, phase) in task.phases.iter().enumerate() {
            let made = Work::new(phase, &locks, speed, calls);
            work.push(made.map_err(|refused| StartError::Step(index, number, refused))?);
        }
        if work.is_empty() || task.phases.iter().any(|phase| phase.jobs == 0) {
            return Err(StartError::Task(index));
        }
        tasks.push(PreparedTask {
            task: task.clone(),
            work,
            released: None,
            releases: Vec::new(),
            links: Vec::new(),
        });
    }
    for index in 0..tasks.len() {
        let Wake::After { task, every, means } = tasks[index].task.wake else {
            continue;
        };
        let joined = connect(means).map_err(|error| StartError::Means(index, means, error))?;
        if task == index || every == 0 {
            return Err(StartError::Task(index));
        }
        let before = tasks.get_mut(task).ok_or(StartError::Task(index))?;
        before.releases.push((joined.0, every));
        tasks[index].released = Some(joined.1);
    }
    for (index, chain) in set.chains.iter().enumerate() {
        link(&mut tasks, index, chain)?;
    }
    Ok(Prepared { tasks, locks })
}

/// Gives each task of a chain its place.
fn link(tasks: &mut [PreparedTask], index: usize, chain: &Chain) -> Result<(), StartError> {
    let mut from: Option<(usize, Arc<Outputs>)> = None;
    for (at, &number) in chain.tasks.iter().enumerate() {
        let task = tasks.get_mut(number).ok_or(StartError::Chain(index))?;
        let last = at + 1 == chain.tasks.len();
        let into = (!last).then(|| Arc::new(Outputs::of_place(at)));
        let before = from.as_ref().map(|(before, _)| *before);
        let triggered = match task.task.wake {
            Wake::After { task, .. } => Some(task) == before,
            Wake::Timer { .. } => false,
        };
        task.links.push(Link {
            chain: index,
            from: from.map(|(_, outputs)| outputs),
            triggered,
            into: into.clone(),
            reader: Reader::default(),
        });
        from = into.map(|outputs| (number, outputs));
    }
    Ok(())
}

/// How a task's policy is set.
fn policy(of: TaskPolicy) -> Policy {
    match of {
        TaskPolicy::Fifo { priority } => Policy::Fifo(priority.into()),
        TaskPolicy::Rr { priority } => Policy::RoundRobin(priority.into()),
        TaskPolicy::Other { .. } => Policy::Other,
        TaskPolicy::Deadline {
            runtime_ns,
            deadline_ns,
            period_ns,
        } => Policy::Deadline {
            runtime_ns,
            deadline_ns,
            period_ns,
        },
    }
}

/// A running set. Dropping it ends it.
pub struct Running {
    /// Present until their outcomes are taken.
    threads: Vec<Option<Handle<Option<Outcome>>>>,
    ways: Vec<Arc<Way>>,
    /// The processes of the commands of each task.
    commands: Vec<Vec<Arc<Started>>>,
    leave: Arc<Leave>,
    line: Arc<StartLine>,
    end: Arc<End>,
}

impl Prepared {
    /// The addresses of the locks of the set, in its order: what waits for one of them is seen as a
    /// wait for the futex at its address.
    #[must_use]
    pub fn locks(&self) -> Vec<u64> {
        self.locks.iter().map(Mutex::address).collect()
    }

    /// Of each task, the threads of other processes that execute code of the user's own for it.
    #[must_use]
    pub fn threads(&self) -> Vec<Vec<u32>> {
        let of = |task: &PreparedTask| task.work.iter().flat_map(Work::threads).collect();
        self.tasks.iter().map(of).collect()
    }

    /// Starts the threads; each sets itself up, reports to `ready`, and waits at the start line.
    /// `sink` makes the sink of each task.
    ///
    /// # Errors
    /// No thread for a task.
    pub fn start<S: Sink>(
        self,
        line: &Arc<StartLine>,
        end: &Arc<End>,
        ready: &mpsc::Sender<Ready>,
        mut sink: impl FnMut(usize) -> S,
    ) -> Result<Running, StartError> {
        let timers = self.tasks.iter().filter(|it| it.released.is_none());
        let mut running = Running {
            threads: Vec::new(),
            ways: Vec::new(),
            commands: Vec::new(),
            leave: Arc::new(Leave::new(timers.count())),
            line: Arc::clone(line),
            end: Arc::clone(end),
        };
        for (index, task) in self.tasks.into_iter().enumerate() {
            let commands = task.work.iter().flat_map(Work::commands);
            running.commands.push(commands.collect());
            let way = Arc::new(Way::default());
            let builder = Builder::new()
                .name(&task.task.name)
                .stack_size(STACK_BYTES)
                .cpus(&task.task.cpus)
                .policy(policy(task.task.policy));
            let nice = match task.task.policy {
                TaskPolicy::Other { nice } => nice,
                _ => 0,
            };
            let own = Own {
                index,
                nice,
                line: Arc::clone(line),
                end: Arc::clone(end),
                way: Arc::clone(&way),
                leave: Arc::clone(&running.leave),
                ready: ready.clone(),
            };
            let sink = sink(index);
            let handle = builder
                .spawn(move |setup| {
                    let outcome = live(task, &own, setup.tid, setup.refused, sink);
                    own.way.over();
                    outcome
                })
                .map_err(|error| StartError::Thread(index, error))?;
            running.threads.push(Some(handle));
            running.ways.push(way);
        }
        Ok(running)
    }
}

/// What a thread takes along.
struct Own {
    index: usize,
    nice: i8,
    line: Arc<StartLine>,
    end: Arc<End>,
    way: Arc<Way>,
    leave: Arc<Leave>,
    ready: mpsc::Sender<Ready>,
}

/// The life of a task's thread.
fn live<S: Sink>(
    task: PreparedTask,
    own: &Own,
    tid: i32,
    refused: Vec<Refusal>,
    sink: S,
) -> Option<Outcome> {
    own.way.belongs_to(tid);
    let mut fault = None;
    if own.nice != 0 {
        // Below 0 the kernel wants a privilege, which the policy needs too.
        fault = punctual_rt::sys::task::set_nice(i32::from(own.nice))
            .err()
            .map(Fault::Wait);
    }
    let mut executor = Executor::new(task, own, sink);
    fault = fault.or_else(|| executor.set_up().err());
    let is_sound = fault.is_none();
    let report = Ready {
        task: own.index,
        tid,
        refused,
        fault,
    };
    let listening = own.ready.send(report).is_ok() && is_sound;
    let start_ns = match listening {
        true => own.line.wait(),
        false => None,
    };
    start_ns.map(|start_ns| executor.observed(start_ns, own))
}

impl Running {
    /// Whether each task has ended; lets them end if all have executed their last jobs, and wakes those that wait for
    /// a job after the end.
    #[must_use]
    pub fn is_over(&self) -> bool {
        self.ways.iter().for_each(|way| way.wake_after(&self.end));
        self.leave.if_done();
        self.ways.iter().all(|way| way.is_over())
    }

    /// Of each task that has not ended, the job that has not.
    #[must_use]
    pub fn unended(&self) -> Vec<Option<Unended>> {
        self.ways.iter().map(|way| way.unended()).collect()
    }

    /// The outcomes of the tasks, in their order; one that has not ended is left alone, and has none. Its
    /// commands are killed.
    #[must_use]
    pub fn finish(mut self) -> Vec<Option<Outcome>> {
        self.leave.all(&self.ways);
        let threads = std::mem::take(&mut self.threads);
        let each = threads.into_iter().zip(&self.ways).zip(&self.commands);
        each.map(|((thread, way), commands)| {
            let thread = thread?;
            if way.is_over() {
                thread.join().ok().flatten()
            } else {
                thread.detach();
                commands.iter().for_each(|command| command.kill());
                None
            }
        })
        .collect()
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let called_off = self.line.call_off();
        self.end.now();
        self.leave.now();
        for thread in self.threads.drain(..).flatten() {
            match called_off {
                // Joins.
                true => drop(thread),
                false => thread.detach(),
            }
        }
    }
}

/// Opens what a task waits by.
fn timer_of(task: &Task) -> io::Result<Option<TaskTimer>> {
    match task.wake {
        Wake::Timer { timer, .. } => TaskTimer::open(timer).map(Some),
        Wake::After { .. } => Ok(None),
    }
}
