//! The bill of a late message: which stage and which cause took how much of its latency.

mod evidence;

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};

use crate::bounds::{Broken, at_most, ensure};
pub use evidence::MessageEvidence;

/// The bills of the late messages of a run.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct MessageBills {
    /// A message is late if its latency is above this.
    pub above_ns: u64,
    /// Late messages. Each has a bill, and is in the ranking.
    pub late: u64,
    /// Of these, messages of whose latency at most a tenth has no cause.
    pub explained: u64,
    /// The latencies of all late messages together.
    pub late_ns: u64,
    /// The causes over all late messages, the largest total first. Their totals sum to `late_ns`.
    pub ranking: Vec<RankedMessageCause>,
    /// The bills of the worst messages, the worst first.
    pub worst: Vec<MessageBill>,
    /// Of the late messages, those whose bills are divided by the kernel's events.
    #[serde(default)]
    pub traced: u64,
    /// The same by the events of the responder's machine.
    #[serde(default)]
    pub peer_traced: u64,
}

impl MessageBills {
    /// Bills that are kept.
    pub const WORST: usize = 32;
    /// Causes in the ranking.
    pub const CAUSES: usize = 64;

    /// Whether all sums hold: a record in which one does not is refused.
    #[must_use]
    pub fn is_consistent(&self) -> bool {
        self.check("bills").is_ok()
    }

    /// What the record promises beyond the types.
    pub(crate) fn check(&self, place: &str) -> Result<(), Broken> {
        at_most(self.worst.len(), Self::WORST, format!("{place}.worst"))?;
        at_most(self.ranking.len(), Self::CAUSES, format!("{place}.ranking"))?;
        ensure(
            self.explained.max(self.traced).max(self.peer_traced) <= self.late,
            format!("{place}.explained"),
            "more than there are late messages",
        )?;
        ensure(
            self.worst.len() as u64 <= self.late,
            format!("{place}.worst"),
            "more bills than there are late messages",
        )?;
        self.check_ranking(&format!("{place}.ranking"))?;
        let mut before = u64::MAX;
        for (index, bill) in self.worst.iter().enumerate() {
            let place = format!("{place}.worst[{index}]");
            ensure(
                bill.latency_ns <= before,
                &place,
                "worse than the one before it",
            )?;
            before = bill.latency_ns;
            bill.check(&place)?;
        }
        Ok(())
    }

    fn check_ranking(&self, place: &str) -> Result<(), Broken> {
        let mut seen = BTreeSet::new();
        let mut sum = 0u128;
        for (index, ranked) in self.ranking.iter().enumerate() {
            let RankedMessageCause {
                count,
                main,
                total_ns,
                worst_ns,
                ..
            } = *ranked;
            let place = format!("{place}[{index}]");
            ensure(
                seen.insert((ranked.side, &ranked.cause)),
                &place,
                "stands there twice",
            )?;
            ensure(
                main <= count && count <= self.late && worst_ns <= total_ns,
                &place,
                "a part is more than the whole",
            )?;
            sum += u128::from(total_ns);
        }
        ensure(
            sum == u128::from(self.late_ns),
            place,
            format!("sums to {sum}, where the latencies are {}", self.late_ns),
        )
    }
}

/// A cause over all late messages.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct RankedMessageCause {
    /// Where.
    pub side: MessageSide,
    /// The cause, without what differs each time.
    pub cause: MessageCause,
    /// Late messages in whose bill it is.
    pub count: u64,
    /// Of these, messages of which it took the most.
    pub main: u64,
    /// What it took of all of them, in ns.
    pub total_ns: u64,
    /// What it took of one message, at most, in ns.
    pub worst_ns: u64,
}

/// The bill of one message.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct MessageBill {
    /// The number of the message.
    pub sequence: u64,
    /// The instant at which it was to be sent, in ns of the sender's CLOCK_MONOTONIC.
    pub requested_ns: u64,
    /// Its length in bytes.
    pub size: u32,
    /// From there to the reply in user space: the sum of the rows.
    pub latency_ns: u64,
    /// The rows, in the order in which the message went through the stages.
    pub rows: Vec<MessageRow>,
}

