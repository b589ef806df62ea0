//! From the call that sends to the driver, of a message or of its reply.

use punctual_record::path::bill::{
    Certainty, MessageCause as Cause, MessageEvidence as Evidence, MessageStage as Stage,
};

use super::loss::Loss;
use super::rows::Rows;
use super::{Context, LATE_NS, SLACK_NS};
use crate::exchange::{TcpChange, TcpState, Transmissions};

/// The other side delays an acknowledgement by at least this, less a tick (`TCP_DELACK_MIN`).
pub const DELAYED_ACK_NS: u64 = 36_000_000;
/// Segments of a congestion window that was reduced after idle time, or is new
/// (`TCP_INIT_CWND`).
const INITIAL_WINDOW: u32 = 10;

/// What is known of the sending of a message or a reply.
#[derive(Clone, Copy)]
pub struct Sending<'a> {
    pub tcp: bool,
    pub size: u32,
    /// The call returned; absent if it is not known.
    pub call_end_ns: Option<u64>,
    pub blocked: bool,
    pub scheduled: Transmissions,
    pub software: Transmissions,
    /// What TCP counted meanwhile.
    pub change: Option<&'a TcpChange>,
    /// What TCP counted of earlier messages that were under way with this one.
    pub earlier: Option<&'a TcpChange>,
    /// The state of the connection before.
    pub before: Option<&'a TcpState>,
    pub outstanding: u32,
    pub idle_ns: Option<u64>,
    /// When the reply came, or the last instant at which this can have been sent.
    pub end_ns: u64,
    /// From its last transmission to the end, at least: on the way, and at the other side.
    pub least_ns: u64,
    pub context: &'a Context,
    /// Where the rows go: to the packet scheduler, to the driver, sent again.
    pub stages: [Stage; 3],
}

/// The instants of sending, none before the one before.
#[derive(Debug, Clone, Copy)]
pub struct Stages {
    begin_ns: u64,
    scheduled_ns: u64,
    /// It entered the packet scheduler again, because the queue had dropped it.
    rescheduled_ns: u64,
    driver_ns: u64,
    again_ns: u64,
}

impl Stages {
    /// The last that is known.
    pub fn end_ns(&self) -> u64 {
        self.again_ns
    }
}

