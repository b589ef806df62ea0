//! What a thread is called.
#![forbid(unsafe_code)]

use std::io;

use crate::sys::task;

/// The name of a thread, as much of it as the kernel keeps.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Name([u8; 16]);

impl Name {
    /// Up to the first byte that is 0, 15 bytes at most. Real-time safe.
    #[must_use]
    pub fn new(name: &[u8]) -> Self {
        Self(task::kept_name(name))
    }

    /// Names the calling thread; an empty name leaves the one that it has. Real-time safe; one
    /// system call.
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
    fn a_name_is_cut_to_what_the_kernel_keeps() {
        assert_eq!(
            Name::new(b"sixteen-bytes-long"),
            Name::new(b"sixteen-bytes-l")
        );
        assert_ne!(Name::new(b"one"), Name::new(b"other"));
        assert_eq!(Name::new(b""), Name::default());
    }
}
