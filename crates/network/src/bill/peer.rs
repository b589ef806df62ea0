//! Bills that wait for what the responder knows of them: it says at the end of a session what had the
//! CPU of its thread.

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

/// The bills in which the responder's thread was late.
#[derive(Default)]
pub struct Awaiting {
    bills: Vec<MessageBill>,
}

impl Awaiting {
    /// Takes a bill, and returns the one that waits no longer: this one if the responder has no part in
    /// it, or the shortest if there are too many.
    pub fn take(&mut self, bill: MessageBill) -> Option<MessageBill> {
        if !bill.rows.iter().any(is_open) {
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
                divide(&mut bill, delay);
                ledger.add_peer_traced();
            }
            ledger.count(bill);
        }
    }
}

/// The responder's thread was late, by what is not known.
fn is_open(row: &MessageRow) -> bool {
    let is_late = row.cause == Cause::NotScheduled { by: None } && row.ns > LATE_NS;
    row.stage == Stage::PeerWakeUp && is_late
}

fn open_ns(bill: &MessageBill) -> u64 {
    let open = bill.rows.iter().filter(|row| is_open(row));
    open.map(|row| row.ns).sum()
}

/// Divides the row of the responder's thread: it keeps what nothing is said of.
fn divide(bill: &mut MessageBill, delay: &PeerDelay) {
    let Some(at) = bill.rows.iter().position(is_open) else {
        return;
    };
    let mut row = bill.rows.remove(at);
    if delay.read_with_later {
        take_from_the_way(bill, &mut row, delay.ns());
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
    let unknown = |it: &&mut MessageRow| it.stage == Stage::Way && it.cause == Cause::Way;
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

#[cfg(test)]
mod tests {
    use punctual_record::path::bill::Runner;

    use super::*;

    const MS: u64 = 1_000_000;

    fn bill(sequence: u64, late_ns: u64) -> MessageBill {
        let row = |stage, cause, ns| MessageRow {
            stage,
            cause,
            ns,
            certainty: Certainty::Certain,
            evidence: Vec::new(),
        };
        MessageBill {
            sequence,
            requested_ns: 1,
            size: 64,
            latency_ns: late_ns + 40_000,
            rows: vec![
                row(Stage::Start, Cause::Usual, 10_000),
                row(Stage::PeerWakeUp, Cause::NotScheduled { by: None }, late_ns),
                row(Stage::WakeUp, Cause::Usual, 30_000),
            ],
        }
    }

    fn hog(ns: u64) -> (Runner, u64) {
        let runner = Runner {
            task: "hog".to_owned(),
            ..Runner::default()
        };
        (runner, ns)
    }

    fn settled(late_ns: u64, by: Vec<(Runner, u64)>) -> Vec<(Stage, Cause, u64)> {
        let mut ledger = Ledger::new(MS);
        let mut awaiting = Awaiting::default();
        assert_eq!(awaiting.take(bill(7, late_ns)), None);
        let delay = PeerDelay {
            sequence: 7,
            by,
            ..PeerDelay::default()
        };
        awaiting.settle(&[delay], &mut ledger);
        let bills = ledger.to_record();
        assert!(bills.is_consistent());
        assert_eq!((bills.late, bills.peer_traced), (1, 1));
        let rows = bills.worst[0].rows.iter();
        let rows = rows.map(|row| (row.stage, row.cause.clone(), row.ns));
        rows.filter(|(stage, ..)| *stage == Stage::PeerWakeUp)
            .collect()
    }

    #[test]
    fn the_responders_part_is_divided_and_the_sum_stays() {
        let by = |by: Option<Runner>| Cause::NotScheduled { by };
        let peer = |cause, ns| (Stage::PeerWakeUp, cause, ns);
        let named = by(Some(hog(0).0));
        assert_eq!(
            settled(5 * MS, vec![hog(4 * MS)]),
            [peer(named.clone(), 4 * MS), peer(by(None), MS)]
        );
        // What is left is usual if it is short.
        assert_eq!(
            settled(5 * MS, vec![hog(5 * MS - 1_000)]),
            [
                peer(named.clone(), 5 * MS - 1_000),
                peer(Cause::Usual, 1_000)
            ]
        );
        // It can't take more than there is.
        assert_eq!(
            settled(5 * MS, vec![hog(u64::MAX), hog(3)]),
            [peer(named, 5 * MS)]
        );
        assert_eq!(settled(5 * MS, Vec::new()), [peer(by(None), 5 * MS)]);
    }

    #[test]
    fn a_message_that_was_read_with_later_ones_may_have_waited_before_their_time_stamp() {
        let divided = |read_with_later| {
            let mut made = bill(7, 4 * MS);
            made.latency_ns += 20 * MS;
            made.rows.push(MessageRow {
                stage: Stage::Way,
                cause: Cause::Way,
                ns: 20 * MS,
                ..made.rows[0].clone()
            });
            let delay = PeerDelay {
                sequence: 7,
                read_with_later,
                by: vec![hog(30 * MS)],
            };
            divide(&mut made, &delay);
            let sum: u64 = made.rows.iter().map(|row| row.ns).sum();
            assert_eq!(sum, made.latency_ns);
            let hogs = made
                .rows
                .iter()
                .find(|row| row.evidence.contains(&Evidence::PeerEvents));
            hogs.map(|row| (row.ns, row.certainty)).unwrap()
        };
        assert_eq!(divided(true), (24 * MS, Certainty::Likely));
        assert_eq!(divided(false), (4 * MS, Certainty::Certain));
    }

    #[test]
    fn what_the_responder_has_no_part_in_does_not_wait() {
        let mut awaiting = Awaiting::default();
        let mut other = bill(1, 5 * MS);
        other.rows[1].stage = Stage::WakeUp;
        assert!(awaiting.take(other).is_some());
        let short = bill(2, LATE_NS);
        assert!(awaiting.take(short).is_some());
    }

    #[test]
    fn of_too_many_the_longest_wait_and_none_is_counted_twice() {
        let mut ledger = Ledger::new(MS);
        let mut awaiting = Awaiting::default();
        let all = MOST as u64 + 100;
        for sequence in 1..=all {
            if let Some(bill) = awaiting.take(bill(sequence, sequence * MS)) {
                ledger.count(bill);
            }
        }
        // As they would be if the session ended now.
        let mut copy = ledger.clone();
        awaiting.count_in(&mut copy);
        assert_eq!(copy.to_record().late, all);
        assert_eq!(ledger.to_record().late, 100);
        let delays: Vec<PeerDelay> = (1..=all)
            .map(|sequence| PeerDelay {
                sequence,
                by: vec![hog(MS)],
                ..PeerDelay::default()
            })
            .collect();
        awaiting.settle(&delays, &mut ledger);
        let bills = ledger.to_record();
        assert!(bills.is_consistent());
        assert_eq!((bills.late, bills.peer_traced), (all, MOST as u64));
        awaiting.settle(&delays, &mut ledger);
        assert_eq!(ledger.to_record().late, all);
    }
}
