//! The bill of a late message: a pure function of its stages and of what TCP counted meanwhile.
//!
//! The instants of the sender divide the latency; what the responder reports as durations is taken
//! from the time between sending and receiving. So the rows sum to the latency whatever the instants
//! are: an instant out of order is moved to the nearest possible place, and the time of a missing one
//! belongs to the next stage.

mod keeper;
mod ledger;
mod loss;
mod peer;
mod rows;
mod sending;

use punctual_record::path::bill::{
    Certainty, MessageBill, MessageCause as Cause, MessageEvidence as Evidence,
    MessageStage as Stage,
};

use crate::exchange::{Exchange, PeerStages, Reply, TcpChange, TcpState};
use loss::Loss;
use rows::Rows;
use sending::{Sending, Stages};

pub use keeper::{Keeper, Refine, Standing};

/// What is known beside the exchange itself.
#[derive(Debug, Clone, Copy, Default)]
pub struct Context {
    /// The connection is TCP.
    pub tcp: bool,
    /// Nagle's algorithm is on (`TCP_NODELAY` is not set), on both machines.
    pub nagle: bool,
    /// The sockets' rate is limited: `SO_MAX_PACING_RATE`, or a congestion control that paces.
    pub paced: bool,
    /// `tcp_slow_start_after_idle`, where it is known.
    pub slow_start_after_idle: Option<bool>,
    /// The nominal interval between messages, in ns; 0 if it is not known.
    pub interval_ns: u64,
    /// The shortest time on the way so far, both ways together, in ns.
    pub way_ns: Option<u64>,
    /// The state of the sender's connection before this message.
    pub before: Option<TcpState>,
    /// How long nothing was sent before this message, in ns.
    pub idle_ns: Option<u64>,
    /// The state of the responder's connection before the reply.
    pub peer_before: Option<TcpState>,
    /// Messages that had no reply yet when this one was sent, as far as it is known.
    pub outstanding: u32,
    /// What TCP counted on the sender for earlier messages that were late while this one was under
    /// way. TCP delivers in order: this one waited for them.
    pub earlier: Option<TcpChange>,
    /// The same on the responder.
    pub earlier_reply: Option<TcpChange>,
    /// An earlier message was held in this host. TCP holds small data meanwhile (`tcp_autocorking`).
    pub held: Option<Held>,
    /// The responder took this message and the next in one call: the time stamp is the next one's.
    pub read_together: bool,
    /// The same of the replies.
    pub replies_together: bool,
}

/// Until when data of the connection was held in this host, and by what.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Held {
    /// Until when, in ns.
    pub until_ns: u64,
    /// By what.
    pub by: Holder,
}

/// What holds data between TCP and the driver.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Holder {
    /// The queue of the packet scheduler.
    Queue,
    /// The neighbour's address was not known.
    Neighbour,
}

impl Holder {
    fn cause(self) -> Cause {
        match self {
            Self::Queue => Cause::Queue,
            Self::Neighbour => Cause::Neighbour,
        }
    }
}

/// Until when this message, or one before it, was held.
fn held(exchange: &Exchange, context: &Context) -> Option<Held> {
    let sent = &exchange.sent;
    let before = context.held;
    let (scheduled_ns, driver_ns) = match (sent.scheduled.first(), sent.software.first()) {
        (Some(scheduled_ns), Some(driver_ns)) => (scheduled_ns, driver_ns),
        _ => return before,
    };
    let behind = before.filter(|it| sent.call_end_ns < it.until_ns);
    let queued_ns = driver_ns.saturating_sub(scheduled_ns);
    // What TCP had held longer before is held by that, and so is what is behind it.
    let held_ns = scheduled_ns.saturating_sub(sent.call_end_ns);
    let is_queued = queued_ns > LATE_NS.max(held_ns) && driver_ns > sent.call_end_ns;
    // What the queue dropped held nothing: what came behind it waited for its loss.
    let by = if is_queued && !own(exchange, context).dropped_in_queue() {
        Holder::Queue
    } else if let Some(behind) = behind {
        behind.by
    } else if own(exchange, context).waited_for_the_neighbour() {
        Holder::Neighbour
    } else {
        return before;
    };
    let until_ns = driver_ns.max(behind.map_or(0, |it| it.until_ns));
    Some(Held { until_ns, by })
}

