//! The places in a program's file: functions, and the probes that its author put
//! there (USDT, `.note.stapsdt`).

use std::cell::Cell;
use std::error::Error;
use std::fmt;
use std::ops::Range;

use object::read::elf::NoteIterator;
use object::{
    Architecture, BinaryFormat, Endianness, File, Object as _, ObjectSection as _,
    ObjectSegment as _, ObjectSymbol as _, ReadRef, SegmentFlags, SymbolFlags, SymbolKind, elf,
};

/// What is read of a file, at most. A program chooses the size of its tables, and symbols may share
/// the bytes of their names: only a limit bounds the memory that they need here.
#[derive(Debug, Clone, Copy)]
struct Limits {
    /// Bytes read: tables, and each symbol's name.
    bytes: u64,
    functions: usize,
    probes: usize,
    segments: usize,
}

/// Large browsers have a million functions, whose tables and names have about 200 MiB.
const LIMITS: Limits = Limits {
    bytes: 256 << 20,
    functions: 1 << 21,
    probes: 1 << 16,
    segments: 256,
};
/// Bytes of a probe's provider and of its name, each, at most: no mark could name a longer one.
const LONGEST_PROBE: usize = super::spec::LONGEST;
/// The type of the notes that describe probes.
const STAPSDT: u32 = 3;

/// A file's places, as offsets from its beginning.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Image {
    /// Sorted by name.
    pub functions: Vec<Function>,
    /// In the file's order.
    pub probes: Vec<Probe>,
    /// Where its code is.
    pub code: Vec<Range<u64>>,
    /// Whether it has a symbol table: a stripped file has none.
    pub has_symbol_table: bool,
    /// Functions without an entry: beyond the limits of memory, or with an unreadable name.
    pub omitted_functions: u64,
    /// Probes beyond the limits of memory, which have no entry.
    pub omitted_probes: u64,
    /// Whether its stacks move (Go): return probes don't work there.
    pub moves_stacks: bool,
}

/// A function.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Function {
    /// Its name for the linker.
    pub name: String,
    /// Its first instruction.
    pub offset: u64,
    /// Its length; 0 if the file doesn't have it.
    pub size: u64,
    /// It selects the function that is called in its place (IFUNC).
    pub is_ifunc: bool,
}

/// A probe that the program's author put there.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Probe {
    /// The provider.
    pub provider: String,
    /// The probe's name.
    pub name: String,
    /// Its instruction.
    pub offset: u64,
    /// The semaphore that must be above 0 for the program to reach the probe; 0 for none.
    pub semaphore: u32,
}

/// Why a file has no places. The words continue a file's name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum ImageError {
    /// It is no program.
    NoProgram(object::Error),
    /// It is one for another machine.
    OtherMachine,
    /// It can't be read.
    Unreadable,
    /// Its tables exceed the limit.
    TooLarge,
    /// It has more loaded segments than the limit.
    TooManySegments,
}

impl fmt::Display for ImageError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoProgram(source) => write!(f, "is not a program ({source})"),
            Self::OtherMachine => f.write_str("is not a program for x86-64"),
            Self::Unreadable => f.write_str("could not be read"),
            Self::TooLarge => write!(
                f,
                "has symbol tables of more than {} MiB: run a stripped copy of it",
                LIMITS.bytes >> 20
            ),
            Self::TooManySegments => write!(
                f,
                "has more than {} loaded segments: link it with the default layout",
                LIMITS.segments
            ),
        }
    }
}

impl Error for ImageError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        match self {
            Self::NoProgram(source) => Some(source),
            Self::OtherMachine | Self::Unreadable | Self::TooLarge | Self::TooManySegments => None,
        }
    }
}

/// A part of the file that is loaded.
struct Segment {
    addresses: Range<u64>,
    offset: u64,
    is_code: bool,
}

struct Segments(Vec<Segment>);

impl Segments {
    /// The file offset of an address.
    fn offset_of(&self, address: u64, is_code: bool) -> Option<u64> {
        let holds = |it: &&Segment| it.is_code == is_code && it.addresses.contains(&address);
        let segment = self.0.iter().find(holds)?;
        segment
            .offset
            .checked_add(address - segment.addresses.start)
    }
}

/// A file of which only a limited number of bytes is read. The cache below keeps each read, also of
/// overlapping parts, so that the file's length does not bound them.
#[derive(Clone, Copy)]
struct BoundedFile<'left, R> {
    data: R,
    left: &'left Cell<u64>,
    exceeded: &'left Cell<bool>,
}

