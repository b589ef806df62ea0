//! Each cause, with its exact rows.

use punctual_record::path::bill::{
    Certainty::{Certain, Likely, Possible},
    MessageCause as Cause, MessageEvidence as Evidence, MessageStage as Stage,
};

use super::made::*;
use punctual_network::bill::{Held, Holder};

const ASLEEP: Cause = Cause::NotScheduled { by: None };

#[test]
fn a_usual_message_has_the_usual_rows() {
    assert_eq!(
        usual().rows(),
        [
            (Stage::Start, Cause::Usual, 5),
            (Stage::Send, Cause::Usual, 4),
            (Stage::Queue, Cause::Usual, 1),
            (Stage::Way, Cause::Usual, 63),
            (Stage::PeerWakeUp, Cause::Usual, 10),
            (Stage::PeerWork, Cause::Usual, 2),
            (Stage::PeerSend, Cause::Usual, 4),
            (Stage::PeerQueue, Cause::Usual, 1),
            (Stage::WakeUp, Cause::Usual, 10),
        ]
    );
}

#[test]
fn a_lost_message_has_no_bill() {
    let mut made = usual();
    made.exchange.reply = None;
    assert_eq!(
        punctual_network::bill::bill(&made.exchange, &made.context),
        None
    );
}

#[test]
fn a_sender_that_was_not_scheduled() {
    let mut made = usual().held(3 * MS);
    let sent = &mut made.exchange.sent;
    sent.call_begin_ns += 3 * MS;
    sent.call_end_ns += 3 * MS;
    assert_eq!(made.main(), (Stage::Start, ASLEEP, 3_005, Certain));
}

#[test]
fn a_sender_that_was_preempted_in_its_call() {
    let mut made = usual().held(2 * MS);
    made.exchange.sent.call_end_ns += 2 * MS;
    assert_eq!(made.main(), (Stage::Send, ASLEEP, 2_004, Likely));
}

#[test]
fn a_loss_of_the_last_segment_found_by_a_probe() {
    let mut made = usual().later(206 * MS);
    made.exchange.tcp = Some(lost(0));
    made.exchange.sent.software = twice(DUE + 10 * US, DUE + 10 * US + 206 * MS);
    made.exchange.sent.scheduled = twice(DUE + 9 * US, DUE + 9 * US + 206 * MS);
    assert_eq!(
        made.main(),
        (Stage::Resend, Cause::LossProbe, 206_000, Certain)
    );
    let bill = made.bill();
    let row = bill.main().unwrap();
    assert_eq!(
        row.evidence,
        [
            Evidence::Retransmits { count: 1 },
            Evidence::RetransmissionTimeout { us: 204_000 },
            Evidence::Transmissions { count: 2 },
        ]
    );
}

#[test]
fn a_loss_found_by_the_timer() {
    let mut made = usual().later(620 * MS);
    made.exchange.tcp = Some(lost(1));
    made.exchange.sent.software = twice(DUE + 10 * US, DUE + 10 * US + 620 * MS);
    assert_eq!(
        made.main(),
        (Stage::Resend, Cause::Timeout, 620_000, Certain)
    );
}

#[test]
fn a_kernel_that_counts_no_time_outs_leaves_a_doubt() {
    let mut made = usual().later(206 * MS);
    let mut change = lost(0);
    change.timeouts = None;
    made.exchange.tcp = Some(change);
    made.exchange.sent.software = twice(DUE + 10 * US, DUE + 10 * US + 206 * MS);
    assert_eq!(
        made.main(),
        (Stage::Resend, Cause::Timeout, 206_000, Possible)
    );
    let bill = made.bill();
    let evidence = &bill.main().unwrap().evidence;
    assert!(evidence.contains(&Evidence::TimeoutsNotCounted));
}

#[test]
fn a_loss_in_the_middle_shows_as_data_that_waited_at_the_responder() {
    // The last segment, which alone has time stamps, came in time.
    let mut made = usual().later(5 * MS);
    made.exchange.size = 6_000;
    made.exchange.tcp = Some(lost(0));
    made.exchange.sent.acknowledged_ns = Some(DUE + 30 * US + 5 * MS);
    let peer = made.exchange.peer.as_mut().unwrap();
    peer.woke_ns += 5 * MS;
    peer.send_begin_ns += 5 * MS;
    peer.scheduled = once(peer.scheduled.first_ns + 5 * MS);
    peer.software = once(peer.software.first_ns + 5 * MS);
    assert_eq!(
        made.main(),
        (Stage::PeerWakeUp, Cause::FastRetransmit, 5_010, Likely)
    );
}

