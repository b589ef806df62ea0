//! Names of functions, as an ELF file's symbol tables tell them.
//!
//! The file is read piece by piece into memory of the caller's: nothing is allocated, nothing is
//! mapped that another process could cut short, and whatever the file holds, what is read of it
//! is bounded. 64 bits, in the byte order of this machine. Nothing here is for a real-time thread.
//!
//! Hence not the crate `object`: it lends slices of what it reads for as long as the file, which
//! takes the whole file in memory or a cache that allocates.

use std::ffi::{CStr, c_int};

use super::map::errno;

/// What bytes are read from, at any place.
pub trait Source {
    /// Reads into `bytes` from `at` on; how many there were. Not for a real-time thread.
    fn read(&self, at: u64, bytes: &mut [u8]) -> usize;
}

impl Source for [u8] {
    fn read(&self, at: u64, bytes: &mut [u8]) -> usize {
        let rest = usize::try_from(at).ok().and_then(|at| self.get(at..));
        let rest = rest.unwrap_or_default();
        let count = rest.len().min(bytes.len());
        bytes[..count].copy_from_slice(&rest[..count]);
        count
    }
}

/// A file that is open for reading.
#[derive(Debug)]
pub struct File(c_int);

impl File {
    /// Opens the file at `path` if it is the one with the number `inode`: not one that took its
    /// place since. Async-signal-safe, and not for a real-time thread.
    #[must_use]
    pub fn open(path: &CStr, inode: u64) -> Option<Self> {
        let flags = libc::O_RDONLY | libc::O_CLOEXEC | libc::O_NONBLOCK | libc::O_NOCTTY;
        // SAFETY: the path is a C string.
        let descriptor = unsafe { libc::open(path.as_ptr(), flags) };
        if descriptor < 0 {
            return None;
        }
        let file = Self(descriptor);
        let mut found = std::mem::MaybeUninit::<libc::stat>::uninit();
        // SAFETY: fstat fills the struct that it is given.
        if unsafe { libc::fstat(descriptor, found.as_mut_ptr()) } != 0 {
            return None;
        }
        // SAFETY: filled by the call above.
        let found = unsafe { found.assume_init() };
        let is_file = found.st_mode & libc::S_IFMT == libc::S_IFREG;
        (is_file && found.st_ino == inode).then_some(file)
    }
}

impl Drop for File {
    fn drop(&mut self) {
        // SAFETY: opened by `open`, closed once.
        unsafe { libc::close(self.0) };
    }
}

impl Source for File {
    fn read(&self, at: u64, bytes: &mut [u8]) -> usize {
        let Ok(at) = libc::off_t::try_from(at) else {
            return 0;
        };
        let mut count = 0;
        while count < bytes.len() {
            let rest = &mut bytes[count..];
            let from = at.saturating_add(count as libc::off_t);
            // SAFETY: `rest` is that many bytes of the caller's.
            let got = unsafe { libc::pread(self.0, rest.as_mut_ptr().cast(), rest.len(), from) };
            match usize::try_from(got) {
                Ok(0) => break,
                Ok(got) => count += got,
                Err(_) if errno() == libc::EINTR => {}
                Err(_) => break,
            }
        }
        count
    }
}

/// A function of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Function {
    /// Its first instruction, as the file counts addresses.
    pub start: u64,
    /// Bytes of its name, at the beginning of what was given for it.
    pub name: usize,
}

const SYMTAB: u32 = 2;
const DYNSYM: u32 = 11;
const LOAD: u32 = 1;
/// Bytes of one symbol.
const SYMBOL: usize = 24;
/// Symbols of one table that are looked at: some 100 MB of them.
const MOST_SYMBOLS: u64 = 1 << 22;

fn array<const N: usize>(bytes: &[u8], at: usize) -> Option<[u8; N]> {
    bytes.get(at..at.checked_add(N)?)?.try_into().ok()
}

fn u16_at(bytes: &[u8], at: usize) -> Option<u16> {
    array(bytes, at).map(u16::from_ne_bytes)
}

