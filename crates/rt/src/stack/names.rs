//! Formats call stacks, one line per frame with file and function, without the library's own
//! frames.
//!
//! Recording a call stack needs none of it: names are looked up while a report is written, in the
//! mapped files, with memory that is mapped for the report. It calls only async-signal-safe
//! functions.

#![expect(unsafe_code, reason = "memory that is mapped for a report")]

use std::ffi::{CStr, c_int, c_void};
use std::ops::{ControlFlow, Range};
use std::ptr::NonNull;
use std::sync::atomic::{AtomicUsize, Ordering};

use super::report::{Line, line};
use crate::sys::elf::library_of;
use crate::sys::map::{self, Access, Errno};
use crate::sys::maps::{self, Mapping};
use crate::sys::symbols::{File, address_of, function_at};

/// The address range of the shared library that contains this code; 0 when it is part of the
/// program.
static OWN: [AtomicUsize; 2] = [const { AtomicUsize::new(0) }; 2];

/// Finds the address range of our own code, once: a signal handler can't call the loader.
pub(super) fn set_up() {
    if let Some(own) = library_of(set_up as *const () as usize) {
        OWN[0].store(own.start, Ordering::Relaxed);
        OWN[1].store(own.end, Ordering::Relaxed);
    }
}

fn own_library() -> Range<usize> {
    OWN[0].load(Ordering::Relaxed)..OWN[1].load(Ordering::Relaxed)
}

/// The owner of a function.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Whose {
    /// This library's.
    Ours,
    /// Rust's runtime: ours when it stands between functions of ours.
    Rusts,
    /// Any other code.
    Users,
}

impl Whose {
    fn of_name(name: &[u8]) -> Self {
        const ORIGINAL: [&[u8]; 3] = [b"stack_alloc", b"stack_free", b"fetch_stack_sizes"];
        if name.starts_with(b"punctual_") || ORIGINAL.contains(&name) {
            return Self::Ours;
        }
        // The namespace of punctual.hpp.
        if [&b"_ZN8punctual"[..], b"_ZNK8punctual"]
            .iter()
            .any(|it| name.starts_with(it))
            && !has_rusts_hash(name)
        {
            return Self::Ours;
        }
        let Some(home) = crate_of(name) else {
            return Self::Users;
        };
        let is = |of: &[&[u8]]| {
            let (found, is_impl) = match home.strip_prefix(b"_$LT$") {
                Some(found) => (found, true),
                None => (home, false),
            };
            of.iter().any(|of| {
                let rest = found.strip_prefix(*of);
                rest.is_some_and(|rest| rest.is_empty() || is_impl && rest.starts_with(b".."))
            })
        };
        let names = |part: &[u8]| name.windows(part.len()).any(|window| window == part);
        if is(&[b"punctual_rt", b"punctual_capi"]) {
            Self::Ours
        } else if is(&[b"core", b"alloc", b"std"]) {
            // For example the function that drops a stack.
            if names(b"punctual_rt") {
                Self::Ours
            } else {
                Self::Rusts
            }
        } else {
            Self::Users
        }
    }
}

/// The crate of a mangled Rust name, legacy (`_ZN4core3ptr…17h0123456789abcdefE`) or v0
/// (`_RNvNtCs1_4core3ptr…`): the first part of its path. A C++ name has a first part too, which
/// may also be `core`, but no hash.
fn crate_of(name: &[u8]) -> Option<&[u8]> {
    if let Some(path) = name.strip_prefix(b"_ZN") {
        return has_rusts_hash(path).then(|| identifier(path))?;
    }
    let path = name.strip_prefix(b"_R")?;
    let roots = path.iter().enumerate().filter(|(_, byte)| **byte == b'C');
    roots
        .map(|(at, _)| &path[at + 1..])
        .find_map(|root| match root.strip_prefix(b"s") {
            Some(rest) => {
                let end = rest.iter().position(|byte| *byte == b'_')?;
                let disambiguates = rest[..end].iter().all(u8::is_ascii_alphanumeric);
                disambiguates.then(|| identifier(&rest[end + 1..]))?
            }
            None => identifier(root),
        })
}