impl<R> BoundedFile<'_, R> {
    fn spend(&self, bytes: u64) -> Result<(), ()> {
        let left = self.left.get().checked_sub(bytes);
        self.exceeded.set(self.exceeded.get() || left.is_none());
        self.left.set(left.ok_or(())?);
        Ok(())
    }
}

impl<'data, R: ReadRef<'data>> ReadRef<'data> for BoundedFile<'_, R> {
    fn len(self) -> Result<u64, ()> {
        self.data.len()
    }

    fn read_bytes_at(self, offset: u64, size: u64) -> Result<&'data [u8], ()> {
        self.spend(size)?;
        self.data.read_bytes_at(offset, size)
    }

    fn read_bytes_at_until(self, range: Range<u64>, delimiter: u8) -> Result<&'data [u8], ()> {
        // An end at the first byte costs one, so that the number of names is limited too.
        self.spend(1)?;
        let text = self.data.read_bytes_at_until(range, delimiter)?;
        self.spend(text.len() as u64)?;
        Ok(text)
    }
}

impl Image {
    /// Reads a file, with bounded memory: see [`Image::omitted_functions`].
    ///
    /// # Errors
    /// [`ImageError`]: what it isn't.
    pub fn read<'data, R: ReadRef<'data>>(data: R) -> Result<Self, ImageError> {
        Self::read_within(data, LIMITS)
    }

    fn read_within<'data, R: ReadRef<'data>>(data: R, most: Limits) -> Result<Self, ImageError> {
        let (left, exceeded) = (Cell::new(most.bytes), Cell::new(false));
        let data = BoundedFile {
            data,
            left: &left,
            exceeded: &exceeded,
        };
        let file = File::parse(data).map_err(|error| {
            if exceeded.get() {
                ImageError::TooLarge
            } else {
                ImageError::NoProgram(error)
            }
        })?;
        if file.format() != BinaryFormat::Elf || file.architecture() != Architecture::X86_64 {
            return Err(ImageError::OtherMachine);
        }
        let length = data.len().map_err(|()| ImageError::Unreadable)?;
        let segments = segments(&file, length);
        if segments.0.len() > most.segments {
            return Err(ImageError::TooManySegments);
        }
        let mut image = Self {
            code: segments
                .0
                .iter()
                .filter(|it| it.is_code)
                .map(|it| it.offset..it.offset + (it.addresses.end - it.addresses.start))
                .collect(),
            moves_stacks: file.section_by_name(".gopclntab").is_some(),
            ..Self::default()
        };
        image.read_probes(&file, &segments, most.probes);
        image.read_functions(&file, &segments, most.functions);
        Ok(image)
    }

    /// About how much memory it needs.
    #[must_use]
    pub fn bytes(&self) -> usize {
        let functions = self.functions.iter().map(|it| it.name.len()).sum::<usize>();
        let probes = self.probes.iter();
        functions
            + self.functions.len() * size_of::<Function>()
            + probes
                .map(|it| it.provider.len() + it.name.len())
                .sum::<usize>()
            + self.probes.len() * size_of::<Probe>()
    }

    /// Whether there is code at an offset.
    #[must_use]
    pub fn is_code(&self, offset: u64) -> bool {
        self.code.iter().any(|range| range.contains(&offset))
    }

    fn read_functions<'data, R: ReadRef<'data>>(
        &mut self,
        file: &File<'data, R>,
        segments: &Segments,
        most: usize,
    ) {
        for symbol in file.symbols().chain(file.dynamic_symbols()) {
            if symbol.kind() != SymbolKind::Text || !symbol.is_definition() {
                continue;
            }
            let Some(offset) = segments.offset_of(symbol.address(), true) else {
                continue;
            };
            // The name is the last: it is what needs memory.
            let name = (self.functions.len() < most).then(|| symbol.name());
            let Some(Ok(name)) = name else {
                self.omitted_functions += 1;
                continue;
            };
            // The part after the @ is a version.
            let name = name.split('@').next().unwrap_or_default();
            let is_ifunc = matches!(symbol.flags(), SymbolFlags::Elf { st_info, .. }
                if st_info & 0xf == elf::STT_GNU_IFUNC);
            self.functions.push(Function {
                name: name.to_owned(),
                offset,
                size: symbol.size(),
                is_ifunc,
            });
        }
        self.has_symbol_table = file.symbols().any(|it| it.kind() == SymbolKind::Text);
        self.functions.sort();
        self.functions.dedup();
    }

