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

use super::{Kernel, Symbols};

/// The kernel waits for its next task in a loop, instead of halting.
pub const POLL: &str = "idle=poll";
/// The function with that loop.
pub const LOOP: &str = "cpu_idle_poll";
/// The most bytes of that function: Debian's have 150 to 400.
const MOST_BYTES: u64 = 1024;
const PAUSE: [u8; 2] = [0xf3, 0x90];
/// `xchg %ax,%ax`: no operation, as long.
pub const NO_OPERATION: [u8; 2] = [0x66, 0x90];

/// The same of a kernel; `None` also without symbols: it is emulated as it is then, which takes longer.
pub(super) fn pause_of(kernel: &Kernel) -> Option<u64> {
    let symbols = kernel.symbols().ok()?;
    pause_in(&std::fs::read(&kernel.image).ok()?, &symbols)
}

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
        pause_in(&image(code), &symbols(name, 48))
    }

    #[test]
    fn the_only_pause_of_the_idle_loop_is_found() {
        let mut code = [0x90; 64];
        code[20..22].copy_from_slice(&PAUSE);
        // Others' are none of its.
        code[2..4].copy_from_slice(&PAUSE);
        code[60..62].copy_from_slice(&PAUSE);
        for name in [LOOP, "cpu_idle_poll.isra.0"] {
            assert_eq!(found(&code, name), Some(AT as u64 + 20), "{name}");
        }
        assert_eq!(found(&code, "cpu_idle_poll_ctrl"), None);
        code[30..32].copy_from_slice(&PAUSE);
        assert_eq!(found(&code, LOOP), None);
        assert_eq!(found(&[0x90; 64], LOOP), None);
    }

    #[test]
    fn an_image_that_is_cut_off_or_lies_has_none() {
        let mut code = [0x90; 64];
        code[20..22].copy_from_slice(&PAUSE);
        let whole = image(&code);
        let symbols = symbols(LOOP, 48);
        for cut in 0..whole.len() - 16 {
            assert_eq!(pause_in(&whole[..cut], &symbols), None, "{cut}");
        }
        // The segment ends within the function.
        let mut short = whole.clone();
        short[96] = 40;
        assert_eq!(pause_in(&short, &symbols), None);
        for at in [64, 72, 80] {
            let mut huge = whole.clone();
            huge[at..at + 8].copy_from_slice(&u64::MAX.to_le_bytes());
            assert_eq!(pause_in(&huge, &symbols), None, "{at}");
        }
    }
}
