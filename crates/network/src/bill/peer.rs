//! Bills that wait for what the responder knows of them: it says at the end of a session what had the
//! CPU of its thread, and what kept messages from being received there.

use std::collections::BTreeMap;

use punctual_record::path::bill::{
    Certainty, MessageBill, MessageCause as Cause, MessageEvidence as Evidence, MessageRow,
    MessageStage as Stage,
};

use super::LATE_NS;
use super::ledger::Ledger;
use crate::wire::delays::PeerDelay;

/// Bills that wait at most.
const MOST: usize = 1024;

/// The bills in which the responder's thread was late, or in which the way was long.
#[derive(Default)]
pub struct Awaiting {
    bills: Vec<MessageBill>,
}

impl Awaiting {
    /// Takes a bill, and returns the one that waits no longer: this one if the responder has no part in
    /// it, or the shortest if there are too many.
    pub fn take(&mut self, bill: MessageBill) -> Option<MessageBill> {
        if open_ns(&bill) == 0 {
            return Some(bill);
        }
        self.bills.push(bill);
        if self.bills.len() <= MOST {
            return None;
        }
        let waits = |at: &usize| open_ns(&self.bills[*at]);
        let shortest = (0..self.bills.len()).min_by_key(waits)?;
        Some(self.bills.swap_remove(shortest))
    }

    /// Counts the bills as they are.
    pub fn count_in(&self, ledger: &mut Ledger) {
        self.bills
            .iter()
            .for_each(|bill| ledger.count(bill.clone()));
    }

    /// Divides the bills by what the responder says, and counts them.
    pub fn settle(&mut self, delays: &[PeerDelay], ledger: &mut Ledger) {
        let delays: BTreeMap<u64, &PeerDelay> =
            delays.iter().map(|delay| (delay.sequence, delay)).collect();
        for mut bill in self.bills.drain(..) {
            if let Some(delay) = delays.get(&bill.sequence) {
                divide_wake_up(&mut bill, delay);
                divide_reception(&mut bill, delay);
                ledger.add_peer_traced();
            }
            ledger.count(bill);
        }
    }
}

/// The responder's thread was late, by what is not known.
fn is_late_wake_up(row: &MessageRow) -> bool {
    let is_late = row.cause == Cause::NotScheduled { by: None } && row.ns > LATE_NS;
    row.stage == Stage::PeerWakeUp && is_late
}

/// What a late reception on the responder's machine may have taken: of a part of the way nothing is
/// known, or a thread is said to have slept because a later message came in time for it.
fn is_unknown(row: &MessageRow) -> bool {
    let is_inferred = row.evidence.contains(&Evidence::ReadTogether);
    let is_unknown = match row.stage {
        Stage::Way => row.cause == Cause::Way,
        Stage::PeerWakeUp | Stage::WakeUp => {
            row.cause == Cause::NotScheduled { by: None } && is_inferred
        }
        _ => false,
    };
    is_unknown && row.ns > LATE_NS
}

fn open_ns(bill: &MessageBill) -> u64 {
    let is_open = |row: &&MessageRow| is_late_wake_up(row) || is_unknown(row);
    let open = bill.rows.iter().filter(is_open);
    open.map(|row| row.ns).sum()
}

/// Divides the row of the responder's thread: it keeps what nothing is said of.
fn divide_wake_up(bill: &mut MessageBill, delay: &PeerDelay) {
    let Some(at) = bill.rows.iter().position(is_late_wake_up) else {
        return;
    };
    let mut row = bill.rows.remove(at);
    if delay.read_with_later {
        take_from_the_way(bill, &mut row, delay.asleep_ns());
    }
    let certainty = match row.evidence.contains(&Evidence::ReadTogether) {
        true => row.certainty,
        false => Certainty::Certain,
    };
    let mut left_ns = row.ns;
    for (runner, ns) in &delay.by {
        let ns = (*ns).min(left_ns);
        if bill.rows.len() + 1 >= MessageBill::ROWS {
            break;
        }
        left_ns -= ns;
        let by = Some(runner.clone());
        let mut evidence = row.evidence.clone();
        evidence.truncate(MessageRow::EVIDENCE - 1);
        evidence.push(Evidence::PeerEvents);
        let part = MessageRow {
            cause: Cause::NotScheduled { by },
            ns,
            certainty,
            evidence,
            ..row.clone()
        };
        part.add_to(&mut bill.rows);
    }
    let cause = match left_ns <= LATE_NS {
        true => Cause::Usual,
        false => row.cause.clone(),
    };
    let ns = left_ns;
    MessageRow { cause, ns, ..row }.add_to(&mut bill.rows);
    bill.rows.sort_by_key(|row| row.stage);
}

/// The message may have waited for the thread, which was ready, before the time stamp of a later one:
/// what is not known of its way is less by that.
fn take_from_the_way(bill: &mut MessageBill, row: &mut MessageRow, waited_ns: u64) {
    let unknown = |it: &&mut MessageRow| it.stage == Stage::Way && is_unknown(it);
    let Some(way) = bill.rows.iter_mut().find(unknown) else {
        return;
    };
    let ns = waited_ns.saturating_sub(row.ns).min(way.ns);
    if ns <= LATE_NS {
        return;
    }
    way.ns -= ns;
    row.ns += ns;
    row.certainty = Certainty::Likely;
    row.show(Evidence::ReadTogether);
    bill.rows.retain(|row| row.ns > 0);
}

/// Divides what is not known, the way first: the message was received late by at most what the responder
/// says.
fn divide_reception(bill: &mut MessageBill, delay: &PeerDelay) {
    let Some(reception) = &delay.reception else {
        return;
    };
    let open = bill.rows.iter().filter(|row| is_unknown(row));
    let open_ns: u64 = open.map(|row| row.ns).sum();
    let ns = reception.ns.min(open_ns);
    if ns <= LATE_NS || bill.rows.len() >= MessageBill::ROWS {
        return;
    }
    let mut left_ns = ns;
    for mut row in std::mem::take(&mut bill.rows) {
        if is_unknown(&row) {
            let taken_ns = left_ns.min(row.ns);
            left_ns -= taken_ns;
            row.ns -= taken_ns;
            if row.ns <= LATE_NS {
                row.cause = Cause::Usual;
                row.certainty = Certainty::Certain;
                row.evidence.clear();
            }
        }
        row.add_to(&mut bill.rows);
    }
    let row = MessageRow {
        stage: Stage::PeerReceive,
        cause: reception.cause(),
        ns,
        // It may have come at any moment of that time.
        certainty: Certainty::Likely,
        evidence: vec![Evidence::PeerEvents],
    };
    row.add_to(&mut bill.rows);
    bill.rows.sort_by_key(|row| row.stage);
}

#[cfg(test)]
mod tests;
