//! File operations relative to a directory's descriptor: an open directory stays the same one,
//! whatever is renamed or linked in its place.

use std::io;
use std::os::fd::{FromRawFd, OwnedFd, RawFd};

use super::check;

/// Duplicates a descriptor that this process inherited. Not real-time safe.
///
/// # Errors
/// EBADF for one that is closed, or that this process opened itself.
pub fn inherited(number: RawFd) -> io::Result<OwnedFd> {
    // SAFETY: takes numbers, and touches no memory of ours; a closed descriptor is an error.
    let flags = check(unsafe { libc::fcntl(number, libc::F_GETFD) })?;
    if flags & libc::FD_CLOEXEC != 0 {
        return Err(io::Error::from_raw_os_error(libc::EBADF));
    }
    // SAFETY: takes numbers, and touches no memory of ours; a closed descriptor is an error.
    let fd = check(unsafe { libc::fcntl(number, libc::F_DUPFD_CLOEXEC, 3) })?;
    // SAFETY: the kernel has just created this descriptor, and nothing else owns it.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

/// The effective user id. Not real-time safe.
#[must_use]
pub fn effective_user() -> u32 {
    // SAFETY: takes nothing and always succeeds.
    unsafe { libc::geteuid() }
}