/// A thread that is this late did not run.
pub const LATE_NS: u64 = 50_000;
/// What the clocks' conversion, a call and a wake-up may take in any case.
const SLACK_NS: u64 = 20_000;

/// The bill of a message; `None` if it was lost.
#[must_use]
pub fn bill(exchange: &Exchange, context: &Context) -> Option<MessageBill> {
    let reply = exchange.reply?;
    let latency_ns = exchange.latency_ns()?;
    let mut rows = Rows::new(latency_ns);
    let line = Line::new(exchange, reply);
    start(exchange, &line, &mut rows);
    let own = own(exchange, context);
    let sent = own.stages(line.call_ns, line.received_ns);
    own.rows(&sent, &mut rows);
    let between_ns = line.received_ns - sent.end_ns();
    let mut wake_ns = line.woke_ns - line.received_ns;
    wake_ns += between(
        exchange,
        context,
        &own,
        &sent,
        (between_ns, wake_ns),
        &mut rows,
    );
    wake_up(exchange, context, &line, wake_ns, &mut rows);
    Some(MessageBill {
        sequence: exchange.sequence,
        requested_ns: exchange.requested_ns,
        size: exchange.size,
        latency_ns,
        rows: rows.finish(),
    })
}

/// The time between sending and receiving, with neither, in ns: the way both ways, as far as no stage
/// of the responder took it. A keeper takes the shortest of these as usual.
#[must_use]
pub fn way_ns(exchange: &Exchange) -> Option<u64> {
    let reply = exchange.reply?;
    let peer = exchange.peer?;
    // Which of several transmissions arrived is not known.
    if exchange.sent.software.count > 1 || peer.software.count > 1 {
        return None;
    }
    let (sent_ns, received_ns) = (exchange.sent.software.last()?, reply.rx_software_ns?);
    let replied_ns = peer.software.last().unwrap_or(peer.send_begin_ns);
    let there_ns = replied_ns.checked_sub(peer.rx_software_ns?)?;
    received_ns.checked_sub(sent_ns)?.checked_sub(there_ns)
}

/// The sender's instants, each within the latency and none before the one before.
struct Line {
    requested_ns: u64,
    call_ns: u64,
    received_ns: u64,
    woke_ns: u64,
    /// The reply has a time stamp.
    has_stamp: bool,
}

impl Line {
    fn new(exchange: &Exchange, reply: Reply) -> Self {
        let requested_ns = exchange.requested_ns;
        let woke_ns = reply.woke_ns.max(requested_ns);
        let call_ns = exchange.sent.call_begin_ns.clamp(requested_ns, woke_ns);
        let stamp = reply.rx_software_ns;
        Self {
            requested_ns,
            call_ns,
            received_ns: stamp.unwrap_or(woke_ns).clamp(call_ns, woke_ns),
            woke_ns,
            has_stamp: stamp.is_some(),
        }
    }
}

/// From the requested instant to the call.
fn start(exchange: &Exchange, line: &Line, rows: &mut Rows) {
    let late_ns = line.call_ns - line.requested_ns;
    if late_ns <= LATE_NS {
        rows.usual(Stage::Start, late_ns);
        return;
    }
    let mut evidence = Vec::new();
    if exchange.sent.blocked {
        evidence.push(Evidence::Blocked);
    }
    let cause = Cause::NotScheduled { by: None };
    rows.add(Stage::Start, cause, late_ns, Certainty::Certain, evidence);
}

