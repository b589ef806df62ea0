//! The idle loop of a guest's kernel.
//!
//! The processor of a guest in virtual time must never halt: an emulator that skips idle time does so
//! from a thread of its own, and where the guest's time goes on differs from run to run. With
//! `idle=poll` the kernel waits in `cpu_idle_poll` (kernel/sched/idle.c), whose loop executes `PAUSE`
//! (`cpu_relax`). It says to a processor that a loop waits, and means nothing else; but an emulator
//! leaves its loop for each one, which takes 50 times as long as the instruction. A no-op of the same
//! length takes its place: the guest executes the same number of instructions.

use object::elf::{self, FileHeader64};
use object::read::elf::{FileHeader as _, ProgramHeader as _};
use object::{Endianness, ReadRef as _};

use super::Symbols;

/// The kernel waits for its next task in a loop, instead of halting.
pub const POLL: &str = "idle=poll";
const LOOP: &str = "cpu_idle_poll";
/// The most bytes of that function: Debian's have 150 to 400.
const MOST_BYTES: u64 = 1024;
const PAUSE: [u8; 2] = [0xf3, 0x90];
/// `xchg %ax,%ax`: no operation, as long.
pub const NO_OPERATION: [u8; 2] = [0x66, 0x90];

/// Where in an ELF image the idle loop's only `PAUSE` is; `None` if it can't be told.
#[must_use]
pub fn pause_in(image: &[u8], symbols: &Symbols) -> Option<u64> {
    let (begin, end) = symbols.range(LOOP)?;
    let length = end.checked_sub(begin)?.min(MOST_BYTES);
    let offset = offset_of(image, begin, length)?;
    let code = image.get(usize::try_from(offset).ok()?..)?;
    let code = code.get(..usize::try_from(length).ok()?)?;
    let mut found = code.windows(2).enumerate();
    let at = found.find(|(_, two)| *two == PAUSE)?.0;
    // Two of them: one may be a part of another instruction.
    let is_only = !found.any(|(_, two)| two == PAUSE);
    is_only.then_some(offset + at as u64)
}

/// Where an image has the bytes of an address.
fn offset_of(image: &[u8], address: u64, length: u64) -> Option<u64> {
    let header = image.read_at::<FileHeader64<Endianness>>(0).ok()?;
    let endian = header.endian().ok()?;
    let segments = header.program_headers(endian, image).ok()?;
    let loaded = segments
        .iter()
        .filter(|it| it.p_type(endian) == elf::PT_LOAD);
    loaded
        .filter_map(|segment| {
            let inside = address.checked_sub(segment.p_vaddr(endian))?;
            let (offset, size) = segment.file_range(endian);
            (inside.checked_add(length)? <= size).then(|| offset.checked_add(inside))?
        })
        .next()
}
