use punctual_record::path::bill::Runner;

use super::*;
use crate::wire::delays::Reception;

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
            reception: None,
        };
        divide_wake_up(&mut made, &delay);
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

/// Late by what is not known of the way, and by the thread.
fn on_the_way(way_ns: u64, asleep_ns: u64) -> MessageBill {
    let mut made = bill(7, asleep_ns);
    let usual = MessageRow {
        stage: Stage::Way,
        cause: Cause::Usual,
        ns: 70_000,
        ..made.rows[0].clone()
    };
    let way = MessageRow {
        cause: Cause::Way,
        ns: way_ns,
        certainty: Certainty::Possible,
        ..usual.clone()
    };
    made.latency_ns += usual.ns + way.ns;
    made.rows.splice(1..1, [usual, way]);
    made
}

fn received_late(ns: u64) -> Reception {
    let thread = Runner {
        task: "napi/eth0-7".to_owned(),
        ..Runner::default()
    };
    Reception {
        thread: Some(thread),
        by: Some(hog(0).0),
        ns,
    }
}

#[test]
fn what_is_not_known_of_the_way_is_divided_by_at_most_what_the_responder_says() {
    let divided = |way_ns, reception: Reception| {
        let mut made = on_the_way(way_ns, 20_000);
        let delay = PeerDelay {
            sequence: 7,
            reception: Some(reception),
            ..PeerDelay::default()
        };
        divide_reception(&mut made, &delay);
        let sum: u64 = made.rows.iter().map(|row| row.ns).sum();
        assert_eq!(sum, made.latency_ns);
        let of = |stage| made.rows.iter().filter(move |row| row.stage == stage);
        let way: Vec<_> = of(Stage::Way).map(|it| (it.cause.clone(), it.ns)).collect();
        let received = of(Stage::PeerReceive).next().cloned();
        (way, received)
    };
    let (usual, way) = (Cause::Usual, Cause::Way);
    let (rows, received) = divided(9 * MS, received_late(6 * MS));
    assert_eq!(rows, [(usual.clone(), 70_000), (way.clone(), 3 * MS)]);
    let received = received.unwrap();
    assert_eq!(received.cause, received_late(0).cause());
    assert_eq!(
        (received.ns, received.certainty),
        (6 * MS, Certainty::Likely)
    );
    assert_eq!(received.evidence, [Evidence::PeerEvents]);
    // It waited for all of the thread's wait at most: it may have come later.
    let (rows, received) = divided(9 * MS, received_late(25 * MS));
    assert_eq!(rows, [(usual.clone(), 70_000)]);
    assert_eq!(received.map(|it| it.ns), Some(9 * MS));
    // What is left is usual if it is short.
    let (rows, _) = divided(9 * MS, received_late(9 * MS - 40_000));
    assert_eq!(rows, [(usual.clone(), 110_000)]);
    // Short waits are no cause, and a short way has none.
    let (rows, received) = divided(9 * MS, received_late(LATE_NS));
    assert_eq!((rows.len(), received), (2, None));
    let (rows, received) = divided(LATE_NS, received_late(25 * MS));
    assert_eq!(rows, [(usual, 70_000), (way, LATE_NS)]);
    assert_eq!(received, None);
}

#[test]
fn a_message_may_be_received_late_and_then_wait_for_the_thread() {
    let mut ledger = Ledger::new(MS);
    let mut awaiting = Awaiting::default();
    assert_eq!(awaiting.take(on_the_way(9 * MS, 4 * MS)), None);
    // Only the way is late.
    let mut other = on_the_way(9 * MS, 10_000);
    other.sequence = 8;
    assert_eq!(awaiting.take(other), None);
    let delays = [7, 8].map(|sequence| PeerDelay {
        sequence,
        by: vec![hog(4 * MS)],
        reception: Some(received_late(9 * MS)),
        ..PeerDelay::default()
    });
    awaiting.settle(&delays, &mut ledger);
    let bills = ledger.to_record();
    assert!(bills.is_consistent());
    assert_eq!((bills.late, bills.explained, bills.peer_traced), (2, 2, 2));
    let of = |bill: &MessageBill| {
        let shown = |it: &&MessageRow| it.evidence.contains(&Evidence::PeerEvents);
        let rows = bill.rows.iter().filter(shown);
        rows.map(|row| (row.stage, row.ns)).collect::<Vec<_>>()
    };
    let (received, woken) = (Stage::PeerReceive, Stage::PeerWakeUp);
    assert_eq!(of(&bills.worst[0]), [(received, 9 * MS), (woken, 4 * MS)]);
    assert_eq!(of(&bills.worst[1]), [(received, 9 * MS)]);
}

/// The thread that receives, and the one that replies, waited below the same hog.
#[test]
fn time_that_a_message_waited_for_the_thread_is_not_its_receptions_too() {
    let mut made = on_the_way(20 * MS, 4 * MS);
    let delay = PeerDelay {
        sequence: 7,
        read_with_later: true,
        by: vec![hog(22 * MS)],
        reception: Some(received_late(21 * MS)),
    };
    divide_wake_up(&mut made, &delay);
    divide_reception(&mut made, &delay);
    let sum: u64 = made.rows.iter().map(|row| row.ns).sum();
    assert_eq!(sum, made.latency_ns);
    let ns = |stage| {
        let of = made.rows.iter().filter(|row| row.stage == stage);
        of.map(|row| row.ns).sum::<u64>()
    };
    assert_eq!(ns(Stage::PeerWakeUp), 22 * MS);
    assert_eq!(ns(Stage::PeerReceive), 2 * MS);
    assert_eq!(ns(Stage::Way), 70_000);
}

/// Of several messages that are read in one call only the last has its own time stamp: the others are
/// said to have waited for the thread. The responder knows better.
#[test]
fn a_thread_that_is_only_said_to_have_slept_is_divided_too() {
    for stage in [Stage::PeerWakeUp, Stage::WakeUp] {
        let mut made = bill(7, 24 * MS);
        made.rows[1].stage = stage;
        let open = made.clone();
        made.rows[1].evidence.push(Evidence::ReadTogether);
        assert_eq!(Awaiting::default().take(made.clone()), None);
        let delay = PeerDelay {
            sequence: 7,
            read_with_later: true,
            reception: Some(received_late(23 * MS)),
            ..PeerDelay::default()
        };
        let divided = |mut made: MessageBill| {
            divide_wake_up(&mut made, &delay);
            divide_reception(&mut made, &delay);
            let sum: u64 = made.rows.iter().map(|row| row.ns).sum();
            assert_eq!(sum, made.latency_ns);
            let of = |stage| {
                let rows = made.rows.iter().filter(|row| row.stage == stage);
                rows.map(|row| row.ns).max()
            };
            (of(stage), of(Stage::PeerReceive))
        };
        assert_eq!(divided(made), (Some(MS), Some(23 * MS)));
        // By a time stamp of its own it was received in time.
        assert_eq!(divided(open), (Some(24 * MS), None));
    }
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
