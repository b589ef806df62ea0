//! Detects what a file is that should be a kernel: headers of bzImage and ELF.

use std::fmt;

use object::elf::{self, FileHeader64, ProgramHeader64};
use object::read::elf::{FileHeader as _, NoteIterator, ProgramHeader as _};
use object::{Endianness, LittleEndian, ReadRef as _};

use punctual_record::laboratory::Architecture;

use super::fault::Unfit;

/// Bytes that are needed to detect what a file is: a bzImage states its version within 64 KiB.
pub(super) const BEGINNING: usize = 0x1_0400;

/// What a file is, from its beginning.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Kind {
    /// A bzImage for x86-64.
    BzImage(BzImage),
    /// A kernel's ELF image for x86-64.
    Elf(Elf),
    /// A kernel's flat image for another architecture.
    Flat(Flat),
    /// A Debian package.
    Package,
    /// Something else.
    Other(Unfit),
}

impl Kind {
    /// The processors that a kernel is for, if it is one.
    #[must_use]
    pub fn architecture(&self) -> Option<Architecture> {
        match self {
            Self::BzImage(_) | Self::Elf(_) => Some(Architecture::Amd64),
            Self::Flat(flat) => Some(flat.architecture),
            Self::Package | Self::Other(_) => None,
        }
    }
}

/// A flat image: the bytes of the kernel's memory. Its beginning is a header and a jump over it, and the
/// header of an EFI program as well.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Flat {
    /// The processors that it is for.
    pub architecture: Architecture,
    /// The parts of the file that the EFI program's header names; none without that header.
    pub parts: Vec<Part>,
}

/// What a bzImage states.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BzImage {
    /// Where the compressed kernel begins, in bytes from the file's beginning.
    pub payload: u64,
    /// Its length in bytes, including the 4 bytes at its end that state the unpacked length.
    pub length: u32,
    /// The release, `6.1.0-49-rt-amd64`, if the image states it.
    pub release: Option<String>,
}

/// What an ELF image states.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Elf {
    /// Places of its notes in the file: offset and length in bytes.
    pub notes: Vec<(u64, u64)>,
    /// The parts of the file that its headers name: their tables, and each segment.
    pub parts: Vec<Part>,
}

/// A part of a file, as a header names it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Part {
    /// Which.
    pub what: PartKind,
    /// Where it begins, in bytes from the file's beginning.
    pub offset: u64,
    /// Its length in bytes.
    pub length: u64,
}

/// Which part of an ELF file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PartKind {
    /// The table of program headers.
    ProgramHeaders,
    /// The table of section headers.
    SectionHeaders,
    /// A segment, by its number.
    Segment(u64),
}

impl fmt::Display for PartKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::ProgramHeaders => f.write_str("table of program headers"),
            Self::SectionHeaders => f.write_str("table of section headers"),
            Self::Segment(number) => write!(f, "segment {number}"),
        }
    }
}

impl Part {
    /// Where it ends, in bytes from the file's beginning.
    #[must_use]
    pub fn end(&self) -> u64 {
        self.offset.saturating_add(self.length)
    }
}

/// Detects what a file is from its first bytes.
#[must_use]
pub fn kind(bytes: &[u8]) -> Kind {
    if bytes.is_empty() {
        return Kind::Other(Unfit::Empty);
    }
    if bytes.starts_with(b"\x7fELF") {
        return elf(bytes);
    }
    if bytes.starts_with(b"!<arch>\n") {
        return match bytes.get(8..21) {
            Some(b"debian-binary") => Kind::Package,
            _ => Kind::Other(Unfit::Archive),
        };
    }
    // Images of these two begin like EFI programs, as a bzImage does.
    match bytes.get(0x38..0x3c) {
        Some(b"ARM\x64") => return Kind::Flat(flat(bytes, Architecture::Arm64)),
        Some(b"RSC\x05") => return Kind::Flat(flat(bytes, Architecture::Riscv64)),
        _ => {}
    }
    if bytes.starts_with(b"MZ\0\0zimg") {
        return Kind::Other(Unfit::PackedEfi);
    }
    if bytes.get(0x202..0x206) == Some(b"HdrS") && u16_at(bytes, 0x1fe) == Some(0xaa55) {
        return bz_image(bytes);
    }
    for (magic, with) in [
        (&b"\x1f\x8b"[..], "gzip"),
        (b"\xfd7zXZ\0", "xz"),
        (b"\x28\xb5\x2f\xfd", "zstd"),
    ] {
        if bytes.starts_with(magic) {
            return Kind::Other(Unfit::Packed { with });
        }
    }
    Kind::Other(Unfit::Unknown)
}

/// <https://docs.kernel.org/arch/arm64/booting.html>, <https://docs.kernel.org/arch/riscv/boot-image-header.html>
fn flat(bytes: &[u8], architecture: Architecture) -> Flat {
    const SECTION: usize = 40;
    let header = u32_at(bytes, 0x3c).map_or(0, |at| at as usize);
    let is_program = bytes
        .get(header..)
        .is_some_and(|it| it.starts_with(b"PE\0\0"));
    let number = |at: usize| u16_at(bytes, header.saturating_add(at)).map_or(0, usize::from);
    let sections = if is_program { number(6) } else { 0 };
    let first = header + 24 + number(20);
    let part = |section: usize| {
        let at = first + section * SECTION;
        Some(Part {
            what: PartKind::Segment(section as u64),
            offset: u32_at(bytes, at + 20)?.into(),
            length: u32_at(bytes, at + 16)?.into(),
        })
    };
    Flat {
        architecture,
        parts: (0..sections).map_while(part).collect(),
    }
}

