//! The protocol, pure: bytes in, data out. Nothing here reads a socket or a clock.
//!
//! Two connections to the responder's port: one of control, on which both sides prove that they know
//! the token, agree on a session and exchange what they know at its end; and one of data (or
//! datagrams, or Ethernet frames), on which messages and replies of fixed layout pass. Numbers are
//! big-endian. No length in a frame makes a reader allocate more than [`limits`] permits.

mod bytes;
pub mod control;
pub mod data;
pub mod delays;
pub mod limits;
pub mod proof;
pub mod session;

use std::fmt;

/// Version of the protocol; both sides must speak the same.
pub const PROTOCOL: u16 = 3;

/// The port of the responder if none is given.
pub const PORT: u16 = 7380;

/// Why bytes are no message of the protocol.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WireError {
    /// They do not begin as the protocol does: another program.
    Foreign,
    /// A frame is longer than any of the protocol.
    TooLong {
        /// What it says of its length.
        length: usize,
    },
    /// A frame ends before its content.
    Truncated,
    /// A frame has bytes after its content.
    Surplus,
    /// A kind of frame, or a value in it, that this version doesn't know.
    Unknown {
        /// The value.
        value: u64,
    },
    /// A text is no UTF-8, or too long.
    Text,
}

impl fmt::Display for WireError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Foreign => f.write_str("the other side does not speak punctual's protocol"),
            Self::TooLong { length } => write!(
                f,
                "a frame of {length} bytes is longer than the {} of the protocol",
                limits::FRAME_BYTES
            ),
            Self::Truncated => f.write_str("a frame ends before its content"),
            Self::Surplus => f.write_str("a frame is longer than its content"),
            Self::Unknown { value } => write!(f, "a frame has the unknown value {value}"),
            Self::Text => f.write_str("a frame has text that is not UTF-8, or too long"),
        }
    }
}

impl std::error::Error for WireError {}
