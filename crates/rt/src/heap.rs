//! A heap that keeps its memory, and a check for late page faults.

#![expect(unsafe_code, reason = "mallopt, and a heap whose pages are touched")]

use std::fmt;
use std::io;

use crate::memory::{self, Disturbances};
use crate::sys::cgroup;
use crate::sys::map::{self, page_size};

/// Grows the heap by `bytes`, touches every page of it, and configures glibc's malloc to keep it:
/// malloc returns nothing to the kernel, creates no separate mappings, and all threads share one
/// heap. While no more than `bytes` (plus what was in use before) are in use at once, `malloc`
/// and `free` make no system call and take no page fault. malloc's lock has no priority
/// inheritance, so a real-time thread should still not allocate.
///
/// Call it first in `main`: threads that started earlier may have heaps of their own. Not
/// real-time safe.
///
/// # Errors
/// ENOTSUP where malloc isn't glibc's; ENOMEM, also when the allocation would trigger the memory
/// cgroup's OOM killer.
pub fn keep(bytes: usize) -> io::Result<()> {
    configure_malloc(bytes)?;
    if bytes == 0 {
        return Ok(());
    }
    // The C library's malloc, because that is the configured heap; Rust's allocator uses it by
    // default.
    // SAFETY: malloc has no precondition.
    let block = unsafe { libc::malloc(bytes) }.cast::<u8>();
    if block.is_null() {
        return Err(io::Error::from_raw_os_error(libc::ENOMEM));
    }
    // Memory kept by an earlier call is already present, and costs nothing.
    let page = page_size();
    let first = (block as usize).next_multiple_of(page);
    let whole = bytes.saturating_sub(first - block as usize) / page * page;
    let present = map::resident_pages(first, whole).unwrap_or(0) * page;
    if let Err(refused) = cgroup::allows(bytes - present) {
        // SAFETY: allocated above, freed once.
        unsafe { libc::free(block.cast()) };
        return Err(refused);
    }
    for offset in (0..bytes).step_by(page) {
        // SAFETY: `offset` is less than `bytes`, the size of the block.
        let page = unsafe { block.add(offset) };
        // SAFETY: the page lies in the block allocated above, which nothing else uses.
        unsafe { page.write_volatile(0) };
    }
    // SAFETY: allocated above, freed once.
    unsafe { libc::free(block.cast()) };
    Ok(())
}

#[cfg(target_env = "gnu")]
fn configure_malloc(bytes: usize) -> io::Result<()> {
    use std::ffi::c_int;
    // The heap grows in steps of at least a megabyte, if it must grow later.
    let pad = c_int::try_from(bytes.clamp(1 << 20, 64 << 20)).unwrap_or(c_int::MAX);
    for (option, value) in [
        (libc::M_ARENA_MAX, 1),
        // 0 doesn't mean "no limit": it forbids separate mappings.
        (libc::M_MMAP_MAX, 0),
        // -1: never.
        (libc::M_TRIM_THRESHOLD, -1),
        (libc::M_TOP_PAD, pad),
    ] {
        // SAFETY: mallopt takes two numbers.
        if unsafe { libc::mallopt(option, value) } == 0 {
            return Err(io::Error::from_raw_os_error(libc::ENOTSUP));
        }
    }
    Ok(())
}

#[cfg(not(target_env = "gnu"))]
fn configure_malloc(_: usize) -> io::Result<()> {
    Err(io::Error::from_raw_os_error(libc::ENOTSUP))
}

/// Prepares a program's memory in the right order: grows the heap by `heap` bytes and keeps it,
/// prefaults the calling thread's stack from the current depth `stack` bytes down (0: to its
/// limit), and locks all memory, present and future. Call it first in `main`. Not real-time safe.
///
/// # Errors
/// The first step that failed and why; [`crate::advice`] explains how to fix it.
pub fn prepare(heap: usize, stack: usize) -> Result<(), PrepareError> {
    keep(heap).map_err(PrepareError::Heap)?;
    crate::stack::prefault(stack).map_err(PrepareError::Stack)?;
    memory::lock_all().map_err(PrepareError::Lock)?;
    touch_clock();
    Ok(())
}

