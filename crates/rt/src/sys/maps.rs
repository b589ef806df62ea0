//! The memory mappings of the process, as listed in `/proc/self/maps`.
//!
//! Read piece by piece into a small buffer: callers may run before `malloc` works, and on stacks
//! of 32 KB. Nothing here is for a real-time thread.

use std::ffi::c_int;
use std::ops::ControlFlow;

use super::cancel;
use super::map::{Errno, errno};

/// One mapping.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mapping {
    /// Its lowest address.
    pub low: usize,
    /// Whether it is readable and writable.
    pub high: usize,
    /// Whether it may be read and written.
    pub writable: bool,
    /// Its offset in its file.
    pub offset: u64,
    /// The inode of its file; 0 when it has none.
    pub inode: u64,
}

/// A buffer for a path: as much as the reader needs, at most the kernel's longest.
pub type Path<'a> = &'a mut [u8];

/// Calls `see` for each mapping of the process, by ascending address, until it breaks. Not for a
/// real-time thread: it reads a file.
///
/// # Errors
/// When `/proc` can't be read.
pub fn each<R>(mut see: impl FnMut(Mapping) -> ControlFlow<R>) -> Result<Option<R>, Errno> {
    each_named(&mut [0; 2048], &mut [], |mapping, _| see(mapping))
}

/// Like [`each`], in the caller's memory; the path, or the kernel's name for a mapping without
/// one (`[stack]`), is cut at the end of `path`. Async-signal-safe.
///
/// # Errors
/// When `/proc` can't be read.
pub fn each_named<R>(
    buffer: &mut [u8],
    path: Path<'_>,
    mut see: impl FnMut(Mapping, &[u8]) -> ControlFlow<R>,
) -> Result<Option<R>, Errno> {
    let _held = cancel::hold();
    let list = c"/proc/self/maps";
    // SAFETY: the path is a C string.
    let file = unsafe { libc::open(list.as_ptr(), libc::O_RDONLY | libc::O_CLOEXEC) };
    if file < 0 {
        return Err(errno());
    }
    let found = read_all(file, buffer, path, &mut see);
    // SAFETY: opened above, closed once.
    unsafe { libc::close(file) };
    found
}

fn read_all<R>(
    file: c_int,
    buffer: &mut [u8],
    path: Path<'_>,
    see: &mut impl FnMut(Mapping, &[u8]) -> ControlFlow<R>,
) -> Result<Option<R>, Errno> {
    let mut lines = Lines::default();
    loop {
        // SAFETY: the kernel writes at most the buffer's size.
        let got = unsafe { libc::read(file, buffer.as_mut_ptr().cast(), buffer.len()) };
        let got = match usize::try_from(got) {
            Ok(0) => return Ok(None),
            Ok(got) => got,
            Err(_) if errno() == libc::EINTR => continue,
            Err(_) => return Err(errno()),
        };
        for &byte in &buffer[..got] {
            let Some((mapping, length)) = lines.take(byte, path) else {
                continue;
            };
            if let ControlFlow::Break(found) = see(mapping, &path[..length]) {
                return Ok(Some(found));
            }
        }
    }
}

/// Reads `LOW-HIGH rwxp OFFSET DEVICE INODE PATH` byte by byte.
#[derive(Default)]
struct Lines {
    part: Part,
    low: usize,
    high: usize,
    offset: u64,
    inode: u64,
    /// The number of permission characters read, and the first two of them.
    bits: usize,
    access: [u8; 2],
    path: usize,
}

#[derive(Default, Clone, Copy, PartialEq, Eq, PartialOrd)]
enum Part {
    #[default]
    Low,
    High,
    Access,
    Offset,
    Device,
    Inode,
    Path,
}

