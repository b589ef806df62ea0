//! The loops in which a guest's kernel waits.
//!
//! The processor of a guest in virtual time must never halt: an emulator that skips idle time does so
//! from a thread of its own, and where the guest's time goes on differs from run to run. With
//! `idle=poll` the kernel waits in `cpu_idle_poll` (kernel/sched/idle.c), whose loop executes `PAUSE`
//! (`cpu_relax`). It says to a processor that a loop waits, and means nothing else; but an emulator
//! leaves its loop for each one, which takes many times as long as the instruction. A no-op of the same
//! length takes its place: the guest executes the same number of instructions. The same holds for the
//! loops in which an x86 kernel measures its timers (arch/x86/kernel/apic), which took half of a boot.
//! Where the idle loop of an x86 kernel is known byte for byte, one block takes its place:
//! [`idle_loop`].

use object::elf::{self, FileHeader64};
use object::read::elf::{FileHeader as _, ProgramHeader as _};
use object::{Endianness, ReadRef as _};

use punctual_record::laboratory::Architecture;

use super::{Kernel, Symbols, idle_loop};

/// The function with the idle loop.
pub const IDLE_LOOP: &str = "cpu_idle_poll";
/// The most bytes of such a function: Debian's have 150 to 1,200.
const MOST_BYTES: u64 = 2048;

/// An instruction of a processor that tells it that a loop waits, and one that does nothing.
struct Waiting {
    pause: &'static [u8],
    no_operation: &'static [u8],
    /// Where an instruction can be, in bytes.
    step: usize,
    /// Makes one block of the code of an idle loop, of which this is the place of such an instruction.
    merge: fn(&[u8], usize) -> Option<Vec<u8>>,
    /// Functions with other loops.
    others: &'static [&'static str],
    /// Whether bytes that follow such an instruction show that it is one, and no part of another.
    is_loop: fn(&[u8]) -> bool,
}

/// `pause`; `xchg %ax,%ax`.
const AMD64: Waiting = Waiting {
    pause: &[0xf3, 0x90],
    no_operation: &[0x66, 0x90],
    step: 1,
    merge: idle_loop::merged,
    others: &["setup_boot_APIC_clock", "timer_irq_works"],
    // A jump back (`jmp -N`), or another look at the clock (`rdtsc`).
    is_loop: |rest| matches!(rest, [0xeb, 0x80..=0xff, ..] | [0x0f, 0x31, ..]),
};
/// `yield`; `nop`.
const ARM64: Waiting = Waiting {
    pause: &[0x3f, 0x20, 0x03, 0xd5],
    no_operation: &[0x1f, 0x20, 0x03, 0xd5],
    step: 4,
    merge: |_, _| None,
    others: &[],
    is_loop: |_| true,
};

/// What takes the place of code that takes the emulator long.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Patch {
    /// Where it is in the image.
    pub at: u64,
    /// As many bytes as the code has.
    pub bytes: Vec<u8>,
}

/// Those of a kernel; none without symbols: it is emulated as it is then, which takes longer.
pub(super) fn patches_of(kernel: &Kernel) -> Vec<Patch> {
    let waiting = match kernel.architecture {
        Architecture::Amd64 => &AMD64,
        Architecture::Arm64 => &ARM64,
        // It can't be made to wait in a loop.
        Architecture::Riscv64 => return Vec::new(),
    };
    let Ok(symbols) = kernel.symbols() else {
        return Vec::new();
    };
    let Ok(image) = std::fs::read(&kernel.image) else {
        return Vec::new();
    };
    patches_in(&image, &symbols, waiting)
}

fn patches_in(image: &[u8], symbols: &Symbols, waiting: &Waiting) -> Vec<Patch> {
    let mut found = Vec::new();
    if let Some(idle) = Function::of(image, symbols, IDLE_LOOP) {
        // If there were two, one may be a part of another instruction.
        if let [at] = idle.sites(waiting)[..] {
            let merged = (waiting.merge)(idle.code, at);
            let bytes = merged.unwrap_or_else(|| waiting.no_operation.to_vec());
            found.push(idle.patch(at, bytes));
        }
    }
    for name in waiting.others {
        let Some(function) = Function::of(image, symbols, name) else {
            continue;
        };
        let is_loop = |at: &usize| (waiting.is_loop)(&function.code[at + waiting.pause.len()..]);
        let sure = function.sites(waiting).into_iter().filter(is_loop);
        found.extend(sure.map(|at| function.patch(at, waiting.no_operation.to_vec())));
    }
    found
}

/// A function of an image.
struct Function<'a> {
    /// Where it is in the image.
    offset: u64,
    code: &'a [u8],
}