fn has_rusts_hash(name: &[u8]) -> bool {
    name.windows(20).any(|part| {
        part.starts_with(b"17h")
            && part[3..19].iter().all(u8::is_ascii_hexdigit)
            && part[19] == b'E'
    })
}

/// Parses a length and that many bytes.
fn identifier(text: &[u8]) -> Option<&[u8]> {
    let digits = text.iter().take_while(|byte| byte.is_ascii_digit()).count();
    let length = std::str::from_utf8(&text[..digits]).ok()?.parse().ok()?;
    let rest = text.get(digits..)?;
    rest.get(..length).filter(|found| !found.is_empty())
}

/// The limit of a name, and of a frame's line that is cached for its next report: C++ names have
/// a thousand bytes and more, and c++filt reads only complete ones.
const NAME: usize = 2048;
const KEPT: usize = 4096;
/// The number of cached lines.
const LINES: usize = 128;

/// The result of looking up a frame.
struct Found {
    whose: Whose,
    length: usize,
    text: [u8; KEPT],
}

struct Room {
    list: [u8; 4096],
    path: [u8; 4097],
    symbols: [u8; 4080],
    name: [u8; NAME],
    lines: [Found; LINES],
    /// The frames of the cached lines, and the next line to replace.
    frames: [usize; LINES],
    next: usize,
    /// The errno of reading /proc/self/maps; 0: success.
    errno: Errno,
}

/// Names for the duration of one report. Maps some 550 KB, of which only the used part is
/// present.
pub(super) struct Names {
    room: Option<NonNull<Room>>,
    /// The reason why there are no names.
    is_said: bool,
}

impl Names {
    /// When memory is short there are no names, only addresses.
    pub(super) fn new() -> Self {
        let place = map::reserve(size_of::<Room>()).ok();
        let room = place.and_then(|place| {
            // SAFETY: the mapping was created above, and nothing else has its address.
            let opened = unsafe { map::protect(place, size_of::<Room>(), Access::ReadWrite) };
            if opened.is_err() {
                // SAFETY: the mapping was created above, of this size, and is unused.
                let _ = unsafe { map::unmap(place, size_of::<Room>()) };
                return None;
            }
            // All-zero bytes are a valid Room: numbers, and the first variant of `Whose`. The
            // start of a page is aligned for it.
            Some(place.cast())
        });
        Self {
            room,
            is_said: false,
        }
    }

    /// For the continuation of a report whose beginning other code wrote.
    pub(super) fn more() -> Self {
        let mut names = Self::new();
        names.is_said = true;
        names
    }

    fn room(&mut self) -> Option<&mut Room> {
        // SAFETY: mapped by `new` until the drop, and borrowed together with `self`.
        self.room.map(|mut room| unsafe { room.as_mut() })
    }

    /// Writes a line for each frame, at most `limit`, beginning with the first outside of the
    /// library.
    ///
    /// Frames are return addresses: the call is the instruction before. Except for the first
    /// frame when it `is_exact`.
    pub(super) fn print(
        &mut self,
        frames: &[*mut c_void],
        is_exact: bool,
        limit: usize,
        fd: c_int,
    ) {
        let step = |number: usize| usize::from(number > 0 || !is_exact);
        let Some(room) = self.room() else {
            for frame in frames.iter().take(limit) {
                line(fd, |out| {
                    out.text("    ");
                    bare(out, *frame as usize);
                });
            }
            self.without_names(fd, libc::ENOMEM);
            return;
        };
        // Starts at the caller, skipping frames between the library and it.
        let (mut first, mut own) = (0, false);
        for (number, frame) in frames.iter().enumerate() {
            match room.find(*frame as usize, step(number)).whose {
                Whose::Ours => (first, own) = (number + 1, true),
                Whose::Rusts => {}
                Whose::Users => {
                    first = if own { number } else { first };
                    break;
                }
            }
        }
        // Without names the library's frames can't be recognised, and don't count against the
        // limit.
        let mut left = if own || is_exact { limit } else { frames.len() };
        for (number, frame) in frames.iter().enumerate().skip(first) {
            let found = room.find(*frame as usize, step(number));
            if found.whose == Whose::Ours || left == 0 {
                continue;
            }
            left -= 1;
            line(fd, |out| {
                out.text("    ");
                out.bytes(&found.text[..found.length]);
                bare(out, *frame as usize);
            });
        }
        let errno = room.errno;
        if errno != 0 {
            self.without_names(fd, errno);
        }
    }

