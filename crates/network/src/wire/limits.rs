//! What a session may ask for, and what the responder spends on others.

/// The longest frame of control, in bytes.
pub const FRAME_BYTES: usize = 4096;
/// The longest text in a frame, in bytes.
pub const TEXT_BYTES: usize = 128;
/// The shortest message, in bytes: a reply has room for its stages.
pub const LEAST_MESSAGE_BYTES: u32 = super::data::REPLY_BYTES as u32;
/// The longest message over TCP, in bytes.
pub const MOST_MESSAGE_BYTES: u32 = 1 << 20;
/// The longest message in one datagram over UDP, in bytes.
pub const MOST_DATAGRAM_BYTES: u32 = 65_507;
/// The longest message in one Ethernet frame, in bytes.
pub const MOST_ETHERNET_BYTES: u32 = 1_500;
/// The most sizes in a pattern.
pub const MOST_SIZES: usize = 16;
/// The most messages in a burst.
pub const MOST_BURST: u32 = 1_024;
/// The shortest interval between messages, in ns.
pub const LEAST_INTERVAL_NS: u64 = 1_000;
/// The most runners that are named of one delay.
pub const MOST_RUNNERS: usize = 6;
/// The most delays that the responder names at the end of a session.
pub const MOST_DELAYS: usize = 1_024;
/// The highest sequence number: 40 bits, 3.5 years at 10 kHz.
pub const MOST_SEQUENCE: u64 = (1 << 40) - 1;
/// The shortest token, in bytes. One that the responder makes has 32 letters, 128 random bits.
pub const LEAST_TOKEN_BYTES: usize = 16;
/// The longest token, in bytes.
pub const MOST_TOKEN_BYTES: usize = 256;
/// The shortest and the longest time by which a message is passed to the kernel before its instant.
pub const LEAST_LEAD_NS: u64 = 1_000;
/// See [`LEAST_LEAD_NS`].
pub const MOST_LEAD_NS: u64 = 100_000_000;
