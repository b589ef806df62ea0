//! Lines of text without malloc, for reports from wherever an error is found.

use std::ffi::c_int;

/// A line being put together; what doesn't fit is cut off.
pub(super) struct Line {
    text: [u8; 256],
    len: usize,
}

impl Line {
    pub(super) fn text(&mut self, text: &str) {
        for &byte in text.as_bytes() {
            // The last place is kept for the newline.
            if self.len < self.text.len() - 1 {
                self.text[self.len] = byte;
                self.len += 1;
            }
        }
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
}

/// Writes one line to a descriptor; async-signal-safe.
pub(super) fn line(fd: c_int, fill: impl FnOnce(&mut Line)) {
    let mut line = Line {
        text: [0; 256],
        len: 0,
    };
    fill(&mut line);
    line.text[line.len] = b'\n';
    let mut rest = &line.text[..=line.len];
    while !rest.is_empty() {
        // SAFETY: `rest` is that many initialised bytes.
        let written = unsafe { libc::write(fd, rest.as_ptr().cast(), rest.len()) };
        match usize::try_from(written) {
            Ok(written) if written > 0 => rest = &rest[written..],
            _ if crate::sys::map::errno() == libc::EINTR => {}
            _ => return,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(fill: impl FnOnce(&mut Line)) -> String {
        let mut line = Line {
            text: [0; 256],
            len: 0,
        };
        fill(&mut line);
        String::from_utf8_lossy(&line.text[..line.len]).into_owned()
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
    fn a_long_line_is_cut_with_room_for_its_end() {
        assert_eq!(text(|line| line.text(&"x".repeat(999))).len(), 255);
    }
}
