//! A large area of memory for loads that map, touch and unmap.

#![expect(
    unsafe_code,
    reason = "maps, touches and unmaps memory: that is what loads do"
)]

use std::io;
use std::ptr::NonNull;

use rustix::mm::{Advice, MapFlags, MprotectFlags, ProtFlags};

/// The size of a page.
pub(crate) fn page_size() -> usize {
    rustix::param::page_size()
}

/// Private anonymous memory that only this value refers to.
pub struct Area {
    start: NonNull<u8>,
    bytes: usize,
}

impl Area {
    /// Maps so many bytes.
    ///
    /// # Errors
    /// The system's.
    pub fn map(bytes: usize) -> io::Result<Self> {
        let protection = ProtFlags::READ | ProtFlags::WRITE;
        let (anywhere, flags) = (std::ptr::null_mut(), MapFlags::PRIVATE);
        // SAFETY: a new mapping at an address that the kernel chooses touches
        // no memory of ours.
        let start = unsafe { rustix::mm::mmap_anonymous(anywhere, bytes, protection, flags) }?;
        let start = NonNull::new(start.cast()).ok_or(io::ErrorKind::OutOfMemory)?;
        Ok(Area { start, bytes })
    }

    /// Like [`map`](Self::map), with pages of the base size only, or with huge pages if the kernel
    /// has them.
    ///
    /// # Errors
    /// The system's.
    pub fn map_with(bytes: usize, huge: bool) -> io::Result<Self> {
        let area = Self::map(bytes)?;
        let advice = if huge {
            Advice::LinuxHugepage
        } else {
            Advice::LinuxNoHugepage
        };
        // SAFETY: the whole of this mapping; advice on the size of pages changes no content.
        // EINVAL is a kernel without huge pages: there they are ordinary anyway.
        let _ = unsafe { rustix::mm::madvise(area.start.as_ptr().cast(), bytes, advice) };
        Ok(area)
    }

    /// Writes to every page from `start` to `end`; returns the number of pages.
    ///
    /// # Panics
    /// `end` is beyond the area.
    pub fn touch(&mut self, start: usize, end: usize, page: usize) -> u64 {
        assert!(end <= self.bytes, "within the area");
        for offset in (start..end).step_by(page) {
            // SAFETY: offset is below the area's size, asserted above.
            let byte = unsafe { self.start.add(offset) };
            // SAFETY: the byte is mapped, writable (protections are undone
            // before the next touch) and this value's alone.
            unsafe { byte.write_volatile(1) };
        }
        (end - start).div_ceil(page) as u64
    }

    /// Makes the kernel read the first half of the area into the second, as a debugger reads another
    /// process; returns the number of copied bytes.
    pub(crate) fn copy_half(&mut self) -> io::Result<u64> {
        let half = self.bytes / 2;
        let (from, to) = (self.part(0, half), self.part(half, half));
        let vector = |start| libc::iovec {
            iov_base: start,
            iov_len: half,
        };
        let (local, remote) = (vector(to), vector(from));
        let own = std::process::id() as i32;
        // SAFETY: both vectors are live and lie within this mapping, to which there are no
        // references; the halves don't overlap.
        let copied = unsafe { libc::process_vm_readv(own, &local, 1, &remote, 1, 0) };
        u64::try_from(copied).map_err(|_| io::Error::last_os_error())
    }

    fn part(&self, offset: usize, bytes: usize) -> *mut libc::c_void {
        assert!(offset + bytes <= self.bytes, "within the area");
        // SAFETY: offset is within the area, asserted above.
        unsafe { self.start.add(offset) }.as_ptr().cast()
    }

    pub(crate) fn protect(
        &mut self,
        offset: usize,
        bytes: usize,
        protection: MprotectFlags,
    ) -> io::Result<()> {
        let part = self.part(offset, bytes);
        // SAFETY: the part is whole pages of this mapping, to which there are
        // no references: the memory is only ever reached through raw pointers.
        Ok(unsafe { rustix::mm::mprotect(part, bytes, protection) }?)
    }

    pub(crate) fn give_back(&mut self, offset: usize, bytes: usize) -> io::Result<()> {
        let part = self.part(offset, bytes);
        // SAFETY: the part is pages of this mapping, to which there are no references, and the
        // content that is lost is read by nobody.
        Ok(unsafe { rustix::mm::madvise(part, bytes, Advice::LinuxDontNeed) }?)
    }
}

impl Drop for Area {
    fn drop(&mut self) {
        // SAFETY: this mapping of exactly this size was made by map, and
        // nothing refers to it any more.
        let _ = unsafe { rustix::mm::munmap(self.start.as_ptr().cast(), self.bytes) };
    }
}
