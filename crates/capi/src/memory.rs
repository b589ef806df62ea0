//! Memory that takes no page fault in a real-time section.

use std::ffi::c_int;
use std::mem::offset_of;

use punctual_rt::advice::{Attempt, advice};
use punctual_rt::heap::{self, FaultMark};
use punctual_rt::memory::{self, Disturbances};

use crate::errno::{fail, null, refused, wrong_size};
use crate::versioned::{self, Versioned};

/// Prepares the program's memory: grows the heap by `heap` bytes, touches each page of it, and
/// configures malloc() to keep it and to create no separate mappings; prefaults the calling
/// thread's stack from the current depth `stack` bytes down (0: to its limit); and locks all
/// memory, including later mappings. Call it first in main(): a thread that started earlier may
/// have a heap of its own. A default stack of 8 MB of a later thread is prefaulted at once, so
/// specify the stack sizes of threads.
///
/// Not for a real-time thread. -1 with errno, and punctual_last_error() says how to fix it:
/// ENOTSUP malloc isn't glibc's; EPERM no permission to lock; ENOMEM no memory, also if the heap
/// would trigger the memory cgroup's OOM killer, or above the limit of locked memory; EAGAIN the
/// same limit, while the stack was prefaulted. Steps before the failure stay done.
#[unsafe(no_mangle)]
pub extern "C" fn punctual_memory_prepare(heap: usize, stack: usize) -> c_int {
    match heap::prepare(heap, stack) {
        Ok(()) => 0,
        Err(unready) => {
            let (attempt, number) = unready.attempt();
            fail(number, advice(attempt, number))
        }
    }
}

/// The malloc part of punctual_memory_prepare(): with 0 bytes it configures malloc() and grows
/// nothing.
///
/// Not for a real-time thread. -1 with errno: ENOTSUP malloc isn't glibc's; ENOMEM as
/// punctual_memory_prepare().
#[unsafe(no_mangle)]
pub extern "C" fn punctual_heap_keep(bytes: usize) -> c_int {
    match heap::keep(bytes) {
        Ok(()) => 0,
        Err(error) => refused(Attempt::Heap, &error),
    }
}

/// Locks all memory that the process has and, unless `present_only` is 1, what it maps later.
///
/// Not for a real-time thread: it makes everything present. -1 with errno, and
/// punctual_last_error() says how to fix it: EPERM no permission; ENOMEM above the limit; EINVAL
/// `present_only` is neither 0 nor 1.
#[unsafe(no_mangle)]
pub extern "C" fn punctual_memory_lock(present_only: c_int) -> c_int {
    let done = match present_only {
        0 => memory::lock_all(),
        1 => memory::lock_present(),
        _ => return fail(libc::EINVAL, c"present_only: expected 0 or 1"),
    };
    match done {
        Ok(()) => 0,
        Err(error) => refused(Attempt::Lock, &error),
    }
}

/// Undoes punctual_memory_lock(). Pages stay present until memory runs short.
///
/// Not for a real-time thread: it waits for threads that map memory. It never fails in practice; -1
/// with errno if it does.
#[unsafe(no_mangle)]
pub extern "C" fn punctual_memory_unlock() -> c_int {
    match memory::unlock_all() {
        Ok(()) => 0,
        Err(error) => refused(Attempt::Lock, &error),
    }
}

/// Page faults and context switches of a thread since it started.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct punctual_faults {
    /// sizeof(struct punctual_faults), filled in by the caller.
    pub struct_size: usize,
    /// Page faults without I/O.
    pub minor: u64,
    /// Page faults with I/O.
    pub major: u64,
    /// Involuntary context switches.
    pub preemptions: u64,
    /// 0.
    pub reserved: [u64; 4],
}

// SAFETY: only integers, the size first.
unsafe impl Versioned for punctual_faults {
    const LEAST: usize = offset_of!(Self, reserved);
}

/// Fills `out` with the calling thread's page faults so far: the end of its setup, from which
/// punctual_late_faults() counts. `out->struct_size` is filled in by the caller.
///
/// A real-time thread may call it: two system calls. -1 with errno: EFAULT `out` is NULL;
/// EINVAL its size is too small.
///
/// # Safety
/// `out` is NULL, or `out->struct_size` bytes are writable.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn punctual_faults_mark(out: *mut punctual_faults) -> c_int {
    if out.is_null() {
        return null();
    }
    let now = FaultMark::now()
        .map(|mark| mark.counts())
        .unwrap_or_default();
    // SAFETY: not NULL, so by contract `struct_size` bytes are writable.
    unsafe { write_counts(out, now) }
}

/// How many page faults the calling thread has taken since it filled in `mark`. With prepared
/// memory there are none, and a test can assert 0.
///
/// A real-time thread may call it: one system call. -1 with errno: EFAULT `mark` is NULL;
/// EINVAL it wasn't filled in.
///
/// # Safety
/// `mark` is NULL or was filled in by punctual_faults_mark() on this thread.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn punctual_late_faults(mark: *const punctual_faults) -> i64 {
    if mark.is_null() {
        return i64::from(null());
    }
    // SAFETY: not NULL, so by contract a readable mark.
    match unsafe { since(mark) } {
        Ok(since) => i64::try_from(since.minor_faults + since.major_faults).unwrap_or(i64::MAX),
        Err(failed) => i64::from(failed),
    }
}

/// The disturbances of the calling thread since the mark.
///
/// # Safety
/// `mark` points to a struct of which `struct_size` bytes can be read.
unsafe fn since(mark: *const punctual_faults) -> Result<Disturbances, c_int> {
    // SAFETY: by contract `struct_size` bytes are readable.
    let Some(mark) = (unsafe { versioned::read(mark) }) else {
        let words = c"the mark is not one of punctual_faults_mark(): call it first";
        return Err(fail(libc::EINVAL, words));
    };
    let mark = FaultMark::from_counts(Disturbances {
        minor_faults: mark.minor,
        major_faults: mark.major,
        preemptions: mark.preemptions,
    });
    Ok(mark.since().unwrap_or_default())
}

/// Fills `out` with the disturbances of the calling thread since it filled in `mark`: page faults
/// without and with I/O, and involuntary context switches. `out->struct_size` is filled in by the
/// caller. `out` may be `mark`.
///
/// A real-time thread may call it: one system call. -1 with errno: EFAULT a pointer is NULL;
/// EINVAL `mark` wasn't filled in, or the size of `out` is too small.
///
/// # Safety
/// `mark` is NULL or was filled in by punctual_faults_mark() on this thread; `out` is NULL, or
/// `out->struct_size` bytes are writable.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn punctual_faults_since(
    mark: *const punctual_faults,
    out: *mut punctual_faults,
) -> c_int {
    if mark.is_null() || out.is_null() {
        return null();
    }
    // SAFETY: not NULL, so by contract a readable mark.
    let since = match unsafe { since(mark) } {
        Ok(since) => since,
        Err(failed) => return failed,
    };
    // SAFETY: not NULL, so by contract `struct_size` bytes are writable.
    unsafe { write_counts(out, since) }
}

/// Writes counts into the caller's struct.
///
/// # Safety
/// `out` points to a struct of which `struct_size` bytes can be written.
unsafe fn write_counts(out: *mut punctual_faults, counts: Disturbances) -> c_int {
    let found = punctual_faults {
        struct_size: 0,
        minor: counts.minor_faults,
        major: counts.major_faults,
        preemptions: counts.preemptions,
        reserved: [0; 4],
    };
    // SAFETY: by contract `struct_size` bytes are writable.
    if unsafe { versioned::write(out, found) } {
        0
    } else {
        wrong_size()
    }
}