    fn without_names(&mut self, fd: c_int, errno: Errno) {
        if !std::mem::replace(&mut self.is_said, true) {
            line(fd, |out| {
                out.text("    without names of functions: ");
                unreadable(out, errno);
            });
        }
    }

    /// The mapping at an address: a file's path, the kernel's name for it, or nothing.
    pub(super) fn mapping_of(&mut self, address: usize) -> Result<Option<(Mapping, &[u8])>, Errno> {
        let room = self.room().ok_or(libc::ENOMEM)?;
        let found = room.mapping(address)?;
        Ok(found.map(|(mapping, length)| (mapping, &room.path[..length])))
    }
}

impl Drop for Names {
    fn drop(&mut self) {
        if let Some(room) = self.room {
            // SAFETY: mapped by `new` with this size, and not used after the drop.
            let _ = unsafe { map::unmap(room.cast(), size_of::<Room>()) };
        }
    }
}

/// `/proc/self/maps can't be read: no file descriptor is left (RLIMIT_NOFILE)`
pub(super) fn unreadable(out: &mut Line, errno: Errno) {
    out.text("could not read /proc/self/maps: ");
    match errno {
        libc::EMFILE => out.text("no file descriptor is left (RLIMIT_NOFILE)"),
        libc::ENOMEM => out.text("no memory for it"),
        libc::ENOENT => out.text("/proc is not mounted here"),
        errno => {
            out.text("errno ");
            out.number(usize::try_from(errno).unwrap_or(0));
        }
    }
}

fn bare(out: &mut Line, frame: usize) {
    out.text("[");
    out.address(frame);
    out.text("]");
}

impl Room {
    fn mapping(&mut self, address: usize) -> Result<Option<(Mapping, usize)>, Errno> {
        let path = self.path.len() - 1;
        let found = maps::each_named(&mut self.list, &mut self.path[..path], |mapping, path| {
            if mapping.low <= address && address < mapping.high {
                ControlFlow::Break((mapping, path.len()))
            } else {
                ControlFlow::Continue(())
            }
        });
        self.errno = found.err().unwrap_or(0);
        found
    }

    /// The line of a frame, cached or newly made.
    fn find(&mut self, frame: usize, step: usize) -> &Found {
        let kept = self.frames.iter().position(|it| *it == frame && frame != 0);
        let place = kept.unwrap_or_else(|| {
            let place = self.next;
            self.next = (place + 1) % LINES;
            self.frames[place] = frame;
            self.make(frame, step, place);
            place
        });
        &self.lines[place]
    }