impl<'a> Function<'a> {
    fn of(image: &'a [u8], symbols: &Symbols, name: &str) -> Option<Self> {
        let (begin, end) = symbols.range(name)?;
        let length = end.checked_sub(begin)?.min(MOST_BYTES);
        let offset = offset_of(image, begin, length).or_else(|| flat_offset(symbols, begin))?;
        let code = image.get(usize::try_from(offset).ok()?..)?;
        let code = code.get(..usize::try_from(length).ok()?)?;
        Some(Self { offset, code })
    }

    /// Where it has the bytes of an instruction that tells that a loop waits.
    fn sites(&self, waiting: &Waiting) -> Vec<usize> {
        let windows = self.code.windows(waiting.pause.len()).enumerate();
        let those = windows
            .step_by(waiting.step)
            .filter(|(_, it)| *it == waiting.pause);
        those.map(|(at, _)| at).collect()
    }

    fn patch(&self, at: usize, bytes: Vec<u8>) -> Patch {
        Patch {
            at: self.offset + at as u64,
            bytes,
        }
    }
}

/// The place in a flat image, which begins with the kernel's first byte. Its address is a multiple of
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

    fn first(found: Vec<Patch>) -> Option<u64> {
        assert!(found.len() < 2);
        found.first().map(|it| it.at)
    }

    fn found(code: &[u8], name: &str) -> Option<u64> {
        first(patches_in(&image(code), &symbols(name, 48), &AMD64))
    }

    #[test]
    fn the_only_pause_of_the_idle_loop_is_found() {
        let mut code = [0x90; 64];
        code[20..22].copy_from_slice(AMD64.pause);
        // Others' are none of its.
        code[2..4].copy_from_slice(AMD64.pause);
        code[60..62].copy_from_slice(AMD64.pause);
        for name in [IDLE_LOOP, "cpu_idle_poll.isra.0"] {
            assert_eq!(found(&code, name), Some(AT as u64 + 20), "{name}");
        }
        assert_eq!(found(&code, "cpu_idle_poll_ctrl"), None);
        code[30..32].copy_from_slice(AMD64.pause);
        assert_eq!(found(&code, IDLE_LOOP), None);
        assert_eq!(found(&[0x90; 64], IDLE_LOOP), None);
    }

    #[test]
    fn of_other_loops_those_are_found_that_jump_back_or_look_at_the_clock() {
        let mut code = [0x90; 64];
        code[18..22].copy_from_slice(&[0xf3, 0x90, 0xeb, 0xf3]);
        code[24..28].copy_from_slice(&[0xf3, 0x90, 0x0f, 0x31]);
        // A jump ahead, and another instruction.
        code[30..34].copy_from_slice(&[0xf3, 0x90, 0xeb, 0x10]);
        code[40..42].copy_from_slice(&[0xf3, 0x90]);
        let places = |name| {
            let found = patches_in(&image(&code), &symbols(name, 48), &AMD64);
            found.iter().map(|it| it.at - AT as u64).collect::<Vec<_>>()
        };
        assert_eq!(places("timer_irq_works"), [18, 24]);
        assert_eq!(places("setup_boot_APIC_clock"), [18, 24]);
        assert_eq!(places("setup_secondary_APIC_clock"), [] as [u64; 0]);
        // The function's last bytes.
        code[46..48].copy_from_slice(&[0xf3, 0x90]);
        assert_eq!(found(&code, "timer_irq_work"), None);
    }

    #[test]
    fn in_a_flat_image_an_instruction_is_where_four_bytes_begin() {
        let symbols = |first: u64| {
            let (begin, end) = (first + 16, first + 48);
            let text = format!("{begin:x} t {IDLE_LOOP}\n{end:x} T behind\n");
            Symbols::parse(text.as_bytes())
        };
        let at = 0xffff_8000_0800_0000;
        let mut code = [0; 64];
        code[24..28].copy_from_slice(ARM64.pause);
        let found = |code: &[u8]| first(patches_in(code, &symbols(at), &ARM64));
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
        let symbols = symbols(IDLE_LOOP, 48);
        for cut in 0..whole.len() - 16 {
            assert_eq!(patches_in(&whole[..cut], &symbols, &AMD64), [], "{cut}");
        }
        // The segment ends within the function.
        let mut short = whole.clone();
        short[96] = 40;
        assert_eq!(patches_in(&short, &symbols, &AMD64), []);
        for at in [64, 72, 80] {
            let mut huge = whole.clone();
            huge[at..at + 8].copy_from_slice(&u64::MAX.to_le_bytes());
            assert_eq!(patches_in(&huge, &symbols, &AMD64), [], "{at}");
        }
    }
}
