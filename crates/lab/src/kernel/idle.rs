//! The idle loop of a guest's kernel.
//!
//! The processor of a guest in virtual time must never halt: an emulator that skips idle time does so
//! from a thread of its own, and where the guest's time goes on differs from run to run. With
//! `idle=poll` the kernel waits in `cpu_idle_poll` (kernel/sched/idle.c), whose loop executes `PAUSE`
//! (`cpu_relax`). It says to a processor that a loop waits, and means nothing else; but an emulator
//! leaves its loop for each one, which takes many times as long as the instruction. A no-op of the same
//! length takes its place: the guest executes the same number of instructions.

use object::elf::{self, FileHeader64};
use object::read::elf::{FileHeader as _, ProgramHeader as _};
use object::{Endianness, ReadRef as _};

use punctual_record::laboratory::Architecture;

use super::{Kernel, Symbols};

/// The function with that loop.
pub const LOOP: &str = "cpu_idle_poll";
/// The most bytes of that function: Debian's have 150 to 400.
const MOST_BYTES: u64 = 1024;

/// An instruction of a processor that tells it that a loop waits, and one that does nothing.
struct Waiting {
    pause: &'static [u8],
    no_operation: &'static [u8],
    /// Where an instruction can be, in bytes.
    step: usize,
}

/// `pause`; `xchg %ax,%ax`.
const AMD64: Waiting = Waiting {
    pause: &[0xf3, 0x90],
    no_operation: &[0x66, 0x90],
    step: 1,
};
/// `yield`; `nop`.
const ARM64: Waiting = Waiting {
    pause: &[0x3f, 0x20, 0x03, 0xd5],
    no_operation: &[0x1f, 0x20, 0x03, 0xd5],
    step: 4,
};

/// The instruction of a kernel's idle loop that takes the emulator long, and what takes its place.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Pause {
    /// Where it is in the image.
    pub at: u64,
    /// An instruction of the same length that does nothing.
    pub no_operation: &'static [u8],
}

/// That of a kernel; `None` also without symbols: it is emulated as it is then, which takes longer.
pub(super) fn pause_of(kernel: &Kernel) -> Option<Pause> {
    let waiting = match kernel.architecture {
        Architecture::Amd64 => &AMD64,
        Architecture::Arm64 => &ARM64,
        // It can't be made to wait in a loop.
        Architecture::Riscv64 => return None,
    };
    let symbols = kernel.symbols().ok()?;
    pause_in(&std::fs::read(&kernel.image).ok()?, &symbols, waiting)
}

/// Where in an image the idle loop's only such instruction is; `None` if it can't be told.
fn pause_in(image: &[u8], symbols: &Symbols, waiting: &Waiting) -> Option<Pause> {
    let (begin, end) = symbols.range(LOOP)?;
    let length = end.checked_sub(begin)?.min(MOST_BYTES);
    let offset = offset_of(image, begin, length).or_else(|| flat_offset(symbols, begin))?;
    let code = image.get(usize::try_from(offset).ok()?..)?;
    let code = code.get(..usize::try_from(length).ok()?)?;
    let windows = code.windows(waiting.pause.len()).enumerate();
    let mut found = windows.step_by(waiting.step);
    let at = found.find(|(_, it)| *it == waiting.pause)?.0;
    // Two of them: one may be a part of another instruction.
    let is_only = !found.any(|(_, it)| it == waiting.pause);
    is_only.then_some(Pause {
        at: offset + at as u64,
        no_operation: waiting.no_operation,
    })
}

/// The same of a flat image, which begins with the kernel's first byte. Its address is a multiple of
/// 2 MiB (Documentation/arch/arm64/booting.rst), and the first function is less than that behind it.
fn flat_offset(symbols: &Symbols, address: u64) -> Option<u64> {
    const ALIGNMENT: u64 = 2 << 20;
    let first = symbols.first()?;
    address.checked_sub(first - first % ALIGNMENT)
}

/// Where an ELF image has the bytes of an address.
fn offset_of(image: &[u8], address: u64, length: u64) -> Option<u64> {
    let header = image.read_at::<FileHeader64<Endianness>>(0).ok()?;
    let endian = header.endian().ok()?;
    let segments = header.program_headers(endian, image).ok()?;
    let loaded = segments
        .iter()
        .filter(|it| it.p_type(endian) == elf::PT_LOAD);
    let mut loaded = loaded.filter_map(|segment| {
        let inside = address.checked_sub(segment.p_vaddr(endian))?;
        let (offset, size) = segment.file_range(endian);
        (inside.checked_add(length)? <= size).then(|| offset.checked_add(inside))?
    });
    loaded.next()
}

