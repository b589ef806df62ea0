//! Lines of text without malloc, for reports from wherever an error is found.

use std::ffi::c_int;

/// A line being put together; one that is too long is written in several pieces.
pub(super) struct Line {
    fd: c_int,
    text: [u8; 256],
    len: usize,
}

impl Line {
    pub(super) fn text(&mut self, text: &str) {
        self.bytes(text.as_bytes());
    }

    /// As they are, but for what would end the line or move a terminal's cursor.
    pub(super) fn bytes(&mut self, bytes: &[u8]) {
        for &byte in bytes {
            self.byte(if byte.is_ascii_control() { b'?' } else { byte });
        }
    }

    fn byte(&mut self, byte: u8) {
        if self.len == self.text.len() {
            self.write();
        }
        self.text[self.len] = byte;
        self.len += 1;
    }

    pub(super) fn number(&mut self, mut number: usize) {
        let mut digits = [0_u8; 20];
        let mut start = digits.len();
        loop {
            start -= 1;
            digits[start] = b'0' + (number % 10) as u8;
            number /= 10;
            if number == 0 {
                break;
            }
        }
        self.text(std::str::from_utf8(&digits[start..]).unwrap_or("?"));
    }

    pub(super) fn address(&mut self, address: usize) {
        self.text("0x");
        let digits = (usize::BITS - address.leading_zeros()).div_ceil(4).max(1);
        for digit in (0..digits).rev() {
            let value = (address >> (digit * 4)) & 0xf;
            self.text(&"0123456789abcdef"[value..=value]);
        }
    }

    fn write(&mut self) {
        let mut rest = &self.text[..self.len];
        while !rest.is_empty() {
            // SAFETY: `rest` is that many initialised bytes.
            let written = unsafe { libc::write(self.fd, rest.as_ptr().cast(), rest.len()) };
            match usize::try_from(written) {
                Ok(written) if written > 0 => rest = &rest[written..],
                _ if crate::sys::map::errno() == libc::EINTR => {}
                _ => break,
            }
        }
        self.len = 0;
    }
}

/// Writes one line to a descriptor; async-signal-safe.
pub(super) fn line(fd: c_int, fill: impl FnOnce(&mut Line)) {
    let mut line = Line {
        fd,
        text: [0; 256],
        len: 0,
    };
    fill(&mut line);
    line.byte(b'\n');
    line.write();
}

#[cfg(test)]
#[cfg(not(miri))]
mod tests {
    use super::*;
    use std::fs::File;
    use std::io::{Read, Seek};
    use std::os::fd::{AsRawFd, FromRawFd};

    fn text(fill: impl FnOnce(&mut Line)) -> String {
        let mut file = tempfile();
        line(file.as_raw_fd(), fill);
        let mut text = String::new();
        file.rewind().unwrap();
        file.read_to_string(&mut text).unwrap();
        assert_eq!(text.pop(), Some('\n'));
        text
    }

    fn tempfile() -> File {
        // SAFETY: the name is a C string.
        let made = unsafe { libc::memfd_create(c"lines".as_ptr(), 0) };
        assert!(made >= 0);
        // SAFETY: the descriptor is new and nobody else's.
        unsafe { File::from_raw_fd(made) }
    }

    #[test]
    fn numbers_and_addresses() {
        assert_eq!(text(|line| line.number(0)), "0");
        assert_eq!(text(|line| line.number(usize::MAX)), usize::MAX.to_string());
        assert_eq!(text(|line| line.address(0)), "0x0");
        assert_eq!(
            text(|line| line.address(0x7f00_1234_5000)),
            "0x7f0012345000"
        );
    }

    #[test]
    fn a_long_line_is_written_whole_and_moves_no_cursor() {
        let long = "x".repeat(999);
        assert_eq!(text(|line| line.text(&long)), long);
        assert_eq!(
            text(|line| line.bytes(b"a\x1b[2Jb\n\xc3\xa4")),
            "a?[2Jb?\u{e4}"
        );
    }
}
