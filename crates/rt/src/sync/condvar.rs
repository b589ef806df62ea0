//! A condition variable on CLOCK_MONOTONIC for a [`PiMutex`](super::PiMutex), with one system
//! call per wait.
//!
//! glibc's takes the mutex back as if another thread waited for it, so the next unlock is a
//! system call too. Here a waiting thread remembers the number of the last notification while it
//! holds the mutex, unlocks the mutex in user space, and sleeps on a futex while the number is
//! unchanged.
#![expect(
    unsafe_code,
    reason = "a mutex of the C library, given up for the wait"
)]

use std::io;
use std::sync::atomic::{AtomicU32, Ordering};

use super::PiGuard;
use crate::sys::{check_returned, futex};

/// A word to sleep on: the kernel's futex, or one of a model checker.
pub trait Futex {
    /// Returns the value.
    fn load(&self) -> u32;
    /// Adds `value`, wrapping around.
    fn add(&self, value: u32);
    /// Sleeps while the word is `expected`, until woken or until an instant of CLOCK_MONOTONIC, in ns;
    /// `u64::MAX` means without a time limit.
    ///
    /// # Errors
    /// ETIMEDOUT at the instant, EAGAIN when the word is not `expected`, EINTR.
    fn wait(&self, expected: u32, at_ns: u64) -> io::Result<()>;
    /// Wakes up to `count` sleeping threads, those of the highest priority first.
    fn wake(&self, count: u32);
}

impl Futex for AtomicU32 {
    #[inline]
    fn load(&self) -> u32 {
        self.load(Ordering::Relaxed)
    }

    #[inline]
    fn add(&self, value: u32) {
        self.fetch_add(value, Ordering::Relaxed);
    }

    #[inline]
    fn wait(&self, expected: u32, at_ns: u64) -> io::Result<()> {
        futex::wait_until(self, expected, at_ns)
    }

    #[inline]
    fn wake(&self, count: u32) {
        futex::wake(self, count);
    }
}

/// The protocol of [`Condvar`], without the mutex.
///
/// Relaxed order is sufficient: the notifying thread has held the mutex since the condition was
/// false for the waiting thread, so that thread's [`enlist`](Notices::enlist) happened before,
/// and the kernel orders the check of the number against the wake.
#[derive(Debug, Default)]
#[repr(C)]
pub struct Notices<F> {
    /// The number of notifications, wrapping. A thread would miss exactly 2^32 notifications
    /// between its reading of the number and its sleep.
    number: F,
    /// Threads between `enlist` and the end of `sleep`.
    waiting: F,
}

impl<F: Futex> Notices<F> {
    /// From two words that are 0. Real-time safe.
    pub const fn new(number: F, waiting: F) -> Self {
        Self { number, waiting }
    }

    /// Called with the mutex held, after the condition was found false. Returns the number to
    /// pass to [`Notices::sleep`] after unlocking. Real-time safe.
    #[inline]
    pub fn enlist(&self) -> u32 {
        self.waiting.add(1);
        self.number.load()
    }

    /// Called without the mutex: sleeps until the next notification after `seen`, or until
    /// an instant of CLOCK_MONOTONIC, in ns. Real-time safe; one system call.
    ///
    /// # Errors
    /// As [`Futex::wait`].
    #[inline]
    pub fn sleep(&self, seen: u32, at_ns: u64) -> io::Result<()> {
        let slept = self.number.wait(seen, at_ns);
        self.withdraw();
        slept
    }

    /// Undoes an [`Notices::enlist`] without a sleep. Real-time safe.
    #[inline]
    pub fn withdraw(&self) {
        self.waiting.add(u32::MAX);
    }

    /// Wakes up to `count` threads that sleep or are about to. No system call if there are none.
    #[inline]
    pub fn notify(&self, count: u32) {
        self.number.add(1);
        if self.waiting.load() != 0 {
            self.number.wake(count);
        }
    }
}

