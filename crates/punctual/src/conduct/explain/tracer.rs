//! The thread that copies out what the kernel recorded, and makes a bill of each late wake-up.

use std::cmp::Reverse;
use std::collections::BTreeSet;
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use punctual_rt::clock;
use punctual_rt::sched::Policy;

use super::feed::{Batch, Tick, Wake};
use super::jobs::Jobs;
use super::lock;
use super::ticks::Ticks;
use super::waits::Waits;
use crate::conduct::culprits;
use crate::conduct::outliers::Outliers;
use crate::conduct::run::BillSink;
use punctual_machine::Root;
use punctual_machine::survey::group_limits::GroupLimits;
use punctual_machine::tune::time_of_ordinary_threads;
use punctual_record::Ledger;
use punctual_record::explanation::{
    Bill, BillRow, Cause, Culprit, Explanation, NotSeen, RowNote, Stage, StageTimes,
};
use punctual_record::taskset::JobBills;
use punctual_trace::attribute;
use punctual_trace::attribute::event::{Task, Window};
use punctual_trace::capture::Capture;
use punctual_trace::capture::numbers::Numbers;

/// How often the rings are copied: under the heaviest load they hold a third of a second.
const NAP: Duration = Duration::from_millis(50);
/// Outliers that are explained per round. More are counted, but not explained.
const AT_ONCE: usize = 1024;
/// Gaps that are explained per round: there are many, and most are short.
const GAPS_AT_ONCE: usize = 4096;
/// How often system management interrupts are counted while gaps are measured; also the shortest
/// time between two counts for wake-ups that are not among the worst.
const SMI_EVERY_NS: u64 = 1_000_000_000;
/// The period of the limits of real-time threads, unless somebody changed it.
const PERIOD_NS: u64 = 1_000_000_000;
/// The least time of a bill's platform row that such interrupts may explain: more than the usual
/// delivery of a timer.
const SUSPECT_NS: u64 = 10_000;
/// Threads that are followed if any thread may wake up.
const FOLLOWED: usize = 1000;
/// Bytes of the windows of the worst that are kept as text.
const KEPT_BYTES: usize = 32 << 20;

/// What is known so far.
pub(super) struct Account {
    pub(super) ledger: Ledger,
    /// Receives every bill too.
    pub(super) bills: Option<BillSink>,
    /// Latency and line of the worst wake-ups, the worst first.
    pub(super) windows: Vec<(u64, String)>,
    /// The windows of all other outliers.
    pub(super) outliers: Outliers,
    pub(super) waits: Waits,
    /// Of each task of a set.
    pub(super) jobs: Vec<JobBills>,
    pub(super) ticks: Ticks,
    pub(super) above_ns: u64,
    pub(super) changed: bool,
    pub(super) events: u64,
    pub(super) lost: u64,
    pub(super) unread_ns: u64,
}