    /// `FILE(FUNCTION+OFFSET) `, the format of the C library's backtrace_symbols().
    fn make(&mut self, frame: usize, step: usize, place: usize) {
        let code = frame.wrapping_sub(step);
        self.lines[place].length = 0;
        self.lines[place].whose = Whose::Users;
        if own_library().contains(&code) {
            self.lines[place].whose = Whose::Ours;
            return;
        }
        let Ok(Some((mapping, length))) = self.mapping(code) else {
            return;
        };
        // A C string: the last byte of the path is never written.
        self.path[length] = 0;
        let file = CStr::from_bytes_until_nul(&self.path)
            .ok()
            .and_then(|path| File::open(path, mapping.inode))
            // The program's file may have been replaced or removed; this link still opens the
            // running one.
            .or_else(|| File::open(c"/proc/self/exe", mapping.inode));
        let offset = (code - mapping.low) as u64 + mapping.offset;
        let address = file.as_ref().and_then(|file| address_of(file, offset));
        let function = file.as_ref().zip(address).and_then(|(file, address)| {
            function_at(file, address, &mut self.symbols, &mut self.name)
        });
        let found = &mut self.lines[place];
        found.add(&self.path[..length]);
        if let Some(address) = address {
            let (start, name) = function.map_or((0, 0), |it| (it.start, it.name));
            let name = &self.name[..name];
            found.whose = Whose::of_name(name);
            found.add(b"(");
            found.add(name);
            found.add(b"+0x");
            found.hexadecimal(address + step as u64 - start);
            found.add(b")");
        }
        // Code that a program generates at run time is in no file.
        if length > 0 {
            found.add(b" ");
        }
    }
}

impl Found {
    fn add(&mut self, bytes: &[u8]) {
        let room = &mut self.text[self.length..];
        let count = bytes.len().min(room.len());
        room[..count].copy_from_slice(&bytes[..count]);
        self.length += count;
    }

    fn hexadecimal(&mut self, number: u64) {
        let digits = (u64::BITS - number.leading_zeros()).div_ceil(4).max(1);
        for digit in (0..digits).rev() {
            let value = (number >> (digit * 4) & 0xf) as usize;
            self.add(&b"0123456789abcdef"[value..=value]);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rust_functions_are_recognised_by_crate_and_c_functions_by_prefix() {
        let cases: [(&str, Whose); 21] = [
            ("punctual_stack_alloc", Whose::Ours),
            ("stack_free", Whose::Ours),
            ("my_stack_free", Whose::Users),
            ("main", Whose::Users),
            ("", Whose::Users),
            (
                "_ZN11punctual_rt5stack4pool10alloc_slow17h0123456789abcdefE",
                Whose::Ours,
            ),
            (
                "_ZN13punctual_capi6thread6create17h0123456789abcdefE",
                Whose::Ours,
            ),
            (
                "_ZN8punctual6thread6create17h0123456789abcdefE",
                Whose::Users,
            ),
            ("_ZN12punctual_app4main17h0123456789abcdefE", Whose::Users),
            (
                "_ZN4core3ops8function6FnOnce9call_once17h0123456789abcdefE",
                Whose::Rusts,
            ),
            (
                "_ZN4core3ptr46drop_in_place$LT$punctual_rt..stack..Stack$GT$17h0123456789abcdefE",
                Whose::Ours,
            ),
            (
                "_ZN71_$LT$punctual_rt..stack..Stack$u20$as$u20$core..ops..drop..Drop$GT$4drop17h0123456789abcdefE",
                Whose::Ours,
            ),
            (
                "_RNvNtNtCsgCs_11punctual_rt5stack4pool10alloc_slow",
                Whose::Ours,
            ),
            (
                "_RINvNtCs8C1_4core3ptr13drop_in_placeNtNtCsgCs_11punctual_rt5stack5StackE",
                Whose::Ours,
            ),
            ("_ZN4core4makeEv", Whose::Users),
            ("_ZN5alloc1V3getEv", Whose::Users),
            ("_ZNK8punctual5stack4baseEv", Whose::Ours),
            ("_ZN12punctual_app4mainEv", Whose::Users),
            ("_RNvCs1234_7mycrate4main", Whose::Users),
            ("_RNvC99", Whose::Users),
            ("_ZN99999999999999999999999x", Whose::Users),
        ];
        for (name, whose) in cases {
            assert_eq!(Whose::of_name(name.as_bytes()), whose, "{name}");
        }
    }
}