/// The vDSO reads the time from a page of the kernel, which mlockall doesn't cover: the first
/// reading in a process faults.
fn touch_clock() {
    std::hint::black_box(crate::clock::now_ns());
}

/// Why the memory of a program is not ready.
#[derive(Debug)]
pub enum PrepareError {
    /// The heap.
    Heap(io::Error),
    /// The stack.
    Stack(crate::stack::StackError),
    /// Locking.
    Lock(io::Error),
}

impl PrepareError {
    /// The step that failed, and the kernel's errno. Real-time safe.
    #[must_use]
    pub fn attempt(&self) -> (crate::advice::Attempt, i32) {
        use crate::advice::Attempt;
        let number = |error: &io::Error| error.raw_os_error().unwrap_or(libc::EINVAL);
        match self {
            Self::Heap(error) => (Attempt::Heap, number(error)),
            Self::Stack(error) => (Attempt::Stack, error.errno()),
            Self::Lock(error) => (Attempt::Lock, number(error)),
        }
    }
}

impl fmt::Display for PrepareError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (attempt, errno) = self.attempt();
        let advice = crate::advice::advice(attempt, errno).to_string_lossy();
        match self {
            Self::Heap(error) => write!(f, "could not prepare the heap: {error} ({advice})"),
            Self::Stack(error) => write!(f, "could not prepare the stack: {error}"),
            Self::Lock(error) => write!(f, "could not lock memory: {error} ({advice})"),
        }
    }
}

impl std::error::Error for PrepareError {}

/// The end of a thread's setup: page faults after it are late.
#[derive(Debug, Clone, Copy)]
pub struct FaultMark(Disturbances);

impl FaultMark {
    /// Marks the current moment for the calling thread. Real-time safe; two system calls, because
    /// the first reading of usage and clock may fault itself.
    ///
    /// # Errors
    /// None in practice.
    pub fn now() -> io::Result<Self> {
        touch_clock();
        Disturbances::of_this_thread()?;
        Disturbances::of_this_thread().map(Self)
    }

    /// A mark with counts that were read earlier. Real-time safe.
    #[must_use]
    pub fn from_counts(counts: Disturbances) -> Self {
        Self(counts)
    }

    /// The counts at the mark. Real-time safe.
    #[must_use]
    pub fn counts(&self) -> Disturbances {
        self.0
    }

    /// The disturbances of the calling thread, which made the mark, since the mark. Real-time
    /// safe; one system call.
    ///
    /// # Errors
    /// None in practice.
    pub fn since(&self) -> io::Result<Disturbances> {
        Ok(Disturbances::of_this_thread()?.since(&self.0))
    }

    /// Fails when a page fault came after the mark; the error contains the counts. Real-time safe
    /// when there was none; one system call.
    ///
    /// # Errors
    /// [`LateFaults`].
    pub fn check(&self) -> Result<(), LateFaults> {
        let since = self.since().unwrap_or_default();
        match since.minor_faults + since.major_faults {
            0 => Ok(()),
            _ => Err(LateFaults(since)),
        }
    }
}

/// Page faults after the end of the setup.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LateFaults(pub Disturbances);

impl fmt::Display for LateFaults {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{} late page faults ({} with I/O): memory is used that was not prepared",
            self.0.minor_faults + self.0.major_faults,
            self.0.major_faults
        )
    }
}

impl std::error::Error for LateFaults {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_late_fault_is_reported() {
        let mark = FaultMark::now().unwrap();
        assert_eq!(mark.check(), Ok(()));
        let fresh = vec![0_u8; 8 << 20];
        let sum: u32 = fresh
            .iter()
            .step_by(4096)
            .map(|&byte| u32::from(byte))
            .sum();
        assert_eq!(std::hint::black_box(sum), 0);
        let faults = mark.check().unwrap_err();
        assert!(faults.0.minor_faults > 0, "{faults}");
    }
}
