//! A mutex with priority inheritance, and a condition variable on CLOCK_MONOTONIC.
//!
//! Rust's own `Mutex` has no priority inheritance: a low-priority holder that is
//! kept off its CPU keeps a real-time thread waiting without bound. The mutex is the
//! C library's, made with PTHREAD_PRIO_INHERIT.

mod condvar;

use std::cell::UnsafeCell;
use std::io;
use std::marker::PhantomData;
use std::ops::{Deref, DerefMut};

use crate::sys::{check_returned, zeroed_boxed};

pub use condvar::{Condvar, Futex, Notices};

/// Initialises mutex attributes with PTHREAD_PRIO_INHERIT and PTHREAD_MUTEX_ERRORCHECK. No
/// system call; for setting up.
///
/// # Safety
/// `attributes` is a writable place whose attributes, if it holds any, aren't used any more.
///
/// # Errors
/// ENOTSUP where the C library has no priority inheritance.
pub unsafe fn fill_mutex_attributes(attributes: *mut libc::pthread_mutexattr_t) -> io::Result<()> {
    // SAFETY: the caller's promise.
    check_returned(unsafe { libc::pthread_mutexattr_init(attributes) })?;
    // SAFETY: the attributes were initialised just now.
    check_returned(unsafe {
        libc::pthread_mutexattr_setprotocol(attributes, libc::PTHREAD_PRIO_INHERIT)
    })?;
    // A normal mutex with priority inheritance hangs for ever when its holder
    // locks it again (glibc waits on the kernel's EDEADLK); this type says so.
    // SAFETY: the attributes were initialised above.
    check_returned(unsafe {
        libc::pthread_mutexattr_settype(attributes, libc::PTHREAD_MUTEX_ERRORCHECK)
    })
}

/// Initialises attributes of a condition variable whose timed wait counts on
/// CLOCK_MONOTONIC. No system call; for setting up.
///
/// # Safety
/// `attributes` is a writable place whose attributes, if it holds any, aren't used any more.
///
/// # Errors
/// None in practice.
pub unsafe fn fill_condition_attributes(
    attributes: *mut libc::pthread_condattr_t,
) -> io::Result<()> {
    // SAFETY: the caller's promise.
    check_returned(unsafe { libc::pthread_condattr_init(attributes) })?;
    // SAFETY: the attributes were initialised just now.
    check_returned(unsafe { libc::pthread_condattr_setclock(attributes, libc::CLOCK_MONOTONIC) })
}

/// A mutex whose holder inherits the priority of the highest thread that waits.
///
/// A panic of the holder unlocks it, and it isn't poisoned as `std::sync::Mutex` is: the next
/// thread gets the value as the panic left it. A lock that failed for ever would stop the
/// real-time threads too.
pub struct PiMutex<T: ?Sized> {
    /// Boxed: a pthread mutex must not move once it is in use.
    raw: Box<UnsafeCell<libc::pthread_mutex_t>>,
    value: UnsafeCell<T>,
}

// SAFETY: the mutex gives access to one thread at a time, so the value only has to
// be allowed to be touched by another thread.
unsafe impl<T: ?Sized + Send> Sync for PiMutex<T> {}
// SAFETY: moving the mutex moves the box's pointer, not the pthread mutex itself;
// it isn't locked while it can be moved.
unsafe impl<T: ?Sized + Send> Send for PiMutex<T> {}

impl<T> PiMutex<T> {
    /// Makes an unlocked mutex. Not real-time safe (allocates).
    ///
    /// # Errors
    /// ENOTSUP where the kernel has no priority inheritance.
    pub fn new(value: T) -> io::Result<Self> {
        let mut attributes = zeroed_boxed::<libc::pthread_mutexattr_t>();
        // SAFETY: the box is live and writable.
        unsafe { fill_mutex_attributes(&mut *attributes) }?;
        let raw = zeroed_boxed::<UnsafeCell<libc::pthread_mutex_t>>();
        // SAFETY: the mutex lies in its final place and is initialised once.
        check_returned(unsafe { libc::pthread_mutex_init(raw.get(), &*attributes) })?;
        // SAFETY: initialised above, destroyed once.
        check_returned(unsafe { libc::pthread_mutexattr_destroy(&mut *attributes) })?;
        Ok(Self {
            raw,
            value: UnsafeCell::new(value),
        })
    }
}

impl<T: ?Sized> PiMutex<T> {
    /// Locks. Real-time safe: no system call unless another thread holds it, and
    /// then the holder runs at our priority.
    ///
    /// # Errors
    /// EDEADLK when the calling thread holds it already.
    #[inline]
    pub fn lock(&self) -> io::Result<PiGuard<'_, T>> {
        // SAFETY: the mutex was initialised in `new` and lives as long as `self`.
        check_returned(unsafe { libc::pthread_mutex_lock(self.raw.get()) })?;
        Ok(PiGuard {
            mutex: self,
            not_send: PhantomData,
        })
    }
}

