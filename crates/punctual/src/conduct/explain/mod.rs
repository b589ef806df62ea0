//! Explains late wake-ups during a run: a thread without real-time priority copies the events that
//! the kernel recorded, and makes a bill of each late wake-up. The probe threads do not take part.

mod feed;
mod jobs;
mod ticks;
mod tracer;
mod waits;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::mpsc;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use punctual_rt::sched::Policy;

use self::feed::{Batch, Quiet};
pub use self::feed::{Feed, Tick, Wake};
pub use self::jobs::{JobFeed, JobSeen, TaskSeen};
use self::ticks::Ticks;
use self::tracer::{Account, Tracer, poller};
use self::waits::Waits;
use super::housekeeper::Housekeeper;
use super::outliers::Outliers;
use super::run::BillSink;
use crate::probe::collector::Classifier;
use punctual_machine::Root;
use punctual_machine::survey::group_limits::GroupLimits;
use punctual_record::explanation::{Cause, Explanation, NoKernelNames};
use punctual_record::taskset::JobBills;
use punctual_record::watch::TickRow;
use punctual_record::{Event, Happening, Ledger, RecordError, Run, RunDirectory, TracerCost};
use punctual_record::{UnsavedPart, UnsavedReason};
use punctual_trace::attribute::event::Window;
use punctual_trace::capture::numbers::Numbers;
use punctual_trace::capture::symbols::Symbols;
use punctual_trace::capture::{self, Capture, Unavailable};

/// The windows of the worst wake-ups, one per line, beside the record.
pub use punctual_trace::windows::{OUTLIERS_FILE, WINDOWS_FILE};

/// Batches of samples that may wait.
const BATCHES: usize = 256;
/// Bytes of the windows of all other outliers, compressed.
const OUTLIER_BYTES: u64 = 16 << 20;

/// What is to be explained.
#[derive(Debug)]
pub struct Wanted {
    /// CPUs that are recorded.
    pub cpus: Vec<usize>,
    /// Our own threads with their CPUs; empty to follow every thread whose wake-ups are sent.
    pub threads: Vec<(i32, usize)>,
    /// Explain wake-ups later than this; absent: only the worst.
    pub above_ns: Option<u64>,
    /// The task that runs in the place of a thread later than this is interrupted for its stack.
    pub stack_above_ns: Option<u64>,
    /// The tasks whose jobs are explained beside the wake-ups; empty for none.
    pub tasks: Vec<TaskSeen>,
    /// Threads of tasks that are bound to no CPU.
    pub unbound: Vec<i32>,
    /// The addresses of the set's locks, with their names.
    pub locks: BTreeMap<u64, String>,
    /// The policy of threads that poll: their gaps are explained instead of wake-ups.
    pub polling: Option<Policy>,
    /// The CPU of the explaining thread.
    pub housekeeping: Option<usize>,
}

/// Begins to trace what is wanted; where it can't be, an event says why.
///
/// `bills` receives every bill.
pub fn begin(
    wanted: Option<Wanted>,
    bills: Option<BillSink>,
    events: &mut Vec<Event>,
) -> Option<(Explaining, Feed)> {
    let wanted = wanted?;
    let begun = Explaining::begin(&wanted, bills);
    begun
        .map_err(|why| {
            let what = Happening::NotExplained {
                why,
                gaps: wanted.polling.is_some(),
                messages: false,
            };
            events.push(Event::new(0, what));
        })
        .ok()
}

/// The explaining thread.
pub struct Explaining {
    account: Arc<Mutex<Account>>,
    thread: Housekeeper,
    capture: Arc<Mutex<Capture>>,
    /// Of our own threads, read while they lived.
    numbers: Numbers,
    /// Taken once.
    job_feed: Option<JobFeed>,
}

