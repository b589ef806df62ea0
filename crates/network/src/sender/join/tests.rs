use punctual_record::path::bill::{MessageCause as Cause, MessageStage as Stage};

use super::replies::MOST_EARLY;
use super::*;
use crate::wire::data::{Earlier, Head, Stages, WHOLE_REPLY_BYTES, write_reply};

const MS: u64 = 1_000_000;

fn rules(timeout_ns: Option<u64>) -> Rules {
    Rules {
        timeout_ns,
        late_ns: 2 * MS,
        peer_clock: None,
        launch: None,
        connection: bill::Context::default(),
    }
}

fn sent(sequence: u64) -> Sent {
    Sent {
        sequence,
        requested_ns: sequence * MS,
        begin_ns: sequence * MS + 10,
        end_ns: sequence * MS + 20,
        size: 96,
        id: sequence as u32 * 96 - 1,
        ..Sent::default()
    }
}

fn received(sequence: u64, after_ns: u64, earlier: Option<Earlier>) -> Received {
    let head = Head {
        tag: 7,
        size: 96,
        sequence,
        requested_ns: sequence * MS,
    };
    let stages = Stages {
        woke_ns: sequence * MS + 5_000,
        received_before_ns: Some(1_000),
        sent_after_ns: 300,
        earlier,
    };
    let mut bytes = [0; WHOLE_REPLY_BYTES];
    write_reply(&mut bytes, &head, &stages);
    Received {
        sequence,
        requested_ns: sequence * MS,
        woke_ns: sequence * MS + after_ns,
        software_ns: sequence * MS + after_ns - 100,
        size: 96,
        bytes,
        ..Received::default()
    }
}

fn settled(joiner: &mut Joiner, now_ns: u64) -> Vec<(u64, Option<u64>)> {
    let mut fates = Vec::new();
    joiner.settle(now_ns, |fate| {
        let after = fate.replied_ns.map(|ns| ns - fate.requested_ns);
        fates.push((fate.requested_ns / MS, after));
    });
    fates
}

#[test]
fn fates_come_in_the_order_of_sending_whatever_the_order_of_replies() {
    let mut joiner = Joiner::new(rules(Some(100 * MS)));
    (1..=4).for_each(|number| joiner.sent(&sent(number)));
    for number in [3, 1, 4] {
        joiner.received(&received(number, 50_000, None));
    }
    assert_eq!(settled(&mut joiner, 5 * MS), [(1, Some(50_000))]);
    assert!(!joiner.is_settled());
    // Number 2 is lost, and those behind it come out with it.
    assert_eq!(
        settled(&mut joiner, 103 * MS),
        [(2, None), (3, Some(50_000)), (4, Some(50_000))]
    );
    let counts = joiner.counts();
    assert_eq!((counts.sent, counts.replies, counts.lost), (4, 3, 1));
    assert_eq!((counts.reordered, counts.duplicates), (1, 0));
    assert!(joiner.is_settled());
}

/// What the socket had dropped when this was read.
fn reading(sequence: u64, dropped: u32) -> Reading {
    Reading {
        sequence,
        tcp: None,
        dropped,
        real_offset_ns: 0,
    }
}

#[test]
fn a_reply_that_this_machine_dropped_is_not_lost_on_the_path() {
    let mut joiner = Joiner::new(rules(Some(100 * MS)));
    (1..=6).for_each(|number| joiner.sent(&sent(number)));
    joiner.sent(&Sent {
        refused: 101,
        ..sent(7)
    });
    for number in [1, 5] {
        joiner.received(&received(number, 50_000, None));
    }
    // Of those that were never answered two were dropped here, and one was not sent.
    joiner.read(&reading(1, 0));
    joiner.read(&reading(5, 2));
    let mut dropped = 0;
    joiner.settle(1_000 * MS, |fate| {
        assert!(!fate.dropped_here || fate.replied_ns.is_none());
        dropped += u64::from(fate.dropped_here);
    });
    assert_eq!(dropped, 2);
    let counts = joiner.counts();
    assert_eq!((counts.replies, counts.lost), (2, 3));
    assert_eq!((counts.dropped_here, counts.refused), (2, 1));
    assert!(joiner.is_settled());
    // The count is of the socket, and another session has another.
    joiner.begin_session();
    (1..=2).for_each(|number| joiner.sent(&sent(number)));
    joiner.read(&reading(2, 1));
    joiner.settle(1_000 * MS, |_| {});
    assert_eq!((joiner.counts().dropped_here, joiner.counts().lost), (3, 4));
}

