//! Explains late wake-ups while a run goes: a thread at ordinary priority that copies out what
//! the kernel recorded, and makes a bill of each wake-up that was late. The probe threads
//! know nothing of it.

use std::cmp::Reverse;
use std::collections::BTreeSet;
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, SyncSender};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use punctual_rt::sched::Policy;

use super::housekeeper::Housekeeper;
use crate::probe::collector::{SampleSink, Sieve, Sorted};
use crate::probe::cycle::Sample;
use crate::record::explanation::{Bill, Cause, Explanation, Ledger, Stage, StageTimes};
use crate::record::{RecordError, RunDirectory, TracerCost};
use crate::trace::attribute;
use crate::trace::attribute::event::{Task, Window};
use crate::trace::capture::numbers::Numbers;
use crate::trace::capture::{self, Capture, Place, Unavailable};

/// The windows of the worst wake-ups, one to a line, beside the record.
pub use crate::trace::windows::WINDOWS_FILE;

/// How often the rings are copied out: they hold a sixth of a second of the worst.
const NAP: Duration = Duration::from_millis(50);
/// Outliers that are explained after each nap. More are counted, and not explained.
const AT_ONCE: usize = 64;
/// Batches of samples that may wait.
const BATCHES: usize = 256;
/// Gaps that are: they are many, and most are short.
const GAPS_AT_ONCE: usize = 4096;
/// How often system management interrupts are counted while gaps are looked for; and least
/// between two counts for wake-ups that are not among the worst.
const SMI_EVERY_NS: u64 = 1_000_000_000;
/// The platform's part of a bill that may be theirs: more than a timer's ordinary delivery.
const SUSPECT_NS: u64 = 10_000;
/// Threads that are followed where any may come.
const FOLLOWED: usize = 1000;
/// Bytes of the windows that are kept.
const KEPT_BYTES: usize = 32 << 20;

/// What is to be explained.
#[derive(Debug)]
pub struct Wanted {
    /// CPUs that are recorded.
    pub cpus: Vec<usize>,
    /// Our own threads with their CPUs; none where any thread whose wake-ups are handed on is one.
    pub threads: Vec<(i32, usize)>,
    /// Wake-ups later than this; absent for the worst alone.
    pub above_ns: Option<u64>,
    /// How threads are scheduled that poll: their gaps are explained, and no wake-ups.
    pub polling: Option<Policy>,
    /// Where the work is done.
    pub housekeeping: Option<usize>,
}

/// A wake-up of a thread.
#[derive(Debug, Clone, Copy)]
pub struct Wake {
    /// The thread, by the kernel's number.
    pub tid: u32,
    /// Where it was.
    pub at: Place,
    /// Since when it waited, where that is known otherwise than by its timer.
    pub waiting_ns: Option<u64>,
    /// What its latency counts from.
    pub due_ns: u64,
    /// When it ran again.
    pub woken_ns: u64,
    /// Whether that is when the CPU went over to it: what comes after is not seen.
    pub at_switch: bool,
}

impl Wake {
    fn latency_ns(&self) -> u64 {
        self.woken_ns.saturating_sub(self.due_ns)
    }
}

/// What is known so far.
struct Account {
    ledger: Ledger,
    /// Latency and line of the worst, the worst first.
    windows: Vec<(u64, String)>,
    changed: bool,
    events: u64,
    lost: u64,
    /// Outliers that came faster than they could be looked at.
    passed_over: u64,
}

/// The explaining thread.
pub struct Explaining {
    account: Arc<Mutex<Account>>,
    thread: Housekeeper,
    capture: Arc<Mutex<Capture>>,
}