#[test]
fn a_receiver_that_slept_is_not_the_loss_of_data_that_was_acknowledged_at_once() {
    for tcp in [counted(), lost(0)] {
        let mut made = usual().later(5 * MS);
        made.exchange.tcp = Some(tcp);
        let peer = made.exchange.peer.as_mut().unwrap();
        peer.woke_ns += 5 * MS;
        peer.send_begin_ns += 5 * MS;
        peer.scheduled = once(peer.scheduled.first_ns + 5 * MS);
        peer.software = once(peer.software.first_ns + 5 * MS);
        assert_eq!(made.main(), (Stage::PeerWakeUp, ASLEEP, 5_010, Certain));
    }
}

/// The first transmission entered the packet scheduler and never left it, the next message showed TCP
/// the loss, and the responder's time stamp is that of this next one.
#[test]
fn what_the_queue_of_this_machine_dropped_is_a_loss_and_no_queue() {
    let mut made = usual().later(14 * MS);
    made.exchange.tcp = Some(lost(0));
    made.context.interval_ns = 10 * MS;
    made.context.read_together = true;
    made.exchange.sent.scheduled = twice(DUE + 9 * US, DUE + 12 * MS);
    made.exchange.sent.software = once(DUE + 14 * MS + 10 * US);
    made.exchange.sent.acknowledged_ns = Some(DUE + 14 * MS + 40 * US);
    let peer = made.exchange.peer.as_mut().unwrap();
    peer.woke_ns += 2 * MS;
    peer.send_begin_ns += 2 * MS;
    peer.scheduled = once(peer.scheduled.first_ns + 2 * MS);
    peer.software = once(peer.software.first_ns + 2 * MS);
    assert_eq!(
        made.main(),
        (Stage::Resend, Cause::FastRetransmit, 11_991, Likely)
    );
    let bill = made.bill();
    let shown = &bill.main().unwrap().evidence;
    assert!(shown.contains(&Evidence::DroppedInQueue), "{shown:?}");
    assert!(bill.rows.iter().all(|row| row.cause != ASLEEP), "{bill:?}");
}

#[test]
fn a_needless_retransmission_is_no_loss() {
    // The responder had it for 7 ms before it replied, and it was sent again 2 ms before that.
    let mut made = usual().later(7 * MS);
    made.exchange.tcp = Some(lost(0));
    made.exchange.sent.software = twice(DUE + 10 * US, DUE + 5 * MS);
    made.exchange.sent.scheduled = twice(DUE + 9 * US, DUE + 5 * MS);
    let peer = made.exchange.peer.as_mut().unwrap();
    peer.woke_ns += 7 * MS;
    peer.send_begin_ns += 7 * MS;
    peer.scheduled = once(peer.scheduled.first_ns + 7 * MS);
    peer.software = once(peer.software.first_ns + 7 * MS);
    assert_eq!(made.main(), (Stage::PeerWakeUp, ASLEEP, 7_010, Certain));
}

#[test]
fn what_the_other_side_reports_as_received_twice_was_not_lost() {
    let mut made = usual().later(9 * MS);
    made.exchange.tcp = Some(punctual_network::TcpChange {
        duplicates: 1,
        ..lost(0)
    });
    made.exchange.sent.software = twice(DUE + 10 * US, DUE + 10 * US + 8 * MS);
    assert_eq!(made.main(), (Stage::Way, Cause::Way, 9_000, Possible));
}

#[test]
fn a_responder_that_worked() {
    let mut made = usual().later(MS);
    let peer = made.exchange.peer.as_mut().unwrap();
    peer.send_begin_ns += MS;
    peer.scheduled = once(peer.scheduled.first_ns + MS);
    peer.software = once(peer.software.first_ns + MS);
    assert_eq!(made.main(), (Stage::PeerWork, Cause::Work, 1_002, Certain));
}

#[test]
fn a_lost_reply_is_the_responders() {
    let mut made = usual().later(206 * MS);
    made.exchange.peer_tcp = Some(lost(0));
    let peer = made.exchange.peer.as_mut().unwrap();
    // It reports the last instant of its packet scheduler alone.
    peer.scheduled = once(PEER + 16 * US + 206 * MS);
    peer.software = twice(PEER + 17 * US, PEER + 17 * US + 206 * MS);
    assert_eq!(
        made.main(),
        (Stage::PeerResend, Cause::LossProbe, 206_000, Certain)
    );
    let sum: u64 = made.rows().iter().map(|row| row.2).sum();
    assert_eq!(sum, 206_100);
}