    fn read_probes<'data, R: ReadRef<'data>>(
        &mut self,
        file: &File<'data, R>,
        segments: &Segments,
        most: usize,
    ) {
        let Some(section) = file.section_by_name(".note.stapsdt") else {
            return;
        };
        // In a prelinked file, addresses differ from the notes' by the distance that this section
        // moved.
        let base = file
            .section_by_name(".stapsdt.base")
            .map(|base| base.address());
        let align = if section.align() == 8 { 8_u64 } else { 4 };
        let Ok(mut notes) = section.data().and_then(|data| {
            NoteIterator::<elf::FileHeader64<Endianness>>::new(
                file.endianness(),
                object::U64::new(file.endianness(), align).get(file.endianness()),
                data,
            )
        }) else {
            return;
        };
        while let Ok(Some(note)) = notes.next() {
            if note.n_type(file.endianness()) != STAPSDT || note.name() != b"stapsdt" {
                continue;
            }
            let Some(noted) = noted(note.desc(), file.is_little_endian()) else {
                continue;
            };
            let moved = base.map_or(0, |base| base.wrapping_sub(noted.base));
            let Some(offset) = segments.offset_of(noted.address.wrapping_add(moved), true) else {
                continue;
            };
            let semaphore = match noted.semaphore {
                0 => Some(0),
                address => segments
                    .offset_of(address.wrapping_add(moved), false)
                    .and_then(|offset| u32::try_from(offset).ok()),
            };
            // Without its semaphore it would never be passed.
            let Some(semaphore) = semaphore else {
                continue;
            };
            if self.probes.len() >= most {
                self.omitted_probes += 1;
            } else {
                self.probes.push(Probe {
                    provider: noted.provider,
                    name: noted.name,
                    offset,
                    semaphore,
                });
            }
        }
    }
}

fn segments<'data, R: ReadRef<'data>>(file: &File<'data, R>, length: u64) -> Segments {
    let loaded = file.segments().filter_map(|segment| {
        let (offset, size) = segment.file_range();
        let begin = segment.address();
        // A place beyond the file's end is none.
        if offset.checked_add(size)? > length {
            return None;
        }
        Some(Segment {
            addresses: begin..begin.checked_add(size)?,
            offset,
            is_code: matches!(segment.flags(), SegmentFlags::Elf { p_flags } if p_flags & elf::PF_X != 0),
        })
    });
    Segments(loaded.collect())
}

/// A probe's note.
struct ProbeNote {
    address: u64,
    base: u64,
    semaphore: u64,
    provider: String,
    name: String,
}

fn noted(bytes: &[u8], little: bool) -> Option<ProbeNote> {
    let word = |at: usize| {
        let bytes: [u8; 8] = bytes.get(at..at + 8)?.try_into().ok()?;
        Some(if little {
            u64::from_le_bytes(bytes)
        } else {
            u64::from_be_bytes(bytes)
        })
    };
    let mut texts = bytes.get(24..)?.split(|byte| *byte == 0);
    let mut text = || {
        let text = texts.next().filter(|text| text.len() <= LONGEST_PROBE)?;
        Some(String::from_utf8_lossy(text).into_owned())
    };
    Some(ProbeNote {
        address: word(0)?,
        base: word(8)?,
        semaphore: word(16)?,
        provider: text()?,
        name: text()?,
    })
}

#[cfg(test)]
mod tests {
    use object::ReadCache;

    use super::*;