impl MessageBill {
    /// Rows of a bill.
    pub const ROWS: usize = 64;

    /// The row with the most time that is not what every message takes.
    #[must_use]
    pub fn main(&self) -> Option<&MessageRow> {
        let unusual = |row: &&MessageRow| !row.cause.is_usual();
        let most = self.rows.iter().filter(unusual).max_by_key(|row| row.ns);
        let usual = self.rows.iter().max_by_key(|row| row.ns);
        // A message may be late without anything unusual: the limit was lower than the path.
        most.filter(|row| row.ns >= self.latency_ns / 4).or(usual)
    }

    /// Time whose cause is not known, in ns.
    #[must_use]
    pub fn unexplained_ns(&self) -> u64 {
        let unknown = self.rows.iter().filter(|row| row.cause.is_unknown());
        unknown.map(|row| row.ns).sum()
    }

    /// Whether at most a tenth of the latency has no cause.
    #[must_use]
    pub fn is_explained(&self) -> bool {
        self.unexplained_ns() <= self.latency_ns / 10
    }

    fn check(&self, place: &str) -> Result<(), Broken> {
        at_most(self.rows.len(), Self::ROWS, format!("{place}.rows"))?;
        let sum: u128 = self.rows.iter().map(|row| u128::from(row.ns)).sum();
        ensure(
            sum == u128::from(self.latency_ns),
            format!("{place}.rows"),
            format!("sum to {sum}, where the latency is {}", self.latency_ns),
        )?;
        let mut seen = BTreeSet::new();
        for (index, row) in self.rows.iter().enumerate() {
            let place = format!("{place}.rows[{index}]");
            at_most(row.evidence.len(), MessageRow::EVIDENCE, &place)?;
            ensure(
                seen.insert((row.stage, &row.cause)),
                &place,
                "the same cause twice in one stage",
            )?;
        }
        Ok(())
    }
}

/// A part of a message's latency.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct MessageRow {
    /// Between which instants.
    pub stage: MessageStage,
    /// What took it.
    pub cause: MessageCause,
    /// How much, in ns.
    pub ns: u64,
    /// How sure the cause is.
    pub certainty: Certainty,
    /// What shows it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub evidence: Vec<MessageEvidence>,
}

impl MessageRow {
    /// Evidence of a row.
    pub const EVIDENCE: usize = 8;

    /// Adds what shows the cause, unless it is there or there is no room.
    pub fn show(&mut self, evidence: MessageEvidence) {
        if self.evidence.len() < Self::EVIDENCE && !self.evidence.contains(&evidence) {
            self.evidence.push(evidence);
        }
    }

    /// Adds the row to others, or its time to the row of the same stage and cause.
    pub fn add_to(self, rows: &mut Vec<Self>) {
        if self.ns == 0 {
            return;
        }
        let same = |it: &&mut Self| it.stage == self.stage && it.cause == self.cause;
        match rows.iter_mut().find(same) {
            Some(known) => known.ns = known.ns.saturating_add(self.ns),
            None => rows.push(self),
        }
    }
}

/// How sure a cause is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum Certainty {
    /// A counter, a pair of time stamps or an event of the kernel says so, and nothing else would.
    Certain,
    /// The times fit, and what else they would fit is known not to be there.
    Likely,
    /// It is the only cause left, or one of several.
    Possible,
}

/// The machine at which a stage is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum MessageSide {
    /// The machine that measures.
    Sender,
    /// Between the two, or at either: not separable.
    Path,
    /// The responder.
    Responder,
}

