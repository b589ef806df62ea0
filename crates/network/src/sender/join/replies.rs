//! Gives replies to their messages.

use super::Joiner;
use crate::exchange::{PeerStages, Reply};
use crate::sender::Received;
use crate::wire::data::{Earlier, read_stages};

/// Replies that may wait for the report of their message.
pub(super) const MOST_EARLY: usize = 1 << 12;

impl Joiner {
    /// Gives each reply to its message.
    pub(super) fn match_replies(&mut self) {
        // A reply may be here before the sending thread has reported its message.
        let known = self.first + self.pending.len() as u64;
        for _ in 0..self.early.len() {
            let Some(received) = self.early.pop_front() else {
                break;
            };
            if received.sequence >= known {
                self.early.push_back(received);
            } else {
                self.match_reply(&received);
            }
        }
        // More than the sending thread can be behind: they are of no message.
        while self.early.len() > MOST_EARLY {
            self.early.pop_front();
            self.counts.foreign += 1;
        }
    }

    fn match_reply(&mut self, received: &Received) {
        let sequence = received.sequence;
        if sequence == 0 {
            self.counts.foreign += 1;
            return;
        }
        let stages = read_stages(&received.bytes[..]).unwrap_or_default();
        if let Some(earlier) = &stages.earlier {
            self.put_earlier(sequence, earlier);
        }
        let index = sequence.checked_sub(self.first);
        let pending = index.and_then(|index| self.pending.get_mut(index as usize));
        let Some(pending) = pending else {
            self.again(sequence);
            return;
        };
        if pending.exchange.requested_ns != received.requested_ns
            || pending.exchange.size != received.size
        {
            self.counts.foreign += 1;
            return;
        }
        if pending.is_decided() {
            self.again(sequence);
            return;
        }
        self.undecided = self.undecided.saturating_sub(1);
        let woke_ns = stages.woke_ns;
        let received_before = stages.received_before_ns;
        pending.exchange.peer = Some(PeerStages {
            rx_software_ns: received_before.map(|before| woke_ns.saturating_sub(before.into())),
            woke_ns,
            send_begin_ns: woke_ns.saturating_add(stages.sent_after_ns.into()),
            ..PeerStages::default()
        });
        let some = |ns: u64| (ns > 0).then_some(ns);
        pending.exchange.reply = Some(Reply {
            rx_software_ns: some(received.software_ns),
            rx_hardware_ns: some(received.hardware_ns),
            woke_ns: received.woke_ns,
        });
        let latency_ns = pending.exchange.latency_ns().unwrap_or(0);
        self.counts.reordered += u64::from(sequence < self.highest);
        self.highest = self.highest.max(sequence);
        if self
            .rules
            .timeout_ns
            .is_some_and(|most_ns| latency_ns > most_ns)
        {
            // It is lost, and its stages are known.
            self.counts.after_timeout += u64::from(received.requested_ns >= self.from_ns);
            let index = (sequence - self.first) as usize;
            self.lose(index, false);
            return;
        }
        self.counts.replies += u64::from(received.requested_ns >= self.from_ns);
    }

    /// A reply of a message that was decided already.
    fn again(&mut self, sequence: u64) {
        match self.lost.iter().position(|lost| lost.sequence == sequence) {
            Some(at) => {
                let counts = self.lost.remove(at).is_some_and(|lost| lost.counts);
                self.counts.after_timeout += u64::from(counts);
            }
            None => self.counts.duplicates += 1,
        }
    }

    /// What became of an earlier reply.
    fn put_earlier(&mut self, sequence: u64, earlier: &Earlier) {
        let of = sequence.saturating_sub(earlier.before.into());
        let index = of.checked_sub(self.first);
        let pending = index.and_then(|index| self.pending.get_mut(index as usize));
        let Some(exchange) = pending.map(|pending| &mut pending.exchange) else {
            return;
        };
        exchange.peer_tcp = earlier.tcp;
        let Some(peer) = &mut exchange.peer else {
            return;
        };
        let begin_ns = peer.send_begin_ns;
        if let Some(first) = earlier.first_software_ns {
            peer.software.first_ns = begin_ns.saturating_add(first.into());
            let last = earlier.last_software_us.map(|us| u64::from(us) * 1000);
            let last_ns = begin_ns.saturating_add(last.unwrap_or(0));
            peer.software.last_ns = last_ns.max(peer.software.first_ns);
            peer.software.count = earlier.count.into();
        }
        if let Some(last) = earlier.last_scheduled_us {
            let at_ns = begin_ns.saturating_add(u64::from(last) * 1000);
            peer.scheduled.first_ns = at_ns;
            peer.scheduled.last_ns = at_ns;
            peer.scheduled.count = earlier.count.into();
        }
    }
}
