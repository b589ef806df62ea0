//! A condition variable on CLOCK_MONOTONIC for a [`PiMutex`](super::PiMutex), with one
//! system call for a wait.
//!
//! glibc's takes the mutex back as if somebody waited for it, so that the next unlock is a
//! system call too. Here a waiting thread remembers the number of the last notification
//! while it holds the mutex, gives the mutex up in user space, and sleeps on a futex as long
//! as the number is the same.
#![expect(
    unsafe_code,
    reason = "a mutex of the C library, given up for the wait"
)]

use std::io;
use std::sync::atomic::{AtomicU32, Ordering};

use super::PiGuard;
use crate::sys::{check_returned, futex};

/// A word to sleep on: the kernel's futex, or a model checker's.
pub trait Futex {
    /// Reads it.
    fn load(&self) -> u32;
    /// Adds, wrapping around.
    fn add(&self, value: u32);
    /// Sleeps while the word is `expected`, until woken or until an instant of
    /// CLOCK_MONOTONIC, in ns; `u64::MAX` is no instant.
    ///
    /// # Errors
    /// ETIMEDOUT at the instant, EAGAIN when the word is another, EINTR.
    fn wait(&self, expected: u32, at_ns: u64) -> io::Result<()>;
    /// Wakes so many threads that sleep, those of the highest priority first.
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
/// Relaxed order is enough: who notifies has held the mutex since the condition was false
/// for the thread that waits, so its [`enlist`](Notices::enlist) has happened before, and the
/// kernel orders the look at the number against the wake.
#[derive(Debug, Default)]
#[repr(C)]
pub struct Notices<F> {
    /// The number of notifications, wrapping. A thread that sleeps through exactly 2^32 of
    /// them between its look and its sleep would miss them.
    number: F,
    /// Threads between `enlist` and the end of `sleep`.
    waiting: F,
}

impl<F: Futex> Notices<F> {
    /// Of two words that are 0. Real-time safe.
    pub const fn new(number: F, waiting: F) -> Self {
        Self { number, waiting }
    }

    /// Called with the mutex held, after the condition was found false: what to hand to
    /// [`Notices::sleep`] once the mutex is given up. Real-time safe.
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

    /// Takes an [`Notices::enlist`] back, after which nobody sleeps. Real-time safe.
    #[inline]
    pub fn withdraw(&self) {
        self.waiting.add(u32::MAX);
    }

    /// Wakes up to `count` threads that sleep, or are about to. No system call where there
    /// are none.
    #[inline]
    pub fn notify(&self, count: u32) {
        self.number.add(1);
        if self.waiting.load() != 0 {
            self.number.wake(count);
        }
    }
}

/// A condition variable whose timed wait counts on CLOCK_MONOTONIC.
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
    /// Makes a condition variable; it needs no memory of its own. Real-time safe.
    #[must_use]
    pub const fn new() -> Self {
        Self {
            notices: Notices::new(AtomicU32::new(0), AtomicU32::new(0)),
        }
    }

    /// Gives the mutex up, waits until notified or until an instant of CLOCK_MONOTONIC, in
    /// ns, and takes the mutex back; false at the instant. A wait may end without a
    /// notification: look at the condition again.
    ///
    /// Real-time safe; one system call, and one more where another thread holds the mutex
    /// when it is taken back, or waits for it when it is given up.
    ///
    /// # Errors
    /// EOWNERDEAD, and nothing was done: the mutex is robust, and its value not made whole yet.
    /// Else none in practice; the mutex is held all the same.
    #[inline]
    pub fn wait_until<T: ?Sized>(
        &self,
        guard: &mut PiGuard<'_, T>,
        at_ns: u64,
    ) -> io::Result<bool> {
        if guard.owner_died() {
            // Given up like that, no thread could ever take it again.
            return Err(io::Error::from_raw_os_error(libc::EOWNERDEAD));
        }
        let seen = self.notices.enlist();
        let slept = guard.without(|| self.notices.sleep(seen, at_ns));
        notified(slept)
    }

    /// As [`Condvar::wait_until`], for as long as it takes. Real-time safe in the same way.
    ///
    /// # Errors
    /// As [`Condvar::wait_until`].
    #[inline]
    pub fn wait<T: ?Sized>(&self, guard: &mut PiGuard<'_, T>) -> io::Result<()> {
        self.wait_until(guard, u64::MAX).map(drop)
    }

    /// As [`Condvar::wait_until`], with a mutex of the C library, which the caller holds; at
    /// `u64::MAX` for as long as it takes. Real-time safe in the same way.
    ///
    /// # Safety
    /// `mutex` is an initialised one of the type PTHREAD_MUTEX_ERRORCHECK.
    ///
    /// # Errors
    /// EPERM, and nothing was done: the caller doesn't hold the mutex. EOWNERDEAD: it is robust,
    /// is held, and is to be made consistent. What taking it back failed with: then it isn't held.
    pub unsafe fn wait_with(
        &self,
        mutex: *mut libc::pthread_mutex_t,
        at_ns: u64,
    ) -> io::Result<bool> {
        let seen = self.notices.enlist();
        // SAFETY: initialised, by contract; this type refuses a thread that doesn't hold it.
        if let Err(error) = check_returned(unsafe { libc::pthread_mutex_unlock(mutex) }) {
            self.notices.withdraw();
            return Err(error);
        }
        let slept = self.notices.sleep(seen, at_ns);
        // SAFETY: initialised, by contract, and given up above.
        check_returned(unsafe { libc::pthread_mutex_lock(mutex) })?;
        notified(slept)
    }

    /// Wakes one waiting thread, that of the highest priority. Real-time safe; no system
    /// call where none waits, else one. The condition was changed with the mutex held.
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

/// Whether the end of a sleep may have been a notification.
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
            // Nobody notifies: the other thread gets at the value all the same.
            while *guard == 0 {
                let soon = clock::now_ns() + 1_000_000;
                condvar.wait_until(&mut guard, soon).unwrap();
            }
            let again = mutex.lock().map(drop);
            assert_eq!(again.unwrap_err().raw_os_error(), Some(libc::EDEADLK));
        });
    }

    /// A queue of one place with several threads at both ends: a wake-up that is lost
    /// leaves somebody waiting for his limit of 20 s.
    #[test]
    fn a_storm_of_notifications_loses_none() {
        const EACH: u32 = 5_000;
        const PAIRS: u32 = 3;
        let place = PiMutex::new(None::<u32>).unwrap();
        let (filled, emptied) = (Condvar::new(), Condvar::new());
        let limit = clock::now_ns() + 20_000_000_000;
        let sum = std::thread::scope(|scope| {
            for _ in 0..PAIRS {
                scope.spawn(|| {
                    for number in 1..=EACH {
                        let mut guard = place.lock().unwrap();
                        while guard.is_some() {
                            assert!(emptied.wait_until(&mut guard, limit).unwrap(), "lost");
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
                                        filled.wait_until(&mut guard, limit).unwrap(),
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