/// The responder stalls: three messages are lost by their time-out, and then the replies to two of them overflow
/// the socket. The next that are lost were dropped by nobody here.
#[test]
fn the_dropped_reply_to_a_message_that_was_lost_before_excuses_no_other() {
    let mut joiner = Joiner::new(rules(Some(100 * MS)));
    (1..=3).for_each(|number| joiner.sent(&sent(number)));
    joiner.settle(1_000 * MS, |_| {});
    assert_eq!(joiner.counts().lost, 3);
    (4..=6).for_each(|number| joiner.sent(&sent(number)));
    joiner.read(&reading(6, 2));
    joiner.settle(2_000 * MS, |_| {});
    assert_eq!((joiner.counts().dropped_here, joiner.counts().lost), (0, 6));
    // More than there are lost ones.
    (7..=9).for_each(|number| joiner.sent(&sent(number)));
    joiner.read(&reading(9, 8));
    joiner.settle(3_000 * MS, |_| {});
    assert_eq!((joiner.counts().dropped_here, joiner.counts().lost), (2, 7));
}

#[test]
fn only_a_drop_for_want_of_room_excuses_a_message() {
    let mut joiner = Joiner::new(rules(Some(100 * MS)));
    joiner.no_room(Some(40));
    (1..=6).for_each(|number| joiner.sent(&sent(number)));
    joiner.received(&received(6, 50_000, None));
    assert!(!joiner.has_unexplained_drops());
    // The socket dropped four. There was no room for one of them: the others had wrong checksums.
    joiner.read(&reading(6, 4));
    assert!(joiner.has_unexplained_drops());
    joiner.no_room(Some(41));
    assert!(joiner.has_unexplained_drops());
    joiner.settle(1_000 * MS, |_| {});
    let counts = joiner.counts();
    assert_eq!((counts.dropped_here, counts.lost), (1, 4));
    // Other sockets have no room either: more than this one dropped it excuses none of.
    joiner.begin_session();
    joiner.no_room(Some(41));
    (1..=3).for_each(|number| joiner.sent(&sent(number)));
    joiner.read(&reading(3, 1));
    joiner.no_room(Some(99));
    assert!(!joiner.has_unexplained_drops());
    joiner.settle(1_000 * MS, |_| {});
    let counts = joiner.counts();
    assert_eq!((counts.dropped_here, counts.lost), (2, 6));
    // A session in which nothing was dropped for want of room.
    joiner.begin_session();
    joiner.no_room(Some(99));
    joiner.sent(&sent(1));
    joiner.read(&reading(1, 1));
    joiner.settle(1_000 * MS, |_| {});
    assert_eq!((joiner.counts().dropped_here, joiner.counts().lost), (2, 7));
    // Where it can't be read, what the socket counted is believed.
    joiner.begin_session();
    joiner.no_room(Some(99));
    joiner.sent(&sent(1));
    joiner.read(&reading(1, 1));
    joiner.no_room(None);
    assert!(!joiner.has_unexplained_drops());
    joiner.settle(1_000 * MS, |_| {});
    assert_eq!((joiner.counts().dropped_here, joiner.counts().lost), (3, 7));
}

#[test]
fn a_reply_after_the_time_out_and_a_second_reply_count_as_neither() {
    let mut joiner = Joiner::new(rules(Some(100 * MS)));
    (1..=2).for_each(|number| joiner.sent(&sent(number)));
    joiner.received(&received(1, 50_000, None));
    joiner.received(&received(1, 60_000, None));
    assert_eq!(settled(&mut joiner, 150 * MS).len(), 2);
    joiner.received(&received(2, 150 * MS, None));
    assert!(settled(&mut joiner, 160 * MS).is_empty());
    let counts = joiner.counts();
    assert_eq!((counts.replies, counts.lost), (1, 1));
    assert_eq!((counts.after_timeout, counts.duplicates), (1, 1));
}

#[test]
fn a_reply_that_comes_before_its_message_was_reported_waits_for_it() {
    let mut joiner = Joiner::new(rules(None));
    joiner.received(&received(1, 50_000, None));
    assert!(settled(&mut joiner, MS).is_empty());
    joiner.sent(&sent(1));
    assert_eq!(settled(&mut joiner, 2 * MS), [(1, Some(50_000))]);
    // One that nothing belongs to is foreign in the end.
    joiner.received(&received(9, 50_000, None));
    joiner.received(&Received::default());
    joiner.finish(|fate| panic!("{fate:?}"));
    assert_eq!(joiner.counts().foreign, 2);
}