/// The stages of a message, in order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum MessageStage {
    /// From the requested instant to the call that sends it.
    Start,
    /// From the call to the packet scheduler: the socket, TCP, the neighbour's address.
    Send,
    /// From the packet scheduler to the driver.
    Queue,
    /// From the first transmission to the last.
    Resend,
    /// On the way: the wire, both cards, and both kernels up to their time stamp of received data.
    Way,
    /// From a card to the kernel's time stamp of received data, on the sender: with the time stamps
    /// of a card, or with the kernel's events.
    Receive,
    /// On the responder, from a card to the time stamp: with the kernel's events.
    PeerReceive,
    /// On the responder, from its kernel's time stamp to its thread in user space.
    PeerWakeUp,
    /// From there to the call that sends the reply.
    PeerWork,
    /// From that call to its packet scheduler.
    PeerSend,
    /// From there to its driver.
    PeerQueue,
    /// From the first transmission of the reply to the last.
    PeerResend,
    /// On the sender, from the kernel's time stamp of the reply to the thread in user space.
    WakeUp,
}

impl MessageStage {
    /// The machine.
    #[must_use]
    pub fn side(self) -> MessageSide {
        match self {
            Self::Start
            | Self::Send
            | Self::Queue
            | Self::Resend
            | Self::Receive
            | Self::WakeUp => MessageSide::Sender,
            Self::Way => MessageSide::Path,
            Self::PeerReceive
            | Self::PeerWakeUp
            | Self::PeerWork
            | Self::PeerSend
            | Self::PeerQueue
            | Self::PeerResend => MessageSide::Responder,
        }
    }
}

/// What takes time from a message.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(tag = "kind", rename_all = "kebab-case")]
pub enum MessageCause {
    /// What every message takes in this stage.
    Usual,
    /// The thread did not run although it was due, or was interrupted in the call.
    NotScheduled {
        /// Which thread ran instead, or what; absent if the events were not recorded.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        by: Option<Runner>,
    },
    /// The responder worked between receiving and replying.
    Work,
    /// The buffer of the sending socket was full.
    SendBuffer,
    /// The receiver's window was closed: the other side did not read, or its buffer is small.
    ReceiveWindow,
    /// Nagle's algorithm held a small segment until the one before was acknowledged.
    Nagle,
    /// Nagle's algorithm or a full window waited for an acknowledgement that the other side delayed.
    DelayedAck,
    /// The congestion window was smaller than the message.
    CongestionWindow,
    /// The congestion window had been reduced because nothing was sent for a while
    /// (`tcp_slow_start_after_idle`).
    IdleRestart,
    /// The neighbour's hardware address was not known (ARP, NDP).
    Neighbour,
    /// The socket's rate is limited (`SO_MAX_PACING_RATE`, BBR).
    Pacing,
    /// The data waited in the queue of the packet scheduler or of the card, behind other data.
    Queue,
    /// It was lost, and the retransmission timer expired.
    Timeout,
    /// It was lost, and sent again as a tail loss probe.
    LossProbe,
    /// It was lost, and sent again because later data was acknowledged.
    FastRetransmit,
    /// It was lost and sent again; how the loss was found is not known.
    Retransmission,
    /// Received packets waited for their softirq while something else ran on that CPU.
    Softirq {
        /// What ran; absent if it is not known.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        by: Option<Runner>,
    },
    /// Received packets waited for the thread of NAPI, or for ksoftirqd, which did not run.
    NapiThread {
        /// The thread that was to receive them.
        thread: Runner,
        /// What ran instead; absent if it is not known.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        by: Option<Runner>,
    },
    /// Received data waited because a thread used the socket.
    Backlog,
    /// On the wire, at a card, or in a kernel before its time stamp: which can't be told.
    Way,
    /// Causes that a ranking had no room for.
    Other,
    /// The time stamps contradict each other: the clock was set, or a stamp is missing.
    Unexplained,
}

impl MessageCause {
    /// Whether every message takes this.
    #[must_use]
    pub fn is_usual(&self) -> bool {
        matches!(self, Self::Usual)
    }