impl Explaining {
    /// Begins to record.
    ///
    /// # Errors
    /// Why nothing can be explained here, and what to do: measuring goes on.
    pub fn begin(wanted: &Wanted) -> Result<(Self, Feed), Unavailable> {
        let mut cpus: Vec<u32> = wanted.cpus.iter().map(|cpu| number(*cpu)).collect();
        cpus.sort_unstable();
        cpus.dedup();
        let numbers = if wanted.threads.is_empty() {
            Numbers::default()
        } else {
            Numbers::read()?
        };
        let targets = wanted
            .threads
            .iter()
            .map(|(tid, cpu)| (numbers.kernels(tid.unsigned_abs()), number(*cpu)));
        let above_ns = wanted.above_ns;
        let options = capture::Options {
            targets: targets.collect(),
            // No stack is taken of what holds a polling thread up: it can't be known then.
            threshold_ns: above_ns.filter(|_| wanted.polling.is_none()).unwrap_or(0),
            ring_events: capture::ring_events(cpus.len()),
            cpus,
        };
        let capture = Capture::start(&options)?;
        let mut ledger = Ledger::new(above_ns);
        for what in capture.missing() {
            ledger.add_missing(&what);
        }
        let capture = Arc::new(Mutex::new(capture));
        let account = Arc::new(Mutex::new(Account {
            ledger,
            windows: Vec::new(),
            changed: false,
            events: 0,
            lost: 0,
            passed_over: 0,
        }));
        let (sender, batches) = mpsc::sync_channel(BATCHES);
        let mut tracer = Tracer {
            capture: Arc::clone(&capture),
            above_ns: above_ns.unwrap_or(u64::MAX),
            poller: wanted.polling.map(poller),
            account: Arc::clone(&account),
            batches,
            waiting: Vec::new(),
            followed: wanted.threads.is_empty().then(BTreeSet::new),
        };
        let round = move |last| tracer.round(last);
        let thread =
            Housekeeper::begin("tracer", 1 << 20, wanted.housekeeping, round).map_err(|error| {
                Unavailable::new(format!("no thread for it: {error}"), "free some memory")
            })?;
        let explaining = Self {
            account,
            thread,
            capture,
        };
        let feed = Feed {
            batch: Vec::new(),
            sender,
            numbers,
        };
        Ok((explaining, feed))
    }

    /// Tells gaps in which the kernel did something from those in which it did nothing.
    #[must_use]
    pub fn sieve(&self) -> Box<dyn Sieve> {
        Box::new(Quiet(Arc::clone(&self.capture)))
    }

    /// What is known so far.
    #[must_use]
    pub fn explanation(&self) -> Explanation {
        lock(&self.account).ledger.to_record()
    }

    /// System management interrupts of a CPU so far, where the processor counts them.
    #[must_use]
    pub fn smi_count(&self, cpu: usize) -> Option<u64> {
        lock(&self.capture).smi_count(u32::try_from(cpu).ok()?)
    }

    /// Stolen time counts from this instant on.
    pub fn count_stolen_from(&self, start_ns: u64) {
        lock(&self.capture).count_stolen_from(start_ns);
    }

    /// Time that the host took from a CPU since then, by the hypervisor's account; absent where
    /// it has none.
    #[must_use]
    pub fn stolen_ns(&self, cpu: usize) -> Option<u64> {
        lock(&self.capture).stolen_ns(u32::try_from(cpu).ok()?)
    }

    /// What it has cost so far, outside the kernel.
    #[must_use]
    pub fn cost(&self) -> TracerCost {
        let account = lock(&self.account);
        TracerCost {
            cpu_ns: self.thread.cpu_ns(),
            events: account.events,
            lost: account.lost,
        }
    }

    /// Saves the windows of the worst wake-ups beside the record, if there are others than
    /// before.
    ///
    /// # Errors
    /// The disk's; it is tried again the next time.
    pub fn save(&self, directory: &RunDirectory) -> Result<(), RecordError> {
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

    /// Explains what is left, once the last samples were handed on, and ends the recording.
    pub fn end(&mut self) {
        self.thread.end();
    }
}

fn lock<T>(shared: &Mutex<T>) -> MutexGuard<'_, T> {
    shared.lock().unwrap_or_else(PoisonError::into_inner)
}

fn number(cpu: usize) -> u32 {
    u32::try_from(cpu).unwrap_or(u32::MAX)
}

/// The collector's end: hands on every sample, in batches.
pub struct Feed {
    batch: Vec<Wake>,
    sender: SyncSender<Vec<Wake>>,
    /// Of our own threads.
    numbers: Numbers,
}

impl Feed {
    /// Hands a wake-up on, with the next batch.
    pub fn push(&mut self, wake: Wake) {
        self.batch.push(wake);
    }
}

impl SampleSink for Feed {
    fn take(&mut self, cpu: usize, tid: i32, samples: &[Sample]) {
        let tid = self.numbers.kernels(tid.unsigned_abs());
        self.batch.extend(samples.iter().map(|sample| Wake {
            tid,
            at: Place::on(number(cpu)),
            waiting_ns: None,
            due_ns: sample.asked_ns,
            woken_ns: sample.woke_ns(),
            at_switch: false,
        }));
    }

