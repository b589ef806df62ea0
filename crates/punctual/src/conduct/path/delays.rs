//! What had the CPU of the responder's thread while messages waited for it, and of what receives packets:
//! for the sender's bills.

use std::cmp::Reverse;
use std::time::{Duration, Instant};

use punctual_machine::Root;
use punctual_network::bill::LATE_NS;
use punctual_network::responder::{Delay, Explain};
use punctual_network::wire::delays::{PeerDelay, Reception};
use punctual_network::wire::limits::MOST_DELAYS;
use punctual_record::path::bill::{
    Certainty, MessageBill, MessageCause as Cause, MessageRow, MessageStage as Stage, Runner,
};
use punctual_rt::ring::Consumer;
use punctual_trace::attribute::message::{Moments, divide, received_late};
use punctual_trace::capture::Unavailable;
use punctual_trace::capture::messages::MessageRecording;

use super::tracing;

/// How old a delay is before it is examined: what the kernel reports afterwards belongs to it.
const SETTLE_NS: u64 = 20_000_000;
/// The longest time for which delays are examined in one round: later ones wait for the next.
const IN_A_ROUND: Duration = Duration::from_millis(100);
/// The same at the end, where the sender waits for it.
const AT_THE_END: Duration = Duration::from_secs(3);
/// Delays that wait at most.
const MOST_WAITING: usize = 1 << 13;
/// Of a longer wait on the receive path only so much is examined.
const LONGEST_NS: u64 = 1_000_000_000;

/// A recording on the responder's machine.
pub struct Delays {
    recording: MessageRecording,
    /// The replying thread, as the kernel numbers it.
    thread: u32,
    waiting: Vec<Delay>,
    known: Vec<PeerDelay>,
}

impl Delays {
    /// Begins to record for this thread, which runs on this CPU, and for messages of this device.
    ///
    /// # Errors
    /// Why the kernel can't be asked.
    pub fn begin(
        tid: i32,
        cpu: usize,
        device: Option<String>,
        root: &Root,
    ) -> Result<Self, Unavailable> {
        let (capture, threads) = tracing::start(&[(cpu, tid)], root)?;
        Ok(Self {
            recording: MessageRecording::new(capture).with_device(device),
            thread: threads.first().copied().unwrap_or(0),
            waiting: Vec::new(),
            known: Vec::new(),
        })
    }

    /// What is known of a delay.
    fn examine(&mut self, delay: &Delay) -> Option<PeerDelay> {
        let by = self.instead_of_thread(delay);
        let reception = self.reception(delay);
        (by.is_some() || reception.is_some()).then(|| PeerDelay {
            sequence: delay.sequence,
            read_with_later: delay.read_with_later,
            by: by.unwrap_or_default(),
            reception,
        })
    }

    /// What kept a message from being received, and for how long at most: it may have come at any moment
    /// of that wait, but not earlier than the quickest would have.
    fn reception(&mut self, delay: &Delay) -> Option<Reception> {
        let late_ns = delay.late_ns.min(LONGEST_NS);
        if late_ns <= LATE_NS {
            return None;
        }
        let since_ns = delay.received_ns.saturating_sub(late_ns);
        let found = received_late(since_ns, delay.received_ns, &mut self.recording);
        found.and_then(|(cause, ns)| Reception::of(cause, ns))
    }

    /// Who had the CPU of the thread meanwhile; `None` if that is not known, or if it did not wait.
    fn instead_of_thread(&mut self, delay: &Delay) -> Option<Vec<(Runner, u64)>> {
        if delay.woke_ns.saturating_sub(delay.received_ns) <= LATE_NS {
            return None;
        }
        // It may have come long before its time stamp, which is that of a later one.
        let ready_ns = match delay.read_with_later {
            true => self.recording.ready_before(self.thread, delay.received_ns),
            false => None,
        };
        let from_ns = ready_ns.unwrap_or(delay.received_ns);
        let mut bill = MessageBill {
            sequence: delay.sequence,
            requested_ns: from_ns,
            size: 0,
            latency_ns: delay.woke_ns.saturating_sub(from_ns),
            rows: Vec::new(),
        };
        bill.rows.push(MessageRow {
            stage: Stage::WakeUp,
            cause: Cause::NotScheduled { by: None },
            ns: bill.latency_ns,
            certainty: Certainty::Certain,
            evidence: Vec::new(),
        });
        let moments = Moments {
            requested_ns: from_ns,
            call_ns: from_ns,
            received_ns: Some(from_ns),
            woke_ns: delay.woke_ns,
            receiver: self.thread,
            ..Moments::default()
        };
        divide(&mut bill, &moments, &mut self.recording)
            .then(|| bill.rows.into_iter().filter_map(named).collect())
    }

    /// Forgets the shortest, if there are too many.
    fn keep_longest(&mut self) {
        self.known.sort_by_key(|delay| Reverse(delay.ns()));
        self.known.truncate(MOST_DELAYS);
    }
}

fn named(row: MessageRow) -> Option<(Runner, u64)> {
    let by = match row.cause {
        Cause::NotScheduled { by } | Cause::Softirq { by } => by?,
        Cause::NapiThread { thread, by } => by.unwrap_or(thread),
        _ => return None,
    };
    Some((by, row.ns))
}

impl Explain for Delays {
    fn round(&mut self, delays: &mut Consumer<Delay>) {
        let begin = Instant::now();
        self.recording.drain();
        let settled_ns = punctual_rt::clock::now_ns().saturating_sub(SETTLE_NS);
        delays.drain(|delay| self.waiting.push(delay));
        let mut waiting = std::mem::take(&mut self.waiting);
        waiting.retain(|delay| {
            if delay.woke_ns > settled_ns || begin.elapsed() >= IN_A_ROUND {
                return true;
            }
            let known = self.examine(delay);
            self.known.extend(known);
            false
        });
        // The events of the oldest are lost first.
        let surplus = waiting.len().saturating_sub(MOST_WAITING);
        waiting.drain(..surplus);
        self.waiting = waiting;
        if self.known.len() > 2 * MOST_DELAYS {
            self.keep_longest();
        }
    }

    fn delays(mut self: Box<Self>) -> Vec<PeerDelay> {
        let begin = Instant::now();
        self.recording.drain();
        for delay in std::mem::take(&mut self.waiting) {
            if begin.elapsed() >= AT_THE_END {
                break;
            }
            let known = self.examine(&delay);
            self.known.extend(known);
        }
        self.keep_longest();
        self.known
    }
}