/// A polling thread: its switch-in need not be recorded, because it never leaves the CPU.
pub(super) fn poller(policy: Policy) -> Task {
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
pub(super) struct Tracer {
    pub(super) capture: Arc<Mutex<Capture>>,
    /// The probe, if gaps are explained instead of wake-ups.
    pub(super) poller: Option<Task>,
    pub(super) above_ns: u64,
    pub(super) account: Arc<Mutex<Account>>,
    pub(super) batches: Receiver<Batch>,
    /// Jobs of tasks that are explained.
    pub(super) jobs: Jobs,
    /// Late wake-ups that are explained in the next round, when the events after them are known.
    pub(super) waiting: Vec<Wake>,
    /// Threads that are followed since they were first seen; absent if they are known beforehand.
    pub(super) followed: Option<BTreeSet<u32>>,
    /// What `/proc` calls threads.
    pub(super) numbers: Numbers,
    /// The CPU limits of those threads' control groups.
    pub(super) groups: GroupLimits,
}

impl Tracer {
    pub(super) fn round(&mut self, last: bool) {
        // Before the rings are copied, so that they hold what belongs to these samples.
        let samples = self.samples(if last { Duration::ZERO } else { NAP });
        self.meet(&samples.wakes);
        self.explain(last);
        self.follow(&samples.wakes);
        self.follow_ticks(samples.ticks);
        self.jobs.receive();
        if last {
            self.explain(last);
            self.follow_rest();
        }
    }

    /// Copies the rings and makes the bills of the waiting wake-ups.
    fn explain(&mut self, last: bool) {
        {
            let mut capture = lock(&self.capture);
            if last || self.poller.is_some() {
                capture.count_smis(SMI_EVERY_NS);
            }
            capture.drain();
            if self.poller.is_none() {
                let least_ns = lock(&self.account).ledger.least_kept_ns();
                capture.stacks_above(self.above_ns.min(least_ns));
            }
        }
        // All waiting wake-ups are over: this reading includes what the kernel counted for them.
        self.groups.look(clock::now_ns());
        {
            let ledger = &mut lock(&self.account).ledger;
            ledger.set_limits(&self.groups.over_run());
            if last {
                ledger.set_ordinary_time(time_of_ordinary_threads(&Root::live()));
            }
        }
        self.jobs
            .explain(&self.capture, &self.account, &self.numbers);
        let mut drained = Instant::now();
        // There may be thousands of gaps, and packing one takes as long as explaining it.
        let mut packed = 0;
        for wake in std::mem::take(&mut self.waiting) {
            // The bills of very many wake-ups take longer than the rings hold.
            if drained.elapsed() > NAP / 2 {
                lock(&self.capture).drain();
                drained = Instant::now();
            }
            // A later thread with the same ID has other groups.
            if self.followed.is_some()
                && let Some(here) = self.numbers.in_proc(wake.tid)
            {
                self.groups.meet(wake.tid, here);
            }
            let (window, mut bill) = self.made(&wake);
            let forgotten = lock(&self.capture).has_forgotten(wake.at, wake.due_ns);
            let latency_ns = bill.as_ref().map(|bill| bill.latency_ns);
            let kept = |ns: u64| lock(&self.account).ledger.would_keep(ns);
            let keep = latency_ns.is_some_and(kept);
            if let Some(bill) = bill.as_mut().filter(|_| keep) {
                self.add_users(bill);
                culprits::look_up(bill, &self.numbers);
            }
            let mut account = lock(&self.account);
            if forgotten {
                account
                    .ledger
                    .add_missing(NotSeen::Forgotten { wake_ups: 1 });
            }
            if window.as_ref().is_some_and(|window| window.cut) {
                account.ledger.add_missing(NotSeen::Middle { wake_ups: 1 });
            }
            match (window, bill) {
                (Some(window), Some(bill)) => {
                    account.ledger.add(&bill);
                    if let Some(bills) = &mut account.bills {
                        bills(&bill);
                    }
                    if keep {
                        account.keep(&window);
                    } else if bill.latency_ns > self.above_ns {
                        packed += 1;
                        account.keep_beside(&window, bill.latency_ns, packed <= AT_ONCE);
                    }
                }
                _ if wake.latency_ns() > self.above_ns => account.ledger.add_lost(),
                _ => {}
            }
        }
    }

    /// The bill, and its events. If the platform's row is large, system management interrupts are
    /// counted and the bill is made again. They are counted only then, because the reading is itself
    /// an interrupt.
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

    /// Names who used up what the kernel leaves to real-time threads, of a thread that was throttled.
    fn add_users(&self, bill: &mut Bill) {
        let is_throttled = |row: &&mut BillRow| matches!(row.cause, Cause::Throttled { .. });
        let Some(row) = bill.rows.iter_mut().find(is_throttled) else {
            return;
        };
        let (from_ns, to_ns) = (bill.due_ns.saturating_sub(PERIOD_NS), bill.due_ns);
        let capture = lock(&self.capture);
        let users = capture.real_time_threads(bill.cpu, from_ns, to_ns);
        let most = users.into_iter().filter(|(_, ns)| *ns > PERIOD_NS / 20);
        let notes = most
            .take(Culprit::MOST)
            .map(|(task, ns)| RowNote::UsedUpBy {
                thread: Box::new(attribute::culprit_of(
                    &task,
                    ns,
                    capture.origin(task.tid, to_ns).as_ref(),
                )),
            });
        row.notes.extend(notes);
    }

    /// The wake-ups that were sent since the last round.
    fn samples(&self, nap: Duration) -> Batch {
        let until = Instant::now() + nap;
        let mut samples = Batch::default();
        loop {
            let left = until.saturating_duration_since(Instant::now());
            match self.batches.recv_timeout(left) {
                Ok(batch) => {
                    samples.wakes.extend(batch.wakes);
                    samples.ticks.extend(batch.ticks);
                }
                Err(RecvTimeoutError::Timeout) => return samples,
                Err(RecvTimeoutError::Disconnected) => {
                    std::thread::sleep(left);
                    return samples;
                }
            }
        }
    }

    /// Follows threads that are seen for the first time.
    fn meet(&mut self, samples: &[Wake]) {
        let Some(followed) = &mut self.followed else {
            return;
        };
        for wake in samples {
            if followed.len() < FOLLOWED && followed.insert(wake.tid) {
                self.numbers.add_thread(wake.tid);
                if let Some(here) = self.numbers.in_proc(wake.tid) {
                    self.groups.meet(wake.tid, here);
                }
                // A thread that has already ended needs no place.
                let _ = lock(&self.capture).follow(wake.tid);
            }
        }
    }

    /// Counts the stages of all wake-ups, and selects those to explain.
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
            // Of wake-ups that are not late, only as many as could be kept.
            let at_once = match self.poller {
                Some(_) => GAPS_AT_ONCE,
                None => AT_ONCE,
            };
            if rank < if outlier { at_once } else { Explanation::BILLS } {
                self.waiting.push(wake);
            } else if outlier {
                account.ledger.add_lost();
                account.ledger.add_missing(NotSeen::TooFast { wake_ups: 1 });
            }
        }
        account.waits.take(samples, &capture, &self.numbers);
        account.events = capture.events();
        account.lost = capture.lost();
        account.unread_ns = capture.unread_ns();
    }

    /// Follows the latest ticks back to what made them late.
    fn follow_ticks(&self, ticks: Vec<Tick>) {
        let capture = lock(&self.capture);
        let mut account = lock(&self.account);
        account.ticks.take(ticks, &capture, &self.numbers);
    }

    /// Follows the waits and ticks that there was no time for: no round comes after the last.
    fn follow_rest(&self) {
        let capture = lock(&self.capture);
        let mut account = lock(&self.account);
        while account.waits.has_pending() {
            account.waits.take(&[], &capture, &self.numbers);
        }
        while account.ticks.has_pending() {
            account.ticks.take(Vec::new(), &capture, &self.numbers);
        }
    }

    fn window(&self, wake: &Wake) -> Option<Window> {
        let capture = lock(&self.capture);
        let limits = self.groups.around(wake.tid, wake.due_ns, wake.woken_ns);
        let window = match &self.poller {
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
        };
        window.map(|window| Window { limits, ..window })
    }

    /// Draws no picture of a gap that is not kept.
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

