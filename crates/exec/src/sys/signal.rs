//! Signals from one thread of this process to another: one that it waits for, and one that ends its sleep.

use std::io;

use super::{check, check_returned};

/// Ends sleeps: nobody else sends it, and many of it are pending as one.
const INTERRUPTING: libc::c_int = libc::SIGURG;

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
    send_number(process, tid, number())
}

/// Ends the system call in which a thread of this process sleeps with EINTR, if it has called
/// [`become_interruptible`].
///
/// # Errors
/// ESRCH if the thread has ended.
pub fn interrupt(process: u32, tid: libc::pid_t) -> io::Result<()> {
    send_number(process, tid, INTERRUPTING)
}

/// Lets [`interrupt`] end the sleep of the calling thread. Not real-time safe: it changes what the process does with
/// the signal, which it would ignore.
///
/// # Errors
/// None in practice.
pub fn become_interruptible() -> io::Result<()> {
    extern "C" fn do_nothing(_: libc::c_int) {}
    // SAFETY: an all-zero sigaction is a valid value of this plain C struct: no flags, so without SA_RESTART.
    let mut action: libc::sigaction = unsafe { std::mem::zeroed() };
    let handler: extern "C" fn(libc::c_int) = do_nothing;
    action.sa_sigaction = handler as libc::sighandler_t;
    // SAFETY: the handler may run at any time, and the action is a live local.
    check(unsafe { libc::sigaction(INTERRUPTING, &action, std::ptr::null_mut()) })?;
    // SAFETY: an all-zero sigset_t is a valid value of this plain C struct.
    let mut set: libc::sigset_t = unsafe { std::mem::zeroed() };
    // SAFETY: the set is a live local, and the number is valid.
    unsafe { libc::sigaddset(&mut set, INTERRUPTING) };
    // SAFETY: the set outlives the call; the old mask is not requested.
    check_returned(unsafe { libc::pthread_sigmask(libc::SIG_UNBLOCK, &set, std::ptr::null_mut()) })
}

#[inline]
fn send_number(process: u32, tid: libc::pid_t, number: libc::c_int) -> io::Result<()> {
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
