//! Mutexes that outlive their holder: a thread that ends with one leaves it to the next.

use std::io;

use super::{PiGuard, PiMutex, fill_mutex_attributes};
use crate::sys::check_returned;

/// `PTHREAD_MUTEX_ROBUST` of glibc and musl alike.
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

/// As [`fill_mutex_attributes`], and PTHREAD_MUTEX_ROBUST: the thread that locks the mutex
/// after its holder has ended gets it with EOWNERDEAD, and says by [`make_consistent`] that what it guards
/// is whole again. Unlocked without that, it is ENOTRECOVERABLE from then on.
///
/// # Safety
/// As [`fill_mutex_attributes`].
///
/// # Errors
/// As [`fill_mutex_attributes`].
pub unsafe fn fill_robust_mutex_attributes(
    attributes: *mut libc::pthread_mutexattr_t,
) -> io::Result<()> {
    // SAFETY: what the caller promises of the place is what that function asks for.
    unsafe { fill_mutex_attributes(attributes) }?;
    // SAFETY: the attributes were initialised just now.
    check_returned(unsafe { pthread_mutexattr_setrobust(attributes, ROBUST) })
}

/// Says that what the mutex guards is whole, after a lock with EOWNERDEAD. Real-time safe: no
/// system call.
///
/// # Safety
/// `mutex` is initialised, and the caller holds it.
///
/// # Errors
/// EINVAL: it is not robust, or its holder has not ended with it.
pub unsafe fn make_consistent(mutex: *mut libc::pthread_mutex_t) -> io::Result<()> {
    // SAFETY: initialised and held, by contract.
    check_returned(unsafe { pthread_mutex_consistent(mutex) })
}

impl<T> PiMutex<T> {
    /// Makes an unlocked mutex that outlives a holder that ends without unlocking it, by
    /// `pthread_exit` for one: the next lock succeeds, and [`PiGuard::owner_died`] tells. Where that
    /// guard is dropped without [`PiGuard::make_consistent`], each later lock is refused with
    /// ENOTRECOVERABLE; a thread that waits at a [`super::Condvar`] with it then can't take it back,
    /// which ends the process. Not real-time safe (allocates).
    ///
    /// # Errors
    /// ENOTSUP where the kernel has no priority inheritance.
    pub fn robust(value: T) -> io::Result<Self> {
        Self::with(fill_robust_mutex_attributes, value)
    }
}

impl<T: ?Sized> PiGuard<'_, T> {
    /// Whether the thread that held it before ended with it, so that the value is as that thread
    /// left it; never where the mutex is not robust. Real-time safe.
    #[must_use]
    pub fn owner_died(&self) -> bool {
        self.owner_died
    }

    /// Says that the value is whole again after [`PiGuard::owner_died`]; else it does nothing.
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
    fn a_mutex_outlives_its_holder_and_the_next_one_is_told() {
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
        // Dropped as it is.
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
    fn a_wait_doesn_t_give_up_what_is_not_whole() {
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