    /// A program whose symbols share the bytes of their names: symbol N is called by the end of
    /// `names` that begins at its N-th byte.
    fn program(functions: u32, names: &str) -> Vec<u8> {
        const CODE: u64 = 0x1000;
        let symbols = u64::from(functions) * 24;
        let (symbols_at, names_at) = (64 + 56, 64 + 56 + symbols);
        let sections_at = names_at + names.len() as u64 + 1;
        let mut bytes = b"\x7fELF\x02\x01\x01".to_vec();
        bytes.resize(16, 0);
        let mut put = |words: &[(u64, usize)]| {
            for (word, size) in words {
                bytes.extend(&word.to_le_bytes()[..*size]);
            }
        };
        // The header: an executable for x86-64, with a segment and three sections.
        put(&[
            (2, 2),
            (62, 2),
            (1, 4),
            (CODE, 8),
            (64, 8),
            (sections_at, 8),
        ]);
        put(&[(0, 4), (64, 2), (56, 2), (1, 2), (64, 2), (3, 2), (2, 2)]);
        // The segment: loaded and executable, the whole file.
        let length = sections_at + 3 * 64;
        put(&[(1, 4), (5, 4), (0, 8), (CODE, 8), (0, 8)]);
        put(&[(length, 8), (length, 8), (0x1000, 8)]);
        for at in 0..functions {
            // A global function of section 1.
            let name = u64::from(at) % names.len() as u64;
            put(&[(name, 4), (0x12, 1), (0, 1), (1, 2), (CODE, 8), (0, 8)]);
        }
        names.bytes().for_each(|byte| put(&[(byte.into(), 1)]));
        put(&[(0, 1)]);
        bytes.resize(sections_at as usize + 64, 0);
        let mut put = |kind: u64, at: u64, size: u64, link: u64, entry: u64| {
            let words = [(0, 4), (kind, 4), (0, 8), (0, 8), (at, 8), (size, 8)];
            let more = [(link, 4), (0, 4), (1, 8), (entry, 8)];
            for (word, size) in words.iter().chain(&more) {
                bytes.extend(&u64::to_le_bytes(*word)[..*size]);
            }
        };
        put(2, symbols_at, symbols, 2, 24);
        put(3, names_at, names.len() as u64 + 1, 0, 0);
        bytes
    }

    #[test]
    fn symbols_that_share_the_bytes_of_their_names_need_bounded_memory() {
        let names = "n".repeat(1000);
        let bytes = program(3000, &names);
        let all = Image::read(&bytes[..]).expect("a program");
        // Equal names at one place are one function.
        assert_eq!((all.functions.len(), all.omitted_functions), (1000, 0));
        let most = Limits {
            bytes: 400_000,
            ..LIMITS
        };
        for cached in [false, true] {
            let cache = ReadCache::new(std::io::Cursor::new(&bytes));
            let image = if cached {
                Image::read_within(&cache, most)
            } else {
                Image::read_within(&bytes[..], most)
            };
            let image = image.expect("a program");
            assert!(image.bytes() as u64 <= most.bytes, "{}", image.bytes());
            let names = image.functions.iter().map(|it| it.name.len() as u64);
            assert!(names.sum::<u64>() > most.bytes / 2);
            // A table's first symbol is none.
            assert_eq!(image.functions.len() as u64 + image.omitted_functions, 2999);
        }
        let most = Limits {
            functions: 10,
            ..LIMITS
        };
        let image = Image::read_within(&bytes[..], most).expect("a program");
        assert_eq!((image.functions.len(), image.omitted_functions), (10, 2989));
    }

    #[test]
    fn a_program_whose_tables_exceed_the_limits_is_refused_and_the_error_says_why() {
        let bytes = program(3000, "n");
        let refused = |most| Image::read_within(&bytes[..], most).expect_err("limits");
        let most = Limits {
            bytes: 3000 * 24,
            ..LIMITS
        };
        assert_eq!(refused(most), ImageError::TooLarge);
        let most = Limits {
            segments: 0,
            ..LIMITS
        };
        assert_eq!(refused(most), ImageError::TooManySegments);
    }

    #[test]
    fn a_file_that_is_no_program_is_reported_and_a_truncated_one_does_not_panic() {
        assert!(Image::read(&b""[..]).is_err());
        assert!(Image::read(&b"#!/bin/sh\n"[..]).is_err());
        let own = std::fs::read("/proc/self/exe").expect("ourselves");
        // Its header has the offsets of everything else.
        for cut in (0..4096).step_by(61) {
            let _ = Image::read(&own[..cut]);
        }
    }

    #[test]
    fn our_own_functions_are_found_in_code() {
        let own = std::fs::read("/proc/self/exe").expect("ourselves");
        let image = Image::read(&own[..]).expect("a program");
        assert!(image.has_symbol_table && !image.moves_stacks);
        let main = image.functions.iter().find(|it| it.name == "main");
        assert!(image.is_code(main.expect("main").offset));
        assert!(!image.is_code(0) && !image.is_code(u64::MAX));
    }
}