    fn collected(&mut self) {
        if !self.batch.is_empty() {
            // Who falls behind by seconds misses stages, and says so by their count.
            let _ = self.sender.try_send(std::mem::take(&mut self.batch));
        }
    }
}

/// Keeps the gaps in which the kernel was not seen to do anything.
struct Quiet(Arc<Mutex<Capture>>);

impl Sieve for Quiet {
    fn prepare(&mut self) {
        lock(&self.0).drain();
    }

    fn sort(&mut self, cpu: usize, sample: &Sample) -> Sorted {
        let cpu = u32::try_from(cpu).unwrap_or(u32::MAX);
        match lock(&self.0).is_quiet(cpu, sample.asked_ns, sample.woke_ns()) {
            Some(true) => Sorted::Keep,
            Some(false) => Sorted::SetAside,
            None => Sorted::Untold,
        }
    }
}

/// A polling thread as the kernel sees it: it need not be seen to come, for it never leaves.
fn poller(policy: Policy) -> Task {
    let (priority, policy) = match policy {
        Policy::Fifo(priority) => (99 - priority as i32, 1),
        Policy::RoundRobin(priority) => (99 - priority as i32, 2),
        _ => (120, 0),
    };
    Task {
        tid: 0,
        name: "probe".to_owned(),
        priority,
        policy,
    }
}

/// The thread's own.
struct Tracer {
    capture: Arc<Mutex<Capture>>,
    /// The probe where gaps are explained and not wake-ups.
    poller: Option<Task>,
    above_ns: u64,
    account: Arc<Mutex<Account>>,
    batches: Receiver<Vec<Wake>>,
    /// Late ones, to be explained in the next round: by then what followed them is known.
    waiting: Vec<Wake>,
    /// Threads that are followed since they were met; absent where they are known beforehand.
    followed: Option<BTreeSet<u32>>,
}

impl Tracer {
    fn round(&mut self, last: bool) {
        // Before the rings are copied, so that they hold what belongs to these samples.
        let samples = self.samples(if last { Duration::ZERO } else { NAP });
        self.meet(&samples);
        self.explain(last);
        self.follow(&samples);
        if last {
            self.explain(last);
        }
    }

    /// Copies the rings out and makes the bills of those that wait.
    fn explain(&mut self, last: bool) {
        {
            let mut capture = lock(&self.capture);
            if last || self.poller.is_some() {
                capture.count_smis(SMI_EVERY_NS);
            }
            capture.drain();
        }
        for wake in std::mem::take(&mut self.waiting) {
            let (window, bill) = self.made(&wake);
            let mut account = lock(&self.account);
            match (window, bill) {
                (Some(window), Some(bill)) => {
                    let keep = account.ledger.would_keep(bill.latency_ns);
                    account.ledger.add(&bill);
                    if keep {
                        account.keep(&window);
                    }
                }
                _ if wake.latency_ns() > self.above_ns => account.ledger.add_lost(),
                _ => {}
            }
        }
    }

    /// The bill, and what it was made of. Where the platform has much of it, it is made again
    /// once the system management interrupts were counted: they are counted where it matters,
    /// for a reading is an interrupt itself.
    fn made(&self, wake: &Wake) -> (Option<Window>, Option<Bill>) {
        let make = || {
            let window = self.window(wake);
            let bill = window.as_ref().map(|window| self.bill(window));
            (window, bill)
        };
        let made = make();
        let suspect = made
            .1
            .as_ref()
            .is_some_and(|bill| platform_ns(bill) > SUSPECT_NS);
        if suspect {
            let worst = lock(&self.account).ledger.would_keep(wake.latency_ns());
            let apart_ns = if worst { 0 } else { SMI_EVERY_NS };
            if lock(&self.capture).count_smis(apart_ns) {
                return make();
            }
        }
        made
    }

    /// What was handed on within a nap.
    fn samples(&self, nap: Duration) -> Vec<Wake> {
        let until = Instant::now() + nap;
        let mut samples = Vec::new();
        loop {
            let left = until.saturating_duration_since(Instant::now());
            match self.batches.recv_timeout(left) {
                Ok(batch) => samples.extend(batch),
                Err(RecvTimeoutError::Timeout) => return samples,
                Err(RecvTimeoutError::Disconnected) => {
                    std::thread::sleep(left);
                    return samples;
                }
            }
        }
    }