/// What is known of the sending of the message.
fn own<'a>(exchange: &'a Exchange, context: &'a Context) -> Sending<'a> {
    let sent = &exchange.sent;
    Sending {
        tcp: context.tcp,
        size: exchange.size,
        call_end_ns: (sent.call_end_ns >= sent.call_begin_ns).then_some(sent.call_end_ns),
        blocked: sent.blocked,
        scheduled: sent.scheduled,
        software: sent.software,
        change: exchange.tcp.as_ref(),
        earlier: context.earlier.as_ref(),
        before: context.before.as_ref(),
        outstanding: context.outstanding,
        idle_ns: context.idle_ns,
        end_ns: exchange.reply.map_or(u64::MAX, |reply| {
            reply.rx_software_ns.unwrap_or(reply.woke_ns)
        }),
        least_ns: exchange.peer.map_or(0, |peer| {
            let received_ns = peer.rx_software_ns.unwrap_or(peer.woke_ns);
            let there_ns = peer.send_begin_ns.saturating_sub(received_ns);
            // A part of it, because stamps and clocks are not exact.
            there_ns.saturating_add(context.way_ns.unwrap_or(0) / 4 * 3)
        }),
        context,
        stages: [Stage::Send, Stage::Queue, Stage::Resend],
    }
}

/// What is known of the sending of the reply.
fn replying<'a>(exchange: &'a Exchange, context: &'a Context, peer: &PeerStages) -> Sending<'a> {
    Sending {
        tcp: context.tcp,
        size: exchange.size,
        call_end_ns: None,
        blocked: false,
        scheduled: peer.scheduled,
        software: peer.software,
        change: exchange.peer_tcp.as_ref(),
        earlier: context.earlier_reply.as_ref(),
        before: context.peer_before.as_ref(),
        outstanding: context.outstanding,
        idle_ns: context.idle_ns,
        end_ns: u64::MAX,
        least_ns: 0,
        context,
        stages: [Stage::PeerSend, Stage::PeerQueue, Stage::PeerResend],
    }
}

/// What TCP counted on each side of a loss of this message and of its reply, for which later ones wait.
fn losses<'a>(exchange: &'a Exchange, context: &'a Context) -> [Option<&'a TcpChange>; 2] {
    let peer = exchange.peer.unwrap_or_default();
    let sides = [own(exchange, context), replying(exchange, context, &peer)];
    sides.map(|side| side.change.filter(|_| side.may_be_lost(side.end_ns)))
}

/// From the sender's driver to the time stamp of the reply. Returns what of it is the wake-up's that
/// follows: the time stamp may be that of a later reply.
fn between(
    exchange: &Exchange,
    context: &Context,
    own: &Sending<'_>,
    sent: &Stages,
    (between_ns, sleep_ns): (u64, u64),
    rows: &mut Rows,
) -> u64 {
    let mut left_ns = between_ns;
    let Some(peer) = &exchange.peer else {
        rows.add(Stage::Way, Cause::Way, left_ns, Certainty::Possible, vec![]);
        return 0;
    };
    // In the order of the message, each at most what is left.
    let received_ns = peer.rx_software_ns.unwrap_or(peer.woke_ns);
    let stated_wake_ns = peer.woke_ns.saturating_sub(received_ns);
    let stated_work_ns = peer.send_begin_ns.saturating_sub(peer.woke_ns);
    // The time stamp of what came behind a gap and waited there: when this message came is not known.
    let is_others = stated_wake_ns > left_ns && Loss::of(own).is_some();
    let wake_ns = match is_others {
        true => 0,
        false => stated_wake_ns.min(left_ns),
    };
    left_ns -= wake_ns;
    let work_ns = stated_work_ns.min(left_ns);
    left_ns -= work_ns;
    let mut wake_ns = wake_ns;
    let replying = replying(exchange, context, peer);
    let from_ns = peer.send_begin_ns;
    let replied = replying.stages(from_ns, from_ns.saturating_add(left_ns));
    left_ns -= replied.end_ns() - from_ns;

    // It came before the next one, and its thread slept when that came: it waited as well.
    let usual_ns = context.way_ns.unwrap_or(0).min(left_ns);
    let together = context.read_together && wake_ns > LATE_NS && Loss::of(own).is_none();
    if together {
        wake_ns += left_ns - usual_ns;
        left_ns = usual_ns;
    }
    let stated_ns = stated_wake_ns.saturating_add(stated_work_ns);
    if stated_ns > between_ns.saturating_add(SLACK_NS) && !is_others {
        let ns = stated_ns - between_ns;
        rows.doubt(Stage::PeerWakeUp, Evidence::Contradiction { ns });
    }
    peer_wake_up(exchange, own, sent, (wake_ns, together), rows);
    let work = if work_ns > LATE_NS {
        Cause::Work
    } else {
        Cause::Usual
    };
    let certain = Certainty::Certain;
    rows.add(Stage::PeerWork, work, work_ns, certain, vec![]);
    replying.rows(&replied, rows);
    let asleep = context.replies_together && sleep_ns > LATE_NS && Loss::of(&replying).is_none();
    let moved_ns = if asleep {
        left_ns - usual_ns.min(left_ns)
    } else {
        0
    };
    way(
        exchange,
        context,
        [own, &replying],
        left_ns - moved_ns,
        rows,
    );
    moved_ns
}

