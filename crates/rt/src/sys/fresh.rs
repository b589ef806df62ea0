//! Memory that no thread has touched yet: its first write to each page is a page fault, unless
//! the process has locked its memory.

use std::io;
use std::ptr::NonNull;

use super::map::{Access, page_size, protect, reserve, unmap};

/// A new mapping, written from its beginning to its end.
#[derive(Debug)]
pub struct FreshMemory {
    base: NonNull<u8>,
    len: usize,
    used: usize,
}

// SAFETY: the mapping belongs to this value alone, and nothing in it is bound to a thread.
unsafe impl Send for FreshMemory {}

impl FreshMemory {
    /// The unit in which it is written: a cache line.
    pub const LINE: usize = 64;

    /// Maps at least `bytes`, in pages of the base size: one fault fills one page, on every
    /// kernel. Not real-time safe.
    ///
    /// # Errors
    /// ENOMEM; EAGAIN where future memory is locked and the limit is reached.
    pub fn map(bytes: usize) -> io::Result<Self> {
        let page = page_size();
        let len = bytes.max(1).div_ceil(page).saturating_mul(page);
        let base = reserve(len).map_err(io::Error::from_raw_os_error)?;
        let memory = Self { base, len, used: 0 };
        // SAFETY: the whole of the mapping made above, into which no reference exists.
        unsafe { protect(base, len, Access::ReadWrite) }.map_err(io::Error::from_raw_os_error)?;
        // A kernel without huge pages refuses the advice, and needs none.
        // SAFETY: the whole of the mapping made above; the advice changes no content.
        let _ = unsafe { libc::madvise(base.as_ptr().cast(), len, libc::MADV_NOHUGEPAGE) };
        Ok(memory)
    }

    /// Writes `value` to each of the next lines that `bytes` fill, and returns whether there was
    /// room. Real-time safe where the memory is locked: else each new page is a fault.
    #[inline]
    pub fn append(&mut self, bytes: usize, value: u64) -> bool {
        if bytes > self.len - self.used {
            return false;
        }
        for offset in (self.used..self.used + bytes).step_by(Self::LINE) {
            // SAFETY: `used + bytes <= len`, and lines begin at multiples of 64, so the eight
            // bytes lie in the mapping.
            let line = unsafe { self.base.add(offset).cast::<u64>() };
            // SAFETY: writable, aligned to a line, and this value is its only user.
            unsafe { line.write_volatile(value) };
        }
        self.used += bytes.next_multiple_of(Self::LINE).min(self.len - self.used);
        true
    }

    /// Pages that were written so far. Real-time safe.
    #[must_use]
    pub fn pages(&self) -> usize {
        self.used.div_ceil(page_size())
    }
}

impl Drop for FreshMemory {
    fn drop(&mut self) {
        // SAFETY: whole pages of the mapping that this value owns; nothing uses it any more.
        let _ = unsafe { unmap(self.base, self.len) };
    }
}

#[cfg(all(test, not(miri)))]
mod tests {
    use super::*;
    use crate::memory::Disturbances;

    #[test]
    fn each_new_page_is_one_fault_and_no_page_is_one_twice() {
        let page = page_size();
        let mut memory = FreshMemory::map(64 * page).unwrap();
        let before = Disturbances::of_this_thread().unwrap();
        for _ in 0..64 * page / 64 {
            assert!(memory.append(64, 7));
        }
        let since = Disturbances::of_this_thread().unwrap().since(&before);
        assert_eq!(memory.pages(), 64);
        assert_eq!(since.minor_faults + since.major_faults, 64);
        assert!(!memory.append(64, 7), "it is full");
        assert_eq!(memory.pages(), 64);
    }

    #[test]
    fn a_part_of_a_line_takes_all_of_it() {
        let mut memory = FreshMemory::map(1).unwrap();
        assert!(memory.append(0, 1));
        assert_eq!(memory.pages(), 0);
        for _ in 0..page_size() / 64 {
            assert!(memory.append(1, 1));
        }
        assert!(!memory.append(1, 1));
    }
}
