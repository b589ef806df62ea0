//! Who delayed the messages: causes, bills and fixes in words.

use std::collections::BTreeSet;

use punctual_record::path::bill::{
    Certainty, MessageBill, MessageBills, MessageCause as Cause, MessageEvidence as Evidence,
    MessageRow, MessageSide as Side, MessageStage as Stage, RankedMessageCause, Runner,
};
use punctual_record::path::fix::{MessageFix as Fix, fixes};

use crate::statements::{Fact, fact};
use crate::words;

/// Causes that a summary lists.
const CAUSES: usize = 6;
/// Fixes that a summary lists.
const FIXES: usize = 4;
/// A cause below this share of all late time, in per cent, is not listed.
const LEAST_PERCENT: u64 = 1;

/// The causes of the late messages, the worst bill and what to do.
#[must_use]
pub fn facts(bills: &MessageBills) -> Vec<Fact> {
    let above = words::duration(bills.above_ns);
    if bills.late == 0 {
        return vec![fact("Late messages", format!("none above {above}"))];
    }
    let mut text = format!(
        "{} above {above}, {} explained",
        words::count(bills.late),
        words::count(bills.explained)
    );
    if bills.traced > 0 {
        text += &format!(", {} with the kernel's events", words::count(bills.traced));
    }
    if bills.peer_traced > 0 {
        text += &format!(
            ", {} with those of the responder's",
            words::count(bills.peer_traced)
        );
    }
    let mut all = vec![fact("Late messages", text)];
    let listed = bills.ranking.iter().filter(|it| {
        let least_ns = bills.late_ns / 100 * LEAST_PERCENT;
        it.total_ns >= least_ns && !it.cause.is_usual()
    });
    let listed: Vec<&RankedMessageCause> = listed.take(CAUSES).collect();
    all.extend(
        listed
            .iter()
            .map(|it| fact("Delayed by", ranked(it, bills))),
    );
    if let Some(worst) = bills.worst.first() {
        all.push(fact("Worst message", lines(worst).join("; ")));
    }
    all.extend(advice(bills).into_iter().map(|it| fact("What to do", it)));
    all
}

fn ranked(ranked: &RankedMessageCause, bills: &MessageBills) -> String {
    let share = u128::from(ranked.total_ns) * 100 / u128::from(bills.late_ns.max(1));
    format!(
        "{}{}: {share} % of the late time, in {}, at most {}",
        name(&ranked.cause),
        place(ranked.side),
        words::plural(ranked.count, "message", "messages"),
        words::duration(ranked.worst_ns)
    )
}

fn place(side: Side) -> &'static str {
    match side {
        Side::Sender => " (here)",
        Side::Path => "",
        Side::Responder => " (at the responder)",
    }
}

/// A bill as lines: each row, then the latency that they sum to.
#[must_use]
pub fn lines(bill: &MessageBill) -> Vec<String> {
    let mut lines: Vec<String> = bill.rows.iter().map(row).collect();
    lines.push(format!(
        "{} in all, message {} of {}",
        words::duration(bill.latency_ns),
        bill.sequence,
        words::bytes(bill.size.into())
    ));
    lines
}

fn row(row: &MessageRow) -> String {
    let sure = match row.certainty {
        Certainty::Certain => "",
        Certainty::Likely => ", likely",
        Certainty::Possible => ", possibly",
    };
    let shown: Vec<String> = row.evidence.iter().map(evidence).collect();
    let shown = match shown.is_empty() {
        true => String::new(),
        false => format!(" [{}]", shown.join(", ")),
    };
    format!(
        "{} {}{sure} ({}){shown}",
        words::duration(row.ns),
        name(&row.cause),
        stage(row.stage)
    )
}

