//! The exchanges that are kept whole: the slowest, and some of the lost.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use crate::exchange::Exchange;

/// Exchanges with a reply that are kept.
const SLOWEST: usize = 1024;
/// Lost messages that are kept: the first, and the last.
const LOST: usize = 128;

/// An exchange by its latency.
struct ByLatency(u64, Exchange);

impl PartialEq for ByLatency {
    fn eq(&self, other: &Self) -> bool {
        self.0 == other.0
    }
}

impl Eq for ByLatency {}

impl PartialOrd for ByLatency {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for ByLatency {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        self.0.cmp(&other.0)
    }
}

/// What is kept, in constant memory.
pub struct Kept {
    late_ns: u64,
    /// The fastest of them on top.
    slowest: BinaryHeap<Reverse<ByLatency>>,
    lost: Vec<Exchange>,
    /// Exchanges later than the limit.
    late: u64,
    /// Lost messages.
    missing: u64,
}

impl Kept {
    /// Nothing yet.
    #[must_use]
    pub fn new(late_ns: u64) -> Self {
        Self {
            late_ns,
            slowest: BinaryHeap::with_capacity(SLOWEST + 1),
            lost: Vec::new(),
            late: 0,
            missing: 0,
        }
    }

    /// Keeps an exchange if it is among the slowest.
    pub fn offer(&mut self, exchange: Exchange, is_lost: bool) {
        if is_lost {
            self.missing += 1;
            if self.lost.len() < 2 * LOST {
                self.lost.push(exchange);
            } else if let Some(last) = self.lost.last_mut() {
                *last = exchange;
            }
            return;
        }
        let latency_ns = exchange.latency_ns().unwrap_or(0);
        self.late += u64::from(latency_ns > self.late_ns);
        let is_full = self.slowest.len() >= SLOWEST;
        let fastest = self.slowest.peek().map_or(0, |Reverse(it)| it.0);
        if is_full && latency_ns <= fastest {
            return;
        }
        if is_full {
            self.slowest.pop();
        }
        self.slowest.push(Reverse(ByLatency(latency_ns, exchange)));
    }

    /// Exchanges later than the limit, and lost messages.
    #[must_use]
    pub fn misses(&self) -> (u64, u64) {
        (self.late, self.missing)
    }

    /// All that are kept, in order of time.
    #[must_use]
    pub fn in_order(&self) -> Vec<Exchange> {
        let slowest = self.slowest.iter().map(|Reverse(it)| it.1);
        let mut all: Vec<Exchange> = slowest.chain(self.lost.iter().copied()).collect();
        all.sort_by_key(|it| it.sequence);
        all
    }
}
