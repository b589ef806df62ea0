//! The account of messages needs no more memory for many than for few. `PUNCTUAL_MESSAGES=1e9` with
//! `--release` tries a billion of them.

use crate::allocated;
use punctual_network::ancillary::SentStage;
use punctual_network::bill::Context;
use punctual_network::sender::join::{Joiner, Rules};
use punctual_network::sender::{Reading, Received, Sent, Stamped};
use punctual_network::wire::data::{Head, Stages, WHOLE_REPLY_BYTES, write_reply};
use punctual_network::wire::delays::PeerDelay;

const MS: u64 = 1_000_000;
const SIZE: u32 = 96;
/// Messages by which the memory must have its final size.
const FIRST: u64 = 400_000;

/// What becomes of a message.
fn latency_ns(sequence: u64) -> Option<u64> {
    match sequence % 1_000 {
        13 => None,
        // After its time-out.
        77 => Some(700 * MS),
        1..=9 => Some(5 * MS + sequence % 777),
        _ => Some(50_000 + sequence % 777),
    }
}

fn sent(sequence: u64) -> Sent {
    let requested_ns = sequence * MS;
    Sent {
        sequence,
        requested_ns,
        begin_ns: requested_ns + 1_000,
        end_ns: requested_ns + 5_000,
        skipped_after: u64::from(sequence % 10_000 == 5),
        size: SIZE,
        id: sequence as u32,
        ..Sent::default()
    }
}

fn received(sequence: u64, after_ns: u64) -> Received {
    let requested_ns = sequence * MS;
    let head = Head {
        tag: 7,
        size: SIZE,
        sequence,
        requested_ns,
    };
    // Half of what is late waited for the responder's thread.
    let waited_ns = if sequence.is_multiple_of(2) {
        after_ns / 2
    } else {
        3_000
    };
    let stages = Stages {
        woke_ns: requested_ns + 10_000 + waited_ns,
        received_before_ns: Some(waited_ns as u32),
        sent_after_ns: 900,
        earlier: None,
    };
    let mut bytes = [0; WHOLE_REPLY_BYTES];
    write_reply(&mut bytes, &head, &stages);
    Received {
        sequence,
        requested_ns,
        woke_ns: requested_ns + after_ns,
        software_ns: requested_ns + after_ns - 3_000,
        size: SIZE,
        bytes,
        ..Received::default()
    }
}

#[test]
#[allow(clippy::print_stderr, reason = "the figures of a longer run")]
fn a_joiner_needs_the_same_memory_for_any_number_of_messages() {
    let asked = std::env::var("PUNCTUAL_MESSAGES").unwrap_or_default();
    let count = asked.parse::<f64>().map_or(2_000_000, |it| it as u64);
    let mut joiner = Joiner::new(Rules {
        timeout_ns: Some(500 * MS),
        late_ns: 2 * MS,
        peer_clock: None,
        launch: None,
        connection: Context::default(),
    });
    joiner.await_peer();
    let (mut fates, mut lost) = (0u64, 0u64);
    let at_first = allocated::held();
    let (mut held, mut most) = (0, 0);
    for sequence in 1..=count {
        joiner.sent(&sent(sequence));
        let at_ns = sequence * MS + 6_000;
        for stage in [SentStage::Scheduled, SentStage::Software] {
            joiner.stamped(&Stamped {
                at_ns,
                id: sequence as u32,
                stage,
                ..Stamped::default()
            });
        }
        // What takes longest comes when 800 later ones have been sent.
        let early = latency_ns(sequence).filter(|ns| *ns < 600 * MS);
        let late = sequence
            .checked_sub(800)
            .filter(|_| sequence % 1_000 == 877);
        let replies = [
            early.map(|ns| received(sequence, ns)),
            late.map(|it| received(it, 700 * MS)),
        ];
        for reply in replies.into_iter().flatten() {
            joiner.received(&reply);
        }
        joiner.read(&Reading {
            sequence,
            tcp: None,
            dropped: 0,
            real_offset_ns: 0,
        });
        if sequence % 50 == 0 {
            joiner.settle(sequence * MS, |fate| {
                fates += 1;
                lost += u64::from(fate.replied_ns.is_none());
            });
        }
        if sequence == FIRST {
            (held, most) = (allocated::held(), allocated::most());
        }
    }
    let (held, most) = (held - at_first, most - at_first);
    let later = [allocated::held(), allocated::most()].map(|bytes| bytes - at_first);
    eprintln!("{count} messages: {held} bytes, at most {most}; then {later:?}");
    assert!(held > 0, "{held}");
    assert!(later[0] < held + (1 << 20), "{later:?}, at first {held}");
    assert!(later[1] < most + (1 << 20), "{later:?}, at first {most}");
    joiner.finish(|_| fates += 1);
    assert_eq!(fates, count);
    let delays = (1..=count.min(1_024)).map(|sequence| PeerDelay {
        sequence,
        ..PeerDelay::default()
    });
    joiner.explain_peer(&delays.collect::<Vec<_>>());
    let bills = joiner.bills();
    assert!(bills.is_consistent());
    let in_each_thousand = |share: u64| count / 1_000 * share;
    let counts = joiner.counts();
    assert!(counts.lost >= in_each_thousand(2) && lost > 0, "{counts:?}");
    assert!(bills.late >= in_each_thousand(9), "{}", bills.late);
}
