//! The depot's lock: a pthread mutex that lends its holder the priority of the threads that wait.
//!
//! Without the inheritance a thread of low priority that is preempted inside would hold up
//! a real-time thread for as long as threads in between care to run.

use std::cell::UnsafeCell;
use std::ffi::c_int;
use std::mem::MaybeUninit;
use std::ops::{Deref, DerefMut};

/// `PTHREAD_PRIO_INHERIT` of glibc and musl alike.
const PRIO_INHERIT: c_int = 1;

/// A value behind a priority-inheriting mutex, in a static.
pub(super) struct PiLock<T> {
    mutex: UnsafeCell<libc::pthread_mutex_t>,
    value: UnsafeCell<T>,
}

// SAFETY: the value is reached through Held alone, and there is one Held at a time; T may
// pass from thread to thread.
unsafe impl<T: Send> Sync for PiLock<T> {}

impl<T> PiLock<T> {
    /// A lock that [`PiLock::init`] must complete before it is used.
    pub(super) const fn new(value: T) -> Self {
        Self {
            mutex: UnsafeCell::new(libc::PTHREAD_MUTEX_INITIALIZER),
            value: UnsafeCell::new(value),
        }
    }

    /// Makes the mutex a priority-inheriting one, free.
    ///
    /// # Safety
    /// Nobody holds the lock or waits for it: before its first use, or in the child of a
    /// fork that was made under it.
    pub(super) unsafe fn init(&self) {
        let mut attr = MaybeUninit::<libc::pthread_mutexattr_t>::uninit();
        // SAFETY: the attribute is filled by this call.
        unsafe { libc::pthread_mutexattr_init(attr.as_mut_ptr()) };
        // SAFETY: the attribute is initialised. Where the C library doesn't know the
        // protocol it stays a plain mutex, which is correct, if not prompt.
        unsafe { libc::pthread_mutexattr_setprotocol(attr.as_mut_ptr(), PRIO_INHERIT) };
        // SAFETY: the mutex is at its final place, a static, and nobody uses it: the
        // caller's promise.
        unsafe { libc::pthread_mutex_init(self.mutex.get(), attr.as_ptr()) };
        // SAFETY: the attribute is initialised and not used any more.
        unsafe { libc::pthread_mutexattr_destroy(attr.as_mut_ptr()) };
    }

    /// Waits for the lock.
    pub(super) fn lock(&self) -> Held<'_, T> {
        self.lock_raw();
        Held { lock: self }
    }

    /// Waits for the lock and leaves it held, for the fork handlers.
    pub(super) fn lock_raw(&self) {
        // SAFETY: the mutex is initialised and never moves.
        let taken = unsafe { libc::pthread_mutex_lock(self.mutex.get()) };
        // A normal mutex fails only where it is used against its rules.
        assert_eq!(taken, 0, "the lock of the stack depot is unusable");
    }

    /// Releases what [`PiLock::lock_raw`] took.
    ///
    /// # Safety
    /// The calling thread holds the lock, and no [`Held`] of it is alive.
    pub(super) unsafe fn unlock_raw(&self) {
        // SAFETY: the caller holds the lock.
        unsafe { libc::pthread_mutex_unlock(self.mutex.get()) };
    }
}

/// The lock, held; released when dropped.
pub(super) struct Held<'a, T> {
    lock: &'a PiLock<T>,
}

impl<T> Deref for Held<'_, T> {
    type Target = T;

    fn deref(&self) -> &T {
        // SAFETY: this thread holds the lock, so nobody else reaches the value.
        unsafe { &*self.lock.value.get() }
    }
}

impl<T> DerefMut for Held<'_, T> {
    fn deref_mut(&mut self) -> &mut T {
        // SAFETY: this thread holds the lock, and `self` is borrowed alone.
        unsafe { &mut *self.lock.value.get() }
    }
}

impl<T> Drop for Held<'_, T> {
    fn drop(&mut self) {
        // SAFETY: lock took it on this thread, and this is the only guard.
        unsafe { self.lock.unlock_raw() };
    }
}
