//! Calls of the kernel and the C library that neither `punctual_rt` nor `rustix` has.
#![expect(
    unsafe_code,
    reason = "raw system calls, and the C library's functions"
)]

pub mod mqueue;
pub mod mutex;
pub mod semaphore;
pub mod signal;
pub mod spawn;
pub mod spin;

use std::io;

/// Turns the −1/errno convention into a `Result`.
fn check(result: libc::c_int) -> io::Result<libc::c_int> {
    match result {
        -1 => Err(io::Error::last_os_error()),
        other => Ok(other),
    }
}

/// Turns the convention of the pthread functions (they return the error) into a `Result`.
fn check_returned(result: libc::c_int) -> io::Result<()> {
    match result {
        0 => Ok(()),
        errno => Err(io::Error::from_raw_os_error(errno)),
    }
}