impl Sending<'_> {
    /// The instants, between two others.
    pub fn stages(&self, begin_ns: u64, end_ns: u64) -> Stages {
        let end_ns = end_ns.max(begin_ns);
        let place = |at_ns: Option<u64>, before_ns: u64| {
            at_ns.map_or(before_ns, |at_ns| at_ns.clamp(before_ns, end_ns))
        };
        // The responder reports the last of its packet scheduler alone.
        let first_ns = self.software.first().unwrap_or(u64::MAX);
        let scheduled = self.scheduled.first().filter(|at_ns| *at_ns <= first_ns);
        let scheduled_ns = place(scheduled, begin_ns);
        let again = self.scheduled.last().filter(|_| self.dropped_in_queue());
        let rescheduled_ns = place(again, scheduled_ns);
        let driver_ns = place(self.software.first(), rescheduled_ns);
        let again = self
            .software
            .last()
            .filter(|at_ns| self.was_needed(*at_ns, end_ns));
        Stages {
            begin_ns,
            scheduled_ns,
            rescheduled_ns,
            driver_ns,
            again_ns: place(again, driver_ns),
        }
    }

    /// Whether it entered the packet scheduler again before a driver had it. TCP sends nothing again that
    /// still waits in a queue of this host (`skb_still_in_host_queue`): the queue dropped it.
    pub fn dropped_in_queue(&self) -> bool {
        let first_ns = self.software.first();
        let again = self.scheduled.last().filter(|_| self.scheduled.count > 1);
        let retransmits = self.change.map_or(0, |it| it.retransmits);
        retransmits > 0
            && again
                .zip(first_ns)
                .is_some_and(|(again, first)| first >= again)
    }

    /// Whether the other side can have replied to what was sent at this instant: it reports how long it
    /// had the message, and the shortest way is known.
    fn was_needed(&self, at_ns: u64, end_ns: u64) -> bool {
        // What it received twice was sent again for nothing.
        let is_twice = |it: &TcpChange| it.retransmits > 0 && it.duplicates >= it.retransmits;
        !self.change.is_some_and(is_twice)
            && at_ns <= end_ns
            && at_ns.saturating_add(self.least_ns) <= end_ns.saturating_add(SLACK_NS)
    }

    /// Whether the message itself, or a part of it, may have been lost: each transmission of its last
    /// segment has a time stamp.
    pub fn may_be_lost(&self, end_ns: u64) -> bool {
        match self.software.count {
            _ if self.segments() > 1 || self.dropped_in_queue() => true,
            0 => true,
            1 => false,
            _ => self.was_needed(self.software.last_ns, end_ns),
        }
    }

    /// Segments of the message.
    fn segments(&self) -> u32 {
        let bytes = self.before.map_or(0, |it| it.segment_bytes);
        let bytes = match bytes {
            0 => self.change.map_or(0, |it| it.state.segment_bytes),
            bytes => bytes,
        };
        if bytes == 0 {
            return 1;
        }
        self.size.div_ceil(bytes).max(1)
    }

    /// Whether no other segment was sent within that time, whose acknowledgement would show the loss.
    pub fn is_alone(&self, waited_ns: u64) -> bool {
        let interval_ns = self.context.interval_ns;
        self.segments() == 1 && self.outstanding == 0 && interval_ns > waited_ns
    }

    /// Adds the rows up to the last transmission.
    pub fn rows(&self, stages: &Stages, rows: &mut Rows) {
        let held_ns = stages.scheduled_ns - stages.begin_ns;
        self.held(stages, held_ns, rows);
        let dropped_ns = stages.rescheduled_ns - stages.scheduled_ns;
        if dropped_ns > 0 {
            self.sent_again(dropped_ns, Evidence::DroppedInQueue, rows);
        }
        let queued_ns = stages.driver_ns - stages.rescheduled_ns;
        self.queued(stages, queued_ns, rows);
        let again_ns = stages.again_ns - stages.driver_ns;
        if again_ns > 0 {
            let count = self.software.count;
            self.sent_again(again_ns, Evidence::Transmissions { count }, rows);
        }
    }

    /// From one transmission to the next.
    fn sent_again(&self, ns: u64, shown: Evidence, rows: &mut Rows) {
        let (cause, certainty, mut evidence) = match Loss::of(self) {
            Some(loss) => loss.judge(self, ns),
            None => (Cause::Retransmission, Certainty::Certain, Vec::new()),
        };
        evidence.push(shown);
        rows.add(self.stages[2], cause, ns, certainty, evidence);
    }

    /// From the packet scheduler to the driver.
    fn queued(&self, stages: &Stages, ns: u64, rows: &mut Rows) {
        let stage = self.stages[1];
        if ns <= LATE_NS {
            rows.usual(stage, ns);
            return;
        }
        // What the call itself passed to the driver waited in no queue.
        let within_call = self
            .call_end_ns
            .is_some_and(|end_ns| end_ns.saturating_add(SLACK_NS) >= stages.driver_ns);
        if within_call {
            let evidence = vec![Evidence::InCall { ns }];
            let cause = Cause::NotScheduled { by: None };
            rows.add(stage, cause, ns, Certainty::Likely, evidence);
            return;
        }
        let evidence = self
            .call_end_ns
            .map(|end_ns| Evidence::AfterCall {
                ns: stages.driver_ns.saturating_sub(end_ns),
            })
            .into_iter()
            .collect();
        rows.add(stage, Cause::Queue, ns, Certainty::Certain, evidence);
    }

    /// From the call to the packet scheduler.
    fn held(&self, stages: &Stages, ns: u64, rows: &mut Rows) {
        let stage = self.stages[0];
        if ns <= LATE_NS {
            rows.usual(stage, ns);
            return;
        }
        let in_call_ns = self.call_end_ns.map(|end_ns| {
            let end_ns = end_ns.clamp(stages.begin_ns, stages.scheduled_ns);
            end_ns - stages.begin_ns
        });
        let after_ns = in_call_ns.map_or(ns, |in_call_ns| ns - in_call_ns);
        let in_call_ns = in_call_ns.unwrap_or(0);
        // A full buffer keeps the call; everything else keeps the data after it.
        let is_window = self.window_us() > 0;
        let is_full = self.blocked && !is_window;
        if in_call_ns > LATE_NS && !self.blocked && after_ns <= LATE_NS {
            let evidence = vec![Evidence::InCall { ns: in_call_ns }];
            let cause = Cause::NotScheduled { by: None };
            rows.add(stage, cause, ns, Certainty::Likely, evidence);
            return;
        }
        if is_full {
            let mut evidence = vec![Evidence::Blocked];
            self.buffer_limited(&mut evidence);
            let full_ns = if after_ns > LATE_NS { in_call_ns } else { ns };
            let certain = Certainty::Certain;
            rows.add(stage, Cause::SendBuffer, full_ns, certain, evidence);
            if full_ns == ns {
                return;
            }
        }
        let rest_ns = if is_full { after_ns } else { ns };
        let (cause, certainty, mut evidence) = self.why_held(rest_ns);
        if self.call_end_ns.is_some() && after_ns > 0 {
            evidence.push(Evidence::AfterCall { ns: after_ns });
        }
        rows.add(stage, cause, rest_ns, certainty, evidence);
    }

    fn window_us(&self) -> u64 {
        self.change.map_or(0, |it| it.rwnd_limited_us)
    }

    fn buffer_limited(&self, evidence: &mut Vec<Evidence>) {
        if let Some(us) = self.change.map(|it| it.sndbuf_limited_us)
            && us > 0
        {
            evidence.push(Evidence::BufferLimited { us });
        }
    }

    /// Why data that the call had taken did not reach the packet scheduler for this time.
    fn why_held(&self, ns: u64) -> (Cause, Certainty, Vec<Evidence>) {
        use Certainty::{Certain, Likely, Possible};
        if !self.tcp {
            // Nothing else of a datagram is above the packet scheduler.
            return (Cause::Neighbour, Likely, Vec::new());
        }
        if let Some(cause) = self.behind_earlier_data() {
            return cause;
        }
        let Some(change) = self.change else {
            return self.without_counters(ns);
        };
        let window_us = self.window_us();
        if window_us > 0 {
            let mut evidence = vec![Evidence::WindowLimited { us: window_us }];
            if self.blocked {
                evidence.push(Evidence::Blocked);
            }
            return (Cause::ReceiveWindow, Certain, evidence);
        }
        if change.sndbuf_limited_us > 0 {
            let mut evidence = Vec::new();
            self.buffer_limited(&mut evidence);
            return (Cause::SendBuffer, Certain, evidence);
        }
        let timeouts = change.timeouts.unwrap_or(0);
        let is_one = self.segments() == 1 && self.outstanding == 0;
        if timeouts > 0 && (is_one || change.retransmits == 0) {
            // TCP had sent it, its timer expired, and the first transmission was still in this host.
            let count = timeouts.into();
            return (
                Cause::Neighbour,
                Certain,
                vec![Evidence::Timeouts { count }],
            );
        }
        if is_one {
            // Nothing was under way: no window, no algorithm of TCP holds one segment.
            return (Cause::Neighbour, Likely, Vec::new());
        }
        if let Some(loss) = Loss::of(self) {
            // An earlier loss closed the congestion window, or the timer of the data before held it.
            return loss.judge(self, ns);
        }
        if let Some(cause) = self.small_window(ns) {
            return cause;
        }
        if self.context.nagle {
            let mut evidence = Vec::new();
            if self.outstanding > 0 {
                let count = self.outstanding;
                evidence.push(Evidence::Outstanding { count });
            }
            return if ns >= DELAYED_ACK_NS {
                (Cause::DelayedAck, Likely, evidence)
            } else {
                (Cause::Nagle, Likely, evidence)
            };
        }
        if self.context.paced {
            return (Cause::Pacing, Likely, Vec::new());
        }
        if self.segments() > 1 {
            // Less than a round trip: the card or the packet scheduler did not take all at once.
            let cause = match ns >= DELAYED_ACK_NS {
                true => Cause::DelayedAck,
                false => Cause::Queue,
            };
            return (cause, Possible, Vec::new());
        }
        (Cause::Neighbour, Possible, Vec::new())
    }

    /// The responder's counters come with a later reply, which may not have come.
    fn without_counters(&self, ns: u64) -> (Cause, Certainty, Vec<Evidence>) {
        if let Some(cause) = self.small_window(ns) {
            return cause;
        }
        let cause = match (self.context.nagle, ns >= DELAYED_ACK_NS) {
            (true, true) => Cause::DelayedAck,
            (true, false) => Cause::Nagle,
            (false, _) => Cause::Neighbour,
        };
        (cause, Certainty::Possible, Vec::new())
    }

    /// An earlier message of the connection was held, and this one behind it.
    fn behind_earlier_data(&self) -> Option<(Cause, Certainty, Vec<Evidence>)> {
        let held = self.context.held?;
        let is_behind = self.call_end_ns.is_some_and(|at_ns| at_ns < held.until_ns);
        let evidence = vec![Evidence::EarlierData];
        is_behind.then(|| (held.by.cause(), Certainty::Likely, evidence))
    }

    /// Whether nothing but the neighbour held the message.
    pub fn waited_for_the_neighbour(&self) -> bool {
        let scheduled_ns = self.scheduled.first().unwrap_or(0);
        let ns = scheduled_ns.saturating_sub(self.call_end_ns.unwrap_or(u64::MAX));
        ns > LATE_NS && self.why_held(ns).0 == Cause::Neighbour
    }

    /// The message has more segments than the congestion window.
    fn small_window(&self, ns: u64) -> Option<(Cause, Certainty, Vec<Evidence>)> {
        let count = self.segments();
        let before = self.before?;
        // A window opens with an acknowledgement.
        if ns < u64::from(before.rtt_us) * 1000 / 4 * 3 {
            return None;
        }
        let rto_ns = u64::from(before.rto_us) * 1000;
        let is_idle = self.outstanding == 0
            && rto_ns > 0
            && self.idle_ns.is_some_and(|idle_ns| idle_ns >= rto_ns)
            && self.context.slow_start_after_idle != Some(false);
        let window = before.window;
        // The responder's window is read after it was reduced.
        let had_room = window > INITIAL_WINDOW || self.call_end_ns.is_none();
        if is_idle && count > INITIAL_WINDOW && had_room {
            // The kernel halves the window for each time-out that passed, down to the initial one.
            let mut evidence = vec![Evidence::Segments { count, window }];
            evidence.extend(self.idle_ns.map(|ns| Evidence::IdleBefore { ns }));
            let certainty = match self.context.slow_start_after_idle {
                Some(true) if window >= count => Certainty::Certain,
                _ => Certainty::Likely,
            };
            return Some((Cause::IdleRestart, certainty, evidence));
        }
        let is_small = window > 0 && count > window;
        let evidence = vec![Evidence::Segments { count, window }];
        is_small.then_some((Cause::CongestionWindow, Certainty::Likely, evidence))
    }
}