impl<T: ?Sized> PiMutex<T> {
    /// Locks if no thread holds it; `None` when one does, the caller too. Real-time safe: no
    /// system call.
    ///
    /// # Errors
    /// None in practice.
    #[inline]
    pub fn try_lock(&self) -> io::Result<Option<PiGuard<'_, T>>> {
        // SAFETY: the mutex was initialised in `new` and lives as long as `self`.
        match unsafe { libc::pthread_mutex_trylock(self.raw.get()) } {
            // EDEADLK is glibc's answer where the caller holds one with ERRORCHECK.
            libc::EBUSY | libc::EDEADLK => Ok(None),
            returned => {
                check_returned(returned)?;
                Ok(Some(PiGuard {
                    mutex: self,
                    not_send: PhantomData,
                }))
            }
        }
    }
}

impl<T: ?Sized> Drop for PiMutex<T> {
    fn drop(&mut self) {
        // SAFETY: nobody holds a borrow any more, so it is unlocked; destroyed once.
        unsafe { libc::pthread_mutex_destroy(self.raw.get()) };
    }
}

/// Access to the value of a locked [`PiMutex`]; unlocks when dropped.
pub struct PiGuard<'a, T: ?Sized> {
    mutex: &'a PiMutex<T>,
    /// A priority-inheriting mutex is unlocked by the thread that locked it.
    not_send: PhantomData<*const ()>,
}

impl<T: ?Sized> PiGuard<'_, T> {
    /// Gives the mutex up while `between` runs, and takes it back.
    #[inline]
    fn without<R>(&mut self, between: impl FnOnce() -> R) -> R {
        let raw = self.mutex.raw.get();
        // SAFETY: this thread holds the mutex, and `self` is borrowed alone: nobody has a
        // reference to the value.
        unsafe { libc::pthread_mutex_unlock(raw) };
        let result = between();
        // SAFETY: the mutex was initialised in `new` and outlives the guard.
        let taken = unsafe { libc::pthread_mutex_lock(raw) };
        if taken != 0 {
            // The guard would be one without its mutex. No rule of pthread allows it.
            std::process::abort();
        }
        result
    }
}

impl<T: ?Sized> Deref for PiGuard<'_, T> {
    type Target = T;

    #[inline]
    fn deref(&self) -> &T {
        // SAFETY: the guard exists only while its thread holds the mutex.
        unsafe { &*self.mutex.value.get() }
    }
}

impl<T: ?Sized> DerefMut for PiGuard<'_, T> {
    #[inline]
    fn deref_mut(&mut self) -> &mut T {
        // SAFETY: the guard exists only while its thread holds the mutex.
        unsafe { &mut *self.mutex.value.get() }
    }
}

impl<T: ?Sized> Drop for PiGuard<'_, T> {
    #[inline]
    fn drop(&mut self) {
        // SAFETY: this thread locked the mutex, and unlocks it once.
        unsafe { libc::pthread_mutex_unlock(self.mutex.raw.get()) };
    }
}

#[cfg(all(test, not(miri)))]
mod tests {
    use super::*;

    #[test]
    fn the_value_is_seen_by_one_thread_at_a_time() {
        let counter = PiMutex::new(0u64).unwrap();
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    for _ in 0..5_000 {
                        *counter.lock().unwrap() += 1;
                    }
                });
            }
        });
        assert_eq!(*counter.lock().unwrap(), 20_000);
    }

    #[test]
    fn a_panic_unlocks_and_leaves_the_value() {
        let mutex = PiMutex::new(1).unwrap();
        let panicked = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            *mutex.lock().unwrap() = 2;
            let mut guard = mutex.lock().unwrap();
            *guard = 3;
            std::panic::resume_unwind(Box::new("as expected"));
        }));
        assert!(panicked.is_err());
        assert_eq!(*mutex.try_lock().unwrap().expect("unlocked"), 3);
    }

    #[test]
    fn a_lock_is_tried_without_a_wait() {
        let mutex = PiMutex::new(5).unwrap();
        let held = mutex.try_lock().unwrap().expect("nobody holds it");
        assert!(mutex.try_lock().unwrap().is_none());
        std::thread::scope(|scope| {
            let other = scope.spawn(|| mutex.try_lock().unwrap().is_none());
            assert!(other.join().unwrap());
        });
        drop(held);
        assert_eq!(*mutex.try_lock().unwrap().expect("nobody holds it"), 5);
    }

    #[test]
    fn locking_twice_is_an_error_not_a_hang() {
        let mutex = PiMutex::new(()).unwrap();
        let _held = mutex.lock().unwrap();
        let again = mutex.lock().map(drop);
        assert_eq!(again.unwrap_err().raw_os_error(), Some(libc::EDEADLK));
    }
}
