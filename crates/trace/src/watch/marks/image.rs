//! What a program's file says of its places: functions, and the probes that its author put
//! there (USDT, `.note.stapsdt`).

use std::error::Error;
use std::fmt;
use std::ops::Range;

use object::read::elf::NoteIterator;
use object::{
    Architecture, BinaryFormat, Endianness, File, Object as _, ObjectSection as _,
    ObjectSegment as _, ObjectSymbol as _, ReadRef, SegmentFlags, SymbolFlags, SymbolKind, elf,
};

/// Probes of a file, at most.
const MOST_PROBES: usize = 1 << 16;
/// The kind of the notes that are probes.
const STAPSDT: u32 = 3;

/// A file's places, as bytes from its beginning.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Image {
    /// In the order of their names.
    pub functions: Vec<Function>,
    /// In the order of the file.
    pub probes: Vec<Probe>,
    /// Where its code lies.
    pub code: Vec<Range<u64>>,
    /// Whether it tells its functions: not where it was stripped.
    pub tells_functions: bool,
    /// Whether its stacks move (Go): a return can't be caught there.
    pub moves_stacks: bool,
}

/// A function.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Function {
    /// As the linker knows it.
    pub name: String,
    /// Its first instruction.
    pub offset: u64,
    /// Its length; 0 where the file doesn't tell.
    pub size: u64,
    /// It chooses the function that is called in its place (IFUNC).
    pub chooses: bool,
}

/// A probe that its author put there.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Probe {
    /// Whose.
    pub provider: String,
    /// Which.
    pub name: String,
    /// Its instruction.
    pub offset: u64,
    /// The count that must be above 0 for the program to come there; 0 for none.
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
}

impl fmt::Display for ImageError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoProgram(source) => write!(f, "is no program ({source})"),
            Self::OtherMachine => f.write_str("is no program for x86-64"),
            Self::Unreadable => f.write_str("can't be read"),
        }
    }
}

impl Error for ImageError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        match self {
            Self::NoProgram(source) => Some(source),
            Self::OtherMachine | Self::Unreadable => None,
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
    /// Where an address lies in the file.
    fn offset_of(&self, address: u64, is_code: bool) -> Option<u64> {
        let holds = |it: &&Segment| it.is_code == is_code && it.addresses.contains(&address);
        let segment = self.0.iter().find(holds)?;
        segment
            .offset
            .checked_add(address - segment.addresses.start)
    }
}

impl Image {
    /// Reads a file.
    ///
    /// # Errors
    /// [`ImageError`]: what it isn't.
    pub fn read<'data, R: ReadRef<'data>>(data: R) -> Result<Self, ImageError> {
        let file = File::parse(data).map_err(ImageError::NoProgram)?;
        if file.format() != BinaryFormat::Elf || file.architecture() != Architecture::X86_64 {
            return Err(ImageError::OtherMachine);
        }
        let length = data.len().map_err(|()| ImageError::Unreadable)?;
        let segments = segments(&file, length);
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
        image.take_functions(&file, &segments);
        image.take_probes(&file, &segments);
        Ok(image)
    }

    /// Whether code lies there.
    #[must_use]
    pub fn is_code(&self, offset: u64) -> bool {
        self.code.iter().any(|range| range.contains(&offset))
    }

    fn take_functions<'data, R: ReadRef<'data>>(
        &mut self,
        file: &File<'data, R>,
        segments: &Segments,
    ) {
        for symbol in file.symbols().chain(file.dynamic_symbols()) {
            if symbol.kind() != SymbolKind::Text || !symbol.is_definition() {
                continue;
            }
            let (Ok(name), Some(offset)) =
                (symbol.name(), segments.offset_of(symbol.address(), true))
            else {
                continue;
            };
            // What follows is a version.
            let name = name.split('@').next().unwrap_or_default();
            let chooses = matches!(symbol.flags(), SymbolFlags::Elf { st_info, .. }
                if st_info & 0xf == elf::STT_GNU_IFUNC);
            self.functions.push(Function {
                name: name.to_owned(),
                offset,
                size: symbol.size(),
                chooses,
            });
        }
        self.tells_functions = file.symbols().any(|it| it.kind() == SymbolKind::Text);
        self.functions.sort();
        self.functions.dedup();
    }

    fn take_probes<'data, R: ReadRef<'data>>(
        &mut self,
        file: &File<'data, R>,
        segments: &Segments,
    ) {
        let Some(section) = file.section_by_name(".note.stapsdt") else {
            return;
        };
        // What was prelinked lies elsewhere than its notes say, by as much as this moved.
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
            // Without its count it would never be passed.
            let Some(semaphore) = semaphore else {
                continue;
            };
            if self.probes.len() < MOST_PROBES {
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
        // What isn't in the file is no place in it.
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
struct Noted {
    address: u64,
    base: u64,
    semaphore: u64,
    provider: String,
    name: String,
}

fn noted(bytes: &[u8], little: bool) -> Option<Noted> {
    let word = |at: usize| {
        let bytes: [u8; 8] = bytes.get(at..at + 8)?.try_into().ok()?;
        Some(if little {
            u64::from_le_bytes(bytes)
        } else {
            u64::from_be_bytes(bytes)
        })
    };
    let mut texts = bytes.get(24..)?.split(|byte| *byte == 0);
    let mut text = || Some(String::from_utf8_lossy(texts.next()?).into_owned());
    Some(Noted {
        address: word(0)?,
        base: word(8)?,
        semaphore: word(16)?,
        provider: text()?,
        name: text()?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_no_program_is_said_and_a_cut_one_does_no_harm() {
        assert!(Image::read(&b""[..]).is_err());
        assert!(Image::read(&b"#!/bin/sh\n"[..]).is_err());
        let own = std::fs::read("/proc/self/exe").expect("ourselves");
        // Its head says where all the rest is.
        for cut in (0..4096).step_by(61) {
            let _ = Image::read(&own[..cut]);
        }
    }

    #[test]
    fn our_own_functions_are_found_in_code() {
        let own = std::fs::read("/proc/self/exe").expect("ourselves");
        let image = Image::read(&own[..]).expect("a program");
        assert!(image.tells_functions && !image.moves_stacks);
        let main = image.functions.iter().find(|it| it.name == "main");
        assert!(image.is_code(main.expect("main").offset));
        assert!(!image.is_code(0) && !image.is_code(u64::MAX));
    }
}
