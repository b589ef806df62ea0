//! Memory that does not fault when time counts.

use std::ffi::c_int;
use std::mem::offset_of;

use punctual_rt::advice::{Attempt, advice};
use punctual_rt::heap::{self, Mark};
use punctual_rt::memory::{self, Disturbances};

use crate::errno::{fail, null, refused, wrong_size};
use crate::versioned::{self, Versioned};

/// Makes the program's memory ready: the heap grown by `heap` bytes, each page of it touched,
/// and malloc() told to keep it and to map nothing by itself; the calling thread's stack
/// present from here `stack` bytes down (0: to its limit); and all memory locked, what is
/// mapped later included. First thing in main(): a thread that came before may have a heap
/// of its own, and a later default stack of 8 MB is then made present at once, so give
/// threads a size.
///
/// Not for a real-time thread. -1 with errno, and punctual_last_error() says how to fix it:
/// ENOTSUP malloc isn't glibc's; EPERM no right to lock; ENOMEM no memory, also where the memory
/// control group would kill for the heap, or above the limit of locked memory; EAGAIN as that,
/// while the stack was made present. What was done before the failure stays done.
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

/// The part of punctual_memory_prepare() that is about malloc(): 0 bytes set it and grow
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
/// punctual_last_error() says how to fix it: EPERM no right to; ENOMEM above the limit; EINVAL
/// `present_only` is neither 0 nor 1.
#[unsafe(no_mangle)]
pub extern "C" fn punctual_memory_lock(present_only: c_int) -> c_int {
    let done = match present_only {
        0 => memory::lock_all(),
        1 => memory::lock_present(),
        _ => return fail(libc::EINVAL, c"present_only is 0 or 1"),
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

/// What a thread has suffered since it started.
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

// SAFETY: integers alone, the size first.
unsafe impl Versioned for punctual_faults {
    const LEAST: usize = offset_of!(Self, reserved);
}

/// Fills `out` with the calling thread's page faults so far: the end of its preparations, from
/// which punctual_late_faults() counts. `out->struct_size` is filled in by the caller.
///
/// A real-time thread may call it: two system calls. -1 with errno: EFAULT `out` is NULL;
/// EINVAL its size is too small.
///
/// # Safety
/// `out` is NULL, or `out->struct_size` bytes are the caller's.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn punctual_faults_mark(out: *mut punctual_faults) -> c_int {
    if out.is_null() {
        return null();
    }
    let now = Mark::now().map(|mark| mark.counts()).unwrap_or_default();
    // SAFETY: not NULL, so as many bytes as its size says are the caller's.
    unsafe { told(out, now) }
}

/// How many page faults the calling thread has taken since it filled `mark` in: a thread whose
/// memory was prepared takes none, and a test asserts 0.
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
    // SAFETY: not NULL, so a mark that can be read: the caller's promise.
    match unsafe { since(mark) } {
        Ok(since) => i64::try_from(since.minor_faults + since.major_faults).unwrap_or(i64::MAX),
        Err(failed) => i64::from(failed),
    }
}

/// What the calling thread has suffered since the mark.
///
/// # Safety
/// `mark` points to a struct of which `struct_size` bytes can be read.
unsafe fn since(mark: *const punctual_faults) -> Result<Disturbances, c_int> {
    // SAFETY: as many bytes as its size says can be read, by contract.
    let Some(mark) = (unsafe { versioned::read(mark) }) else {
        let words = c"the mark was not filled in by punctual_faults_mark()";
        return Err(fail(libc::EINVAL, words));
    };
    let mark = Mark::of(Disturbances {
        minor_faults: mark.minor,
        major_faults: mark.major,
        preemptions: mark.preemptions,
    });
    Ok(mark.since().unwrap_or_default())
}

/// Fills `out` with what the calling thread has suffered since it filled `mark` in: page faults
/// without and with I/O, and involuntary context switches. `out->struct_size` is filled in by the
/// caller. `out` may be `mark`.
///
/// A real-time thread may call it: one system call. -1 with errno: EFAULT a pointer is NULL;
/// EINVAL `mark` wasn't filled in, or the size of `out` is too small.
///
/// # Safety
/// `mark` is NULL or was filled in by punctual_faults_mark() on this thread; `out` is NULL, or
/// `out->struct_size` bytes are the caller's.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn punctual_faults_since(
    mark: *const punctual_faults,
    out: *mut punctual_faults,
) -> c_int {
    if mark.is_null() || out.is_null() {
        return null();
    }
    // SAFETY: not NULL, so a mark that can be read: the caller's promise.
    let since = match unsafe { since(mark) } {
        Ok(since) => since,
        Err(failed) => return failed,
    };
    // SAFETY: not NULL, so as many bytes as its size says are the caller's.
    unsafe { told(out, since) }
}

/// Writes counts into the caller's struct.
///
/// # Safety
/// `out` points to a struct of which `struct_size` bytes can be written.
unsafe fn told(out: *mut punctual_faults, counts: Disturbances) -> c_int {
    let found = punctual_faults {
        struct_size: 0,
        minor: counts.minor_faults,
        major: counts.major_faults,
        preemptions: counts.preemptions,
        reserved: [0; 4],
    };
    // SAFETY: as many bytes as its size says can be written, by contract.
    if unsafe { versioned::write(out, found) } {
        0
    } else {
        wrong_size()
    }
}