fn u32_at(bytes: &[u8], at: usize) -> Option<u32> {
    array(bytes, at).map(u32::from_ne_bytes)
}

fn u64_at(bytes: &[u8], at: usize) -> Option<u64> {
    array(bytes, at).map(u64::from_ne_bytes)
}

fn exactly<const N: usize>(file: &(impl Source + ?Sized), at: u64) -> Option<[u8; N]> {
    let mut bytes = [0; N];
    (file.read(at, &mut bytes) == N).then_some(bytes)
}

/// The first bytes of a file that is one of ours to read.
fn head(file: &(impl Source + ?Sized)) -> Option<[u8; 64]> {
    const BYTE_ORDER: u8 = if cfg!(target_endian = "little") { 1 } else { 2 };
    let head = exactly::<64>(file, 0)?;
    head.starts_with(&[0x7f, b'E', b'L', b'F', 2, BYTE_ORDER])
        .then_some(head)
}

/// The entries of a table of the file, each at its place; entries are at least `N` bytes.
fn entries<const N: usize>(
    file: &(impl Source + ?Sized),
    start: Option<u64>,
    size: Option<u16>,
    count: Option<u16>,
) -> impl Iterator<Item = [u8; N]> {
    let size = u64::from(size.unwrap_or(0));
    let count = if size < N as u64 {
        0
    } else {
        count.unwrap_or(0)
    };
    (0..u64::from(count)).map_while(move |number| {
        let at = start?.checked_add(number.checked_mul(size)?)?;
        exactly(file, at)
    })
}

/// The address, as the file counts them, of what lies at `offset` of it.
/// Not for a real-time thread: it reads a file.
#[must_use]
pub fn address_of(file: &(impl Source + ?Sized), offset: u64) -> Option<u64> {
    let head = head(file)?;
    let (start, size, count) = (u64_at(&head, 32), u16_at(&head, 54), u16_at(&head, 56));
    entries::<56>(file, start, size, count).find_map(|part| {
        if u32_at(&part, 0)? != LOAD {
            return None;
        }
        let within = offset.checked_sub(u64_at(&part, 8)?)?;
        let address = u64_at(&part, 16)?.checked_add(within)?;
        (within < u64_at(&part, 32)?).then_some(address)
    })
}

/// The function of `file` that the instruction at `address` is part of. Its name goes to `name`,
/// cut where that ends, with a `?` for what can't be printed; `room` is for what is read meanwhile.
/// The full table is asked first, and then the one that strip leaves.
/// Not for a real-time thread: it reads a file.
#[must_use]
pub fn function_at(
    file: &(impl Source + ?Sized),
    address: u64,
    room: &mut [u8],
    name: &mut [u8],
) -> Option<Function> {
    let head = head(file)?;
    let (start, size, count) = (u64_at(&head, 40), u16_at(&head, 58), u16_at(&head, 60));
    [SYMTAB, DYNSYM].into_iter().find_map(|kind| {
        let mut tables = entries::<64>(file, start, size, count);
        let table = tables.find(|table| u32_at(table, 4) == Some(kind))?;
        let best = best_of(file, &table, address, room)?;
        let strings = u64::from(u32_at(&table, 40)?);
        let at = start?.checked_add(strings.checked_mul(u64::from(size?))?)?;
        let strings = exactly::<64>(file, at)?;
        let left = u64_at(&strings, 32)?.checked_sub(u64::from(best.name))?;
        let from = u64_at(&strings, 24)?.checked_add(u64::from(best.name))?;
        let most = usize::try_from(left).unwrap_or(usize::MAX).min(name.len());
        let got = file.read(from, &mut name[..most]);
        let end = name[..got].iter().position(|byte| *byte == 0);
        let length = end.unwrap_or(got);
        for byte in &mut name[..length] {
            if !byte.is_ascii_graphic() {
                *byte = b'?';
            }
        }
        (length > 0).then_some(Function {
            start: best.start,
            name: length,
        })
    })
}

struct Best {
    start: u64,
    name: u32,
    /// Of several names the one that others see.
    is_global: bool,
}