#[test]
fn what_repeats_another_instant_or_length_is_foreign() {
    let mut joiner = Joiner::new(rules(None));
    joiner.sent(&sent(1));
    let mut other = received(1, 50_000, None);
    other.requested_ns += 1;
    joiner.received(&other);
    let mut longer = received(1, 50_000, None);
    longer.size += 1;
    joiner.received(&longer);
    assert!(settled(&mut joiner, MS).is_empty());
    assert_eq!(joiner.counts().foreign, 2);
}

#[test]
fn replies_to_messages_that_were_never_sent_take_no_memory() {
    let mut joiner = Joiner::new(rules(None));
    for number in 1..=5_000 {
        joiner.received(&received(number, 50_000, None));
    }
    joiner.settle(MS, |fate| panic!("{fate:?}"));
    assert_eq!(joiner.early.len(), MOST_EARLY);
    joiner.finish(|fate| panic!("{fate:?}"));
    assert_eq!(joiner.counts().foreign, 5_000);
}

#[test]
fn a_reading_counts_for_the_exchanges_since_the_one_before() {
    let mut joiner = Joiner::new(rules(None));
    let reading = |sequence: u64, retransmits| Reading {
        dropped: 0,
        sequence,
        tcp: Some(TcpCounters {
            retransmits,
            ..TcpCounters::default()
        }),
        real_offset_ns: sequence.cast_signed() * 1_000_000,
    };
    joiner.read(&reading(0, 0));
    (1..=6).for_each(|number| joiner.sent(&sent(number)));
    joiner.read(&reading(2, 1));
    joiner.read(&reading(4, 1));
    joiner.read(&reading(99, 3));
    for number in 1..=6 {
        joiner.received(&received(number, 10_000, None));
    }
    joiner.finish(|_| ());
    let exchanges = joiner.exchanges();
    let counted = exchanges.iter().map(|it| it.tcp.unwrap().retransmits);
    assert_eq!(counted.collect::<Vec<u32>>(), [1, 1, 0, 0, 2, 2]);
    assert_eq!(exchanges[0].clock_step_ns, 2_000_000);
}

#[test]
fn the_stages_of_a_message_come_together_from_four_rings() {
    let mut joiner = Joiner::new(rules(None));
    let reading = |sequence, retransmits| Reading {
        dropped: 0,
        sequence,
        tcp: Some(TcpCounters {
            retransmits,
            ..TcpCounters::default()
        }),
        real_offset_ns: 1_000_000_000,
    };
    joiner.read(&reading(0, 5));
    let mut counted = Vec::new();
    for number in 1..=6 {
        let mut message = sent(number);
        message.skipped_after = u64::from(number == 2) * 3;
        joiner.sent(&message);
        for (stage, after) in [
            (SentStage::Scheduled, 100),
            (SentStage::Software, 200),
            (SentStage::Acknowledged, 900),
        ] {
            joiner.stamped(&Stamped {
                at_ns: number * MS + after,
                id: message.id,
                stage,
                ..Stamped::default()
            });
        }
        if number == 2 {
            joiner.stamped(&Stamped {
                at_ns: number * MS + 206 * MS,
                id: message.id,
                stage: SentStage::Software,
                ..Stamped::default()
            });
        }
        let earlier = Earlier {
            before: 2,
            first_software_ns: Some(400),
            count: 1,
            ..Earlier::default()
        };
        joiner.received(&received(number, 10_000 * number, Some(earlier)));
        joiner.settle(number * MS, |fate| counted.push(fate.skipped_after));
        joiner.read(&reading(number, if number < 2 { 5 } else { 6 }));
    }
    joiner.finish(|_| ());
    assert_eq!(counted, [0, 3, 0, 0, 0, 0]);
    let exchanges = joiner.exchanges();
    assert_eq!(exchanges.len(), 6);
    let second = &exchanges[1];
    assert_eq!(second.latency_ns(), Some(20_000));
    assert_eq!(second.sent.software.count, 2);
    assert_eq!(second.sent.software.last(), Some(2 * MS + 206 * MS));
    assert_eq!(second.sent.scheduled.first(), Some(2 * MS + 100));
    assert_eq!(second.sent.acknowledged_ns, Some(2 * MS + 900));
    assert_eq!(second.tcp.unwrap().retransmits, 1);
    assert_eq!(exchanges[0].tcp.unwrap().retransmits, 0);
    let peer = second.peer.unwrap();
    assert_eq!(peer.rx_software_ns, Some(2 * MS + 4_000));
    assert_eq!(peer.send_begin_ns, 2 * MS + 5_300);
    assert_eq!(peer.software.first(), Some(2 * MS + 5_700));
    assert_eq!(joiner.counts().skipped, 3);
    assert_eq!(joiner.send_lateness().unwrap().max_ns, 10);
}