impl Lines {
    /// The mapping of the line that ends with this byte, and the length of its path.
    fn take(&mut self, byte: u8, path: &mut [u8]) -> Option<(Mapping, usize)> {
        if byte == b'\n' {
            let line = std::mem::take(self);
            let whole = line.part >= Part::Inode && line.low < line.high;
            let mapping = Mapping {
                low: line.low,
                high: line.high,
                writable: line.access == *b"rw",
                offset: line.offset,
                inode: line.inode,
            };
            return whole.then_some((mapping, line.path));
        }
        let digit = |base: u32| u64::from(char::from(byte).to_digit(base).unwrap_or(0));
        let next = |number: u64| number.wrapping_mul(16).wrapping_add(digit(16));
        match (self.part, byte) {
            (Part::Low, b'-') => self.part = Part::High,
            (Part::High, b' ') => self.part = Part::Access,
            (Part::Access, b' ') => self.part = Part::Offset,
            (Part::Offset, b' ') => self.part = Part::Device,
            (Part::Device, b' ') => self.part = Part::Inode,
            (Part::Inode, b' ') => self.part = Part::Path,
            (Part::Low, _) => self.low = next(self.low as u64) as usize,
            (Part::High, _) => self.high = next(self.high as u64) as usize,
            (Part::Access, _) => {
                if let Some(place) = self.access.get_mut(self.bits) {
                    *place = byte;
                }
                self.bits += 1;
            }
            (Part::Offset, _) => self.offset = next(self.offset),
            (Part::Device, _) => {}
            (Part::Inode, _) => {
                self.inode = self.inode.wrapping_mul(10).wrapping_add(digit(10));
            }
            // Spaces precede the path.
            (Part::Path, b' ') if self.path == 0 => {}
            (Part::Path, _) => {
                if let Some(place) = path.get_mut(self.path) {
                    *place = byte;
                    self.path += 1;
                }
            }
        }
        None
    }
}

/// The mapping that contains `address`. Not for a real-time thread: it reads a file.
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

/// The lowest address, at least `low`, from which everything up to `high` is writable; `high` if
/// the memory right below it isn't. Not for a real-time thread: it reads a file.
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
            // A hole restarts the search, like a mapping that isn't writable.
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

    fn read(text: &str, room: usize) -> Vec<(Mapping, String)> {
        let (mut lines, mut path) = (Lines::default(), vec![0; room]);
        let mut take = |byte| {
            let (mapping, length) = lines.take(byte, &mut path)?;
            Some((
                mapping,
                String::from_utf8_lossy(&path[..length]).into_owned(),
            ))
        };
        text.bytes().filter_map(&mut take).collect()
    }

    #[test]
    fn valid_lines_are_parsed_and_invalid_ones_are_ignored() {
        let text = "1000-3000 rw-p 0 0 0\n3000-4000 ---p 2000 fd:01 77       /a b\nrubbish\n\n\
                    4000-6000 r--p 0 00:00 0      [stack]\n";
        let mapping = |low, high, writable, offset, inode| Mapping {
            low,
            high,
            writable,
            offset,
            inode,
        };
        let expected = |paths: [&str; 3]| {
            [
                (mapping(0x1000, 0x3000, true, 0, 0), paths[0].to_owned()),
                (
                    mapping(0x3000, 0x4000, false, 0x2000, 77),
                    paths[1].to_owned(),
                ),
                (mapping(0x4000, 0x6000, false, 0, 0), paths[2].to_owned()),
            ]
        };
        assert_eq!(read(text, 100), expected(["", "/a b", "[stack]"]));
        assert_eq!(read(text, 2), expected(["", "/a", "[s"]));
        assert_eq!(read("5000-4000 rw-p 0 0 0\n", 9), []);
    }

    #[test]
    #[cfg(not(miri))]
    fn the_stack_and_the_code_of_the_program_are_found() {
        let word = 7_u64;
        let here = (&raw const word) as usize;
        let found = around(here).unwrap();
        assert!(found.writable);
        assert_eq!(around(1), None);
        let page = found.low;
        assert_eq!(writable_down_to(page, here), page);
        // Code isn't writable, and the mapping of the stack has nothing right below it.
        let code = read as *const () as usize;
        assert_eq!(writable_down_to(code - 1, code + 1), code + 1);
        assert_eq!(writable_down_to(0, 4096), 4096);
    }
}