#[test]
fn a_loss_that_no_time_stamp_shows_has_what_exceeds_the_usual_way() {
    let mut made = usual().later(206 * MS);
    made.exchange.peer_tcp = Some(lost(0));
    let peer = made.exchange.peer.as_mut().unwrap();
    (peer.scheduled, peer.software) = Default::default();
    made.context.way_ns = Some(68 * US);
    assert_eq!(
        made.main(),
        (Stage::PeerResend, Cause::LossProbe, 206_000, Certain)
    );
}

#[test]
fn nagle_alone_and_with_a_delayed_acknowledgement() {
    for (ns, cause) in [(9 * MS, Cause::Nagle), (42 * MS, Cause::DelayedAck)] {
        let mut made = usual().held(ns);
        made.context.nagle = true;
        made.context.outstanding = 1;
        assert_eq!(made.main(), (Stage::Send, cause, ns / US + 4, Likely));
    }
}

#[test]
fn a_neighbour_that_did_not_answer() {
    // The timer of the retransmission expired, and nothing was sent again: it was still here.
    let mut made = usual().held(1_012 * MS);
    made.exchange.tcp = Some(punctual_network::TcpChange {
        timeouts: Some(2),
        ..counted()
    });
    assert_eq!(
        made.main(),
        (Stage::Send, Cause::Neighbour, 1_012_004, Certain)
    );
    // A datagram has no counters, and nothing else to wait for.
    let mut made = usual().held(1_012 * MS);
    made.context.tcp = false;
    made.exchange.tcp = None;
    assert_eq!(
        made.main(),
        (Stage::Send, Cause::Neighbour, 1_012_004, Likely)
    );
}

#[test]
fn bulk_data_in_the_queue_before_it() {
    let mut made = usual().later(8 * MS);
    made.exchange.sent.software = once(DUE + 10 * US + 8 * MS);
    assert_eq!(made.main(), (Stage::Queue, Cause::Queue, 8_001, Certain));
}

#[test]
fn data_behind_what_waits_in_the_queue_or_for_the_neighbour_waits_for_the_same() {
    for (by, cause) in [
        (Holder::Queue, Cause::Queue),
        (Holder::Neighbour, Cause::Neighbour),
    ] {
        let mut made = usual().held(8 * MS);
        made.context.outstanding = 1;
        let until_ns = DUE + 8 * MS;
        made.context.held = Some(Held { until_ns, by });
        assert_eq!(made.main(), (Stage::Send, cause, 8_004, Likely));
    }
}

#[test]
fn less_than_a_round_trip_is_no_window() {
    let mut made = usual().held(4 * MS);
    made.exchange.size = 40_000;
    made.context.idle_ns = Some(900 * MS);
    made.context.before.as_mut().unwrap().rtt_us = 10_000;
    made.context.paced = true;
    assert_eq!(made.main(), (Stage::Send, Cause::Pacing, 4_004, Likely));
}

#[test]
fn a_reply_that_nagle_held_is_known_by_the_late_acknowledgement_of_the_message() {
    let mut made = usual().later(42 * MS);
    made.context.nagle = true;
    made.exchange.sent.acknowledged_ns = Some(DUE + 41 * MS);
    made.exchange.peer_tcp = None;
    let peer = made.exchange.peer.as_mut().unwrap();
    (peer.scheduled, peer.software) = Default::default();
    assert_eq!(
        made.main(),
        (Stage::PeerSend, Cause::DelayedAck, 42_005, Likely)
    );
}

#[test]
fn a_message_that_was_read_with_the_next_one_slept_before_its_time_stamp() {
    let mut made = usual().later(25 * MS);
    made.context.read_together = true;
    let peer = made.exchange.peer.as_mut().unwrap();
    peer.rx_software_ns = Some(PEER + 17 * MS);
    peer.woke_ns += 25 * MS;
    peer.send_begin_ns += 25 * MS;
    peer.scheduled = once(peer.scheduled.first_ns + 25 * MS);
    peer.software = once(peer.software.first_ns + 25 * MS);
    assert_eq!(made.main(), (Stage::PeerWakeUp, ASLEEP, 25_010, Likely));
    // The same of replies.
    let mut made = usual().later(25 * MS);
    made.context.replies_together = true;
    made.exchange.reply.as_mut().unwrap().rx_software_ns = Some(DUE + 90 * US + 17 * MS);
    assert_eq!(made.main(), (Stage::WakeUp, ASLEEP, 25_010, Likely));
}

#[test]
fn a_full_send_buffer() {
    let mut made = usual().held(20 * MS);
    made.exchange.sent.blocked = true;
    made.exchange.sent.call_end_ns += 20 * MS;
    assert_eq!(
        made.main(),
        (Stage::Send, Cause::SendBuffer, 20_004, Certain)
    );
    let bill = made.bill();
    assert_eq!(bill.main().unwrap().evidence, [Evidence::Blocked]);
}