#[test]
fn memory_stays_the_same_however_many_messages_pass() {
    let mut joiner = Joiner::new(rules(Some(10 * MS)));
    let mut told = 0u64;
    for number in 1..=200_000 {
        joiner.sent(&sent(number));
        if number % 7 != 0 {
            joiner.received(&received(number, 50_000, None));
        }
        joiner.settle(number * MS, |_| told += 1);
        assert!(joiner.pending.len() < 64, "{}", joiner.pending.len());
    }
    joiner.finish(|_| told += 1);
    assert_eq!(told, 200_000);
    assert_eq!(joiner.counts().lost, 200_000 / 7);
    assert!(joiner.exchanges().len() <= 1024 + 256);
    assert_eq!(joiner.given_up(), 0);
}

#[test]
fn the_longest_time_out_gives_up_no_message_beside_a_lost_one() {
    let given_up = |timeout_ns: u64| {
        let mut joiner = Joiner::new(rules(Some(timeout_ns)));
        for number in 1..=150_000 {
            joiner.sent(&sent(number));
            if number > 1 {
                joiner.received(&received(number, 50_000, None));
            }
            if number % 100 == 0 {
                joiner.settle(number * MS, |_| ());
            }
        }
        joiner.finish(|_| ());
        assert_eq!(joiner.counts().lost, 1);
        joiner.given_up()
    };
    let longest_ns = longest_timeout_ns(MS, 1);
    assert!(longest_ns > 100_000 * MS);
    assert_eq!(given_up(longest_ns), 0);
    assert_eq!(given_up(140_000 * MS), 1);
    assert_eq!(longest_timeout_ns(8 * MS, 8), longest_ns);
    // However fast messages are to come.
    assert!(longest_timeout_ns(1_000, 1024) > 10 * MS);
}

/// A message that entered the packet scheduler by itself is no part of the next one's segment.
#[test]
fn a_stamp_of_the_driver_is_not_that_of_an_earlier_segment() {
    let stamped = |number: u64, at_ns: u64, stage: SentStage| Stamped {
        at_ns,
        id: sent(number).id,
        stage,
        ..Stamped::default()
    };
    let software = |apart: bool| {
        let mut rules = rules(None);
        rules.connection.tcp = true;
        let mut joiner = Joiner::new(rules);
        (1..=2).for_each(|number| joiner.sent(&sent(number)));
        if apart {
            joiner.stamped(&stamped(1, MS + 30, SentStage::Scheduled));
        }
        joiner.stamped(&stamped(2, 2 * MS + 30, SentStage::Scheduled));
        joiner.stamped(&stamped(2, 2 * MS + 40, SentStage::Software));
        let first = &joiner.pending[0].exchange.sent;
        (first.scheduled.first(), first.software.first())
    };
    assert_eq!(software(true), (Some(MS + 30), None));
    assert_eq!(software(false), (Some(2 * MS + 30), Some(2 * MS + 40)));
}

/// A segment of several messages that is sent again is that of each of them.
#[test]
fn a_segment_that_is_sent_again_is_sent_again_for_all_of_its_messages() {
    let mut rules = rules(None);
    rules.connection.tcp = true;
    let mut joiner = Joiner::new(rules);
    (1..=4).for_each(|number| joiner.sent(&sent(number)));
    let mut stamped = |number: u64, at_ns: u64, stage: SentStage| {
        joiner.stamped(&Stamped {
            at_ns,
            id: sent(number).id,
            stage,
            ..Stamped::default()
        });
    };
    // The first by itself, then a segment of three, which the queue drops twice.
    stamped(1, MS, SentStage::Scheduled);
    stamped(1, MS + 10, SentStage::Software);
    for at in [5, 210, 620] {
        stamped(4, at * MS, SentStage::Scheduled);
    }
    stamped(4, 621 * MS, SentStage::Software);
    let times = joiner.pending.iter().map(|it| {
        let sent = &it.exchange.sent;
        let scheduled = sent.scheduled;
        (
            scheduled.first_ns / MS,
            scheduled.last_ns / MS,
            scheduled.count,
            sent.software.count,
        )
    });
    let segment = (5, 620, 3, 1);
    assert_eq!(
        times.collect::<Vec<_>>(),
        [(1, 1, 1, 1), segment, segment, segment]
    );
}

