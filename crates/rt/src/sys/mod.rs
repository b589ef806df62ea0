//! Raw system calls: the one place of this crate that talks to the kernel.
//!
//! Each function returns `io::Result` with the kernel's errno untouched, so that
//! callers can say what to mend.

pub mod futex;
pub mod task;
pub mod time;

use std::io;

/// Turns the −1/errno convention into a `Result`.
#[inline]
pub(crate) fn check(result: libc::c_int) -> io::Result<libc::c_int> {
    if result == -1 { Err(io::Error::last_os_error()) } else { Ok(result) }
}

/// Turns the convention of the pthread family (the error is the result) into a `Result`.
#[inline]
pub(crate) fn check_returned(result: libc::c_int) -> io::Result<()> {
    if result == 0 { Ok(()) } else { Err(io::Error::from_raw_os_error(result)) }
}
