//! Messages and replies of the measurement: fixed layouts, read and written in place.
//!
//! ```text
//! message  0 magic  4 tag  8 size and sequence  16 requested instant            24 bytes, then padding
//! reply    0 magic  4 tag  8 size and sequence  16 requested instant
//!         24 woke  32 received before  36 sent after  40 an earlier reply      64 bytes
//!         64 state of its connection (if there is room)                        96 bytes, then padding
//! ```

use crate::exchange::{TcpChange, TcpState};

/// Bytes of a message that have a meaning.
pub const MESSAGE_BYTES: usize = 24;
/// Bytes of a reply that always have one.
pub const REPLY_BYTES: usize = 64;
/// Bytes of a reply with the state of the responder's connection.
pub const WHOLE_REPLY_BYTES: usize = 96;

const MESSAGE_MAGIC: u32 = 0x706e_6d31;
const REPLY_MAGIC: u32 = 0x706e_7231;
/// A delta that was not measured.
const NONE: u32 = u32::MAX;

/// The head of a message, which its reply repeats.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Head {
    /// The session.
    pub tag: u32,
    /// Length of the message and of its reply, at most 2^24 - 1.
    pub size: u32,
    /// Its number, at most 2^40 - 1.
    pub sequence: u64,
    /// The instant at which it was to be sent, by the sender's clock.
    pub requested_ns: u64,
}

/// What the responder says in a reply.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Stages {
    /// It had the message in user space, by its own clock.
    pub woke_ns: u64,
    /// Its kernel had received it so long before; absent without time stamps.
    pub received_before_ns: Option<u32>,
    /// It began to send the reply so long after.
    pub sent_after_ns: u32,
    /// What is known of an earlier reply by now.
    pub earlier: Option<Earlier>,
}

/// What became of an earlier reply.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Earlier {
    /// Its number is lower by this.
    pub before: u16,
    /// It was passed to the driver so long after the responder began to send it.
    pub first_software_ns: Option<u32>,
    /// The same of the last time, in µs: a retransmission.
    pub last_software_us: Option<u32>,
    /// It entered the packet scheduler for the last time, in µs.
    pub last_scheduled_us: Option<u32>,
    /// How often it was passed to the driver.
    pub count: u8,
    /// What TCP counted from the reply before it to it; absent without TCP.
    pub tcp: Option<TcpChange>,
}

/// The head of a message; `None` if the bytes are none of this session.
#[must_use]
pub fn read_message(bytes: &[u8], tag: u32) -> Option<Head> {
    read_head(bytes, MESSAGE_MAGIC, tag)
}

/// The head of a reply; `None` if the bytes are none of this session.
#[must_use]
pub fn read_reply_head(bytes: &[u8], tag: u32) -> Option<Head> {
    read_head(bytes, REPLY_MAGIC, tag)
}

fn read_head(bytes: &[u8], magic: u32, tag: u32) -> Option<Head> {
    let head = bytes.first_chunk::<MESSAGE_BYTES>()?;
    let sized = u64_at(head, 8);
    let head = Head {
        tag: u32_at(head, 4),
        size: (sized >> 40) as u32,
        sequence: sized & super::limits::MOST_SEQUENCE,
        requested_ns: u64_at(head, 16),
    };
    let is_ours = u32_at(bytes, 0) == magic && head.tag == tag;
    (is_ours && head.size as usize >= REPLY_BYTES).then_some(head)
}

/// Writes the head of a message; `bytes` has at least [`MESSAGE_BYTES`].
pub fn write_message(bytes: &mut [u8], head: &Head) {
    write_head(bytes, MESSAGE_MAGIC, head);
}

fn write_head(bytes: &mut [u8], magic: u32, head: &Head) {
    put(bytes, 0, &magic.to_be_bytes());
    put(bytes, 4, &head.tag.to_be_bytes());
    let sized = u64::from(head.size) << 40 | head.sequence;
    put(bytes, 8, &sized.to_be_bytes());
    put(bytes, 16, &head.requested_ns.to_be_bytes());
}

