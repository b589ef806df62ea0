//! The bills of a run: a ranking over all late messages, and the worst in full.

use punctual_record::path::bill::{MessageBill, MessageBills};

use super::ledger::Ledger;
use super::peer::Awaiting;
use super::{Context, Held, bill, held, losses, way_ns};
use crate::exchange::{Exchange, TcpChange, TcpState};
use crate::wire::delays::PeerDelay;

/// Makes the bills of messages that come in the order of their numbers. Its memory is bounded.
pub struct Keeper {
    settings: Context,
    way_ns: Option<u64>,
    /// Exchanges that were read together, as far as it is known until the next comes.
    pending: Vec<Exchange>,
    held: Option<Held>,
    /// The exchange before, and the state of the responder's connection before that.
    before: Option<Exchange>,
    peer_state: Option<TcpState>,
    lost: Waiting,
    lost_replies: Waiting,
    ledger: Ledger,
    awaiting: Option<Awaiting>,
    refine: Option<Refine>,
}

/// A loss for which later messages wait.
#[derive(Debug, Clone, Copy, Default)]
struct Waiting {
    until_ns: u64,
    change: Option<TcpChange>,
}

impl Waiting {
    fn note(&mut self, change: Option<&TcpChange>, until_ns: Option<u64>) {
        if let Some(change) = change.filter(|it| it.retransmits > 0) {
            *self = Self {
                until_ns: until_ns.unwrap_or(u64::MAX),
                change: Some(*change),
            };
        }
    }

    fn during(&self, exchange: &Exchange) -> Option<TcpChange> {
        let begin_ns = exchange.sent.call_begin_ns;
        self.change.filter(|_| begin_ns < self.until_ns)
    }
}

/// Exchanges that are examined together.
const MOST_TOGETHER: usize = 64;

/// Whether the responder took both messages in one call, and whether the sender took both replies.
fn together(one: &Exchange, other: &Exchange) -> (bool, bool) {
    let same = |a: Option<u64>, b: Option<u64>| a.is_some() && a == b;
    let peer = |it: &Exchange| it.peer.map(|it| it.woke_ns);
    let reply = |it: &Exchange| it.reply.map(|it| it.woke_ns);
    (same(peer(one), peer(other)), same(reply(one), reply(other)))
}

/// What divides a bill further, by what else is known of the exchange; returns whether it did.
pub type Refine = Box<dyn FnMut(&Exchange, Standing, &mut MessageBill) -> bool + Send>;

/// How an exchange stands among others.
#[derive(Debug, Clone, Copy)]
pub struct Standing {
    /// The sender took its reply and the next in one call: the time stamp of the reply is a later
    /// one's.
    pub replies_together: bool,
    /// Its bill is kept whole: it is among the worst so far.
    pub is_kept: bool,
}

impl Keeper {
    /// Bills of messages that are later than `above_ns`; of `settings` what holds for all of them is
    /// used.
    #[must_use]
    pub fn new(above_ns: u64, settings: Context) -> Self {
        Self {
            settings,
            way_ns: None,
            pending: Vec::new(),
            held: None,
            before: None,
            peer_state: None,
            lost: Waiting::default(),
            lost_replies: Waiting::default(),
            ledger: Ledger::new(above_ns),
            awaiting: None,
            refine: None,
        }
    }

    /// Divides bills further.
    pub fn refine_by(&mut self, refine: Refine) {
        self.refine = Some(refine);
    }

    /// Takes the next exchange, all of whose stages are known.
    pub fn take(&mut self, exchange: &Exchange) {
        let belongs = self.pending.last().is_some_and(|last| {
            let together = together(last, exchange);
            together.0 || together.1
        });
        if !belongs || self.pending.len() >= MOST_TOGETHER {
            self.finish();
        }
        self.pending.push(*exchange);
    }

    /// Nothing more comes.
    pub fn finish(&mut self) {
        let group = std::mem::take(&mut self.pending);
        let asleep = group
            .last()
            .map_or((false, false), |last| self.was_asleep(last));
        for (index, exchange) in group.iter().enumerate() {
            self.examine(exchange, group.get(index + 1), asleep);
        }
    }