fn launching(by_card: bool) -> Joiner {
    Joiner::new(Rules {
        launch: Some(Launch {
            lead_ns: MS / 2,
            by_card,
        }),
        ..rules(Some(100 * MS))
    })
}

/// A message that was passed to the kernel 400 us before its instant, and its stamps.
fn launched(joiner: &mut Joiner, number: u64, driver_ns: u64) {
    let begin_ns = number * MS - 400_000;
    joiner.sent(&Sent {
        begin_ns,
        end_ns: begin_ns + 5_000,
        ..sent(number)
    });
    for (stage, at_ns) in [
        (SentStage::Scheduled, begin_ns + 2_000),
        (SentStage::Software, driver_ns),
    ] {
        joiner.stamped(&Stamped {
            at_ns,
            id: sent(number).id,
            stage,
            ..Stamped::default()
        });
    }
}

#[test]
fn a_message_with_a_launch_time_begins_at_its_instant_and_its_thread_before() {
    let mut joiner = launching(false);
    launched(&mut joiner, 1, MS + 70_000);
    joiner.received(&received(1, 3 * MS, None));
    joiner.finish(|_| {});
    // The thread was to wake up half a period before.
    assert_eq!(joiner.send_lateness().unwrap().max_ns, 100_000);
    let bills = joiner.bills();
    let rows: Vec<_> = bills.worst[0].rows.iter().collect();
    let sum: u64 = rows.iter().map(|row| row.ns).sum();
    assert_eq!((sum, bills.worst[0].latency_ns), (3 * MS, 3 * MS));
    // Only what the queueing discipline took after the launch time counts.
    let queue = rows.iter().find(|row| row.stage == Stage::Queue).unwrap();
    assert_eq!((queue.ns, &queue.cause), (70_000, &Cause::Queue));
    assert!(rows.iter().all(|row| row.stage != Stage::Start));
    let seen = LaunchCounts {
        seen: 1,
        ..LaunchCounts::default()
    };
    assert_eq!(joiner.launched(), seen);
}

#[test]
fn messages_that_left_before_their_launch_time_are_counted_unless_the_card_holds_them() {
    for by_card in [false, true] {
        let mut joiner = launching(by_card);
        joiner.count_from(2 * MS);
        // A warm-up; what the conversion of clocks may make; and two that did not wait.
        let ahead = [(1, 300_000), (2, 20_000), (3, 20_001), (4, 300_000)];
        for (number, ahead_ns) in ahead {
            launched(&mut joiner, number, number * MS - ahead_ns);
        }
        let expected = if by_card { (0, 0, 0) } else { (3, 2, 300_000) };
        let found = joiner.launched();
        let found = (found.seen, found.early, found.earliest_ns);
        assert_eq!(found, expected, "{by_card}");
    }
}

#[test]
fn a_message_that_missed_its_launch_time_is_lost_at_once() {
    let mut joiner = launching(true);
    (1..=3).for_each(|number| joiner.sent(&sent(number)));
    let missed = |at_ns| Stamped {
        at_ns,
        missed: true,
        ..Stamped::default()
    };
    joiner.stamped(&missed(2 * MS + 300));
    // None has these.
    joiner.stamped(&missed(2 * MS + 500_000));
    joiner.stamped(&missed(2 * MS + 300));
    joiner.stamped(&missed(u64::MAX));
    for number in [1, 3] {
        joiner.received(&received(number, 50_000, None));
    }
    assert_eq!(
        settled(&mut joiner, 5 * MS),
        [(1, Some(50_000)), (2, None), (3, Some(50_000))]
    );
    assert_eq!(joiner.launched().missed, 1);
    assert_eq!((joiner.counts().lost, joiner.counts().replies), (1, 2));
}