/// <https://docs.kernel.org/arch/x86/boot.html>
fn bz_image(bytes: &[u8]) -> Kind {
    let protocol = u16_at(bytes, 0x206).unwrap_or(0);
    // 2.12, of Linux 3.8, is the first version that distinguishes 64 from 32 bits.
    if protocol < 0x020c {
        return Kind::Other(Unfit::OldBzImage);
    }
    if u16_at(bytes, 0x236).unwrap_or(0) & 1 == 0 {
        return Kind::Other(Unfit::Bits32);
    }
    let (Some(offset), Some(length), Some(&sectors)) =
        (u32_at(bytes, 0x248), u32_at(bytes, 0x24c), bytes.get(0x1f1))
    else {
        return Kind::Other(Unfit::CutBzImage);
    };
    let sectors = if sectors == 0 { 4 } else { u64::from(sectors) };
    if length < 8 {
        return Kind::Other(Unfit::NoPayload);
    }
    let release = match u16_at(bytes, 0x20e) {
        None | Some(0) => None,
        Some(offset) => bytes
            .get(0x200 + usize::from(offset)..)
            .and_then(first_word),
    };
    Kind::BzImage(BzImage {
        payload: (sectors + 1) * 512 + u64::from(offset),
        length,
        release,
    })
}

fn elf(bytes: &[u8]) -> Kind {
    let Ok(header) = bytes.read_at::<FileHeader64<Endianness>>(0) else {
        return Kind::Other(Unfit::CutElf);
    };
    let endian = header.endian().unwrap_or_default();
    let machine = header.e_machine(endian);
    let is_64 = header.is_class_64() && header.is_little_endian();
    if !is_64 || machine != elf::EM_X86_64 {
        return Kind::Other(Unfit::Processor { machine });
    }
    match header.e_type(endian) {
        elf::ET_REL => return Kind::Other(Unfit::Object),
        elf::ET_DYN => return Kind::Other(Unfit::Program),
        _ => {}
    }
    let table = |what: PartKind, offset: u64, size: u16, count: u16| Part {
        what,
        offset,
        length: u64::from(size) * u64::from(count),
    };
    let (headers, size, count) = (
        header.e_phoff(endian),
        header.e_phentsize(endian),
        header.e_phnum(endian),
    );
    let mut parts = vec![table(PartKind::ProgramHeaders, headers, size, count)];
    if let offset @ 1.. = header.e_shoff(endian) {
        let (size, count) = (header.e_shentsize(endian), header.e_shnum(endian));
        parts.push(table(PartKind::SectionHeaders, offset, size, count));
    }
    let mut notes = Vec::new();
    for number in 0..u64::from(count) {
        let header = headers.checked_add(number * u64::from(size));
        let header = header.and_then(|at| bytes.read_at::<ProgramHeader64<Endianness>>(at).ok());
        // The table is beyond these bytes, or beyond the end of the file, which its part shows.
        let Some(header) = header else { break };
        let (offset, length) = header.file_range(endian);
        if header.p_type(endian) == elf::PT_NOTE {
            notes.push((offset, length));
        }
        if length > 0 {
            parts.push(Part {
                what: PartKind::Segment(number),
                offset,
                length,
            });
        }
    }
    Kind::Elf(Elf { notes, parts })
}

/// Whether these notes of an ELF image hold the address at which a virtual machine enters a
/// kernel that it has not unpacked itself: Xen's `PHYS32_ENTRY`.
#[must_use]
pub fn has_entry_for_guests(notes: &[u8]) -> bool {
    const PHYS32_ENTRY: u32 = 18;
    const ALIGNMENT: u64 = 4;
    type Notes<'data> = NoteIterator<'data, FileHeader64<LittleEndian>>;
    let Ok(mut notes) = Notes::new(LittleEndian, ALIGNMENT, notes) else {
        return false;
    };
    while let Ok(Some(note)) = notes.next() {
        if note.n_type(LittleEndian) == PHYS32_ENTRY && note.name() == b"Xen" {
            return true;
        }
    }
    false
}

/// Finds `Linux version RELEASE ` in a part of an image.
#[must_use]
pub fn stated_release(bytes: &[u8]) -> Option<String> {
    const BANNER: &[u8] = b"Linux version ";
    let mut rest = bytes;
    while let Some(at) = rest.iter().position(|&byte| byte == b'L') {
        rest = &rest[at..];
        if let Some(after) = rest.strip_prefix(BANNER)
            && let Some(release) = first_word(after)
            && release.starts_with(|first: char| first.is_ascii_digit())
        {
            return Some(release);
        }
        rest = &rest[1..];
    }
    None
}

/// The first word of a kernel's version: the output of `uname -r`.
fn first_word(bytes: &[u8]) -> Option<String> {
    /// The kernel's own limit is 64 bytes.
    const LONGEST: usize = 64;
    let bytes = &bytes[..bytes.len().min(LONGEST + 1)];
    let end = bytes.iter().position(|&byte| byte == b' ' || byte == 0)?;
    let word = &bytes[..end];
    let plain = |byte: &u8| byte.is_ascii_alphanumeric() || b".-+_~".contains(byte);
    if word.is_empty() || !word.iter().all(plain) {
        return None;
    }
    String::from_utf8(word.to_vec()).ok()
}

pub(super) fn u16_at(bytes: &[u8], at: usize) -> Option<u16> {
    let bytes = bytes.get(at..)?.first_chunk()?;
    Some(u16::from_le_bytes(*bytes))
}

pub(super) fn u32_at(bytes: &[u8], at: usize) -> Option<u32> {
    let bytes = bytes.get(at..)?.first_chunk()?;
    Some(u32::from_le_bytes(*bytes))
}

pub(super) fn u64_at(bytes: &[u8], at: usize) -> Option<u64> {
    let bytes = bytes.get(at..)?.first_chunk()?;
    Some(u64::from_le_bytes(*bytes))
}
