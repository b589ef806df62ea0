//! What a peer of a channel sends. However it arrives, the frames are the same, and the memory
//! stays that of two frames.

use punctual_rt::channel::{FrameError, HEADER, Header, Inbox};

/// The longest payload that is accepted here.
const LIMIT: u32 = 1000;

pub fn check(bytes: &[u8]) {
    let mut expected = None;
    // All at once, byte by byte, and in pieces that cut headers and payloads.
    for piece in [usize::MAX, 1, 7, 333] {
        let found = frames(bytes, piece);
        let expected = expected.get_or_insert_with(|| found.clone());
        assert_eq!(*expected, found, "in pieces of {piece}");
    }
    if let Some(Ok(frames)) = expected {
        // The frames are the bytes, up to one that is not complete.
        let mut again = Vec::new();
        for (header, payload) in frames {
            assert_eq!(header.length as usize, payload.len());
            again.extend(header.bytes());
            again.extend(payload);
        }
        assert!(bytes.starts_with(&again));
        assert!(bytes.len() - again.len() < HEADER + LIMIT as usize);
    }
}

/// The frames in a stream that arrives in pieces of at most so many bytes.
pub fn frames(bytes: &[u8], piece: usize) -> Result<Vec<(Header, Vec<u8>)>, FrameError> {
    let mut inbox = Inbox::new(LIMIT).expect("memory for two frames");
    let mut found = Vec::new();
    let mut left = bytes;
    loop {
        while let Some(frame) = inbox.next_frame()? {
            found.push((frame.header, inbox.payload(&frame).to_vec()));
        }
        if left.is_empty() {
            return Ok(found);
        }
        let room = inbox.room();
        assert!(!room.is_empty() && room.len() <= 2 * (HEADER + LIMIT as usize));
        let count = room.len().min(left.len()).min(piece);
        room[..count].copy_from_slice(&left[..count]);
        inbox.filled(count);
        left = &left[count..];
    }
}
