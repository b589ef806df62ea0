//! The bill of a late message, divided by what the kernel did on this machine meanwhile: which thread
//! had the CPU while the sending or the receiving thread was ready, and what kept received packets
//! from their softirq or from the thread of NAPI.

mod owners;
mod ready;
mod reception;

use punctual_record::path::bill::{
    Certainty, MessageBill, MessageCause as Cause, MessageEvidence as Evidence, MessageRow,
    MessageStage as Stage,
};

use super::event::Window;
pub use ready::Activity;
use reception::reception;

/// The instants of a message on this machine, CLOCK_MONOTONIC, and its threads.
#[derive(Debug, Clone, Copy, Default)]
pub struct Moments {
    /// When it was to be sent.
    pub requested_ns: u64,
    /// Before the call that sent it.
    pub call_ns: u64,
    /// When it was last passed to the driver; absent if that is not known.
    pub sent_ns: Option<u64>,
    /// When the kernel received the reply; absent if that is not known.
    pub received_ns: Option<u64>,
    /// When the receiving thread had it.
    pub woke_ns: u64,
    /// It read a later reply in the same call: `received_ns` is that one's.
    pub read_with_later: bool,
    /// The sending thread.
    pub sender: u32,
    /// The receiving thread.
    pub receiver: u32,
}

/// Shorter than this, nothing is late.
const LATE_NS: u64 = 50_000;

/// What was recorded on this machine while a message was under way.
pub trait Recording {
    /// What happened around a wait of a thread that ended with its reading of the clock.
    fn wake_up(&self, tid: u32, due_ns: u64, woken_ns: u64) -> Option<Window>;
    /// What happened on a thread's CPU between two instants at which it ran.
    fn call(&self, tid: u32, from_ns: u64, to_ns: u64) -> Option<Window>;
    /// What all CPUs did between two instants; `None` if some of it is not known.
    fn activity(&mut self, from_ns: u64, to_ns: u64) -> Option<&Activity>;
    /// The network device of the messages, where it is known.
    fn device(&self) -> Option<&str> {
        None
    }
}

/// Divides the rows of a bill whose cause the events show. The rows still sum to the latency.
/// Returns whether the events of that time are known.
pub fn divide(bill: &mut MessageBill, moments: &Moments, recording: &mut impl Recording) -> bool {
    let mut is_known = true;
    for index in (0..bill.rows.len()).rev() {
        let row = &bill.rows[index];
        let Some(time) = Time::of(row, &bill.rows, moments) else {
            continue;
        };
        match owners::of(row, &time, recording) {
            Some(owned) => {
                let delivery = owners::asleep_ns(row, &owned)
                    .and_then(|ns| delivery(moments, time.from_ns, ns, recording));
                owners::replace(&mut bill.rows, index, owned, delivery);
            }
            None => is_known = false,
        }
    }
    if bill.rows.iter().any(is_unknown_reception) {
        is_known &= receive(bill, moments, recording);
    }
    bill.rows.sort_by_key(|row| row.stage);
    is_known
}

/// When a row's thread was to run, and did not.
struct Time {
    tid: u32,
    from_ns: u64,
    to_ns: u64,
    /// When it ran again, if that was later.
    ran_ns: u64,
    /// It ran at both ends: it was interrupted.
    in_call: bool,
}

impl Time {
    fn of(row: &MessageRow, rows: &[MessageRow], moments: &Moments) -> Option<Self> {
        let between = |tid, from_ns, to_ns, in_call| Self {
            tid,
            from_ns,
            to_ns,
            ran_ns: to_ns,
            in_call,
        };
        let from =
            |tid, at_ns: u64, in_call| between(tid, at_ns, at_ns.saturating_add(row.ns), in_call);
        let upto =
            |tid, at_ns: u64, in_call| between(tid, at_ns.saturating_sub(row.ns), at_ns, in_call);
        let asleep = row.cause == Cause::NotScheduled { by: None };
        Some(match row.stage {
            Stage::Start if asleep => from(moments.sender, moments.requested_ns, false),
            Stage::Send if asleep => from(moments.sender, moments.call_ns, true),
            Stage::Queue if asleep => upto(moments.sender, moments.sent_ns?, true),
            Stage::WakeUp if asleep => upto(moments.receiver, moments.woke_ns, false),
            // It may have come long before the time stamp, and waited for the thread.
            Stage::Way if row.cause == Cause::Way && moments.read_with_later => {
                let wake_ups = rows.iter().filter(|it| it.stage == Stage::WakeUp);
                let wake_ns: u64 = wake_ups.map(|it| it.ns).sum();
                let to_ns = moments.woke_ns.saturating_sub(wake_ns);
                Self {
                    ran_ns: moments.woke_ns,
                    ..upto(moments.receiver, to_ns, false)
                }
            }
            _ => return None,
        })
    }
}

/// Moves time of which nothing is known to what kept the reply from being received.
fn receive(bill: &mut MessageBill, moments: &Moments, recording: &mut impl Recording) -> bool {
    let (Some(sent_ns), Some(received_ns)) = (moments.sent_ns, moments.received_ns) else {
        return true;
    };
    let times = (moments.requested_ns, moments.woke_ns);
    match reception(times, (sent_ns, received_ns), recording) {
        Some(Some((cause, ns))) => move_to_reception(bill, cause, ns),
        Some(None) => {}
        None => return false,
    }
    true
}

/// What kept a reply that the kernel had received from the thread: it was not woken for so long. By
/// default the time stamp is taken before a packet waits for the CPU that it is steered to (RPS,
/// `net.core.netdev_tstamp_prequeue`).
fn delivery(
    moments: &Moments,
    received_ns: u64,
    asleep_ns: u64,
    recording: &mut impl Recording,
) -> Option<(Cause, u64)> {
    let times = (moments.requested_ns, moments.woke_ns);
    let until_ns = received_ns.saturating_add(asleep_ns);
    reception(times, (received_ns, until_ns), recording)?
}

/// What kept a message from being received here that came at `since_ns` at the earliest, and got its
/// time stamp at `received_ns`; and for how long at most, because when it came is not known.
pub fn received_late(
    since_ns: u64,
    received_ns: u64,
    recording: &mut impl Recording,
) -> Option<(Cause, u64)> {
    let times = (since_ns, received_ns);
    reception(times, times, recording)?
}

/// A row of the way of which nothing else is known, or one that was inferred from another message's
/// time stamp: the events are better.
fn is_unknown_reception(row: &MessageRow) -> bool {
    let asleep = Cause::NotScheduled { by: None };
    let is_unknown = row.stage == Stage::Way && row.cause == Cause::Way
        || row.stage == Stage::WakeUp
            && row.cause == asleep
            && row.evidence.contains(&Evidence::ReadTogether);
    is_unknown && row.ns > LATE_NS
}

/// Moves time of the way, of which nothing else is known, to the reception.
fn move_to_reception(bill: &mut MessageBill, cause: Cause, ns: u64) {
    let Some(at) = bill.rows.iter().position(is_unknown_reception) else {
        return;
    };
    let ns = ns.min(bill.rows[at].ns);
    bill.rows[at].ns -= ns;
    if bill.rows[at].ns == 0 {
        bill.rows.remove(at);
    }
    let row = MessageRow {
        stage: Stage::Receive,
        cause,
        ns,
        certainty: Certainty::Likely,
        evidence: vec![Evidence::Events],
    };
    row.add_to(&mut bill.rows);
}
