//! Many bills: the ranking, and the worst.

use punctual_network::bill::{Context, Keeper};
use punctual_network::exchange::Exchange;
use punctual_record::path::bill::{
    MessageBill, MessageBills, MessageCause as Cause, MessageRow, MessageSide, Runner,
};

use super::made::*;

fn at(number: u64, made: Made) -> Exchange {
    let shift = |ns: u64| ns + number * 100 * MS;
    let mut exchange = made.exchange;
    exchange.sequence = number;
    exchange.requested_ns = shift(exchange.requested_ns);
    let sent = &mut exchange.sent;
    sent.call_begin_ns = shift(sent.call_begin_ns);
    sent.call_end_ns = shift(sent.call_end_ns);
    for stage in [&mut sent.scheduled, &mut sent.software] {
        stage.first_ns = shift(stage.first_ns);
        stage.last_ns = shift(stage.last_ns);
    }
    sent.acknowledged_ns = sent.acknowledged_ns.map(shift);
    let reply = exchange.reply.as_mut().unwrap();
    reply.rx_software_ns = reply.rx_software_ns.map(shift);
    reply.woke_ns = shift(reply.woke_ns);
    exchange
}

fn settings() -> Context {
    Context {
        tcp: true,
        interval_ns: 100 * MS,
        ..Context::default()
    }
}

#[test]
fn all_late_messages_are_ranked_and_the_worst_are_kept() {
    let mut keeper = Keeper::new(MS, settings());
    for number in 1..=300 {
        let made = match number % 3 {
            0 => usual(),
            1 => usual().held(2 * MS + number * US),
            _ => {
                let mut made = usual();
                made.exchange.reply.as_mut().unwrap().woke_ns += 5 * MS;
                made
            }
        };
        keeper.take(&at(number, made));
    }
    keeper.finish();
    let bills = keeper.bills();
    assert!(bills.is_consistent(), "{bills:?}");
    assert_eq!((bills.late, bills.explained), (200, 200));
    assert_eq!(bills.worst.len(), MessageBills::WORST);
    assert_eq!(bills.worst[0].latency_ns, 5 * MS + 100 * US);
    let first = &bills.ranking[0];
    assert_eq!(first.cause, Cause::NotScheduled { by: None });
    assert_eq!((first.count, first.main), (100, 100));
    assert_eq!(first.total_ns, 100 * (5 * MS + 10 * US));
    let second = &bills.ranking[1];
    assert_eq!(
        (second.side, &second.cause),
        (MessageSide::Sender, &Cause::Neighbour)
    );
    assert_eq!(
        bills.late_ns,
        bills.ranking.iter().map(|it| it.total_ns).sum::<u64>()
    );
}

#[test]
fn the_memory_for_causes_is_bounded_and_the_sums_hold() {
    let mut keeper = Keeper::new(MS, settings());
    let mut next = 0;
    keeper.refine_by(Box::new(move |_: &Exchange, _, bill: &mut MessageBill| {
        next += 1;
        for row in &mut bill.rows {
            let MessageRow { cause, .. } = row;
            if *cause == (Cause::NotScheduled { by: None }) {
                *cause = Cause::NotScheduled {
                    by: Some(Runner {
                        task: format!("thread-{next}"),
                        ..Runner::default()
                    }),
                };
            }
        }
        true
    }));
    for number in 1..=500 {
        let mut made = usual();
        made.exchange.reply.as_mut().unwrap().woke_ns += 5 * MS;
        keeper.take(&at(number, made));
    }
    keeper.finish();
    let bills = keeper.bills();
    assert!(bills.is_consistent());
    assert_eq!((bills.late, bills.traced), (500, 500));
    assert!(bills.ranking.len() <= MessageBills::CAUSES);
    let other = bills.ranking.iter().find(|it| it.cause == Cause::Other);
    assert!(other.unwrap().count > 400);
}

#[test]
fn messages_behind_a_lost_one_have_its_loss() {
    // TCP delivers in order: those that were under way waited.
    let mut keeper = Keeper::new(MS, settings());
    keeper.take(&at(1, usual()));
    let mut lost_one = usual().later(206 * MS);
    lost_one.exchange.tcp = Some(lost(0));
    lost_one.exchange.sent.software = twice(DUE + 10 * US, DUE + 10 * US + 206 * MS);
    keeper.take(&at(2, lost_one));
    let mut behind = usual().later(106 * MS);
    let peer = behind.exchange.peer.as_mut().unwrap();
    peer.woke_ns += 106 * MS;
    peer.send_begin_ns += 106 * MS;
    peer.scheduled = once(peer.scheduled.first_ns + 106 * MS);
    peer.software = once(peer.software.first_ns + 106 * MS);
    behind.exchange.sent.acknowledged_ns = None;
    keeper.take(&at(3, behind));
    keeper.finish();
    let bills = keeper.bills();
    assert!(bills.is_consistent());
    assert_eq!(bills.late, 2);
    let losses = |bill: &MessageBill| {
        matches!(
            bill.main().unwrap().cause,
            Cause::LossProbe | Cause::FastRetransmit
        )
    };
    assert!(bills.worst.iter().all(losses), "{bills:#?}");
}

#[test]
fn what_comes_behind_a_message_that_the_queue_dropped_waits_for_the_loss_and_not_for_the_queue() {
    let mut keeper = Keeper::new(MS, settings());
    for number in 1..=3 {
        keeper.take(&at(number, usual()));
    }
    let mut dropped = usual().later(212 * MS);
    dropped.exchange.tcp = Some(lost(1));
    dropped.exchange.sent.scheduled = twice(DUE + 9 * US, DUE + 210 * MS);
    dropped.exchange.sent.software = once(DUE + 212 * MS);
    keeper.take(&at(4, dropped));
    // Sent 100 and 200 ms later, held until the loss was found, and in the queue for 2 ms, as each.
    let behind = |held_ns: u64| {
        let mut made = usual().held(held_ns).later(2 * MS);
        made.exchange.tcp = Some(counted());
        made.exchange.outstanding = 1;
        let software = &mut made.exchange.sent.software;
        *software = once(software.first_ns + 2 * MS);
        made
    };
    keeper.take(&at(5, behind(112 * MS)));
    keeper.take(&at(6, behind(12 * MS)));
    keeper.finish();
    let bills = keeper.bills();
    assert_eq!(bills.worst.len(), 3, "{bills:#?}");
    for bill in &bills.worst {
        assert_eq!(bill.main().unwrap().cause, Cause::Timeout, "{bill:#?}");
    }
}
