//! Thread names.
#![forbid(unsafe_code)]

use std::io;

use crate::sys::task;

/// The name of a thread, in the length that the kernel keeps.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Name([u8; 16]);

impl Name {
    /// The name up to the first 0 byte, 15 bytes at most. Real-time safe.
    #[must_use]
    pub fn new(name: &[u8]) -> Self {
        Self(task::kept_name(name))
    }

    /// Names the calling thread; an empty name keeps the current one. Real-time safe; one system
    /// call.
    ///
    /// # Errors
    /// None in practice.
    pub fn give_caller(self) -> io::Result<()> {
        match self.0[0] {
            0 => Ok(()),
            _ => task::give_name(&self.0),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_cut_to_15_bytes() {
        assert_eq!(
            Name::new(b"sixteen-bytes-long"),
            Name::new(b"sixteen-bytes-l")
        );
        assert_ne!(Name::new(b"one"), Name::new(b"other"));
        assert_eq!(Name::new(b""), Name::default());
    }
}
