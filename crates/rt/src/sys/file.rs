//! Descriptors that this process was started with, and whose rights it has.

use std::io;
use std::os::fd::{FromRawFd, OwnedFd, RawFd};

use super::check;

/// Another descriptor of a file that this process was started with. Not real-time safe.
///
/// # Errors
/// EBADF for one that is closed, or that was opened by this process for itself.
pub fn inherited(number: RawFd) -> io::Result<OwnedFd> {
    // SAFETY: takes numbers, and touches no memory of ours; a closed descriptor is an error.
    let flags = check(unsafe { libc::fcntl(number, libc::F_GETFD) })?;
    if flags & libc::FD_CLOEXEC != 0 {
        return Err(io::Error::from_raw_os_error(libc::EBADF));
    }
    // SAFETY: takes numbers, and touches no memory of ours; a closed descriptor is an error.
    let fd = check(unsafe { libc::fcntl(number, libc::F_DUPFD_CLOEXEC, 3) })?;
    // SAFETY: the kernel has just made this descriptor, and nothing else knows of it.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

/// The user whose rights count. Not real-time safe.
#[must_use]
pub fn effective_user() -> u32 {
    // SAFETY: takes nothing and always succeeds.
    unsafe { libc::geteuid() }
}
