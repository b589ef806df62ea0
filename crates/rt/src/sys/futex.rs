//! Futex waits and wakes.

use std::io;
use std::sync::atomic::AtomicU32;

use super::check;
use super::time::timespec;

/// Waits on a futex word until it changes from `expected`, is woken, or until an
/// instant of CLOCK_MONOTONIC. Real-time safe; one system call.
///
/// # Errors
/// ETIMEDOUT at the instant, EAGAIN when the word did not hold `expected`, EINTR
/// when a signal handler ran.
#[inline]
pub fn wait_until(word: &AtomicU32, expected: u32, at_ns: u64) -> io::Result<()> {
    let at = timespec(at_ns);
    // FUTEX_WAIT_BITSET takes an absolute time, and CLOCK_MONOTONIC unless told otherwise.
    // SAFETY: the word and the time outlive the call; the kernel only reads them.
    let result = unsafe {
        libc::syscall(
            libc::SYS_futex,
            word.as_ptr(),
            libc::FUTEX_WAIT_BITSET | libc::FUTEX_PRIVATE_FLAG,
            expected,
            std::ptr::from_ref(&at),
            std::ptr::null::<u32>(),
            libc::FUTEX_BITSET_MATCH_ANY,
        )
    };
    check(result as libc::c_int).map(drop)
}

/// Wakes up to `count` threads that wait on a futex word, those of the highest priority
/// first. Real-time safe; one system call, bounded by their number.
#[inline]
pub fn wake(word: &AtomicU32, count: u32) {
    // SAFETY: the word outlives the call; the kernel takes its address alone. There is no
    // error with a good address.
    unsafe {
        libc::syscall(
            libc::SYS_futex,
            word.as_ptr(),
            libc::FUTEX_WAKE | libc::FUTEX_PRIVATE_FLAG,
            count.min(i32::MAX as u32),
        )
    };
}
