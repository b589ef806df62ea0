//! Exchanges made by hand.

use punctual_network::bill::{Context, bill};
use punctual_network::exchange::{
    Exchange, PeerStages, Reply, SentStages, TcpChange, TcpState, Transmissions,
};
use punctual_record::path::bill::{Certainty, MessageBill, MessageCause, MessageStage};

pub const US: u64 = 1_000;
pub const MS: u64 = 1_000_000;
/// The requested instant.
pub const DUE: u64 = 5_000 * MS;
/// The responder's clock is another.
pub const PEER: u64 = 77_000 * MS;

pub fn once(at_ns: u64) -> Transmissions {
    Transmissions {
        first_ns: at_ns,
        last_ns: at_ns,
        count: 1,
    }
}

pub fn twice(first_ns: u64, last_ns: u64) -> Transmissions {
    Transmissions {
        first_ns,
        last_ns,
        count: 2,
    }
}

pub fn state() -> TcpState {
    TcpState {
        rto_us: 204_000,
        rtt_us: 100,
        window: 40,
        segment_bytes: 1_448,
        ..TcpState::default()
    }
}

/// Nothing was counted.
pub fn counted() -> TcpChange {
    TcpChange {
        timeouts: Some(0),
        timeout_recoveries: Some(0),
        timeout_ms: Some(0),
        state: state(),
        ..TcpChange::default()
    }
}

pub fn lost(timeouts: u16) -> TcpChange {
    TcpChange {
        retransmits: 1,
        timeouts: Some(timeouts),
        ..counted()
    }
}

/// A message that took 100 us: 5 until the call, 4 to the packet scheduler, 1 to the driver, 20 there,
/// 10 to the responder's thread, 2 until its call, 4 and 1 to its driver, 43 back, 10 to the thread.
/// Whatever delays it moves what comes later: see [`Made::later`].
pub struct Made {
    pub exchange: Exchange,
    pub context: Context,
}

pub fn usual() -> Made {
    let exchange = Exchange {
        sequence: 9,
        size: 256,
        requested_ns: DUE,
        sent: SentStages {
            call_begin_ns: DUE + 5 * US,
            call_end_ns: DUE + 15 * US,
            scheduled: once(DUE + 9 * US),
            software: once(DUE + 10 * US),
            acknowledged_ns: Some(DUE + 40 * US),
            ..SentStages::default()
        },
        reply: Some(Reply {
            rx_software_ns: Some(DUE + 90 * US),
            rx_hardware_ns: None,
            woke_ns: DUE + 100 * US,
        }),
        peer: Some(PeerStages {
            rx_software_ns: Some(PEER),
            woke_ns: PEER + 10 * US,
            send_begin_ns: PEER + 12 * US,
            scheduled: once(PEER + 16 * US),
            software: once(PEER + 17 * US),
        }),
        tcp: Some(counted()),
        peer_tcp: Some(counted()),
        ..Exchange::default()
    };
    let context = Context {
        tcp: true,
        interval_ns: 1_000 * MS,
        way_ns: Some(63 * US),
        before: Some(state()),
        peer_before: Some(state()),
        idle_ns: Some(MS),
        slow_start_after_idle: Some(true),
        ..Context::default()
    };
    Made { exchange, context }
}

impl Made {
    /// The reply comes so much later.
    pub fn later(mut self, ns: u64) -> Self {
        let reply = self.exchange.reply.as_mut().unwrap();
        reply.rx_software_ns = reply.rx_software_ns.map(|at_ns| at_ns + ns);
        reply.woke_ns += ns;
        self
    }

    /// Everything from the packet scheduler on is so much later.
    pub fn held(mut self, ns: u64) -> Self {
        let sent = &mut self.exchange.sent;
        sent.scheduled = once(sent.scheduled.first_ns + ns);
        sent.software = once(sent.software.first_ns + ns);
        sent.acknowledged_ns = sent.acknowledged_ns.map(|at_ns| at_ns + ns);
        self.later(ns)
    }

    pub fn bill(&self) -> MessageBill {
        let bill = bill(&self.exchange, &self.context).unwrap();
        let sum: u64 = bill.rows.iter().map(|row| row.ns).sum();
        assert_eq!(sum, bill.latency_ns, "{bill:?}");
        bill
    }

    /// All rows as (stage, cause, us).
    pub fn rows(&self) -> Vec<(MessageStage, MessageCause, u64)> {
        let row = |row: &punctual_record::path::bill::MessageRow| {
            (row.stage, row.cause.clone(), row.ns / US)
        };
        self.bill().rows.iter().map(row).collect()
    }

    /// The main cause, its stage, its us and how sure it is.
    pub fn main(&self) -> (MessageStage, MessageCause, u64, Certainty) {
        let bill = self.bill();
        let main = bill.main().unwrap();
        (main.stage, main.cause.clone(), main.ns / US, main.certainty)
    }
}