fn best_of(
    file: &(impl Source + ?Sized),
    table: &[u8; 64],
    address: u64,
    room: &mut [u8],
) -> Option<Best> {
    let (mut at, size) = (u64_at(table, 24)?, u64_at(table, 32)?);
    let mut left = (size / SYMBOL as u64).min(MOST_SYMBOLS);
    let mut best: Option<Best> = None;
    while left > 0 {
        let whole = (room.len() / SYMBOL).min(usize::try_from(left).unwrap_or(usize::MAX));
        let got = file.read(at, &mut room[..whole * SYMBOL]);
        let symbols = got / SYMBOL;
        for symbol in room[..symbols * SYMBOL].chunks_exact(SYMBOL) {
            let Some(found) = matching(symbol, address) else {
                continue;
            };
            let better = best
                .as_ref()
                .is_none_or(|best| (found.start, found.is_global) > (best.start, best.is_global));
            if better {
                best = Some(found);
            }
        }
        // The file ends before its table does, or there is no room.
        if symbols < whole || symbols == 0 {
            break;
        }
        left -= symbols as u64;
        at = at.checked_add(got as u64)?;
    }
    best
}

fn matching(symbol: &[u8], address: u64) -> Option<Best> {
    const FUNCTION: u8 = 2;
    const CHOSEN_AT_LOAD: u8 = 10;
    let (info, section) = (*symbol.get(4)?, u16_at(symbol, 6)?);
    let start = u64_at(symbol, 8)?;
    let within = address.checked_sub(start)?;
    let is_code = matches!(info & 0xf, FUNCTION | CHOSEN_AT_LOAD) && section != 0;
    (is_code && within < u64_at(symbol, 16)?).then_some(Best {
        start,
        name: u32_at(symbol, 0)?,
        is_global: info >> 4 == 1,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[inline(never)]
    fn known_by_name() -> usize {
        known_by_name as *const () as usize
    }

    fn name_at(bytes: &[u8], address: u64, room: usize) -> Option<(u64, String)> {
        let (mut room, mut name) = (vec![0; room], [0; 200]);
        let found = function_at(bytes, address, &mut room, &mut name)?;
        let text = String::from_utf8_lossy(&name[..found.name]).into_owned();
        Some((found.start, text))
    }

    /// One segment, one table of `symbols` (name, information, address, size), its strings.
    fn image(kind: u32, symbols: &[(&str, u8, u64, u64)]) -> Vec<u8> {
        let (mut table, mut strings) = (vec![0; SYMBOL], vec![0]);
        for (name, info, address, size) in symbols {
            table.extend((strings.len() as u32).to_ne_bytes());
            table.extend([*info, 0, 1, 0]);
            table.extend(address.to_ne_bytes());
            table.extend(size.to_ne_bytes());
            strings.extend(name.bytes().chain([0]));
        }
        let words =
            |list: &[u64]| -> Vec<u8> { list.iter().flat_map(|word| word.to_ne_bytes()).collect() };
        let mut made = b"\x7fELF\x02\x01\x01".to_vec();
        made.resize(32, 0);
        made.extend(words(&[64, 120]));
        made.extend(
            [0_u16, 0, 0, 56, 1, 64, 3, 0]
                .map(u16::to_ne_bytes)
                .concat(),
        );
        made.resize(64, 0);
        // It is loaded 0x1000 above where it lies in the file.
        made.extend([LOAD, 5].map(u32::to_ne_bytes).concat());
        made.extend(words(&[0x100, 0x1100, 0, 0x400, 0x400, 0x1000]));
        let at = 120 + 3 * 64;
        let section = |kind: u32, at: usize, size: usize, link: u32| {
            let mut bytes = [0, kind].map(u32::to_ne_bytes).concat();
            bytes.extend(words(&[0, 0, at as u64, size as u64]));
            bytes.extend([link, 0].map(u32::to_ne_bytes).concat());
            bytes.extend(words(&[8, SYMBOL as u64]));
            bytes
        };
        made.extend(section(0, 0, 0, 0));
        made.extend(section(kind, at, table.len(), 2));
        made.extend(section(3, at + table.len(), strings.len(), 0));
        made.extend(table);
        made.extend(strings);
        made
    }

    #[test]
    fn the_innermost_function_is_found_and_what_others_see_wins() {
        const FUNCTION: u8 = 2;
        const GLOBAL: u8 = 1 << 4;
        let symbols = [
            ("outer", FUNCTION, 0x1100, 0x100),
            ("local", FUNCTION, 0x1180, 0x20),
            ("seen", FUNCTION | GLOBAL, 0x1180, 0x20),
            ("data", 1 | GLOBAL, 0x1190, 8),
            ("b\x1b[2Jd", FUNCTION, 0x1300, 1),
        ];
        for kind in [SYMTAB, DYNSYM] {
            let bytes = image(kind, &symbols);
            // Whole symbols at a time, some of them, and no room at all.
            for room in [24, 100, 4096] {
                let found = |address| name_at(&bytes, address, room);
                assert_eq!(found(0x1100), Some((0x1100, "outer".to_owned())));
                assert_eq!(found(0x1190), Some((0x1180, "seen".to_owned())));
                assert_eq!(found(0x11a0), Some((0x1100, "outer".to_owned())));
                assert_eq!(found(0x1300), Some((0x1300, "b?[2Jd".to_owned())));
                assert_eq!(
                    [0, 0x10ff, 0x1200, u64::MAX].map(found),
                    [const { None }; 4]
                );
            }
            assert_eq!(name_at(&bytes, 0x1100, 23), None);
            assert_eq!(address_of(&bytes[..], 0x180), Some(0x1180));
            assert_eq!(address_of(&bytes[..], 0xff), None);
            assert_eq!(address_of(&bytes[..], 0x500), None);
        }
    }

    #[test]
    #[cfg(not(miri))]
    fn our_own_file_names_our_own_function() {
        let own = std::fs::metadata("/proc/self/exe").unwrap();
        let inode = std::os::unix::fs::MetadataExt::ino(&own);
        assert!(File::open(c"/proc/self/exe", inode + 1).is_none());
        assert!(File::open(c"/proc", inode).is_none());
        let file = File::open(c"/proc/self/exe", inode).unwrap();
        let address = known_by_name();
        let mapping = crate::sys::maps::around(address).unwrap();
        let offset = (address - mapping.low) as u64 + mapping.offset;
        let at = address_of(&file, offset).unwrap();
        let (mut room, mut name) = ([0; 4080], [0; 200]);
        let found = function_at(&file, at, &mut room, &mut name).unwrap();
        assert_eq!(found.start, at);
        let name = String::from_utf8_lossy(&name[..found.name]);
        assert!(name.contains("known_by_name"), "{name}");
    }

    #[test]
    fn a_file_that_is_cut_does_no_harm() {
        let whole = image(SYMTAB, &[("name", 2, 0x1100, 0x100)]);
        for end in 0..whole.len() {
            let found = name_at(&whole[..end], 0x1100, 4096);
            let (_, text) = found.unwrap_or_default();
            assert!("name".starts_with(&text), "{text}");
            let _ = address_of(&whole[..end], 0x180);
        }
    }

    proptest! {
        #[test]
        fn whatever_a_file_says_the_answer_is_bounded(
            changes in proptest::collection::vec((0..320_usize, any::<u64>(), 0..9_usize), 1..6),
            address in any::<u64>(),
        ) {
            let mut bytes = image(SYMTAB, &[("name", 2, 0x1100, 0x100)]);
            for (at, value, count) in changes {
                for (place, byte) in bytes[at..].iter_mut().zip(&value.to_ne_bytes()[..count.min(8)]) {
                    *place = *byte;
                }
            }
            for address in [address, 0x1100] {
                if let Some((start, text)) = name_at(&bytes, address, 4080) {
                    prop_assert!(start <= address && text.len() <= 200);
                    prop_assert!(text.bytes().all(|byte| byte.is_ascii_graphic()));
                }
                let _ = address_of(&bytes[..], address);
            }
        }
    }
}
