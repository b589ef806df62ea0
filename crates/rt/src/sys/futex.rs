//! Futex waits and wakes.

use std::io;
use std::sync::atomic::AtomicU32;

use super::check;
use super::time::timespec;

/// Waits on a futex word until it changes from `expected`, is woken, or until an instant of
/// CLOCK_MONOTONIC; `u64::MAX` means without a time limit, and arms no timer. Real-time safe; one
/// system call.
///
/// # Errors
/// ETIMEDOUT at the instant, EAGAIN when the word did not hold `expected`, EINTR
/// when a signal handler ran.
#[inline]
pub fn wait_until(word: &AtomicU32, expected: u32, at_ns: u64) -> io::Result<()> {
    let at = timespec(at_ns);
    let until = match at_ns {
        u64::MAX => std::ptr::null(),
        _ => std::ptr::from_ref(&at),
    };
    // FUTEX_WAIT_BITSET takes an absolute time, on CLOCK_MONOTONIC by default.
    // SAFETY: the word and the time outlive the call; the kernel only reads them.
    let result = unsafe {
        libc::syscall(
            libc::SYS_futex,
            word.as_ptr(),
            libc::FUTEX_WAIT_BITSET | libc::FUTEX_PRIVATE_FLAG,
            expected,
            until,
            std::ptr::null::<u32>(),
            libc::FUTEX_BITSET_MATCH_ANY,
        )
    };
    check(result as libc::c_int).map(drop)
}

/// Waits on a futex word until it is woken, doesn't hold `expected`, or a signal handler ran: the
/// caller checks the word again. Real-time safe; one system call.
pub fn wait(word: &AtomicU32, expected: u32) {
    // SAFETY: the word outlives the call; the kernel only reads it.
    unsafe {
        libc::syscall(
            libc::SYS_futex,
            word.as_ptr(),
            libc::FUTEX_WAIT | libc::FUTEX_PRIVATE_FLAG,
            expected,
            std::ptr::null::<libc::timespec>(),
        )
    };
}

/// Wakes up to `count` threads that wait on a futex word, those of the highest priority first.
/// Real-time safe; one system call, bounded by their number.
#[inline]
pub fn wake(word: &AtomicU32, count: u32) {
    wake_at(word.as_ptr() as usize, count);
}

/// Like [`wake`], for a word that may no longer exist. Then no thread waits at its address, or
/// one that checks its own word again.
#[inline]
pub fn wake_at(address: usize, count: u32) {
    // SAFETY: the kernel only compares the address with those of waiting threads.
    unsafe {
        libc::syscall(
            libc::SYS_futex,
            address,
            libc::FUTEX_WAKE | libc::FUTEX_PRIVATE_FLAG,
            count.min(i32::MAX as u32),
        )
    };
}
