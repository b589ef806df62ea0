//! A heap that keeps its memory, and a check that nothing faults late.

use std::fmt;
use std::io;

use crate::memory::{self, Disturbances};
use crate::sys::cgroup;
use crate::sys::map::{self, page_size};

/// Grows the heap by `bytes`, touches every page of it, and tells glibc's malloc to keep it:
/// nothing goes back to the kernel, nothing is mapped by itself, and all threads use the one
/// heap. As long as no more than `bytes` are in use at once (and what was in use before),
/// `malloc` and `free` make no system call and take no page fault. malloc's lock has no
/// priority inheritance: a real-time thread still does without.
///
/// Call it first thing in `main`: threads that came before may have heaps of their own. Not
/// real-time safe.
///
/// # Errors
/// ENOTSUP where malloc isn't glibc's; ENOMEM, also where the memory control group would kill.
pub fn keep(bytes: usize) -> io::Result<()> {
    tell_malloc(bytes)?;
    if bytes == 0 {
        return Ok(());
    }
    // The C library's, for that is the heap that was told; Rust's is the same by default.
    // SAFETY: malloc has no precondition.
    let block = unsafe { libc::malloc(bytes) }.cast::<u8>();
    if block.is_null() {
        return Err(io::Error::from_raw_os_error(libc::ENOMEM));
    }
    // What was kept before is there already, and takes nothing.
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
        // SAFETY: within the block.
        let page = unsafe { block.add(offset) };
        // SAFETY: the block is ours.
        unsafe { page.write_volatile(0) };
    }
    // SAFETY: allocated above, freed once.
    unsafe { libc::free(block.cast()) };
    Ok(())
}

#[cfg(target_env = "gnu")]
fn tell_malloc(bytes: usize) -> io::Result<()> {
    use std::ffi::c_int;
    // The heap grows in steps: a megabyte at least, if it must grow later after all.
    let pad = c_int::try_from(bytes.clamp(1 << 20, 64 << 20)).unwrap_or(c_int::MAX);
    for (option, value) in [
        (libc::M_ARENA_MAX, 1),
        // 0 is no limit for what is mapped by itself, but none at all.
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
fn tell_malloc(_: usize) -> io::Result<()> {
    Err(io::Error::from_raw_os_error(libc::ENOTSUP))
}

/// Makes a program's memory ready, in the right order: the heap grown by `heap` bytes and
/// kept, the calling thread's stack present from here `stack` bytes down (0: to its limit),
/// and all of it locked, what comes later included. First thing in `main`. Not real-time
/// safe.
///
/// # Errors
/// The first step that failed and why; [`crate::advice`] says how to fix it.
pub fn prepare(heap: usize, stack: usize) -> Result<(), Unready> {
    keep(heap).map_err(Unready::Heap)?;
    crate::stack::prefault(stack).map_err(Unready::Stack)?;
    memory::lock_all().map_err(Unready::Lock)?;
    touch_clock();
    Ok(())
}

/// The page that the vDSO reads the time from is the kernel's own: mlockall leaves it out,
/// and the first reading of the process faults.
fn touch_clock() {
    std::hint::black_box(crate::clock::now_ns());
}

/// Why the memory of a program is not ready.
#[derive(Debug)]
pub enum Unready {
    /// The heap.
    Heap(io::Error),
    /// The stack.
    Stack(crate::stack::StackError),
    /// Locking.
    Lock(io::Error),
}

impl Unready {
    /// What was tried, and the number of the kernel's answer. Real-time safe.
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

impl fmt::Display for Unready {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (attempt, errno) = self.attempt();
        let advice = crate::advice::advice(attempt, errno).to_string_lossy();
        match self {
            Self::Heap(error) => write!(f, "can't prepare the heap: {error} ({advice})"),
            Self::Stack(error) => write!(f, "can't prepare the stack: {error}"),
            Self::Lock(error) => write!(f, "can't lock memory: {error} ({advice})"),
        }
    }
}

impl std::error::Error for Unready {}

/// The end of a thread's preparations: page faults after it are late ones.
#[derive(Debug, Clone, Copy)]
pub struct Mark(Disturbances);

impl Mark {
    /// Marks this moment for the calling thread. Real-time safe; two system calls, for the
    /// first reading of usage and clock may itself fault.
    ///
    /// # Errors
    /// None in practice.
    pub fn now() -> io::Result<Self> {
        touch_clock();
        Disturbances::of_this_thread()?;
        Disturbances::of_this_thread().map(Self)
    }

    /// The mark that earlier counts stand for. Real-time safe.
    #[must_use]
    pub fn of(counts: Disturbances) -> Self {
        Self(counts)
    }

    /// The counts at the mark. Real-time safe.
    #[must_use]
    pub fn counts(&self) -> Disturbances {
        self.0
    }

    /// What the calling thread, which made the mark, has suffered since. Real-time safe; one
    /// system call.
    ///
    /// # Errors
    /// None in practice.
    pub fn since(&self) -> io::Result<Disturbances> {
        Ok(Disturbances::of_this_thread()?.since(&self.0))
    }

    /// Refuses late page faults: an error says how many came. Real-time safe while none did;
    /// one system call.
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

/// Page faults that came after the preparations.
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
    fn a_late_fault_is_refused() {
        let mark = Mark::now().unwrap();
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
