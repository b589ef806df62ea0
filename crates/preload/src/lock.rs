//! The only lock: a mutex with priority inheritance, because threads of any priority may join.

use std::cell::UnsafeCell;
use std::mem::MaybeUninit;

/// A lock that is initialised at run time.
pub(crate) struct Lock(UnsafeCell<libc::pthread_mutex_t>);

// SAFETY: the mutex may be used by several threads.
unsafe impl Sync for Lock {}

impl Lock {
    pub(crate) const fn new() -> Self {
        Self(UnsafeCell::new(libc::PTHREAD_MUTEX_INITIALIZER))
    }

    /// Initialises the mutex, also again in the child of a fork.
    ///
    /// # Safety
    /// No other thread uses it.
    pub(crate) unsafe fn init(&self) {
        let mut attributes = MaybeUninit::<libc::pthread_mutexattr_t>::uninit();
        // SAFETY: the attributes are a live, writable local.
        if unsafe { libc::pthread_mutexattr_init(attributes.as_mut_ptr()) } != 0 {
            return;
        }
        // SAFETY: the attributes are initialised. A kernel without priority inheritance refuses;
        // then the lock is a plain one.
        unsafe {
            libc::pthread_mutexattr_setprotocol(attributes.as_mut_ptr(), libc::PTHREAD_PRIO_INHERIT)
        };
        // SAFETY: by contract no other thread uses the mutex.
        unsafe { libc::pthread_mutex_init(self.0.get(), attributes.as_ptr()) };
        // SAFETY: the attributes were initialised above, and are destroyed once.
        unsafe { libc::pthread_mutexattr_destroy(attributes.as_mut_ptr()) };
    }

    pub(crate) fn take(&self) {
        // SAFETY: the mutex is initialised and never moves.
        unsafe { libc::pthread_mutex_lock(self.0.get()) };
    }

    /// # Safety
    /// The calling thread holds it.
    pub(crate) unsafe fn give_back(&self) {
        // SAFETY: by contract the calling thread holds it.
        unsafe { libc::pthread_mutex_unlock(self.0.get()) };
    }
}
