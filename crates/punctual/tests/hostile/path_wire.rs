//! What comes from another machine: frames of control, messages, replies; and what the kernel puts
//! beside them.

use punctual_network::TcpCounters;
use punctual_network::ancillary::Ancillary;
use punctual_network::sender::Received;
use punctual_network::sender::join::{Joiner, Rules};
use punctual_network::wire::PROTOCOL;
use punctual_network::wire::control::Frame;
use punctual_network::wire::data::{
    WHOLE_REPLY_BYTES, read_message, read_reply_head, read_stages, write_reply,
};
use punctual_network::wire::limits;

pub fn check(bytes: &[u8]) {
    let _ = (Ancillary::parse(bytes), TcpCounters::parse(bytes));
    frames(bytes);
    replies(bytes);
}

/// A frame that is read is written as it was.
fn frames(bytes: &[u8]) {
    let Some((first, rest)) = bytes.split_first_chunk::<2>() else {
        return;
    };
    let Ok(length) = Frame::length(*first) else {
        return;
    };
    assert!(length <= limits::FRAME_BYTES);
    let Some(frame) = rest.get(..length) else {
        return;
    };
    let Ok(read) = Frame::parse(frame) else {
        return;
    };
    if let Frame::Hello { protocol, .. } = read
        && protocol != PROTOCOL
    {
        return;
    }
    let written = read.to_bytes();
    assert_eq!(written[2..], *frame);
    assert_eq!(Frame::length([written[0], written[1]]), Ok(length));
}

/// A reply that is read is written as it was read; any reply leaves the account whole.
fn replies(bytes: &[u8]) {
    let Some(tag) = bytes.get(4..8).and_then(|it| it.try_into().ok()) else {
        return;
    };
    let tag = u32::from_be_bytes(tag);
    if let Some(head) = read_message(bytes, tag) {
        assert!(head.size >= limits::LEAST_MESSAGE_BYTES);
    }
    let Some(head) = read_reply_head(bytes, tag) else {
        return;
    };
    assert!(head.sequence <= limits::MOST_SEQUENCE);
    if let Some(stages) = read_stages(bytes) {
        let mut again = [0; WHOLE_REPLY_BYTES];
        write_reply(&mut again, &head, &stages);
        let length = bytes.len().min(WHOLE_REPLY_BYTES);
        let short = read_stages(&again[..length.max(64)]).expect("what was written");
        assert_eq!(short.woke_ns, stages.woke_ns);
        assert_eq!(short.received_before_ns, stages.received_before_ns);
    }
    let mut received = Received {
        sequence: head.sequence,
        requested_ns: head.requested_ns,
        size: head.size,
        ..Received::default()
    };
    let length = bytes.len().min(WHOLE_REPLY_BYTES);
    received.bytes[..length].copy_from_slice(&bytes[..length]);
    let mut joiner = Joiner::new(Rules {
        timeout_ns: Some(1),
        late_ns: 0,
        peer_clock: None,
        launch: None,
        connection: punctual_network::bill::Context {
            tcp: true,
            ..punctual_network::bill::Context::default()
        },
    });
    joiner.received(&received);
    let mut fates = 0;
    joiner.settle(u64::MAX, |_| fates += 1);
    joiner.finish(|_| fates += 1);
    // Nothing was sent, so nothing was replied to.
    assert_eq!((fates, joiner.counts().replies), (0, 0));
    assert_eq!(joiner.counts().foreign + joiner.counts().duplicates, 1);
}