    /// Whether the responder's thread, and the sender's, slept when the last of those came that it
    /// read together: the time stamp is that of the last. If it waited longer for the thread than it
    /// was delayed on the way, those before it waited as well; else all may have come at once.
    fn was_asleep(&self, last: &Exchange) -> (bool, bool) {
        let Some(way_ns) = way_ns(last) else {
            return (false, false);
        };
        let excess_ns = way_ns.saturating_sub(self.way_ns.unwrap_or(way_ns));
        let slept = |woke_ns: u64, received_ns: Option<u64>| {
            received_ns.is_some_and(|at_ns| woke_ns.saturating_sub(at_ns) >= excess_ns)
        };
        (
            last.peer
                .is_some_and(|it| slept(it.woke_ns, it.rx_software_ns)),
            last.reply
                .is_some_and(|it| slept(it.woke_ns, it.rx_software_ns)),
        )
    }

    fn examine(&mut self, exchange: &Exchange, next: Option<&Exchange>, asleep: (bool, bool)) {
        let woke_ns = exchange.reply.map(|it| it.woke_ns);
        let mut context = self.context(exchange);
        let read = next.map(|next| together(exchange, next));
        let (messages, replies) = read.unwrap_or_default();
        context.read_together = messages && asleep.0;
        context.replies_together = replies && asleep.1;
        self.held = held(exchange, &context);
        let [message, reply] = losses(exchange, &context);
        self.lost.note(message, woke_ns);
        self.lost_replies.note(reply, woke_ns);
        if let Some(way_ns) = way_ns(exchange) {
            self.way_ns = Some(self.way_ns.map_or(way_ns, |least| least.min(way_ns)));
        }
        let latency_ns = exchange.latency_ns();
        if latency_ns.is_some_and(|ns| self.ledger.counts(ns))
            && let Some(mut bill) = bill(exchange, &context)
        {
            let standing = Standing {
                replies_together: replies,
                is_kept: self.ledger.keeps(bill.latency_ns),
            };
            let refined = self
                .refine
                .as_mut()
                .is_some_and(|it| it(exchange, standing, &mut bill));
            if refined {
                self.ledger.add_traced();
            }
            let settled = match &mut self.awaiting {
                Some(awaiting) => awaiting.take(bill),
                None => Some(bill),
            };
            if let Some(bill) = settled {
                self.ledger.count(bill);
            }
        }
        let before = self.before.replace(*exchange);
        self.peer_state = before.and_then(|it| Some(it.peer_tcp?.state));
    }

    /// The bills so far.
    #[must_use]
    pub fn bills(&self) -> MessageBills {
        let Some(awaiting) = &self.awaiting else {
            return self.ledger.to_record();
        };
        let mut ledger = self.ledger.clone();
        awaiting.count_in(&mut ledger);
        ledger.to_record()
    }

    /// From now on, bills in which the responder's thread was late wait for [`Keeper::explain_peer`].
    pub fn await_peer(&mut self) {
        self.awaiting = Some(Awaiting::default());
    }

    /// Divides them by what the responder says. To be called at the end of a session.
    pub fn explain_peer(&mut self, delays: &[PeerDelay]) {
        if let Some(awaiting) = &mut self.awaiting {
            awaiting.settle(delays, &mut self.ledger);
        }
    }

    fn context(&self, exchange: &Exchange) -> Context {
        let before = self.before.as_ref();
        let idle_ns = before.and_then(|before| {
            let begin_ns = exchange.sent.call_begin_ns;
            begin_ns.checked_sub(before.sent.call_end_ns)
        });
        Context {
            way_ns: self.way_ns,
            before: before.and_then(|it| Some(it.tcp?.state)),
            idle_ns,
            peer_before: self.peer_state,
            outstanding: before.map_or(0, |before| {
                let answered = before
                    .reply
                    .is_some_and(|it| it.woke_ns <= exchange.sent.call_begin_ns);
                u32::from(!answered)
            }),
            held: self.held,
            earlier: self.lost.during(exchange),
            earlier_reply: self.lost_replies.during(exchange),
            ..self.settings
        }
    }
}
