//! The bytes that a channel has received, and the frames in them.

use std::io;
use std::ops::Range;

use super::frame::{FrameError, HEADER, Header};
use crate::sys::cgroup;

/// Received bytes of which some are not read yet: always less than two frames, so its memory is
/// bounded.
#[derive(Debug)]
pub struct Inbox {
    bytes: Box<[u8]>,
    from: usize,
    to: usize,
    limit: u32,
}

/// A complete frame: its header, and where its payload is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Frame {
    /// The header.
    pub header: Header,
    /// The place of the payload, until the next call of [`Inbox::room`].
    pub payload: Range<usize>,
}

/// Bytes that are present in memory.
///
/// # Errors
/// ENOMEM.
pub(super) fn present(length: usize) -> io::Result<Box<[u8]>> {
    let no_memory = || io::Error::from_raw_os_error(libc::ENOMEM);
    cgroup::allows(length)?;
    let mut bytes = Vec::new();
    bytes.try_reserve_exact(length).map_err(|_| no_memory())?;
    // Not zero: for zeros the allocator may give pages that are absent.
    bytes.resize(length, 0xff);
    Ok(bytes.into_boxed_slice())
}

impl Inbox {
    /// Memory for payloads of at most `limit` bytes, present. Not real-time safe.
    ///
    /// # Errors
    /// ENOMEM.
    pub fn new(limit: u32) -> io::Result<Self> {
        // A frame that begins at the end of the memory is moved to its beginning.
        let bytes = present(2 * (HEADER + limit as usize))?;
        Ok(Self {
            bytes,
            from: 0,
            to: 0,
            limit,
        })
    }

    /// The next frame that is complete; `None`: more bytes are needed. Real-time safe.
    ///
    /// # Errors
    /// What is wrong with its header; the rest can't be read then.
    #[inline]
    pub fn next_frame(&mut self) -> Result<Option<Frame>, FrameError> {
        let Some(bytes) = self.bytes[self.from..self.to].first_chunk() else {
            return Ok(None);
        };
        let header = Header::read(bytes, self.limit)?;
        let begin = self.from + HEADER;
        let end = begin + header.length as usize;
        if end > self.to {
            return Ok(None);
        }
        self.from = end;
        let payload = begin..end;
        Ok(Some(Frame { header, payload }))
    }

    /// Puts back the frame that [`Inbox::next_frame`] returned last. Real-time safe.
    pub fn put_back(&mut self, frame: &Frame) {
        if self.from == frame.payload.end && frame.payload.start >= HEADER {
            self.from = frame.payload.start - HEADER;
        }
    }

    /// The payload of a frame. Real-time safe.
    #[must_use]
    pub fn payload(&self, frame: &Frame) -> &[u8] {
        self.bytes.get(frame.payload.clone()).unwrap_or_default()
    }

    /// Room for more bytes, at least as many as the frame that has begun lacks. Real-time safe: it
    /// moves at most one frame.
    #[inline]
    pub fn room(&mut self) -> &mut [u8] {
        if self.from == self.to {
            (self.from, self.to) = (0, 0);
        } else if self.bytes.len() - self.from < self.bytes.len() / 2 {
            self.bytes.copy_within(self.from..self.to, 0);
            (self.from, self.to) = (0, self.to - self.from);
        }
        &mut self.bytes[self.to..]
    }

    /// States how many bytes of the room were filled. Real-time safe.
    #[inline]
    pub fn filled(&mut self, count: usize) {
        self.to = self.bytes.len().min(self.to + count);
    }

    /// Whether a frame has begun that is not complete. Real-time safe.
    #[must_use]
    pub fn is_within_a_frame(&self) -> bool {
        self.from != self.to
    }
}

#[cfg(test)]
mod tests {
    use super::super::frame::Kind;
    use super::*;
    use proptest::prelude::*;

    proptest! {
        /// However the bytes are cut, the same messages are found, and there is always room.
        #[test]
        fn frames_are_found_however_they_arrive(
            lengths in prop::collection::vec(0..=50_u32, 1..40),
            cuts in prop::collection::vec(1..=90_usize, 1..30),
        ) {
            let mut stream = Vec::new();
            for (number, &length) in lengths.iter().enumerate() {
                let header = Header { kind: Kind::Message, length, deadline_us: 0, stamp_ns: 0 };
                stream.extend(header.bytes());
                stream.extend((0..length).map(|_| number as u8));
            }
            let mut inbox = Inbox::new(50).unwrap();
            let mut found = Vec::new();
            let (mut left, mut cut) = (&stream[..], cuts.iter().cycle());
            while !left.is_empty() {
                let room = inbox.room();
                prop_assert!(!room.is_empty());
                let count = room.len().min(left.len()).min(*cut.next().unwrap());
                room[..count].copy_from_slice(&left[..count]);
                inbox.filled(count);
                left = &left[count..];
                while let Some(frame) = inbox.next_frame().unwrap() {
                    let payload = inbox.payload(&frame).to_vec();
                    prop_assert!(payload.iter().all(|&byte| byte == found.len() as u8));
                    found.push(payload.len() as u32);
                }
            }
            prop_assert!(!inbox.is_within_a_frame());
            prop_assert_eq!(found, lengths);
        }
    }

    #[test]
    fn a_frame_that_is_put_back_is_next_again() {
        let mut inbox = Inbox::new(8).unwrap();
        let header = Header {
            kind: Kind::Message,
            length: 3,
            deadline_us: 0,
            stamp_ns: 0,
        };
        let room = inbox.room();
        room[..16].copy_from_slice(&header.bytes());
        room[16..19].copy_from_slice(b"abc");
        inbox.filled(19);
        let frame = inbox.next_frame().unwrap().unwrap();
        inbox.put_back(&frame);
        assert_eq!(inbox.next_frame().unwrap().as_ref(), Some(&frame));
        assert_eq!(inbox.payload(&frame), b"abc");
        assert_eq!(inbox.next_frame(), Ok(None));
    }
}
