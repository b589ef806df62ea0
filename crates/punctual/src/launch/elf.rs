//! What the first bytes of a program tell about how it is loaded.

use object::elf::FileHeader64;
use object::read::elf::{FileHeader as _, ProgramHeader as _};
use object::{NativeEndian, ReadRef as _, elf};

/// A program as the kernel's loader sees it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Image {
    /// Something else.
    Unknown,
    /// `#!` and an interpreter.
    Script(String),
    /// For another processor, or of another word size.
    Foreign,
    /// Nothing is loaded into it.
    Static,
    /// Loaded by this interpreter.
    Dynamic(String),
}

type Header = FileHeader64<NativeEndian>;

/// The machine that this program was built for.
const MACHINE: u16 = if cfg!(target_arch = "x86_64") {
    elf::EM_X86_64
} else if cfg!(target_arch = "aarch64") {
    elf::EM_AARCH64
} else {
    elf::EM_RISCV
};

/// Reads the beginning of a file; total, whatever the bytes.
pub(super) fn image(bytes: &[u8]) -> Image {
    if let Some(rest) = bytes.strip_prefix(b"#!") {
        let line = rest.split(|&byte| byte == b'\n').next().unwrap_or_default();
        let line = String::from_utf8_lossy(line);
        return line
            .split_whitespace()
            .next()
            .map_or(Image::Unknown, |word| Image::Script(word.to_owned()));
    }
    if !bytes.starts_with(b"\x7fELF") {
        return Image::Unknown;
    }
    let Ok(header) = bytes.read_at::<Header>(0) else {
        return Image::Unknown;
    };
    let is_native = header.is_class_64() && header.endian().is_ok();
    if !is_native || header.e_machine(NativeEndian) != MACHINE {
        return Image::Foreign;
    }
    interpreter(header, bytes).map_or(Image::Static, Image::Dynamic)
}

fn interpreter(header: &Header, bytes: &[u8]) -> Option<String> {
    let parts = header.program_headers(NativeEndian, bytes).ok()?;
    let path = parts
        .iter()
        .find_map(|part| part.interpreter(NativeEndian, bytes).ok()?)?;
    Some(String::from_utf8_lossy(path).into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn programs_of_this_machine_are_told_apart() {
        let own = std::fs::read("/proc/self/exe").unwrap();
        // The tests are linked as the tool is: statically.
        assert_eq!(image(&own), Image::Static);
        let shell = std::fs::read("/bin/sh").unwrap();
        assert!(matches!(image(&shell), Image::Dynamic(path) if path.contains("ld")));
        let mut narrow = shell.clone();
        narrow[4] = 1;
        assert_eq!(image(&narrow), Image::Foreign);
        let mut other = shell;
        other[18] = 0xff;
        assert_eq!(image(&other), Image::Foreign);
    }

    #[test]
    fn scripts_name_their_interpreter() {
        let script = |text: &str| image(text.as_bytes());
        assert_eq!(
            script("#! /usr/bin/env python3\n"),
            Image::Script("/usr/bin/env".into())
        );
        assert_eq!(script("#!\n"), Image::Unknown);
        assert_eq!(script("echo\n"), Image::Unknown);
        assert_eq!(script(""), Image::Unknown);
    }

    #[test]
    fn cut_and_broken_files_are_read_without_a_panic() {
        let mut bytes = std::fs::read("/bin/sh").unwrap();
        bytes.truncate(4096);
        for length in 0..bytes.len() {
            image(&bytes[..length]);
        }
        for index in 0..0x400 {
            let mut broken = bytes.clone();
            broken[index] = 0xff;
            image(&broken);
        }
    }
}
