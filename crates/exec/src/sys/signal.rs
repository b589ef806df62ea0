//! A signal from one thread of this process to another, which waits for it.

use std::io;

use super::check;

/// The signal: of those that queue, the first that the C library leaves to programs.
#[must_use]
pub fn number() -> libc::c_int {
    libc::SIGRTMIN()
}

/// Sends the signal to a thread of this process, whose number is `process`. Real-time safe; one system call.
///
/// # Errors
/// ESRCH if the thread has ended, EAGAIN at the limit of queued signals.
#[inline]
pub fn send(process: u32, tid: libc::pid_t) -> io::Result<()> {
    let number = number();
    // SAFETY: takes numbers only.
    let sent = unsafe { libc::syscall(libc::SYS_tgkill, process, tid, number) };
    check(sent as libc::c_int).map(drop)
}

/// Waits for the signal, which is blocked in the calling thread, and takes it. Real-time safe; one
/// system call.
///
/// # Errors
/// EINTR when a handler of another signal ran.
#[inline]
pub fn wait() -> io::Result<()> {
    // SAFETY: an all-zero sigset_t is a valid value of this plain C struct.
    let mut set: libc::sigset_t = unsafe { std::mem::zeroed() };
    // SAFETY: the set is a live local, and the number is valid.
    unsafe { libc::sigaddset(&mut set, number()) };
    // SAFETY: the set is a live local; the details of the signal are not asked for.
    check(unsafe { libc::sigwaitinfo(&set, std::ptr::null_mut()) }).map(drop)
}
