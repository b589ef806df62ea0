//! The jobs of a set of tasks: which of them are explained, and their bills.

use std::collections::BTreeMap;
use std::sync::mpsc::{self, Receiver, SyncSender, TrySendError};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use super::lock;
use super::tracer::Account;
use crate::conduct::culprits;
use punctual_record::explanation::NotSeen;
use punctual_record::taskset::{JobBills, TaskPolicy};
use punctual_trace::attribute::event::{Kind, Task, Window};
use punctual_trace::attribute::{JobInstants, job_bill, job_picture};
use punctual_trace::capture::numbers::Numbers;
use punctual_trace::capture::{Capture, WakeUpPlace};

/// Jobs that are explained per round: at least so many, and more while that takes no longer than this.
/// The others are counted, but not explained.
const AT_ONCE: usize = 128;
const TIME: Duration = Duration::from_millis(300);
/// The rings hold what happens in the meantime for longer than this.
const DRAIN_EVERY: Duration = Duration::from_millis(25);
/// Batches of jobs that may wait.
const BATCHES: usize = 64;

/// A job that may be worth a bill.
#[derive(Debug, Clone, Copy)]
pub struct JobSeen {
    /// Which task.
    pub task: usize,
    /// When it was what.
    pub at: JobInstants,
    /// Whether it ended after its deadline.
    pub late: bool,
}

/// A task whose jobs are explained.
#[derive(Debug, Clone)]
pub struct TaskSeen {
    /// Its thread in this process.
    pub tid: i32,
    /// Threads that execute a part of its jobs while it waits for them.
    pub helpers: Vec<u32>,
    /// Its name.
    pub name: String,
    /// How it is scheduled.
    pub policy: TaskPolicy,
    /// The CPU that it is bound to; absent where it is not bound to one.
    pub cpu: Option<usize>,
}

/// The end through which jobs come.
pub struct JobFeed {
    sender: SyncSender<Vec<JobSeen>>,
    account: Arc<Mutex<Account>>,
}

impl JobFeed {
    /// Sends jobs to be explained. If the explaining thread is far behind they are dropped.
    pub fn send(&self, jobs: Vec<JobSeen>) {
        if !jobs.is_empty()
            && let Err(TrySendError::Full(jobs)) = self.sender.try_send(jobs)
        {
            let mut account = lock(&self.account);
            account.drop_unsent([], jobs.len());
            for job in jobs.iter().filter(|job| job.late) {
                account.jobs[job.task].unexplained += 1;
            }
        }
    }
}

/// A task in the kernel's terms, its CPU, and its helpers.
type Known = (Task, Option<u32>, Vec<u32>);

/// The explaining thread's own.
pub(super) struct Jobs {
    tasks: Vec<Known>,
    /// The names of the set's locks, by their addresses.
    locks: BTreeMap<u64, String>,
    batches: Receiver<Vec<JobSeen>>,
    /// Explained in the next round, when the events after them are known.
    waiting: Vec<JobSeen>,
}

impl Jobs {
    pub fn new(
        tasks: &[TaskSeen],
        locks: BTreeMap<u64, String>,
        numbers: &Numbers,
        account: &Arc<Mutex<Account>>,
    ) -> (Self, JobFeed) {
        let (sender, batches) = mpsc::sync_channel(BATCHES);
        let known = tasks.iter().map(|task| {
            let tid = numbers.kernels(task.tid.unsigned_abs());
            let cpu = task.cpu.map(super::number);
            let helpers = task.helpers.iter().map(|tid| numbers.kernels(*tid));
            (kernel_task(tid, task), cpu, helpers.collect())
        });
        let jobs = Self {
            tasks: known.collect(),
            locks,
            batches,
            waiting: Vec::new(),
        };
        let account = Arc::clone(account);
        (jobs, JobFeed { sender, account })
    }

    /// Takes the jobs that were sent.
    pub fn receive(&mut self) {
        while let Ok(batch) = self.batches.try_recv() {
            self.waiting.extend(batch);
        }
    }