/// A condition variable whose timed wait uses CLOCK_MONOTONIC.
///
/// It belongs to one [`PiMutex`](super::PiMutex) at a time, which guards the condition.
#[derive(Debug)]
#[repr(transparent)]
pub struct Condvar {
    notices: Notices<AtomicU32>,
}

impl Default for Condvar {
    fn default() -> Self {
        Self::new()
    }
}

impl Condvar {
    /// Creates a condition variable; it allocates nothing. Real-time safe.
    #[must_use]
    pub const fn new() -> Self {
        Self {
            notices: Notices::new(AtomicU32::new(0), AtomicU32::new(0)),
        }
    }

    /// Unlocks the mutex, waits until notified or until an instant of CLOCK_MONOTONIC, in ns, and
    /// locks the mutex again; false when the instant was reached. A wait may end without a
    /// notification: check the condition again.
    ///
    /// Real-time safe; one system call, and one more if another thread holds the mutex when it is
    /// locked again, or waits for it when it is unlocked.
    ///
    /// # Errors
    /// EOWNERDEAD: the mutex is robust, and its value was not made consistent yet; nothing was
    /// done. No other error in practice; the mutex is held in any case.
    #[inline]
    pub fn wait_until<T: ?Sized>(
        &self,
        guard: &mut PiGuard<'_, T>,
        at_ns: u64,
    ) -> io::Result<bool> {
        if guard.owner_died() {
            // Unlocked in this state, the mutex could never be locked again.
            return Err(io::Error::from_raw_os_error(libc::EOWNERDEAD));
        }
        let seen = self.notices.enlist();
        let slept = guard.without(|| self.notices.sleep(seen, at_ns));
        notified(slept)
    }

    /// Like [`Condvar::wait_until`], without a time limit. Real-time safe in the same way.
    ///
    /// # Errors
    /// Those of [`Condvar::wait_until`].
    #[inline]
    pub fn wait<T: ?Sized>(&self, guard: &mut PiGuard<'_, T>) -> io::Result<()> {
        self.wait_until(guard, u64::MAX).map(drop)
    }

    /// Like [`Condvar::wait_until`], with a mutex of the C library that the caller holds;
    /// `u64::MAX` means without a time limit. Real-time safe in the same way.
    ///
    /// # Safety
    /// `mutex` is initialised, with the type PTHREAD_MUTEX_ERRORCHECK.
    ///
    /// # Errors
    /// EPERM: the caller doesn't hold the mutex; nothing was done. EOWNERDEAD: the mutex is
    /// robust, is held, and must be made consistent. The error of locking it again: then it isn't
    /// held.
    pub unsafe fn wait_with(
        &self,
        mutex: *mut libc::pthread_mutex_t,
        at_ns: u64,
    ) -> io::Result<bool> {
        let seen = self.notices.enlist();
        // SAFETY: by contract initialised; this type refuses a thread that doesn't hold it.
        if let Err(error) = check_returned(unsafe { libc::pthread_mutex_unlock(mutex) }) {
            self.notices.withdraw();
            return Err(error);
        }
        let slept = self.notices.sleep(seen, at_ns);
        // SAFETY: by contract initialised, and unlocked above.
        check_returned(unsafe { libc::pthread_mutex_lock(mutex) })?;
        notified(slept)
    }

    /// Wakes one waiting thread, the one with the highest priority. Real-time safe; no system
    /// call if none waits, else one. Change the condition while holding the mutex.
    #[inline]
    pub fn notify_one(&self) {
        self.notices.notify(1);
    }

    /// Wakes all waiting threads. One system call, bounded by their number, or none.
    #[inline]
    pub fn notify_all(&self) {
        self.notices.notify(i32::MAX as u32);
    }
}