    /// Whether this says that the cause is not known.
    #[must_use]
    pub fn is_unknown(&self) -> bool {
        matches!(self, Self::Way | Self::Other | Self::Unexplained)
    }

    /// The same without what differs each time: rankings count by this.
    #[must_use]
    pub fn general(&self) -> Self {
        let name = |by: &Option<Runner>| by.as_ref().map(Runner::general);
        match self {
            Self::NotScheduled { by } => Self::NotScheduled { by: name(by) },
            Self::Softirq { by } => Self::Softirq { by: name(by) },
            Self::NapiThread { thread, by } => Self::NapiThread {
                thread: thread.general(),
                by: name(by),
            },
            other => other.clone(),
        }
    }
}

/// A thread, or an interrupt or softirq without one.
#[derive(Debug, Clone, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Runner {
    /// Its name.
    pub task: String,
    /// Its policy, e.g. `SCHED_FIFO`; empty for an interrupt or a softirq.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub policy: String,
    /// Its real-time priority, 1-99; 0 where the policy has none.
    #[serde(default)]
    pub priority: u32,
    /// Its number; 0 for an interrupt, and in a ranking.
    #[serde(default)]
    pub tid: u32,
}

impl Runner {
    /// The same without its number; per-CPU kernel threads are one.
    #[must_use]
    pub fn general(&self) -> Self {
        Self {
            task: crate::explanation::general_name(&self.task),
            tid: 0,
            ..self.clone()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(stage: MessageStage, cause: MessageCause, ns: u64) -> MessageRow {
        MessageRow {
            stage,
            cause,
            ns,
            certainty: Certainty::Certain,
            evidence: Vec::new(),
        }
    }

    fn bills() -> MessageBills {
        let rows = vec![
            row(MessageStage::Start, MessageCause::Usual, 10),
            row(MessageStage::Queue, MessageCause::Queue, 80),
            row(MessageStage::Way, MessageCause::Way, 10),
        ];
        let ranked = |side, cause, main, total_ns| RankedMessageCause {
            side,
            cause,
            count: 1,
            main,
            total_ns,
            worst_ns: total_ns,
        };
        MessageBills {
            above_ns: 50,
            late: 1,
            explained: 1,
            late_ns: 100,
            ranking: vec![
                ranked(MessageSide::Sender, MessageCause::Queue, 1, 80),
                ranked(MessageSide::Sender, MessageCause::Usual, 0, 10),
                ranked(MessageSide::Path, MessageCause::Way, 0, 10),
            ],
            worst: vec![MessageBill {
                sequence: 7,
                requested_ns: 1,
                size: 64,
                latency_ns: 100,
                rows,
            }],
            traced: 0,
            peer_traced: 0,
        }
    }

    #[test]
    fn bills_that_sum_are_accepted_and_keep_their_form() {
        let bills = bills();
        bills.check("bills").unwrap();
        let text = serde_json::to_string(&bills).unwrap();
        assert_eq!(serde_json::from_str::<MessageBills>(&text).unwrap(), bills);
        assert_eq!(bills.worst[0].main().unwrap().cause, MessageCause::Queue);
        assert!(bills.worst[0].is_explained());
    }

    #[test]
    fn bills_that_do_not_sum_are_refused() {
        let damages: [fn(&mut MessageBills); 8] = [
            |it| it.worst[0].rows[0].ns += 1,
            |it| it.late_ns += 1,
            |it| it.ranking[0].total_ns += 1,
            |it| it.ranking[0].main = 2,
            |it| it.late = 0,
            |it| it.explained = 2,
            |it| it.ranking.push(it.ranking[0].clone()),
            |it| {
                it.worst[0]
                    .rows
                    .push(row(MessageStage::Way, MessageCause::Way, 0))
            },
        ];
        for (index, damage) in damages.iter().enumerate() {
            let mut bills = bills();
            damage(&mut bills);
            assert!(bills.check("bills").is_err(), "damage {index}");
        }
    }
}
