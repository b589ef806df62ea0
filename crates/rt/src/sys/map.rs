//! Memory mappings of the kernel.
//!
//! Every call here takes the process's `mmap_lock`, for writing or for reading, and may wait
//! behind another thread that maps or faults: none is for a real-time thread, except
//! [`page_size`].

use std::ffi::c_int;
use std::ptr::{NonNull, null_mut};
use std::sync::atomic::{AtomicU8, AtomicUsize, Ordering};

use super::maps::writable_down_to;

/// A number as `errno` holds it, e.g. `libc::ENOMEM`.
pub type Errno = c_int;

/// The access that a thread has to pages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// Any access ends in SIGSEGV.
    None,
    /// Reading and writing.
    ReadWrite,
}

/// The size of a page in bytes: a power of two, at least 4,096.
///
/// A real-time thread may call it: after the first call it is one load.
pub fn page_size() -> usize {
    static PAGE: AtomicUsize = AtomicUsize::new(0);
    let known = PAGE.load(Ordering::Relaxed);
    if known != 0 {
        return known;
    }
    // SAFETY: sysconf takes no pointer and has no precondition.
    let asked = unsafe { libc::sysconf(libc::_SC_PAGESIZE) };
    let page = usize::try_from(asked).unwrap_or(4096).max(4096);
    PAGE.store(page, Ordering::Relaxed);
    page
}

/// The calling thread's `errno`.
pub fn errno() -> Errno {
    // SAFETY: __errno_location has no precondition and always returns the thread's own.
    let place = unsafe { libc::__errno_location() };
    // SAFETY: the pointer is valid for the life of the calling thread.
    unsafe { *place }
}

/// Sets the calling thread's `errno`.
pub fn set_errno(number: Errno) {
    // SAFETY: __errno_location has no precondition and always returns the thread's own.
    let place = unsafe { libc::__errno_location() };
    // SAFETY: the pointer is valid for the life of the calling thread.
    unsafe { *place = number };
}

/// Reserves `len` bytes of address space without access.
///
/// # Errors
/// ENOMEM when the address space, `RLIMIT_AS` or `vm.max_map_count` is exhausted; EAGAIN when
/// future mappings are locked and `RLIMIT_MEMLOCK` would be exceeded.
pub fn reserve(len: usize) -> Result<NonNull<u8>, Errno> {
    let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE | libc::MAP_STACK;
    // SAFETY: a new anonymous mapping at an address of the kernel's choice affects no existing
    // memory.
    let place = unsafe { libc::mmap(null_mut(), len, libc::PROT_NONE, flags, -1, 0) };
    if place == libc::MAP_FAILED {
        return Err(errno());
    }
    NonNull::new(place.cast()).ok_or(libc::ENOMEM)
}

/// Changes the access to whole pages.
///
/// # Errors
/// ENOMEM when the split would exceed `vm.max_map_count` or the memory can't be committed.
///
/// # Safety
/// `place..place + len` is whole pages of a mapping that the caller owns, and no reference into
/// it violates the new access.
pub unsafe fn protect(place: NonNull<u8>, len: usize, access: Access) -> Result<(), Errno> {
    let bits = match access {
        Access::None => libc::PROT_NONE,
        Access::ReadWrite => libc::PROT_READ | libc::PROT_WRITE,
    };
    // SAFETY: by contract the caller owns the pages, and no reference violates the new access.
    match unsafe { libc::mprotect(place.as_ptr().cast(), len, bits) } {
        0 => Ok(()),
        _ => Err(errno()),
    }
}

/// Prefaults writable pages as if each had been written, without changing them.
///
/// Uses `MADV_POPULATE_WRITE`, and touches each page where the kernel is older than Linux 5.14
/// and doesn't know it.
///
/// # Errors
/// ENOMEM when memory is short or a part is not mapped, EFAULT when a part is not writable.
///
/// # Safety
/// `place..place + len` is whole pages, and the caller may write to those that are mapped.
pub unsafe fn populate(place: NonNull<u8>, len: usize) -> Result<(), Errno> {
    loop {
        // SAFETY: MADV_POPULATE_WRITE never changes the content of a page.
        let done = unsafe { libc::madvise(place.as_ptr().cast(), len, libc::MADV_POPULATE_WRITE) };
        if done == 0 {
            return Ok(());
        }
        match errno() {
            libc::EINTR | libc::EAGAIN => {}
            // The memory isn't writable, or the kernel doesn't know the advice.
            libc::EINVAL if knows_populate() => return Err(libc::EFAULT),
            libc::EINVAL => break,
            other => return Err(other),
        }
    }
    let low = place.as_ptr() as usize;
    if writable_down_to(low, low + len) != low {
        return Err(libc::EFAULT);
    }
    // SAFETY: all of it is mapped readable and writable, as checked above.
    unsafe { touch(place, len) };
    Ok(())
}

/// Whether the kernel knows `MADV_POPULATE_WRITE`: it checks the advice before the length.
pub fn knows_populate() -> bool {
    // SAFETY: the length is 0.
    unsafe { libc::madvise(null_mut(), 0, libc::MADV_POPULATE_WRITE) == 0 }
}

/// Writes the present value back to each page, so that each is present.
///
/// # Safety
/// `place..place + len` is mapped readable and writable.
pub unsafe fn touch(place: NonNull<u8>, len: usize) {
    for offset in (0..len).step_by(page_size()) {
        // SAFETY: offset < len, so the byte is in the range.
        let byte = unsafe { place.add(offset) };
        // SAFETY: by contract the byte is mapped; read and written atomically, for a thread may
        // run there.
        let byte = unsafe { AtomicU8::from_ptr(byte.as_ptr()) };
        byte.fetch_or(0, Ordering::Relaxed);
    }
}

/// Unmaps whole pages.
///
/// # Errors
/// ENOMEM when splitting the mapping would exceed `vm.max_map_count`.
///
/// # Safety
/// `place..place + len` is whole pages of a mapping that the caller owns, and nothing uses
/// them any more.
pub unsafe fn unmap(place: NonNull<u8>, len: usize) -> Result<(), Errno> {
    // SAFETY: by contract the caller owns the pages and nothing uses them any more.
    match unsafe { libc::munmap(place.as_ptr().cast(), len) } {
        0 => Ok(()),
        _ => Err(errno()),
    }
}

/// Counts the pages of `place..place + len` that are in memory now.
///
/// # Errors
/// ENOMEM when a part is not mapped, EINVAL when `place` is not the start of a page.
pub fn resident_pages(place: usize, len: usize) -> Result<usize, Errno> {
    const CHUNK: usize = 1024;
    let page = page_size();
    let mut seen = [0_u8; CHUNK];
    let mut count = 0;
    let mut offset = 0;
    while offset < len {
        let part = (len - offset).min(CHUNK * page);
        let start = place.checked_add(offset).ok_or(libc::ENOMEM)? as *mut libc::c_void;
        // SAFETY: mincore reads no memory of the range, and writes one byte per page of
        // `part`, at most CHUNK, into `seen`.
        if unsafe { libc::mincore(start, part, seen.as_mut_ptr()) } != 0 {
            return Err(errno());
        }
        count += seen[..part.div_ceil(page)]
            .iter()
            .filter(|page| **page & 1 != 0)
            .count();
        offset += part;
    }
    Ok(count)
}
