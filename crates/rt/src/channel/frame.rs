//! The framing: how messages are delimited on a connection.
//!
//! Each frame has a header of 16 bytes, all numbers in network byte order, and a payload. A plain
//! socket can speak it; docs/channel.md has some lines of Python.

/// Bytes of a header.
pub const HEADER: usize = 16;
/// The largest payload that the framing can express.
pub const LARGEST: u32 = (1 << 24) - 1;

const MESSAGE: u8 = 0xD0;
const STAMPED: u8 = 0xD1;
const STAMPED_REALTIME: u8 = 0xD2;
const PADDING: u8 = 0xDF;

/// What a frame is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// A message without a stamp: its age is not known.
    Message,
    /// A message that is stamped with the sender's CLOCK_MONOTONIC.
    Stamped,
    /// A message that is stamped with the sender's CLOCK_REALTIME.
    StampedRealtime,
    /// Nothing: the receiver discards it.
    Padding,
}

/// The header of a frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Header {
    /// What follows.
    pub kind: Kind,
    /// Bytes of the payload, at most [`LARGEST`].
    pub length: u32,
    /// How old the message may be when it is received, in us; 0: no deadline.
    pub deadline_us: u32,
    /// When it was sent, in ns of the sender's clock; 0 without a stamp.
    pub stamp_ns: u64,
}

/// Why bytes are no header.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FrameError {
    /// The first byte is not that of a frame: the peer does not speak this framing.
    NotAFrame,
    /// The payload is longer than the receiver accepts.
    TooLong,
}

impl FrameError {
    /// EPROTO or EMSGSIZE. Real-time safe.
    #[must_use]
    pub fn errno(self) -> i32 {
        match self {
            Self::NotAFrame => libc::EPROTO,
            Self::TooLong => libc::EMSGSIZE,
        }
    }
}

impl Header {
    /// A header that tells the receiver to discard it. Real-time safe.
    #[must_use]
    pub const fn padding() -> Self {
        Self {
            kind: Kind::Padding,
            length: 0,
            deadline_us: 0,
            stamp_ns: 0,
        }
    }

    /// The bytes of the header. Real-time safe.
    #[inline]
    #[must_use]
    pub const fn bytes(&self) -> [u8; HEADER] {
        let kind = match self.kind {
            Kind::Message => MESSAGE,
            Kind::Stamped => STAMPED,
            Kind::StampedRealtime => STAMPED_REALTIME,
            Kind::Padding => PADDING,
        };
        let first = (kind as u32) << 24 | (self.length & LARGEST);
        let all = (first as u128) << 96 | (self.deadline_us as u128) << 64 | self.stamp_ns as u128;
        all.to_be_bytes()
    }

    /// Reads a header. Real-time safe; any bytes end in a header or an error.
    ///
    /// # Errors
    /// What is wrong with the bytes, for a receiver that accepts payloads of at most `limit`.
    #[inline]
    pub fn read(bytes: &[u8; HEADER], limit: u32) -> Result<Self, FrameError> {
        let all = u128::from_be_bytes(*bytes);
        let kind = match bytes[0] {
            MESSAGE => Kind::Message,
            STAMPED => Kind::Stamped,
            STAMPED_REALTIME => Kind::StampedRealtime,
            PADDING => Kind::Padding,
            _ => return Err(FrameError::NotAFrame),
        };
        let header = Self {
            kind,
            length: (all >> 96) as u32 & LARGEST,
            deadline_us: (all >> 64) as u32,
            stamp_ns: all as u64,
        };
        if header.length > limit {
            return Err(FrameError::TooLong);
        }
        Ok(header)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn the_layout_is_the_documented_one() {
        let header = Header {
            kind: Kind::Stamped,
            length: 0x0001_0203,
            deadline_us: 0x0405_0607,
            stamp_ns: 0x0809_0A0B_0C0D_0E0F,
        };
        let bytes = header.bytes();
        assert_eq!(
            bytes,
            [0xD1, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15]
        );
        assert_eq!(Header::read(&bytes, LARGEST), Ok(header));
        assert_eq!(Header::read(&bytes, 0x0001_0202), Err(FrameError::TooLong));
        assert_eq!(Header::padding().bytes()[0], 0xDF);
    }

    proptest! {
        #[test]
        fn any_bytes_end_in_the_header_that_they_are_or_in_an_error(
            bytes in any::<[u8; HEADER]>(),
            limit in 0..=LARGEST,
        ) {
            match Header::read(&bytes, limit) {
                Ok(header) => {
                    prop_assert!(header.length <= limit);
                    prop_assert_eq!(header.bytes(), bytes);
                }
                Err(FrameError::NotAFrame) => {
                    prop_assert!(!matches!(bytes[0], 0xD0..=0xD2 | 0xDF));
                }
                Err(FrameError::TooLong) => {
                    let length = u32::from_be_bytes([0, bytes[1], bytes[2], bytes[3]]);
                    prop_assert!(length > limit);
                }
            }
        }
    }
}