/// The platform's row of a bill.
fn platform_ns(bill: &Bill) -> u64 {
    let rows = bill.rows.iter();
    let platform = rows.filter(|row| row.cause == Cause::Platform);
    platform.map(|row| row.ns).sum()
}

impl Account {
    /// Counts wake-ups of these latencies, and other things, that found the queue full.
    pub(super) fn drop_unsent(&mut self, latencies: impl IntoIterator<Item = u64>, others: usize) {
        let mut count = others as u64;
        for latency_ns in latencies {
            count += 1;
            if latency_ns > self.above_ns {
                self.ledger.add_lost();
            }
        }
        self.ledger.add_missing(NotSeen::NotQueued { count });
    }

    fn keep(&mut self, window: &Window) {
        let latency_ns = window.woken_ns.saturating_sub(window.due_ns);
        let Ok(line) = serde_json::to_string(window) else {
            return;
        };
        let at = self
            .windows
            .partition_point(|(kept, _)| *kept >= latency_ns);
        self.windows.insert(at, (latency_ns, line));
        let bytes = |windows: &[(u64, String)]| -> usize {
            windows.iter().map(|(_, line)| line.len()).sum()
        };
        while self.windows.len() > Explanation::BILLS || bytes(&self.windows) > KEPT_BYTES {
            if let Some((latency_ns, line)) = self.windows.pop()
                && latency_ns > self.above_ns
            {
                self.outliers.add(latency_ns, &line);
            }
        }
        self.changed = true;
    }

    /// Keeps the window of an outlier that is not among the worst.
    fn keep_beside(&mut self, window: &Window, latency_ns: u64, has_time: bool) {
        if !has_time || !self.outliers.would_keep(latency_ns) {
            self.outliers.drop_one();
        } else if let Ok(line) = serde_json::to_string(window) {
            self.outliers.add(latency_ns, &line);
        }
    }
}