/// Whether the sleep may have ended by a notification.
#[inline]
fn notified(slept: io::Result<()>) -> io::Result<bool> {
    match slept {
        Ok(()) => Ok(true),
        Err(error) => match error.raw_os_error() {
            Some(libc::ETIMEDOUT) => Ok(false),
            Some(libc::EAGAIN | libc::EINTR) => Ok(true),
            _ => Err(error),
        },
    }
}

#[cfg(all(test, not(miri)))]
mod tests {
    use super::super::PiMutex;
    use super::*;
    use crate::clock;

    #[test]
    fn a_timed_wait_ends_at_its_instant_and_not_before() {
        let mutex = PiMutex::new(()).unwrap();
        let condvar = Condvar::new();
        let mut guard = mutex.lock().unwrap();
        let at = clock::now_ns() + 2_000_000;
        while condvar.wait_until(&mut guard, at).unwrap() {}
        assert!(clock::now_ns() >= at);
    }

    #[test]
    fn a_notification_ends_the_wait() {
        let mutex = PiMutex::new(false).unwrap();
        let condvar = Condvar::new();
        std::thread::scope(|scope| {
            scope.spawn(|| {
                *mutex.lock().unwrap() = true;
                condvar.notify_all();
            });
            let mut guard = mutex.lock().unwrap();
            while !*guard {
                assert!(
                    condvar
                        .wait_until(&mut guard, clock::now_ns() + 10_000_000_000)
                        .unwrap()
                );
            }
        });
    }

    #[test]
    fn the_mutex_is_free_during_the_wait_and_held_after_it() {
        let mutex = PiMutex::new(0).unwrap();
        let condvar = Condvar::new();
        std::thread::scope(|scope| {
            let mut guard = mutex.lock().unwrap();
            scope.spawn(|| *mutex.lock().unwrap() = 1);
            // No notification is sent: the other thread can lock the mutex during the wait.
            while *guard == 0 {
                let soon = clock::now_ns() + 1_000_000;
                condvar.wait_until(&mut guard, soon).unwrap();
            }
            let again = mutex.lock().map(drop);
            assert_eq!(again.unwrap_err().raw_os_error(), Some(libc::EDEADLK));
        });
    }

    /// A queue with one place and several threads at both ends: after a lost wake-up a thread
    /// waits until its limit of 20 s.
    #[test]
    fn no_notification_is_lost_under_contention() {
        const EACH: u32 = 5_000;
        const PAIRS: u32 = 3;
        let place = PiMutex::new(None::<u32>).unwrap();
        let (filled, emptied) = (Condvar::new(), Condvar::new());
        // Of each wait: how long all of them take is the machine's matter.
        let limit = || clock::now_ns() + 20_000_000_000;
        let sum = std::thread::scope(|scope| {
            for _ in 0..PAIRS {
                scope.spawn(|| {
                    for number in 1..=EACH {
                        let mut guard = place.lock().unwrap();
                        while guard.is_some() {
                            assert!(emptied.wait_until(&mut guard, limit()).unwrap(), "lost");
                        }
                        *guard = Some(number);
                        drop(guard);
                        filled.notify_one();
                    }
                });
            }
            let takers: Vec<_> = (0..PAIRS)
                .map(|_| {
                    scope.spawn(|| {
                        let mut sum = 0_u64;
                        for _ in 0..EACH {
                            let mut guard = place.lock().unwrap();
                            let number = loop {
                                match guard.take() {
                                    Some(number) => break number,
                                    None => assert!(
                                        filled.wait_until(&mut guard, limit()).unwrap(),
                                        "lost"
                                    ),
                                }
                            };
                            drop(guard);
                            emptied.notify_one();
                            sum += u64::from(number);
                        }
                        sum
                    })
                })
                .collect();
            takers
                .into_iter()
                .map(|taker| taker.join().unwrap())
                .sum::<u64>()
        });
        let each = u64::from(EACH) * u64::from(EACH + 1) / 2;
        assert_eq!(sum, u64::from(PAIRS) * each);
    }
}
