//! The account of all late messages: a ranking of causes, and the worst bills in full.

use std::collections::BTreeMap;

use punctual_record::path::bill::{
    MessageBill, MessageBills, MessageCause as Cause, MessageRow, MessageSide, RankedMessageCause,
};

/// The account. Its memory is bounded.
#[derive(Clone)]
pub struct Ledger {
    bills: MessageBills,
    ranking: BTreeMap<(MessageSide, Cause), Ranked>,
}

#[derive(Debug, Clone, Copy, Default)]
struct Ranked {
    count: u64,
    main: u64,
    total_ns: u64,
    worst_ns: u64,
}

impl Ledger {
    /// Of messages that are later than `above_ns`.
    pub fn new(above_ns: u64) -> Self {
        Self {
            bills: MessageBills {
                above_ns,
                ..MessageBills::default()
            },
            ranking: BTreeMap::new(),
        }
    }

    /// Whether a message of this latency counts. A sum of more than 584 years is of nonsense.
    pub fn counts(&self, latency_ns: u64) -> bool {
        latency_ns > self.bills.above_ns && self.bills.late_ns.checked_add(latency_ns).is_some()
    }

    /// The kernel's events of this machine have divided a bill.
    pub fn add_traced(&mut self) {
        self.bills.traced += 1;
    }

    /// Those of the responder's machine have.
    pub fn add_peer_traced(&mut self) {
        self.bills.peer_traced += 1;
    }

    /// Whether a bill of this latency would be among the worst.
    pub fn keeps(&self, latency_ns: u64) -> bool {
        self.place(latency_ns) < MessageBills::WORST
    }

    /// Counts a bill.
    pub fn count(&mut self, bill: MessageBill) {
        self.rank(&bill);
        let place = self.place(bill.latency_ns);
        let worst = &mut self.bills.worst;
        if place < MessageBills::WORST {
            worst.insert(place, bill);
            worst.truncate(MessageBills::WORST);
        }
    }

    /// The bills, as the record has them.
    pub fn to_record(&self) -> MessageBills {
        let mut bills = self.bills.clone();
        bills.ranking = self
            .ranking
            .iter()
            .map(|((side, cause), ranked)| RankedMessageCause {
                side: *side,
                cause: cause.clone(),
                count: ranked.count,
                main: ranked.main,
                total_ns: ranked.total_ns,
                worst_ns: ranked.worst_ns,
            })
            .collect();
        bills
            .ranking
            .sort_by_key(|ranked| std::cmp::Reverse(ranked.total_ns));
        bills
    }

    fn rank(&mut self, bill: &MessageBill) {
        self.bills.late += 1;
        self.bills.explained += u64::from(bill.is_explained());
        self.bills.late_ns += bill.latency_ns;
        let key = |row: &MessageRow| (row.stage.side(), row.cause.general());
        let main = bill.main().map(key);
        let mut sums: BTreeMap<(MessageSide, Cause), u64> = BTreeMap::new();
        for row in &bill.rows {
            *sums.entry(key(row)).or_default() += row.ns;
        }
        let mut counted: Vec<(MessageSide, Cause)> = Vec::new();
        for (key, ns) in sums {
            let is_main = main.as_ref() == Some(&key);
            // Room stays for the others of each side.
            let is_full = self.ranking.len() + 3 >= MessageBills::CAUSES;
            let key = if is_full && !self.ranking.contains_key(&key) {
                (key.0, Cause::Other)
            } else {
                key
            };
            let again = counted.contains(&key);
            let ranked = self.ranking.entry(key.clone()).or_default();
            ranked.count += u64::from(!again);
            ranked.main += u64::from(is_main);
            ranked.total_ns += ns;
            ranked.worst_ns = ranked.worst_ns.max(ns);
            counted.push(key);
        }
    }

    /// The place among the worst, from 0 on.
    fn place(&self, latency_ns: u64) -> usize {
        let worst = &self.bills.worst;
        worst.partition_point(|it| it.latency_ns >= latency_ns)
    }
}