    /// Makes the bills of the waiting jobs.
    pub fn explain(
        &mut self,
        capture: &Arc<Mutex<Capture>>,
        account: &Arc<Mutex<Account>>,
        numbers: &Numbers,
    ) {
        let mut waiting = std::mem::take(&mut self.waiting);
        waiting.sort_by_key(|job| {
            let response_ns = job.at.ended_ns.saturating_sub(job.at.arrival_ns);
            std::cmp::Reverse(response_ns)
        });
        let begun = Instant::now();
        let mut drained = begun;
        for (rank, job) in waiting.into_iter().enumerate() {
            if drained.elapsed() > DRAIN_EVERY {
                lock(capture).drain();
                drained = Instant::now();
            }
            let has_time = rank < AT_ONCE || begun.elapsed() < TIME;
            let windows = has_time.then(|| self.windows(&job, capture)).flatten();
            let response_ns = job.at.ended_ns.saturating_sub(job.at.arrival_ns);
            let known = lock(account).jobs.get(job.task).map(|of_task| {
                (
                    of_task.would_keep(response_ns),
                    of_task.would_be_first(response_ns),
                )
            });
            let Some((keep, first)) = known else {
                continue;
            };
            let bill = windows.map(|(release, execution)| {
                let mut bill = job_bill(&job.at, release.as_ref(), &execution);
                if keep {
                    culprits::look_up_rows(&mut bill.rows, bill.ended_ns, numbers);
                }
                if first {
                    let around = lock(capture).around_job(
                        execution.probe.clone(),
                        job.at.arrival_ns,
                        job.at.ended_ns,
                    );
                    bill.picture = around.map(|it| job_picture(&it, release.as_ref(), &execution));
                }
                bill
            });
            let mut account = lock(account);
            let Some(of_task) = account.jobs.get_mut(job.task) else {
                continue;
            };
            match bill {
                Some(bill) => of_task.add(bill, job.late),
                None if job.late => {
                    of_task.unexplained += 1;
                    if !has_time {
                        account.ledger.add_missing(NotSeen::TooFast { wake_ups: 1 });
                    }
                }
                None => {}
            }
        }
    }

    /// What was recorded of the release of a job, unless it began at once, and of its execution.
    fn windows(
        &self,
        job: &JobSeen,
        capture: &Arc<Mutex<Capture>>,
    ) -> Option<(Option<Window>, Window)> {
        let (task, cpu, helpers) = self.tasks.get(job.task)?;
        let at = &job.at;
        let capture = lock(capture);
        let place = match cpu {
            Some(cpu) => WakeUpPlace::on_cpu(*cpu),
            None => capture.place_of(task.tid, at.released_ns, at.started_ns)?,
        };
        if capture.has_forgotten(place, at.released_ns) {
            return None;
        }
        let mut execution = capture.job(task.clone(), *cpu, at.started_ns, at.ended_ns)?;
        // Where it was is known only if nothing is missing.
        if cpu.is_none() && execution.lost > 0 {
            return None;
        }
        let mut release = match (at.started_ns > at.released_ns, at.waited) {
            (false, _) => None,
            (true, true) => Some(capture.window_at(task.tid, place, at.released_ns, at.started_ns)),
            // It was awake all the time.
            (true, false) => {
                Some(capture.job(task.clone(), *cpu, at.released_ns, at.started_ns)?)
            }
        };
        drop(capture);
        for window in release.iter_mut().chain([&mut execution]) {
            self.name_locks(window);
            window.count_helpers_in(helpers);
        }
        Some((release, execution))
    }

    /// Calls the locks of the set by their names.
    fn name_locks(&self, window: &mut Window) {
        for event in &window.events {
            if let Kind::LockWait { lock, .. } = &event.kind
                && let Some(name) = self.locks.get(lock)
            {
                window.symbols.insert(*lock, name.clone());
            }
        }
    }
}

/// A task as the kernel's events name it.
fn kernel_task(tid: u32, task: &TaskSeen) -> Task {
    let (priority, policy) = match task.policy {
        TaskPolicy::Fifo { priority } => (99 - i32::from(priority), 1),
        TaskPolicy::Rr { priority } => (99 - i32::from(priority), 2),
        TaskPolicy::Deadline { .. } => (-1, 6),
        TaskPolicy::Other { nice } => (120 + i32::from(nice), 0),
    };
    Task {
        tid,
        name: task.name.clone(),
        priority,
        policy,
    }
}

/// Bills of no job yet.
pub(super) fn no_bills(tasks: &[TaskSeen]) -> Vec<JobBills> {
    vec![JobBills::default(); tasks.len()]
}
