//! What of the process is mapped, as `/proc/self/maps` lists it.
//!
//! Read piece by piece into a small buffer: callers may stand before `malloc`, and on stacks of
//! 32 KB. Nothing here is for a real-time thread.

use std::ffi::c_int;
use std::ops::ControlFlow;

use super::cancel;
use super::map::{Errno, errno};

/// One mapping.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mapping {
    /// Its lowest address.
    pub low: usize,
    /// The first address above it.
    pub high: usize,
    /// Whether it may be read and written.
    pub writable: bool,
}

/// Shows the mappings of the process to `see`, by ascending address, until it breaks.
/// Not for a real-time thread: it reads a file.
///
/// # Errors
/// Where `/proc` can't be read.
pub fn each<R>(mut see: impl FnMut(Mapping) -> ControlFlow<R>) -> Result<Option<R>, Errno> {
    let _held = cancel::hold();
    let path = c"/proc/self/maps";
    // SAFETY: the path is a C string.
    let file = unsafe { libc::open(path.as_ptr(), libc::O_RDONLY | libc::O_CLOEXEC) };
    if file < 0 {
        return Err(errno());
    }
    let found = read_all(file, &mut see);
    // SAFETY: opened above, closed once.
    unsafe { libc::close(file) };
    found
}

fn read_all<R>(
    file: c_int,
    see: &mut impl FnMut(Mapping) -> ControlFlow<R>,
) -> Result<Option<R>, Errno> {
    let mut buffer = [0_u8; 2048];
    let mut lines = Lines::default();
    loop {
        // SAFETY: the buffer has as many bytes.
        let got = unsafe { libc::read(file, buffer.as_mut_ptr().cast(), buffer.len()) };
        let got = match usize::try_from(got) {
            Ok(0) => return Ok(None),
            Ok(got) => got,
            Err(_) if errno() == libc::EINTR => continue,
            Err(_) => return Err(errno()),
        };
        for &byte in &buffer[..got] {
            if let Some(mapping) = lines.take(byte)
                && let ControlFlow::Break(found) = see(mapping)
            {
                return Ok(Some(found));
            }
        }
    }
}

/// Reads `LOW-HIGH rwxp ...` byte by byte.
#[derive(Default)]
struct Lines {
    part: Part,
    numbers: [usize; 2],
    bits: [u8; 2],
}

#[derive(Default, Clone, Copy)]
enum Part {
    #[default]
    Low,
    High,
    Read,
    Write,
    Rest,
}

impl Lines {
    /// The mapping of a line that ends with this byte.
    fn take(&mut self, byte: u8) -> Option<Mapping> {
        if byte == b'\n' {
            let line = std::mem::take(self);
            let whole = matches!(line.part, Part::Rest) && line.numbers[0] < line.numbers[1];
            return whole.then_some(Mapping {
                low: line.numbers[0],
                high: line.numbers[1],
                writable: line.bits == [b'r', b'w'],
            });
        }
        let mut digit = |at: usize, byte: u8| {
            let value = char::from(byte).to_digit(16).unwrap_or(0) as usize;
            self.numbers[at] = self.numbers[at].wrapping_mul(16).wrapping_add(value);
        };
        self.part = match (self.part, byte) {
            (Part::Low, b'-') => Part::High,
            (Part::High, b' ') => Part::Read,
            (Part::Low, _) => {
                digit(0, byte);
                Part::Low
            }
            (Part::High, _) => {
                digit(1, byte);
                Part::High
            }
            (Part::Read, _) => {
                self.bits[0] = byte;
                Part::Write
            }
            (Part::Write, _) => {
                self.bits[1] = byte;
                Part::Rest
            }
            (Part::Rest, _) => Part::Rest,
        };
        None
    }
}

/// The mapping that `address` is in. Not for a real-time thread: it reads a file.
#[must_use]
pub fn around(address: usize) -> Option<Mapping> {
    each(|mapping| {
        if mapping.low <= address && address < mapping.high {
            ControlFlow::Break(mapping)
        } else {
            ControlFlow::Continue(())
        }
    })
    .ok()?
}

/// The lowest address, `low` or above, from which on all is writable up to `high`; `high` where
/// nothing right below it is. Not for a real-time thread: it reads a file.
#[must_use]
pub fn writable_down_to(low: usize, high: usize) -> usize {
    let (mut from, mut upto) = (high, low);
    let seen = each::<()>(|mapping| {
        if mapping.low >= high {
            return ControlFlow::Break(());
        }
        if mapping.high <= low {
            return ControlFlow::Continue(());
        }
        if !mapping.writable {
            from = high;
            upto = mapping.high;
        } else {
            // A hole begins anew, as a mapping that can't be written does.
            if from == high || mapping.low != upto {
                from = mapping.low.max(low);
            }
            upto = mapping.high;
        }
        ControlFlow::Continue(())
    });
    if seen.is_ok() && upto >= high {
        from
    } else {
        high
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Vec<Mapping> {
        let mut lines = Lines::default();
        text.bytes().filter_map(|byte| lines.take(byte)).collect()
    }

    #[test]
    fn lines_are_read_and_rubbish_is_left_out() {
        let text =
            "1000-3000 rw-p 0 0 0\n3000-4000 ---p 0 0 0 x\nrubbish\n\n4000-6000 r--p [stack]\n";
        let mapping = |low, high, writable| Mapping {
            low,
            high,
            writable,
        };
        assert_eq!(
            read(text),
            [
                mapping(0x1000, 0x3000, true),
                mapping(0x3000, 0x4000, false),
                mapping(0x4000, 0x6000, false)
            ]
        );
        assert_eq!(read("5000-4000 rw-p\n"), []);
    }

    #[test]
    #[cfg(not(miri))]
    fn the_programs_own_mappings_are_found() {
        let word = 7_u64;
        let here = (&raw const word) as usize;
        let found = around(here).unwrap();
        assert!(found.writable);
        assert_eq!(around(1), None);
        let page = found.low;
        assert_eq!(writable_down_to(page, here), page);
        // Code can't be written, and nothing is right below a mapping of its own.
        let code = read as *const () as usize;
        assert_eq!(writable_down_to(code - 1, code + 1), code + 1);
        assert_eq!(writable_down_to(0, 4096), 4096);
    }
}
