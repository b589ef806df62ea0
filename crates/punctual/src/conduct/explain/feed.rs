//! The input of the explaining thread: wake-ups in batches, and gaps to classify.

use std::sync::mpsc::{SyncSender, TrySendError};
use std::sync::{Arc, Mutex};

use super::tracer::Account;
use super::{lock, number};
use crate::probe::collector::{Classification, Classifier, SampleSink};
use crate::probe::cycle::Sample;
use punctual_trace::capture::numbers::Numbers;
use punctual_trace::capture::{Capture, WakeUpPlace};

/// A wake-up of a thread.
#[derive(Debug, Clone, Copy)]
pub struct Wake {
    /// The thread, by the kernel's number.
    pub tid: u32,
    /// Where it was.
    pub at: WakeUpPlace,
    /// Since when it waited, if that is not known from its timer.
    pub waiting_ns: Option<u64>,
    /// The instant from which its latency counts.
    pub due_ns: u64,
    /// When it ran again.
    pub woken_ns: u64,
    /// The system call in which it slept, if its own timer did not end the wait.
    pub slept_in: Option<u32>,
    /// Whether that is the context switch to it: nothing after it is visible.
    pub at_switch: bool,
}

impl Wake {
    pub(super) fn latency_ns(&self) -> u64 {
        self.woken_ns.saturating_sub(self.due_ns)
    }
}

/// A late tick of a thread that its program's runtime had stopped.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Tick {
    /// The thread, by the kernel's number.
    pub tid: u32,
    /// Where it was woken last.
    pub at: WakeUpPlace,
    /// The instant for which it waited.
    pub due_ns: u64,
    /// When it ran, and the runtime let it continue.
    pub begun_ns: u64,
    /// The pauses in between, in order.
    pub pauses: Vec<(u64, u64)>,
}

/// What the explaining thread receives at once.
#[derive(Debug, Default)]
pub(super) struct Batch {
    pub(super) wakes: Vec<Wake>,
    pub(super) ticks: Vec<Tick>,
}

/// The collector's end: sends every sample, in batches.
pub struct Feed {
    pub(super) batch: Batch,
    pub(super) sender: SyncSender<Batch>,
    pub(super) account: Arc<Mutex<Account>>,
    /// Of our own threads.
    pub(super) numbers: Numbers,
}

impl Feed {
    /// Sends a wake-up with the next batch.
    pub fn push(&mut self, wake: Wake) {
        self.batch.wakes.push(wake);
    }

    /// Sends a late tick with the next batch.
    pub fn push_tick(&mut self, tick: Tick) {
        self.batch.ticks.push(tick);
    }
}

impl SampleSink for Feed {
    fn take(&mut self, cpu: usize, tid: i32, samples: &[Sample]) {
        let tid = self.numbers.kernels(tid.unsigned_abs());
        self.batch.wakes.extend(samples.iter().map(|sample| Wake {
            tid,
            at: WakeUpPlace::on_cpu(number(cpu)),
            waiting_ns: None,
            due_ns: sample.requested_ns,
            woken_ns: sample.woke_ns(),
            slept_in: None,
            at_switch: false,
        }));
    }

    fn collected(&mut self) {
        if !self.batch.wakes.is_empty() || !self.batch.ticks.is_empty() {
            // If the explaining thread is seconds behind, samples are dropped.
            let sent = self.sender.try_send(std::mem::take(&mut self.batch));
            if let Err(TrySendError::Full(Batch { wakes, ticks })) = sent {
                let latencies = wakes.iter().map(Wake::latency_ns);
                lock(&self.account).drop_unsent(latencies, ticks.len());
            }
        }
    }
}

/// Keeps the gaps in which no activity of the kernel was seen.
pub(super) struct Quiet(pub(super) Arc<Mutex<Capture>>);

impl Classifier for Quiet {
    fn prepare(&mut self) {
        lock(&self.0).drain();
    }

    fn classify(&mut self, cpu: usize, sample: &Sample) -> Classification {
        let cpu = u32::try_from(cpu).unwrap_or(u32::MAX);
        match lock(&self.0).is_quiet(cpu, sample.requested_ns, sample.woke_ns()) {
            Some(true) => Classification::Keep,
            Some(false) => Classification::SetAside,
            None => Classification::Undecided,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::sync_channel;

    use super::super::ticks::Ticks;
    use super::super::waits::Waits;
    use super::*;
    use crate::conduct::outliers::Outliers;
    use punctual_record::Ledger;
    use punctual_record::explanation::NotSeen;

    #[test]
    fn what_the_full_queue_refuses_is_counted() {
        let account = Arc::new(Mutex::new(Account {
            ledger: Ledger::new(Some(100)),
            bills: None,
            windows: Vec::new(),
            outliers: Outliers::within(0),
            waits: Waits::default(),
            jobs: Vec::new(),
            ticks: Ticks::default(),
            above_ns: 100,
            changed: false,
            events: 0,
            lost: 0,
            unread_ns: 0,
        }));
        let (sender, batches) = sync_channel(1);
        let mut feed = Feed {
            batch: Batch::default(),
            sender,
            account: Arc::clone(&account),
            numbers: Numbers::default(),
        };
        for latencies in [[50, 500, 100], [7, 101, 102], [100, 99, 1_000]] {
            for latency_ns in latencies {
                feed.push(Wake {
                    tid: 1,
                    at: WakeUpPlace::on_cpu(0),
                    waiting_ns: None,
                    due_ns: 1_000,
                    woken_ns: 1_000 + latency_ns,
                    slept_in: None,
                    at_switch: false,
                });
            }
            feed.collected();
        }
        assert_eq!(
            batches.try_iter().map(|it| it.wakes.len()).sum::<usize>(),
            3
        );
        let record = lock(&account).ledger.to_record();
        assert_eq!(record.missing, [NotSeen::NotQueued { count: 6 }]);
        // Three of the six were late: they are outliers without a bill.
        assert_eq!((record.outliers, record.lost), (3, 3));
    }
}
