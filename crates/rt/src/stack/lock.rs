//! The depot's lock: a pthread mutex with priority inheritance.
//!
//! Without it, a low-priority thread that is preempted inside the lock would block a real-time
//! thread for as long as threads of medium priority run.

#![expect(unsafe_code, reason = "pthread's mutex, also across a fork")]

use std::cell::UnsafeCell;
use std::ffi::c_int;
use std::mem::MaybeUninit;
use std::ops::{Deref, DerefMut};

/// `PTHREAD_PRIO_INHERIT`, the same in glibc and musl.
const PRIO_INHERIT: c_int = 1;

/// A static value protected by a priority-inheriting mutex.
pub(super) struct PiLock<T> {
    mutex: UnsafeCell<libc::pthread_mutex_t>,
    value: UnsafeCell<T>,
}

// SAFETY: the value is accessed only through Held, and only one Held exists at a time; T may move
// between threads.
unsafe impl<T: Send> Sync for PiLock<T> {}

impl<T> PiLock<T> {
    /// A lock that [`PiLock::init`] must initialise before it is used.
    pub(super) const fn new(value: T) -> Self {
        Self {
            mutex: UnsafeCell::new(libc::PTHREAD_MUTEX_INITIALIZER),
            value: UnsafeCell::new(value),
        }
    }

    /// Initialises the mutex: priority-inheriting, unlocked.
    ///
    /// # Safety
    /// No thread holds the lock or waits for it: before its first use, or in the child of a fork
    /// that was made under it.
    pub(super) unsafe fn init(&self) {
        let mut attr = MaybeUninit::<libc::pthread_mutexattr_t>::uninit();
        // SAFETY: the attribute is filled by this call.
        unsafe { libc::pthread_mutexattr_init(attr.as_mut_ptr()) };
        // SAFETY: the attribute is initialised. A C library that doesn't know the protocol
        // creates a plain mutex, which is correct but has no priority inheritance.
        unsafe { libc::pthread_mutexattr_setprotocol(attr.as_mut_ptr(), PRIO_INHERIT) };
        // SAFETY: the mutex is in a static, so it doesn't move, and by contract no thread uses
        // it.
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
        // A normal mutex fails only on misuse.
        assert_eq!(taken, 0, "the lock of the stack depot is unusable");
    }

    /// Releases the lock of [`PiLock::lock_raw`].
    ///
    /// # Safety
    /// The calling thread holds the lock, and no [`Held`] of it is alive.
    pub(super) unsafe fn unlock_raw(&self) {
        // SAFETY: by contract the calling thread holds the lock.
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
        // SAFETY: this thread holds the lock, so no other thread accesses the value.
        unsafe { &*self.lock.value.get() }
    }
}

impl<T> DerefMut for Held<'_, T> {
    fn deref_mut(&mut self) -> &mut T {
        // SAFETY: this thread holds the lock, and `self` is borrowed exclusively.
        unsafe { &mut *self.lock.value.get() }
    }
}

impl<T> Drop for Held<'_, T> {
    fn drop(&mut self) {
        // SAFETY: `lock` locked it on this thread, and this is the only guard.
        unsafe { self.lock.unlock_raw() };
    }
}