#[test]
fn a_full_buffer_is_the_windows_where_the_other_side_does_not_read() {
    let mut made = usual().held(20 * MS);
    made.exchange.sent.blocked = true;
    made.exchange.sent.call_end_ns += 20 * MS;
    made.exchange.tcp = Some(punctual_network::TcpChange {
        rwnd_limited_us: 16_000,
        ..counted()
    });
    assert_eq!(
        made.main(),
        (Stage::Send, Cause::ReceiveWindow, 20_004, Certain)
    );
}

#[test]
fn a_window_that_was_reduced_after_idle_time() {
    let mut made = usual().held(12 * MS);
    made.exchange.size = 40_000;
    made.context.idle_ns = Some(900 * MS);
    assert_eq!(
        made.main(),
        (Stage::Send, Cause::IdleRestart, 12_004, Certain)
    );
    // Without idle time, the window was too small.
    made.context.idle_ns = Some(MS);
    made.context.before.as_mut().unwrap().window = 20;
    assert_eq!(
        made.main(),
        (Stage::Send, Cause::CongestionWindow, 12_004, Likely)
    );
}

#[test]
fn a_thread_that_did_not_read_the_reply() {
    let mut made = usual();
    made.exchange.reply.as_mut().unwrap().woke_ns += 4 * MS;
    assert_eq!(made.main(), (Stage::WakeUp, ASLEEP, 4_010, Likely));
}

#[test]
fn a_reply_behind_a_lost_one_waited_for_it() {
    let mut made = usual();
    made.exchange.reply.as_mut().unwrap().woke_ns += 40 * MS;
    made.context.earlier_reply = Some(lost(0));
    assert_eq!(
        made.main(),
        (Stage::WakeUp, Cause::FastRetransmit, 40_010, Likely)
    );
    let bill = made.bill();
    assert!(
        bill.main()
            .unwrap()
            .evidence
            .contains(&Evidence::EarlierData)
    );
}

#[test]
fn what_no_stage_explains_is_on_the_way_and_unexplained() {
    let made = usual().later(7 * MS);
    assert_eq!(made.main(), (Stage::Way, Cause::Way, 7_000, Possible));
    let bill = made.bill();
    assert!(!bill.is_explained());
    assert_eq!(
        bill.main().unwrap().evidence,
        [Evidence::UsualWay { ns: 63 * US }]
    );
}

#[test]
fn time_stamps_of_a_card_tell_this_kernel_from_the_wire() {
    let mut made = usual().later(7 * MS);
    made.exchange.sent.hardware_ns = Some(1_000_000);
    made.exchange.reply.as_mut().unwrap().rx_hardware_ns = Some(1_000_000 + 70 * US);
    let (stage, cause, us, certainty) = made.main();
    assert_eq!(
        (stage, cause),
        (Stage::Receive, Cause::Softirq { by: None })
    );
    assert_eq!((us, certainty), (7_000, Certain));
}

#[test]
fn a_responder_that_reports_more_than_passed_is_doubted() {
    let mut made = usual();
    made.exchange.peer.as_mut().unwrap().woke_ns += 9 * MS;
    made.exchange.peer.as_mut().unwrap().send_begin_ns += 9 * MS;
    let bill = made.bill();
    let row = bill
        .rows
        .iter()
        .find(|row| row.stage == Stage::PeerWakeUp)
        .unwrap();
    assert_eq!(row.certainty, Possible);
    assert!(matches!(row.evidence[..], [Evidence::Contradiction { .. }]));
}

#[test]
fn a_retransmission_after_the_reply_was_needless_and_delayed_nothing() {
    let mut made = usual().later(MS);
    made.exchange.tcp = Some(lost(0));
    made.exchange.sent.software = twice(DUE + 10 * US, DUE + 900 * MS);
    assert!(
        !made
            .rows()
            .iter()
            .any(|row| row.0 == Stage::Queue && row.2 > 1)
    );
}

#[test]
fn a_retransmission_that_left_too_late_for_the_reply_was_not_needed() {
    // The shortest way takes 120 us, and the reply came 30 us after it.
    let mut made = usual().later(9 * MS);
    made.context.way_ns = Some(120 * US);
    made.exchange.tcp = Some(lost(0));
    made.exchange.sent.software = twice(DUE + 10 * US, DUE + 60 * US + 9 * MS);
    let (stage, cause, ..) = made.main();
    assert_eq!((stage, cause), (Stage::Way, Cause::Way));
}