impl Explaining {
    /// Begins to record.
    ///
    /// # Errors
    /// Why nothing can be explained here, and what to do. The measurement continues.
    pub fn begin(wanted: &Wanted, bills: Option<BillSink>) -> Result<(Self, Feed), Unavailable> {
        let mut cpus: Vec<u32> = wanted.cpus.iter().map(|cpu| number(*cpu)).collect();
        cpus.sort_unstable();
        cpus.dedup();
        let any = wanted.threads.is_empty() && wanted.unbound.is_empty();
        let numbers = if any {
            Numbers::default()
        } else {
            Numbers::read()?
        };
        // Our own threads share our groups; those of other threads are read when they are first seen.
        let kernels = |tid: &i32| numbers.kernels(tid.unsigned_abs());
        let roaming: Vec<u32> = wanted.unbound.iter().map(kernels).collect();
        let bound = wanted.threads.iter().map(|(tid, _)| kernels(tid));
        let own: Vec<u32> = bound.chain(roaming.iter().copied()).collect();
        let mut groups = GroupLimits::new(&Root::live());
        groups.add(&own, "/proc/self/cgroup");
        let targets = wanted
            .threads
            .iter()
            .map(|(tid, cpu)| (numbers.kernels(tid.unsigned_abs()), number(*cpu)));
        let above_ns = wanted.above_ns.unwrap_or(u64::MAX);
        let options = capture::Options {
            targets: targets.collect(),
            roaming,
            // No stack is recorded for a polling thread: its delay is not known in time.
            interrupt_above_ns: wanted
                .stack_above_ns
                .filter(|_| wanted.polling.is_none())
                .unwrap_or(0),
            ring_events: capture::ring_events(cpus.len()),
            cpus,
            all_wakings: any,
        };
        let capture = Capture::start(&options)?;
        if wanted.polling.is_none() {
            capture.stacks_above(0);
        }
        let mut ledger = Ledger::new(wanted.above_ns);
        for what in capture.missing() {
            ledger.add_missing(what);
        }
        let capture = Arc::new(Mutex::new(capture));
        let account = Arc::new(Mutex::new(Account {
            ledger,
            bills,
            windows: Vec::new(),
            outliers: Outliers::within(OUTLIER_BYTES),
            waits: Waits::default(),
            ticks: Ticks::default(),
            above_ns,
            jobs: jobs::no_bills(&wanted.tasks),
            changed: false,
            events: 0,
            lost: 0,
            unread_ns: 0,
        }));
        let (jobs, job_feed) =
            jobs::Jobs::new(&wanted.tasks, wanted.locks.clone(), &numbers, &account);
        let (sender, batches) = mpsc::sync_channel(BATCHES);
        let mut tracer = Tracer {
            capture: Arc::clone(&capture),
            above_ns,
            poller: wanted.polling.map(poller),
            account: Arc::clone(&account),
            batches,
            jobs,
            waiting: Vec::new(),
            followed: any.then(BTreeSet::new),
            numbers: Numbers::of_proc()?,
            groups,
        };
        let round = move |last| tracer.round(last);
        let thread =
            Housekeeper::begin("tracer", 1 << 20, wanted.housekeeping, round).map_err(|error| {
                Unavailable::NoThread {
                    error: error.to_string(),
                }
            })?;
        let feed = Feed {
            batch: Batch::default(),
            sender,
            account: Arc::clone(&account),
            numbers: numbers.clone(),
        };
        let explaining = Self {
            account,
            thread,
            capture,
            numbers,
            job_feed: Some(job_feed),
        };
        Ok((explaining, feed))
    }

    /// The end through which jobs come; `None` after the first call.
    pub fn take_job_feed(&mut self) -> Option<JobFeed> {
        self.job_feed.take()
    }

    /// The bills of the jobs of each task so far.
    #[must_use]
    pub fn job_bills(&self) -> Vec<JobBills> {
        let bills = lock(&self.account).jobs.clone();
        bills.into_iter().map(JobBills::ranked).collect()
    }

    /// What took most of the longest job of each task so far.
    #[must_use]
    pub fn most_by(&self) -> Vec<Option<Cause>> {
        let account = lock(&self.account);
        let each = account.jobs.iter().map(|bills| {
            let longest = bills.worst.first()?;
            Some(longest.taken_by()?.cause.clone())
        });
        each.collect()
    }

    /// Tells gaps in which the kernel did something from those in which it did nothing.
    #[must_use]
    pub fn classifier(&self) -> Box<dyn Classifier> {
        Box::new(Quiet(Arc::clone(&self.capture)))
    }

    /// What is known so far.
    fn explanation(&self) -> Explanation {
        let account = lock(&self.account);
        let counts = account.outliers.counts();
        let mut explanation = account.ledger.to_record();
        explanation.kept = (counts.windows + counts.dropped > 0).then_some(counts);
        explanation.waits = account.waits.to_record();
        explanation.missing.extend(account.waits.missing());
        explanation
    }

