//! The raw system calls of these loads alone, behind functions that are safe to call.

use std::io;
use std::os::fd::AsRawFd;

use super::super::sys::check;

fn file_limit() -> libc::rlimit {
    let mut limit = libc::rlimit {
        rlim_cur: 0,
        rlim_max: 0,
    };
    // SAFETY: the pointer is to a live rlimit that the kernel fills.
    unsafe { libc::getrlimit(libc::RLIMIT_NOFILE, &mut limit) };
    limit
}

fn set_file_limit(limit: &libc::rlimit) -> bool {
    // SAFETY: the pointer is to a live rlimit that is only read.
    unsafe { libc::setrlimit(libc::RLIMIT_NOFILE, limit) == 0 }
}

/// Makes room for so many open files in this process: the soft limit goes up, and the hard one
/// too where that is allowed (CAP_SYS_RESOURCE). Gives the limit then in force.
pub fn want_files(wanted: u64) -> u64 {
    let limit = file_limit();
    if limit.rlim_cur < wanted {
        set_file_limit(&libc::rlimit {
            rlim_cur: wanted,
            rlim_max: limit.rlim_max.max(wanted),
        });
    }
    file_limit().rlim_cur
}

/// The limit that [`want_files`] would come to; this process's own stays as it is.
pub fn possible_files(wanted: u64) -> u64 {
    let limit = file_limit();
    if limit.rlim_max >= wanted {
        return wanted;
    }
    let raised = libc::rlimit {
        rlim_max: wanted,
        ..limit
    };
    if set_file_limit(&raised) {
        // Lowering is always allowed.
        set_file_limit(&limit);
        return wanted;
    }
    limit.rlim_max
}

/// This process no longer notices the signal, nor do the children that it forks.
pub fn ignore_signal(signal: i32) -> io::Result<()> {
    // SAFETY: SIG_IGN is no function of ours that could be called.
    match unsafe { libc::signal(signal, libc::SIG_IGN) } {
        libc::SIG_ERR => Err(io::Error::last_os_error()),
        _ => Ok(()),
    }
}

/// Sleeps until a signal comes.
pub fn pause() {
    // SAFETY: pause takes nothing.
    unsafe { libc::pause() };
}

/// Page faults of this thread that needed no reading from a disk.
pub fn faults() -> u64 {
    // SAFETY: rusage is plain integers, for which all zeroes is valid.
    let mut usage: libc::rusage = unsafe { std::mem::zeroed() };
    // SAFETY: the pointer is to a live rusage that the kernel fills.
    unsafe { libc::getrusage(libc::RUSAGE_THREAD, &mut usage) };
    usage.ru_minflt as u64
}

/// An entry that watches a descriptor for input.
pub fn watched(fd: &impl AsRawFd) -> libc::pollfd {
    libc::pollfd {
        fd: fd.as_raw_fd(),
        events: libc::POLLIN,
        revents: 0,
    }
}

/// Looks once at all descriptors; how many are ready.
pub fn poll_many(polled: &mut [libc::pollfd]) -> io::Result<u64> {
    // SAFETY: the pointer is to as many live entries as are passed.
    let ready = unsafe { libc::poll(polled.as_mut_ptr(), polled.len() as libc::nfds_t, 0) };
    check(ready).map(|ready| ready as u64)
}
