//! File operations relative to a directory's descriptor: an open directory stays the same one,
//! whatever is renamed or linked in its place.

use std::ffi::CStr;
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd, RawFd};

use super::check;

/// Opens a file of a directory, close-on-exec. Not real-time safe.
///
/// # Errors
/// The kernel's.
pub fn open_at(
    directory: BorrowedFd<'_>,
    name: &CStr,
    flags: libc::c_int,
    mode: libc::mode_t,
) -> io::Result<OwnedFd> {
    let flags = flags | libc::O_CLOEXEC;
    loop {
        // SAFETY: `name` is a C string that lives through the call.
        let fd = check(unsafe { libc::openat(directory.as_raw_fd(), name.as_ptr(), flags, mode) });
        match fd {
            // SAFETY: the kernel has just created this descriptor, and nothing else owns it.
            Ok(fd) => return Ok(unsafe { OwnedFd::from_raw_fd(fd) }),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
}

/// Creates a directory in a directory. Not real-time safe.
///
/// # Errors
/// The kernel's.
pub fn make_directory_at(
    directory: BorrowedFd<'_>,
    name: &CStr,
    mode: libc::mode_t,
) -> io::Result<()> {
    // SAFETY: `name` is a C string that lives through the call.
    check(unsafe { libc::mkdirat(directory.as_raw_fd(), name.as_ptr(), mode) }).map(drop)
}

/// Renames a file within a directory, replacing a file with the new name. Not real-time safe.
///
/// # Errors
/// The kernel's.
pub fn rename_at(directory: BorrowedFd<'_>, from: &CStr, to: &CStr) -> io::Result<()> {
    let fd = directory.as_raw_fd();
    // SAFETY: both names are C strings that live through the call.
    check(unsafe { libc::renameat(fd, from.as_ptr(), fd, to.as_ptr()) }).map(drop)
}

/// Exchanges the names of two files of a directory. Not real-time safe.
///
/// # Errors
/// The kernel's; EINVAL when the file system doesn't support it, ENOSYS when the kernel doesn't.
pub fn exchange_at(directory: BorrowedFd<'_>, one: &CStr, other: &CStr) -> io::Result<()> {
    let fd = directory.as_raw_fd();
    // SAFETY: both names are C strings that live through the call.
    let result = unsafe {
        libc::syscall(
            libc::SYS_renameat2,
            fd,
            one.as_ptr(),
            fd,
            other.as_ptr(),
            libc::RENAME_EXCHANGE,
        )
    };
    check(result as libc::c_int).map(drop)
}

/// Removes a file of a directory, or with AT_REMOVEDIR an empty directory. Not real-time safe.
///
/// # Errors
/// The kernel's.
pub fn remove_at(directory: BorrowedFd<'_>, name: &CStr, flags: libc::c_int) -> io::Result<()> {
    // SAFETY: `name` is a C string that lives through the call.
    check(unsafe { libc::unlinkat(directory.as_raw_fd(), name.as_ptr(), flags) }).map(drop)
}

/// Whether a directory is empty. Not real-time safe.
///
/// # Errors
/// The kernel's.
pub fn is_empty(directory: BorrowedFd<'_>) -> io::Result<bool> {
    // struct linux_dirent64: inode, offset, length of the entry, type, name.
    const LENGTH: usize = 16;
    const NAME: usize = 19;
    // A separate descriptor, so that the position is at the beginning.
    let own = open_at(directory, c".", libc::O_RDONLY | libc::O_DIRECTORY, 0)?;
    let mut buffer = [0_u8; 2048];
    loop {
        // SAFETY: the kernel writes at most the size of the live buffer.
        let read = unsafe {
            libc::syscall(
                libc::SYS_getdents64,
                own.as_raw_fd(),
                buffer.as_mut_ptr(),
                buffer.len(),
            )
        };
        let mut left = &buffer[..check(read as libc::c_int)?.unsigned_abs() as usize];
        if left.is_empty() {
            return Ok(true);
        }
        while let Some(&[low, high]) = left.get(LENGTH..LENGTH + 2) {
            let length = usize::from(u16::from_ne_bytes([low, high]));
            let entry = left.get(NAME..length).unwrap_or_default();
            if !entry.starts_with(b".\0") && !entry.starts_with(b"..\0") {
                return Ok(false);
            }
            left = &left[length..];
        }
    }
}

/// Reserves this many bytes in the file system for a file, whose length stays unchanged. Not
/// real-time safe.
///
/// # Errors
/// ENOSPC, EDQUOT, EFBIG without room; EOPNOTSUPP when the file system doesn't support it.
pub fn allocate(file: BorrowedFd<'_>, bytes: u64) -> io::Result<()> {
    let bytes = libc::off64_t::try_from(bytes).map_err(|_| io::ErrorKind::FileTooLarge)?;
    loop {
        // SAFETY: takes a descriptor and numbers, and touches no memory of ours.
        let done = check(unsafe {
            libc::fallocate64(file.as_raw_fd(), libc::FALLOC_FL_KEEP_SIZE, 0, bytes)
        });
        match done {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            done => return done.map(drop),
        }
    }
}

/// Makes reads and writes of a descriptor blocking. Not real-time safe.
///
/// # Errors
/// The kernel's.
pub fn wait_again(file: BorrowedFd<'_>) -> io::Result<()> {
    // SAFETY: takes a descriptor and numbers, and touches no memory of ours.
    let flags = check(unsafe { libc::fcntl(file.as_raw_fd(), libc::F_GETFL) })?;
    // SAFETY: takes a descriptor and numbers, and touches no memory of ours.
    check(unsafe { libc::fcntl(file.as_raw_fd(), libc::F_SETFL, flags & !libc::O_NONBLOCK) })
        .map(drop)
}

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