/// What a cause is called.
#[must_use]
pub fn name(cause: &Cause) -> String {
    let instead = |by: &Option<Runner>| match by {
        Some(by) => format!(": {} had the CPU", runner(by)),
        None => String::new(),
    };
    match cause {
        Cause::Usual => "as usual".to_owned(),
        Cause::NotScheduled { by } => format!("thread not scheduled{}", instead(by)),
        Cause::Work => "the responder's own work".to_owned(),
        Cause::SendBuffer => "send buffer full".to_owned(),
        Cause::ReceiveWindow => "receive window closed".to_owned(),
        Cause::Nagle => "Nagle's algorithm".to_owned(),
        Cause::DelayedAck => "delayed acknowledgement".to_owned(),
        Cause::CongestionWindow => "congestion window smaller than the message".to_owned(),
        Cause::IdleRestart => "slow start after idle time".to_owned(),
        Cause::Neighbour => "neighbour's address not known (ARP, NDP)".to_owned(),
        Cause::Pacing => "pacing".to_owned(),
        Cause::Queue => "in the queue: other data, or its own delay or rate".to_owned(),
        Cause::Timeout => "lost; the retransmission timer expired".to_owned(),
        Cause::LossProbe => "lost; found by a tail loss probe".to_owned(),
        Cause::FastRetransmit => "lost; fast retransmission".to_owned(),
        Cause::Retransmission => "lost and sent again".to_owned(),
        Cause::Softirq { by } => {
            format!("received packets waited for their softirq{}", instead(by))
        }
        Cause::NapiThread { thread, by } => {
            format!(
                "received packets waited for {}{}",
                runner(thread),
                instead(by)
            )
        }
        Cause::Backlog => "a thread used the socket".to_owned(),
        Cause::Way => "on the way: wire, cards, or a kernel's receive path".to_owned(),
        Cause::Other => "others".to_owned(),
        Cause::Unexplained => "unexplained".to_owned(),
    }
}

fn runner(runner: &Runner) -> String {
    let name = words::clean(&runner.task);
    let policy = words::clean(&runner.policy);
    match (policy.is_empty(), runner.priority) {
        (true, _) => name,
        (false, 0) => format!("{name} ({policy})"),
        (false, priority) => format!("{name} ({policy} {priority})"),
    }
}

fn stage(stage: Stage) -> &'static str {
    match stage {
        Stage::Start => "due → call",
        Stage::Send => "call → packet scheduler",
        Stage::Queue => "packet scheduler → driver",
        Stage::Resend => "first → last transmission",
        Stage::Way => "both ways",
        Stage::Receive => "card → kernel, here",
        Stage::PeerReceive => "card → kernel, there",
        Stage::PeerWakeUp => "kernel → thread, there",
        Stage::PeerWork => "thread → call, there",
        Stage::PeerSend => "call → packet scheduler, there",
        Stage::PeerQueue => "packet scheduler → driver, there",
        Stage::PeerResend => "first → last transmission, there",
        Stage::WakeUp => "kernel → thread, here",
    }
}

fn evidence(evidence: &Evidence) -> String {
    match *evidence {
        Evidence::Retransmits { count } => format!("{count} retransmitted"),
        Evidence::Timeouts { count } => format!("{count} time-outs of the timer"),
        Evidence::TimeoutsNotCounted => "this kernel does not count time-outs".to_owned(),
        Evidence::RetransmissionTimeout { us } => {
            format!("time-out {}", words::duration(u64::from(us) * 1000))
        }
        Evidence::Transmissions { count } => format!("{count} transmissions"),
        Evidence::DroppedInQueue => {
            "dropped by the queue of this machine, before its driver".to_owned()
        }
        Evidence::WindowLimited { us } => {
            format!(
                "window closed for {}",
                words::duration(us.saturating_mul(1000))
            )
        }
        Evidence::BufferLimited { us } => {
            format!(
                "buffer full for {}",
                words::duration(us.saturating_mul(1000))
            )
        }
        Evidence::Blocked => "the call found the buffer full".to_owned(),
        Evidence::AfterCall { ns } => format!("{} after the call", words::duration(ns)),
        Evidence::InCall { ns } => format!("{} in the call", words::duration(ns)),
        Evidence::Outstanding { count } => format!("{count} before it without a reply"),
        Evidence::AcknowledgedAfter { ns } => {
            format!("acknowledged after {}", words::duration(ns))
        }
        Evidence::IdleBefore { ns } => format!("nothing sent for {}", words::duration(ns)),
        Evidence::Segments { count, window } => format!("{count} segments, window {window}"),
        Evidence::EarlierData => "with earlier data".to_owned(),
        Evidence::ReadTogether => "read together with the next".to_owned(),
        Evidence::UsualWay { ns } => format!("at best {}", words::duration(ns)),
        Evidence::ClockStep { ns } => {
            let by = words::duration(ns.unsigned_abs());
            format!("the clock was set by {by}: time stamps may be wrong")
        }
        Evidence::Contradiction { ns } => {
            format!("time stamps contradict by {}", words::duration(ns))
        }
        Evidence::HardwareStamps => "time stamps of the card".to_owned(),
        Evidence::Events => "events of the kernel".to_owned(),
        Evidence::PeerEvents => "events of the responder's kernel".to_owned(),
    }
}