    /// Follows threads that are met for the first time.
    fn meet(&mut self, samples: &[Wake]) {
        let Some(followed) = &mut self.followed else {
            return;
        };
        for wake in samples {
            if followed.len() < FOLLOWED && followed.insert(wake.tid) {
                // One that has ended already needs no place.
                let _ = lock(&self.capture).follow(wake.tid);
            }
        }
    }

    /// Counts the stages of all, and picks those that are to be explained.
    fn follow(&mut self, samples: &[Wake]) {
        let mut capture = lock(&self.capture);
        let mut account = lock(&self.account);
        let wakes = samples.iter().filter(|_| self.poller.is_none());
        for wake in wakes {
            let instants = capture.chain(wake.tid, wake.due_ns, wake.woken_ns);
            if let Some(mut instants) = instants {
                if wake.at_switch {
                    instants.woken_ns = instants.switch_ns.unwrap_or(instants.woken_ns);
                }
                let mut times = StageTimes::between(&instants);
                if wake.at_switch {
                    times.ns[Stage::User as usize] = None;
                }
                account.ledger.add_stages(&times);
            }
        }
        let mut worst: Vec<Wake> = samples
            .iter()
            .filter(|wake| {
                let latency_ns = wake.latency_ns();
                latency_ns > self.above_ns || account.ledger.would_keep(latency_ns)
            })
            .copied()
            .collect();
        worst.sort_by_key(|wake| Reverse(wake.latency_ns()));
        for (rank, wake) in worst.into_iter().enumerate() {
            let outlier = wake.latency_ns() > self.above_ns;
            // Of those that are not late, no more than could be kept if they came alone.
            let at_once = match self.poller {
                Some(_) => GAPS_AT_ONCE,
                None => AT_ONCE,
            };
            if rank < if outlier { at_once } else { Explanation::BILLS } {
                self.waiting.push(wake);
            } else if outlier {
                account.passed_over += 1;
                account.ledger.add_lost();
            }
        }
        if account.passed_over > 0 {
            account
                .ledger
                .add_missing("outliers that came faster than they could be explained");
        }
        account.events = capture.events();
        account.lost = capture.lost();
    }

    fn window(&self, wake: &Wake) -> Option<Window> {
        let capture = lock(&self.capture);
        match &self.poller {
            None => {
                let (due_ns, woken_ns) = (wake.due_ns, wake.woken_ns);
                let mut window = capture.window_at(wake.tid, wake.at, due_ns, woken_ns);
                if let Some(waiting_ns) = wake.waiting_ns {
                    window.waiting_ns = waiting_ns;
                }
                Some(window)
            }
            Some(poller) => {
                let probe = Task {
                    tid: wake.tid,
                    ..poller.clone()
                };
                capture.gap(probe, wake.due_ns, wake.woken_ns)
            }
        }
    }

    /// Of a gap that will not be kept no picture is drawn.
    fn bill(&self, window: &Window) -> Bill {
        let length_ns = window.woken_ns.saturating_sub(window.due_ns);
        match self.poller {
            Some(_) if !lock(&self.account).ledger.would_keep(length_ns) => {
                attribute::plain_bill(window)
            }
            _ => attribute::bill(window),
        }
    }
}

/// The platform's part of a bill.
fn platform_ns(bill: &Bill) -> u64 {
    let rows = bill.rows.iter();
    let platform = rows.filter(|row| row.cause == Cause::Platform);
    platform.map(|row| row.ns).sum()
}

impl Account {
    fn keep(&mut self, window: &Window) {
        let latency_ns = window.woken_ns.saturating_sub(window.due_ns);
        let Ok(line) = serde_json::to_string(window) else {
            return;
        };
        let at = self
            .windows
            .partition_point(|(kept, _)| *kept >= latency_ns);
        self.windows.insert(at, (latency_ns, line));
        self.windows.truncate(Explanation::BILLS);
        let mut bytes: usize = self.windows.iter().map(|(_, line)| line.len()).sum();
        while bytes > KEPT_BYTES
            && let Some((_, line)) = self.windows.pop()
        {
            bytes -= line.len();
        }
        self.changed = true;
    }
}