/// Turns a message into its reply, in place; `bytes` has the length of the message.
pub fn write_reply(bytes: &mut [u8], head: &Head, stages: &Stages) {
    write_head(bytes, REPLY_MAGIC, head);
    put(bytes, 24, &stages.woke_ns.to_be_bytes());
    put(bytes, 32, &or_none(stages.received_before_ns));
    put(bytes, 36, &stages.sent_after_ns.to_be_bytes());
    let earlier = stages.earlier.unwrap_or_default();
    let tcp = earlier.tcp.unwrap_or_default();
    put(bytes, 40, &earlier.before.to_be_bytes());
    let has_tcp = u8::from(earlier.tcp.is_some());
    let has_timeouts = u8::from(tcp.timeouts.is_some());
    put(
        bytes,
        42,
        &[
            has_tcp | has_timeouts << 1 | tcp.state.congestion << 4,
            low(tcp.retransmits),
        ],
    );
    put(bytes, 44, &or_none(earlier.first_software_ns));
    put(bytes, 48, &or_none(earlier.last_software_us));
    put(bytes, 52, &or_none(earlier.last_scheduled_us));
    put(bytes, 56, &[earlier.count, low(tcp.timeouts.unwrap_or(0))]);
    let timeout_ms = tcp.timeout_ms.unwrap_or(0);
    put(bytes, 58, &short(timeout_ms.into()));
    put(bytes, 60, &short(tcp.rwnd_limited_us / 1000));
    put(bytes, 62, &short(tcp.sndbuf_limited_us / 1000));
    if bytes.len() >= WHOLE_REPLY_BYTES {
        let state = &tcp.state;
        put(bytes, 64, &whole(tcp.busy_us / 1000));
        put(bytes, 68, &state.rto_us.to_be_bytes());
        put(bytes, 72, &state.rtt_us.to_be_bytes());
        put(bytes, 76, &state.unsent_bytes.to_be_bytes());
        put(bytes, 80, &or_none(state.peer_window_bytes));
        put(bytes, 84, &short(state.unacknowledged.into()));
        put(bytes, 86, &short(state.lost.into()));
        put(bytes, 88, &short(state.window.into()));
        put(bytes, 90, &short(state.segment_bytes.into()));
        put(
            bytes,
            92,
            &[state.unanswered, state.backoff, state.probes, 0],
        );
    }
}

/// What a reply says, whose head was read already; `bytes` is all of it.
#[must_use]
pub fn read_stages(bytes: &[u8]) -> Option<Stages> {
    let fixed = bytes.get(..REPLY_BYTES)?;
    let before = u16_at(fixed, 40);
    let flags = fixed[42];
    let tcp = (flags & 1 != 0).then(|| {
        let has_timeouts = flags & 2 != 0;
        TcpChange {
            retransmits: fixed[43].into(),
            timeouts: has_timeouts.then(|| fixed[57].into()),
            timeout_recoveries: None,
            timeout_ms: has_timeouts.then(|| u16_at(fixed, 58).into()),
            rwnd_limited_us: u64::from(u16_at(fixed, 60)) * 1000,
            sndbuf_limited_us: u64::from(u16_at(fixed, 62)) * 1000,
            state: TcpState {
                congestion: flags >> 4,
                ..TcpState::default()
            },
            ..TcpChange::default()
        }
    });
    let tcp = match bytes.get(REPLY_BYTES..WHOLE_REPLY_BYTES) {
        Some(rest) => tcp.map(|tcp| with_state(tcp, rest)),
        None => tcp,
    };
    Some(Stages {
        woke_ns: u64_at(fixed, 24),
        received_before_ns: known(u32_at(fixed, 32)),
        sent_after_ns: u32_at(fixed, 36),
        earlier: (before > 0).then(|| Earlier {
            before,
            first_software_ns: known(u32_at(fixed, 44)),
            last_software_us: known(u32_at(fixed, 48)),
            last_scheduled_us: known(u32_at(fixed, 52)),
            count: fixed[56],
            tcp,
        }),
    })
}

fn with_state(change: TcpChange, rest: &[u8]) -> TcpChange {
    let at = |at: usize| at - REPLY_BYTES;
    TcpChange {
        busy_us: u64::from(u32_at(rest, at(64))) * 1000,
        state: TcpState {
            rto_us: u32_at(rest, at(68)),
            rtt_us: u32_at(rest, at(72)),
            unsent_bytes: u32_at(rest, at(76)),
            peer_window_bytes: known(u32_at(rest, at(80))),
            unacknowledged: u16_at(rest, at(84)).into(),
            lost: u16_at(rest, at(86)).into(),
            window: u16_at(rest, at(88)).into(),
            segment_bytes: u16_at(rest, at(90)).into(),
            unanswered: rest[at(92)],
            backoff: rest[at(93)],
            probes: rest[at(94)],
            ..change.state
        },
        ..change
    }
}

