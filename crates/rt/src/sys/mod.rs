//! Raw system calls: the only place of this crate that talks to the kernel.
//!
//! Each function returns `io::Result` with the kernel's errno unchanged, so that callers can
//! explain how to fix it.
#![expect(
    unsafe_code,
    reason = "raw system calls, and the C library's functions"
)]

pub mod cache;
pub mod cancel;
pub mod cgroup;
pub mod elf;
pub mod file;
pub mod fresh;
pub mod futex;
pub mod map;
pub mod maps;
pub mod mark;
pub mod perf;
mod raw;
pub mod shared;
pub mod socket;
pub mod symbols;
pub mod task;
pub mod tasks;
pub mod time;
pub mod tsan;
mod vdso;

use std::io;

/// Turns the −1/errno convention into a `Result`.
#[inline]
pub(crate) fn check(result: libc::c_int) -> io::Result<libc::c_int> {
    if result == -1 {
        Err(io::Error::last_os_error())
    } else {
        Ok(result)
    }
}

/// Turns the convention of the pthread functions (they return the error) into a `Result`.
#[inline]
pub(crate) fn check_returned(result: libc::c_int) -> io::Result<()> {
    if result == 0 {
        Ok(())
    } else {
        Err(refused(result))
    }
}

/// A separate function, to keep it out of loops that meet no error.
#[cold]
fn refused(errno: libc::c_int) -> io::Error {
    io::Error::from_raw_os_error(errno)
}

/// A boxed value of all-zero bytes, for the C library's structs.
pub(crate) fn zeroed_boxed<T: PlainC>() -> Box<T> {
    // SAFETY: all-zero bytes are a valid value of every `PlainC` type.
    Box::new(unsafe { std::mem::zeroed() })
}

/// C structs for which all-zero bytes are a valid value.
///
/// # Safety
/// All-zero bytes must be a valid value of the type.
pub(crate) unsafe trait PlainC {}

// SAFETY: plain C data without references; zero is valid for each.
unsafe impl PlainC for libc::pthread_mutexattr_t {}
// SAFETY: a plain C union of integers; all-zero bytes are a valid value.
unsafe impl PlainC for std::cell::UnsafeCell<libc::pthread_mutex_t> {}
