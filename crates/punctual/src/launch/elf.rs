//! What a program's first bytes say about how it is loaded.

/// The kinds of program that the kernel's loader distinguishes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Image {
    /// Something else.
    Unknown,
    /// `#!` and an interpreter.
    Script(String),
    /// For another processor or word size.
    Foreign,
    /// No dynamic loader.
    Static,
    /// Loaded by this dynamic loader.
    Dynamic(String),
}

const PT_INTERP: u32 = 3;
/// An ELF header's machine, at byte 18: the one this tool was built for.
const MACHINE: u16 = if cfg!(target_arch = "x86_64") {
    62
} else if cfg!(target_arch = "aarch64") {
    183
} else {
    243
};

/// Examines the beginning of a file; total, for any bytes.
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
    let native = cfg!(target_endian = "little");
    if bytes.get(4) != Some(&2) || bytes.get(5) != Some(if native { &1 } else { &2 }) {
        return Image::Foreign;
    }
    let Some(machine) = number::<2>(bytes, 18).map(u16::from_ne_bytes) else {
        return Image::Unknown;
    };
    if machine != MACHINE {
        return Image::Foreign;
    }
    interpreter(bytes).map_or(Image::Static, Image::Dynamic)
}

fn number<const N: usize>(bytes: &[u8], at: usize) -> Option<[u8; N]> {
    bytes.get(at..at.checked_add(N)?)?.try_into().ok()
}

fn interpreter(bytes: &[u8]) -> Option<String> {
    let headers = usize::try_from(u64::from_ne_bytes(number(bytes, 32)?)).ok()?;
    let size = usize::from(u16::from_ne_bytes(number(bytes, 54)?));
    let count = usize::from(u16::from_ne_bytes(number(bytes, 56)?));
    (0..count).find_map(|index| {
        let header = headers.checked_add(index.checked_mul(size)?)?;
        if u32::from_ne_bytes(number(bytes, header)?) != PT_INTERP {
            return None;
        }
        let offset = usize::try_from(u64::from_ne_bytes(number(bytes, header + 8)?)).ok()?;
        let length = usize::try_from(u64::from_ne_bytes(number(bytes, header + 32)?)).ok()?;
        let path = bytes.get(offset..offset.checked_add(length)?)?;
        let path = path.split(|&byte| byte == 0).next()?;
        Some(String::from_utf8_lossy(path).into_owned())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn static_and_dynamic_programs_are_distinguished() {
        let own = std::fs::read("/proc/self/exe").unwrap();
        // The tests are statically linked, like the tool.
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
    fn truncated_and_damaged_files_are_read_without_a_panic() {
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