/// What to do against the most expensive causes, each piece of advice once.
fn advice(bills: &MessageBills) -> Vec<String> {
    let mut given = BTreeSet::new();
    let mut all = Vec::new();
    for ranked in bills.ranking.iter().filter(|it| !it.cause.is_usual()) {
        let stage = match ranked.side {
            Side::Responder => Stage::PeerWakeUp,
            Side::Sender | Side::Path => Stage::WakeUp,
        };
        if ranked.total_ns < bills.late_ns / 20 {
            continue;
        }
        for fix in fixes(stage, &ranked.cause) {
            if given.insert(*fix) && all.len() < FIXES {
                all.push(format!("{}: {}", name(&ranked.cause), text(*fix)));
            }
        }
    }
    all
}

/// A fix in words, with what to type or call.
#[must_use]
pub fn text(fix: Fix) -> &'static str {
    match fix {
        Fix::SenderPriority => {
            "give the sending and the receiving thread a real-time priority above that (chrt -f 80), \
             on a CPU of their own"
        }
        Fix::ResponderPriority => {
            "give the responder's thread a real-time priority above that (chrt -f 80), on a CPU of \
             its own"
        }
        Fix::LessWork => "do less between receiving and replying, or reply first",
        Fix::SendBuffer => "setsockopt(SO_SNDBUF) above the bytes of a burst, or send less at once",
        Fix::ReceiveBuffer => {
            "read sooner on the other side, or setsockopt(SO_RCVBUF) there before it connects"
        }
        Fix::NoDelay => "setsockopt(TCP_NODELAY, 1) on both sides",
        Fix::OneCall => "send each message with one call (writev, MSG_MORE)",
        Fix::QuickAck => {
            "ip route change NETWORK dev DEVICE quickack 1 on the side that acknowledges late, or \
             setsockopt(TCP_QUICKACK, 1) after each recv"
        }
        Fix::SlowStartAfterIdle => "sysctl -w net.ipv4.tcp_slow_start_after_idle=0",
        Fix::InitialWindow => {
            "ip route change NETWORK dev DEVICE initcwnd SEGMENTS, at least those of a message"
        }
        Fix::PermanentNeighbour => {
            "ip neigh replace ADDRESS lladdr MAC dev DEVICE nud permanent, on both sides"
        }
        Fix::NoPacing => {
            "remove SO_MAX_PACING_RATE, or setsockopt(TCP_CONGESTION, \"cubic\") instead of bbr"
        }
        Fix::QueuePriority => {
            "setsockopt(SO_PRIORITY, 6), which pfifo_fast and prio obey (not noqueue)"
        }
        Fix::BulkRate => {
            "limit the bulk data: setsockopt(SO_MAX_PACING_RATE) there, or a class of HTB"
        }
        Fix::RtoMin => {
            "ip route change NETWORK dev DEVICE rto_min 5ms, on both sides (or TCP_RTO_MIN_US)"
        }
        Fix::Padding => {
            "send three small segments after each message (TCP_NODELAY, calls of their own): their \
             acknowledgements show a lost message after one round trip"
        }
        Fix::NoLoss => "find where packets are lost: ip -s link, ethtool -S, nstat, the switch",
        Fix::NapiPriority => {
            "give it a priority above that: chrt -f -p 85 $(pgrep napi/DEVICE), or punctual tune \
             apply napi@DEVICE=threads:85"
        }
        Fix::NapiInSoftirq => {
            "echo 0 > /sys/class/net/DEVICE/threaded, or punctual tune apply napi@DEVICE=softirq"
        }
        Fix::ReceiveCpu => {
            "move the card's interrupt to a CPU without that: echo CPU > \
             /proc/irq/N/smp_affinity_list"
        }
        Fix::LookCloser => {
            "run this as root without --no-explain and `respond --explain` to record the kernels' \
             events, or use a card with time stamps"
        }
    }
}