#[cfg(test)]
mod tests {
    use super::*;

    const BASE: u64 = 0xffff_ffff_8100_0000;
    const AT: usize = 0x1000;

    /// An image with one segment from `BASE` on, whose code begins at `AT`.
    fn image(code: &[u8]) -> Vec<u8> {
        let mut image = vec![0; AT];
        image[..8].copy_from_slice(b"\x7fELF\x02\x01\x01\0");
        image[16..20].copy_from_slice(&[2, 0, 62, 0]);
        image[32..40].copy_from_slice(&64_u64.to_le_bytes());
        image[52..58].copy_from_slice(&[64, 0, 56, 0, 1, 0]);
        let size = code.len() as u64;
        for (at, value) in [
            (64, 1),
            (72, AT as u64),
            (80, BASE),
            (96, size),
            (104, size),
        ] {
            image[at..at + 8].copy_from_slice(&value.to_le_bytes());
        }
        image.extend(code);
        image
    }

    fn symbols(name: &str, end: u64) -> Symbols {
        let (begin, end) = (BASE + 16, BASE + end);
        let text = format!("{BASE:x} T before\n{begin:x} t {name}\n{end:x} T behind\n");
        Symbols::parse(text.as_bytes())
    }

    fn found(code: &[u8], name: &str) -> Option<u64> {
        pause_in(&image(code), &symbols(name, 48), &AMD64).map(|it| it.at)
    }

    #[test]
    fn the_only_pause_of_the_idle_loop_is_found() {
        let mut code = [0x90; 64];
        code[20..22].copy_from_slice(AMD64.pause);
        // Others' are none of its.
        code[2..4].copy_from_slice(AMD64.pause);
        code[60..62].copy_from_slice(AMD64.pause);
        for name in [LOOP, "cpu_idle_poll.isra.0"] {
            assert_eq!(found(&code, name), Some(AT as u64 + 20), "{name}");
        }
        assert_eq!(found(&code, "cpu_idle_poll_ctrl"), None);
        code[30..32].copy_from_slice(AMD64.pause);
        assert_eq!(found(&code, LOOP), None);
        assert_eq!(found(&[0x90; 64], LOOP), None);
    }

    #[test]
    fn in_a_flat_image_an_instruction_is_where_four_bytes_begin() {
        let symbols = |first: u64| {
            let (begin, end) = (first + 16, first + 48);
            let text = format!("{begin:x} t {LOOP}\n{end:x} T behind\n");
            Symbols::parse(text.as_bytes())
        };
        let first = 0xffff_8000_0800_0000;
        let mut code = [0; 64];
        code[24..28].copy_from_slice(ARM64.pause);
        let found = |code: &[u8]| pause_in(code, &symbols(first), &ARM64).map(|it| it.at);
        assert_eq!(found(&code), Some(24));
        assert_eq!(ARM64.no_operation.len(), ARM64.pause.len());
        // A part of two others.
        code[38..42].copy_from_slice(ARM64.pause);
        assert_eq!(found(&code), Some(24));
        code[40..44].copy_from_slice(ARM64.pause);
        assert_eq!(found(&code), None);
        assert_eq!(found(&code[..40]), None);
    }

    #[test]
    fn an_image_that_is_cut_off_or_lies_has_none() {
        let mut code = [0x90; 64];
        code[20..22].copy_from_slice(AMD64.pause);
        let whole = image(&code);
        let symbols = symbols(LOOP, 48);
        for cut in 0..whole.len() - 16 {
            assert_eq!(pause_in(&whole[..cut], &symbols, &AMD64), None, "{cut}");
        }
        // The segment ends within the function.
        let mut short = whole.clone();
        short[96] = 40;
        assert_eq!(pause_in(&short, &symbols, &AMD64), None);
        for at in [64, 72, 80] {
            let mut huge = whole.clone();
            huge[at..at + 8].copy_from_slice(&u64::MAX.to_le_bytes());
            assert_eq!(pause_in(&huge, &symbols, &AMD64), None, "{at}");
        }
    }
}