    /// The kernel's names, or why there are none.
    ///
    /// # Errors
    /// Why there are none.
    pub fn symbols(&self) -> Result<Arc<Symbols>, NoKernelNames> {
        lock(&self.capture).symbols()
    }

    /// What made a tick late, thread by thread, if it is among the latest.
    #[must_use]
    pub fn tick(&self, tid: u32, due_ns: u64) -> Option<Vec<TickRow>> {
        lock(&self.account).ticks.rows(tid, due_ns)
    }

    /// System management interrupts of a CPU so far, if the processor counts them.
    #[must_use]
    pub fn smi_count(&self, cpu: usize) -> Option<u64> {
        lock(&self.capture).smi_count(u32::try_from(cpu).ok()?)
    }

    /// Counts stolen time from this instant.
    pub fn count_stolen_from(&self, start_ns: u64) {
        lock(&self.capture).count_stolen_from(start_ns);
    }

    /// The time that the host took from a CPU since then, as the hypervisor reports it; absent if it
    /// reports none.
    #[must_use]
    pub fn stolen_ns(&self, cpu: usize) -> Option<u64> {
        lock(&self.capture).stolen_ns(u32::try_from(cpu).ok()?)
    }

    /// What it has cost so far, outside the kernel.
    fn cost(&self) -> TracerCost {
        let account = lock(&self.account);
        TracerCost {
            cpu_ns: self.thread.cpu_ns(),
            events: account.events,
            lost: account.lost,
            unread_ns: account.unread_ns,
        }
    }

    /// Puts what is known so far into the record.
    pub fn put_into(&self, run: &mut Run) {
        run.explanation = Some(self.explanation());
        run.own_cost.tracer = Some(self.cost());
    }

    /// Saves the windows of the worst wake-ups beside the record, if they changed.
    ///
    /// # Errors
    /// The disk's error; the next call tries again.
    pub fn save(&self, directory: &RunDirectory) -> Result<(), RecordError> {
        let worst = self.save_worst(directory);
        let last = self.thread.has_ended();
        // The explaining thread continues meanwhile: its rings hold less time than a slow disk needs.
        let none = Outliers::within(OUTLIER_BYTES);
        let mut outliers = std::mem::replace(&mut lock(&self.account).outliers, none);
        let saved = outliers.save(directory.folder(), last);
        let mut account = lock(&self.account);
        outliers.absorb(&account.outliers);
        account.outliers = outliers;
        drop(account);
        let saved = saved.map_err(|source| {
            if last {
                let part = UnsavedPart::File {
                    name: OUTLIERS_FILE.to_owned(),
                };
                directory.note_unsaved(part, UnsavedReason::from(&source));
            }
            let path = directory.path().join(OUTLIERS_FILE);
            RecordError::Save { path, source }
        });
        worst.and(saved)
    }

    fn save_worst(&self, directory: &RunDirectory) -> Result<(), RecordError> {
        let lines = {
            let mut account = lock(&self.account);
            if !std::mem::take(&mut account.changed) {
                return Ok(());
            }
            let lines: Vec<&str> = account.windows.iter().map(|(_, line)| &**line).collect();
            lines.join("\n") + "\n"
        };
        let saved = directory.save_file(WINDOWS_FILE, lines.as_bytes());
        if saved.is_err() {
            lock(&self.account).changed = true;
        }
        saved
    }

    /// The content of the recorder, around a wake-up of a probe that may have ended.
    #[must_use]
    pub fn ring(&self, tid: i32, cpu: usize, due_ns: u64, woken_ns: u64) -> Window {
        let tid = self.numbers.kernels(tid.unsigned_abs());
        lock(&self.capture).ring(tid, number(cpu), due_ns, woken_ns)
    }

    /// Explains the remaining wake-ups after the last samples were sent, and ends the recording.
    pub fn end(&mut self) {
        self.thread.end();
    }
}

fn lock<T>(shared: &Mutex<T>) -> MutexGuard<'_, T> {
    shared.lock().unwrap_or_else(PoisonError::into_inner)
}

pub fn number(cpu: usize) -> u32 {
    u32::try_from(cpu).unwrap_or(u32::MAX)
}
