//! The one lock: of the priority-inheriting kind, since a thread of any priority may join.

use std::cell::UnsafeCell;
use std::mem::MaybeUninit;

/// A lock that is made ready at run time.
pub(crate) struct Lock(UnsafeCell<libc::pthread_mutex_t>);

// SAFETY: a mutex is there to be used by several threads.
unsafe impl Sync for Lock {}

impl Lock {
    pub(crate) const fn new() -> Self {
        Self(UnsafeCell::new(libc::PTHREAD_MUTEX_INITIALIZER))
    }

    /// Makes it ready, or ready again in the child of a fork.
    ///
    /// # Safety
    /// No other thread uses it.
    pub(crate) unsafe fn init(&self) {
        let mut attributes = MaybeUninit::<libc::pthread_mutexattr_t>::uninit();
        // SAFETY: the memory is live and writable.
        if unsafe { libc::pthread_mutexattr_init(attributes.as_mut_ptr()) } != 0 {
            return;
        }
        // SAFETY: initialised above. A kernel without priority inheritance refuses, and the
        // lock is a plain one then.
        unsafe {
            libc::pthread_mutexattr_setprotocol(attributes.as_mut_ptr(), libc::PTHREAD_PRIO_INHERIT)
        };
        // SAFETY: the caller is the only user.
        unsafe { libc::pthread_mutex_init(self.0.get(), attributes.as_ptr()) };
        // SAFETY: initialised above, destroyed once.
        unsafe { libc::pthread_mutexattr_destroy(attributes.as_mut_ptr()) };
    }

    pub(crate) fn take(&self) {
        // SAFETY: the mutex is initialised and never moves.
        unsafe { libc::pthread_mutex_lock(self.0.get()) };
    }

    /// # Safety
    /// The calling thread holds it.
    pub(crate) unsafe fn give_back(&self) {
        // SAFETY: the caller holds it.
        unsafe { libc::pthread_mutex_unlock(self.0.get()) };
    }
}