fn put(bytes: &mut [u8], at: usize, what: &[u8]) {
    if let Some(room) = bytes.get_mut(at..at + what.len()) {
        room.copy_from_slice(what);
    }
}

fn u16_at(bytes: &[u8], at: usize) -> u16 {
    let two = bytes.get(at..at + 2).and_then(|it| it.try_into().ok());
    two.map_or(0, u16::from_be_bytes)
}

fn u32_at(bytes: &[u8], at: usize) -> u32 {
    let four = bytes.get(at..at + 4).and_then(|it| it.try_into().ok());
    four.map_or(0, u32::from_be_bytes)
}

fn u64_at(bytes: &[u8], at: usize) -> u64 {
    let eight = bytes.get(at..at + 8).and_then(|it| it.try_into().ok());
    eight.map_or(0, u64::from_be_bytes)
}

/// As much of a count as one byte holds.
fn low(value: impl Into<u32>) -> u8 {
    value.into().min(255) as u8
}

fn short(value: u64) -> [u8; 2] {
    (value.min(u16::MAX.into()) as u16).to_be_bytes()
}

fn whole(value: u64) -> [u8; 4] {
    (value.min(u32::MAX.into()) as u32).to_be_bytes()
}

fn or_none(value: Option<u32>) -> [u8; 4] {
    value
        .map_or(NONE, |value| value.min(NONE - 1))
        .to_be_bytes()
}

fn known(value: u32) -> Option<u32> {
    (value != NONE).then_some(value)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn head() -> Head {
        Head {
            tag: 0xdead_beef,
            size: 96,
            sequence: super::super::limits::MOST_SEQUENCE - 5,
            requested_ns: 123_456_789_012,
        }
    }

    fn stages() -> Stages {
        Stages {
            woke_ns: 77,
            received_before_ns: Some(12_345),
            sent_after_ns: 900,
            earlier: Some(Earlier {
                before: 2,
                first_software_ns: Some(4_000),
                last_software_us: Some(206_000),
                last_scheduled_us: None,
                count: 2,
                tcp: Some(TcpChange {
                    retransmits: 3,
                    timeouts: Some(1),
                    timeout_recoveries: None,
                    timeout_ms: Some(204),
                    busy_us: 5_000,
                    rwnd_limited_us: 4_000,
                    sndbuf_limited_us: 8_000,
                    duplicates: 0,
                    reordered: 0,
                    state: TcpState {
                        congestion: 4,
                        unanswered: 1,
                        backoff: 2,
                        probes: 3,
                        rto_us: 408_000,
                        rtt_us: 51,
                        unacknowledged: 7,
                        lost: 6,
                        window: 10,
                        unsent_bytes: 512,
                        segment_bytes: 1_448,
                        peer_window_bytes: Some(65_536),
                    },
                }),
            }),
        }
    }

    #[test]
    fn a_reply_says_what_was_written_into_it() {
        let mut bytes = [0u8; 96];
        write_message(&mut bytes, &head());
        assert_eq!(read_message(&bytes, 0xdead_beef), Some(head()));
        assert_eq!(read_message(&bytes, 1), None, "of another session");
        write_reply(&mut bytes, &head(), &stages());
        assert_eq!(read_message(&bytes, 0xdead_beef), None, "now a reply");
        assert_eq!(read_reply_head(&bytes, 0xdead_beef), Some(head()));
        assert_eq!(read_stages(&bytes), Some(stages()));
    }

    #[test]
    fn a_short_reply_leaves_out_the_state_and_keeps_the_counts() {
        let mut bytes = [0u8; 64];
        write_reply(&mut bytes, &head(), &stages());
        let read = read_stages(&bytes).unwrap().earlier.unwrap().tcp.unwrap();
        assert_eq!((read.retransmits, read.timeout_ms), (3, Some(204)));
        assert_eq!(read.state.congestion, 4);
        assert_eq!(read.state.rto_us, 0);
        assert_eq!(read_stages(&bytes[..63]), None);
    }

    #[test]
    fn counts_beyond_their_field_stay_at_its_end() {
        let mut large = stages();
        let tcp = large.earlier.as_mut().unwrap().tcp.as_mut().unwrap();
        tcp.retransmits = 1_000;
        tcp.rwnd_limited_us = u64::MAX;
        let mut bytes = [0u8; 96];
        write_reply(&mut bytes, &head(), &large);
        let read = read_stages(&bytes).unwrap().earlier.unwrap().tcp.unwrap();
        assert_eq!(read.retransmits, 255);
        assert_eq!(read.rwnd_limited_us, 65_535_000);
    }
}
