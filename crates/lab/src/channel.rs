//! The guest's output: a sequence of frames, written to an I/O port.
//!
//! ```text
//! punctual-frame NAME LENGTH SHA256\n
//! LENGTH bytes\n
//! ```
//!
//! The last frame is named `end`. A guest that died leaves a truncated stream, another writer to
//! the port a damaged one: both are detected.

use std::collections::BTreeMap;

use punctual_record::lab::{FrameFault, StreamFault};
use sha2::{Digest, Sha256};

const MARK: &str = "punctual-frame";
/// The first frame, written as soon as the first process runs.
pub const BEGIN: &str = "begin";
/// The last frame.
pub const END: &str = "end";
/// A header line is shorter than this.
const HEADER: usize = 512;
/// Most frames of a stream.
const FRAMES: usize = 4096;

/// SHA-256 in hexadecimal.
#[must_use]
pub fn sha256(bytes: &[u8]) -> String {
    hexadecimal(&Sha256::digest(bytes))
}

/// Bytes in hexadecimal.
#[must_use]
pub fn hexadecimal(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Whether a frame may have this name: a plain relative path.
#[must_use]
pub fn is_name(name: &str) -> bool {
    let plain = |b: u8| b.is_ascii_alphanumeric() || b"._-/".contains(&b);
    (1..=200).contains(&name.len())
        && name.bytes().all(plain)
        && name
            .split('/')
            .all(|part| !part.is_empty() && !part.starts_with('.'))
}

/// A frame's bytes.
#[must_use]
pub fn frame(name: &str, payload: &[u8]) -> Vec<u8> {
    let header = format!("{MARK} {name} {} {}\n", payload.len(), sha256(payload));
    let mut bytes = header.into_bytes();
    bytes.extend_from_slice(payload);
    bytes.push(b'\n');
    bytes
}

/// Parses a stream; never panics, whatever the bytes.
///
/// # Errors
/// [`StreamFault`] if it is not complete.
pub fn parse(stream: &[u8]) -> Result<BTreeMap<String, &[u8]>, StreamFault> {
    let mut frames = BTreeMap::new();
    let mut at = 0;
    if stream.is_empty() {
        return Err(StreamFault::Silent);
    }
    loop {
        let rest = &stream[at..];
        let garbled = move |fault| StreamFault::Garbled {
            at: at as u64,
            fault,
        };
        let cut = StreamFault::Cut {
            bytes: stream.len() as u64,
        };
        let window = &rest[..rest.len().min(HEADER)];
        let Some(length) = window.iter().position(|&byte| byte == b'\n') else {
            return Err(if window.len() < HEADER {
                cut
            } else {
                garbled(FrameFault::NoHeader)
            });
        };
        let header =
            std::str::from_utf8(&rest[..length]).map_err(|_| garbled(FrameFault::NoHeader))?;
        let mut words = header.split(' ');
        if words.next() != Some(MARK) {
            return Err(garbled(FrameFault::NoHeader));
        }
        let (Some(name), Some(size), Some(sum), None) =
            (words.next(), words.next(), words.next(), words.next())
        else {
            return Err(garbled(FrameFault::Words));
        };
        if !is_name(name) {
            return Err(garbled(FrameFault::Name));
        }
        let size: usize = size.parse().map_err(|_| garbled(FrameFault::Length))?;
        let begin = length + 1;
        let Some(end) = begin.checked_add(size).filter(|end| *end < rest.len()) else {
            return Err(cut);
        };
        let payload = &rest[begin..end];
        if rest[end] != b'\n' || sha256(payload) != sum {
            return Err(garbled(FrameFault::Checksum));
        }
        at += end + 1;
        let last = name == END;
        if frames.insert(name.to_owned(), payload).is_some() {
            return Err(garbled(FrameFault::Twice));
        }
        if frames.len() > FRAMES {
            return Err(garbled(FrameFault::TooMany));
        }
        if last {
            return if at == stream.len() {
                Ok(frames)
            } else {
                Err(StreamFault::Garbled {
                    at: at as u64,
                    fault: FrameFault::BytesBehind,
                })
            };
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn whole() -> Vec<u8> {
        let mut stream = frame("result", b"{\"a\": 1}\n");
        stream.extend(frame("out/run.json", &[0, 255, b'\n', b' ']));
        stream.extend(frame(END, b""));
        stream
    }

    #[test]
    fn what_is_handed_out_comes_in() {
        let stream = whole();
        let frames = parse(&stream).unwrap();
        assert_eq!(frames["result"], b"{\"a\": 1}\n");
        assert_eq!(frames["out/run.json"], &[0, 255, b'\n', b' ']);
        assert_eq!(frames.len(), 3);
    }

    #[test]
    fn every_cut_is_seen() {
        let stream = whole();
        for length in 0..stream.len() {
            let expected = if length == 0 {
                StreamFault::Silent
            } else {
                StreamFault::Cut {
                    bytes: length as u64,
                }
            };
            assert_eq!(parse(&stream[..length]), Err(expected), "{length}");
        }
    }

    #[test]
    fn every_changed_byte_is_seen() {
        let stream = whole();
        for at in 0..stream.len() {
            let mut broken = stream.clone();
            broken[at] ^= 1;
            assert_ne!(parse(&broken).as_ref(), parse(&stream).as_ref(), "{at}");
        }
        let mut longer = stream.clone();
        longer.push(b'\n');
        assert!(matches!(parse(&longer), Err(StreamFault::Garbled { .. })));
    }

    #[test]
    fn names_lead_nowhere_else() {
        for name in ["", "/a", "a/../b", "..", "a//b", "a b", ".x", "ä", "a/"] {
            assert!(!is_name(name), "{name}");
        }
        assert!(is_name("out/samples-0.parquet"));
        let twice = [frame("a", b""), frame("a", b"")].concat();
        assert!(matches!(parse(&twice), Err(StreamFault::Garbled { .. })));
        let huge = format!("{MARK} a {} {}\nx", u64::MAX, sha256(b""));
        assert!(parse(huge.as_bytes()).is_err());
    }

    proptest! {
        #[test]
        fn no_bytes_make_it_panic(bytes in proptest::collection::vec(any::<u8>(), 0..600)) {
            let _ = parse(&bytes);
            let framed = [b"punctual-frame ".as_slice(), &bytes].concat();
            let _ = parse(&framed);
        }
    }
}