/// What no stage explains, between the two drivers. What exceeds the usual is a loss's, if TCP sent
/// again and no time stamp shows it: the kernel stamps a call's last segment alone.
fn way(exchange: &Exchange, context: &Context, sides: [&Sending<'_>; 2], ns: u64, rows: &mut Rows) {
    let usual_ns = context.way_ns.unwrap_or(0).min(ns);
    let excess_ns = ns - usual_ns;
    let mut evidence = Vec::new();
    if exchange.clock_step_ns != 0 {
        let ns = exchange.clock_step_ns;
        evidence.push(Evidence::ClockStep { ns });
    }
    for side in sides {
        // A loss of the message shows at the responder, too: what came behind it waited there.
        let shown = match side.stages[2] {
            Stage::Resend => [Stage::Resend, Stage::PeerWakeUp],
            other => [other; 2],
        };
        if excess_ns <= LATE_NS || rows.has_loss(shown) {
            continue;
        }
        if let Some(loss) = Loss::of(side) {
            let (cause, certainty, why) = loss.judge(side, excess_ns);
            evidence.extend(why);
            rows.add(side.stages[2], cause, excess_ns, certainty, evidence);
            rows.usual(Stage::Way, usual_ns);
            return;
        }
    }
    if excess_ns <= LATE_NS {
        rows.usual(Stage::Way, ns);
        return;
    }
    if let Some(row) = held_reply(exchange, context, sides[1], excess_ns) {
        let (cause, shown) = row;
        rows.add(Stage::PeerSend, cause, excess_ns, Certainty::Likely, shown);
        rows.usual(Stage::Way, usual_ns);
        return;
    }
    if let Some(card_ns) = hardware(exchange) {
        // The card's clock measured the way and the responder: the rest is this kernel's.
        let own_ns = excess_ns.min(card_ns);
        if own_ns > LATE_NS {
            let cause = Cause::Softirq { by: None };
            let shown = vec![Evidence::HardwareStamps];
            rows.add(Stage::Receive, cause, own_ns, Certainty::Certain, shown);
            rows.usual(Stage::Way, usual_ns);
            let rest_ns = excess_ns - own_ns;
            rows.add(
                Stage::Way,
                Cause::Way,
                rest_ns,
                Certainty::Possible,
                evidence,
            );
            return;
        }
    }
    if usual_ns > 0 {
        evidence.push(Evidence::UsualWay { ns: usual_ns });
    }
    rows.usual(Stage::Way, usual_ns);
    rows.add(
        Stage::Way,
        Cause::Way,
        excess_ns,
        Certainty::Possible,
        evidence,
    );
}

/// The responder had called, and its kernel acknowledged the message by its timer: no data left that
/// would have borne the acknowledgement. Time stamps of each reply are not always known.
fn held_reply(
    exchange: &Exchange,
    context: &Context,
    replying: &Sending<'_>,
    excess_ns: u64,
) -> Option<(Cause, Vec<Evidence>)> {
    let acknowledged_ns = exchange.sent.acknowledged_ns?;
    let ns = acknowledged_ns.checked_sub(exchange.sent.software.first()?)?;
    let is_held = context.tcp
        && context.nagle
        && replying.scheduled.count == 0
        && ns >= sending::DELAYED_ACK_NS
        && excess_ns >= sending::DELAYED_ACK_NS;
    let evidence = vec![Evidence::AcknowledgedAfter { ns }];
    is_held.then_some((Cause::DelayedAck, evidence))
}

/// How much longer the kernel's time stamps are apart than the card's, in ns.
fn hardware(exchange: &Exchange) -> Option<u64> {
    let reply = exchange.reply?;
    let card_ns = reply
        .rx_hardware_ns?
        .checked_sub(exchange.sent.hardware_ns?)?;
    let kernel_ns = reply
        .rx_software_ns?
        .checked_sub(exchange.sent.software.last()?)?;
    kernel_ns.checked_sub(card_ns)
}

/// From the responder's time stamp to its thread. Data that came behind a gap waits for what is
/// missing, and has its time stamp: that is no thread's fault.
fn peer_wake_up(
    exchange: &Exchange,
    own: &Sending<'_>,
    sent: &Stages,
    (ns, together): (u64, bool),
    rows: &mut Rows,
) {
    let stage = Stage::PeerWakeUp;
    if ns <= LATE_NS {
        rows.usual(stage, ns);
        return;
    }
    let not_scheduled = Cause::NotScheduled { by: None };
    // The acknowledgement of all of it shows when TCP there had it, with any gap filled.
    let acknowledged = exchange.sent.acknowledged_ns;
    let whole_ns = acknowledged.and_then(|at_ns| at_ns.checked_sub(sent.end_ns()));
    let had_it = whole_ns.is_some_and(|whole_ns| whole_ns < ns / 2);
    let Some(loss) = Loss::of(own) else {
        // Where packets are steered to another CPU (RPS), they may wait for that after their time stamp.
        let (certainty, evidence) = match (together, had_it) {
            (true, _) => (Certainty::Likely, vec![Evidence::ReadTogether]),
            (false, true) => (Certainty::Certain, vec![]),
            (false, false) => (Certainty::Likely, vec![]),
        };
        rows.add(stage, not_scheduled, ns, certainty, evidence);
        return;
    };
    if had_it {
        let evidence = whole_ns.map(|ns| Evidence::AcknowledgedAfter { ns });
        let evidence = evidence.into_iter().collect();
        rows.add(stage, not_scheduled, ns, Certainty::Certain, evidence);
        return;
    }
    let (cause, certainty, mut evidence) = loss.judge(own, ns);
    evidence.extend(whole_ns.map(|ns| Evidence::AcknowledgedAfter { ns }));
    rows.add(stage, cause, ns, certainty, evidence);
}

/// From the time stamp of the reply to the thread.
fn wake_up(exchange: &Exchange, context: &Context, line: &Line, ns: u64, rows: &mut Rows) {
    let stage = Stage::WakeUp;
    if ns <= LATE_NS || !line.has_stamp {
        rows.usual(stage, ns);
        return;
    }
    let peer = exchange.peer.unwrap_or_default();
    let replying = replying(exchange, context, &peer);
    // What came behind a gap in the replies has its time stamp and waited for what was missing.
    if let Some(loss) = Loss::of(&replying).filter(|_| !rows.has_loss([Stage::PeerResend; 2])) {
        let (cause, certainty, evidence) = loss.judge(&replying, ns);
        let certainty = certainty.max(Certainty::Likely);
        rows.add(stage, cause, ns, certainty, evidence);
        return;
    }
    let cause = Cause::NotScheduled { by: None };
    let evidence = match ns > line.woke_ns - line.received_ns {
        true => vec![Evidence::ReadTogether],
        false => vec![],
    };
    // As at the responder; and no acknowledgement says more.
    rows.add(stage, cause, ns, Certainty::Likely, evidence);
}
