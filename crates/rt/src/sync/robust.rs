//! Robust mutexes: when the holder ends, the next thread can lock the mutex.
#![expect(
    unsafe_code,
    reason = "a mutex of the C library, after its holder ended"
)]

use std::io;

use super::{PiGuard, PiMutex, fill_mutex_attributes};
use crate::sys::check_returned;

/// `PTHREAD_MUTEX_ROBUST`, the same in glibc and musl.
const ROBUST: libc::c_int = 1;

unsafe extern "C" {
    /// POSIX; the libc crate doesn't declare it.
    fn pthread_mutexattr_setrobust(
        attributes: *mut libc::pthread_mutexattr_t,
        robust: libc::c_int,
    ) -> libc::c_int;
    /// POSIX; the libc crate doesn't declare it.
    fn pthread_mutex_consistent(mutex: *mut libc::pthread_mutex_t) -> libc::c_int;
}

/// Like [`fill_mutex_attributes`], with PTHREAD_MUTEX_ROBUST: the thread that locks the mutex
/// after its holder has ended gets EOWNERDEAD with the lock, and declares the protected data
/// consistent with [`make_consistent`]. If it unlocks without that, every later lock fails with
/// ENOTRECOVERABLE.
///
/// # Safety
/// Those of [`fill_mutex_attributes`].
///
/// # Errors
/// Those of [`fill_mutex_attributes`].
pub unsafe fn fill_robust_mutex_attributes(
    attributes: *mut libc::pthread_mutexattr_t,
) -> io::Result<()> {
    // SAFETY: both functions have the same contract for `attributes`.
    unsafe { fill_mutex_attributes(attributes) }?;
    // SAFETY: the attributes were initialised just now.
    check_returned(unsafe { pthread_mutexattr_setrobust(attributes, ROBUST) })
}

/// Declares the data that the mutex protects consistent, after a lock with EOWNERDEAD. Real-time
/// safe: no system call.
///
/// # Safety
/// `mutex` is initialised, and the caller holds it.
///
/// # Errors
/// EINVAL: it is not robust, or its previous holder did not end while holding it.
pub unsafe fn make_consistent(mutex: *mut libc::pthread_mutex_t) -> io::Result<()> {
    // SAFETY: by contract the mutex is initialised and held.
    check_returned(unsafe { pthread_mutex_consistent(mutex) })
}

impl<T> PiMutex<T> {
    /// Creates an unlocked mutex that survives a holder that ends without unlocking it, for
    /// example by `pthread_exit`. The next lock succeeds, and [`PiGuard::owner_died`] returns
    /// true. If that guard is dropped without [`PiGuard::make_consistent`], every later lock
    /// fails with ENOTRECOVERABLE; a thread that waits at a [`super::Condvar`] with it can't lock
    /// it again, which ends the process. Not real-time safe (allocates).
    ///
    /// # Errors
    /// ENOTSUP where the kernel has no priority inheritance.
    pub fn robust(value: T) -> io::Result<Self> {
        Self::with(fill_robust_mutex_attributes, value)
    }
}

impl<T: ?Sized> PiGuard<'_, T> {
    /// Whether the previous holder ended while it held the mutex, so that the value is as that
    /// thread left it; always false for a mutex that is not robust. Real-time safe.
    #[must_use]
    pub fn owner_died(&self) -> bool {
        self.owner_died
    }

    /// Declares the value consistent after [`PiGuard::owner_died`]; otherwise does nothing.
    /// Real-time safe: no system call.
    ///
    /// # Errors
    /// None in practice.
    pub fn make_consistent(&mut self) -> io::Result<()> {
        if self.owner_died {
            // SAFETY: initialised with the mutex, and this guard holds it.
            unsafe { make_consistent(self.mutex.raw.get()) }?;
            self.owner_died = false;
        }
        Ok(())
    }
}

#[cfg(all(test, not(miri)))]
mod tests {
    use super::*;

    /// A thread that ends and leaves the mutex locked.
    fn leave_locked(mutex: &PiMutex<i32>, value: i32) {
        std::thread::scope(|scope| {
            let holder = scope.spawn(|| {
                let mut guard = mutex.lock().unwrap();
                *guard = value;
                std::mem::forget(guard);
            });
            holder.join().unwrap();
        });
    }

    #[test]
    fn the_next_holder_of_a_robust_mutex_learns_that_the_owner_died() {
        let mutex = PiMutex::robust(0).unwrap();
        assert!(!mutex.lock().unwrap().owner_died());
        leave_locked(&mutex, 5);
        let mut guard = mutex.lock().unwrap();
        assert_eq!((guard.owner_died(), *guard), (true, 5));
        guard.make_consistent().unwrap();
        assert!(!guard.owner_died());
        drop(guard);
        assert!(!mutex.try_lock().unwrap().unwrap().owner_died());

        leave_locked(&mutex, 6);
        let tried = mutex.try_lock().unwrap().expect("nobody alive holds it");
        assert!(tried.owner_died());
        // Dropped without make_consistent.
        drop(tried);
        let number = |error: io::Error| error.raw_os_error();
        let refused = Some(libc::ENOTRECOVERABLE);
        assert_eq!(number(mutex.lock().map(drop).unwrap_err()), refused);
        assert_eq!(number(mutex.try_lock().map(drop).unwrap_err()), refused);
        assert_eq!(number(mutex.lock_until(1).map(drop).unwrap_err()), refused);
    }

    #[test]
    fn a_timed_lock_takes_over_from_a_holder_that_ended() {
        let mutex = PiMutex::robust(0).unwrap();
        leave_locked(&mutex, 3);
        let far = crate::clock::now_ns() + 20_000_000_000;
        let mut guard = mutex.lock_until(far).unwrap().expect("in time");
        assert_eq!((guard.owner_died(), *guard), (true, 3));
        guard.make_consistent().unwrap();
    }

    #[test]
    fn a_wait_with_an_inconsistent_mutex_keeps_it_locked() {
        let mutex = PiMutex::robust(0).unwrap();
        leave_locked(&mutex, 1);
        let mut guard = mutex.lock().unwrap();
        let waited = super::super::Condvar::new().wait_until(&mut guard, 1);
        assert_eq!(waited.unwrap_err().raw_os_error(), Some(libc::EOWNERDEAD));
        guard.make_consistent().unwrap();
        assert!(
            !super::super::Condvar::new()
                .wait_until(&mut guard, 1)
                .unwrap()
        );
    }
}
