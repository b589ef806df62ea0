//! A mutex with priority inheritance, and a condition variable on CLOCK_MONOTONIC.
//!
//! Rust's own `Mutex` has no priority inheritance: a low-priority holder that is preempted blocks
//! a real-time thread without bound (priority inversion). This mutex is the C library's, with
//! PTHREAD_PRIO_INHERIT.

#![expect(unsafe_code, reason = "pthread's mutex and condition variable")]

mod condvar;
mod robust;

use std::cell::UnsafeCell;
use std::ffi::c_int;
use std::io;
use std::marker::PhantomData;
use std::mem::ManuallyDrop;
use std::ops::{Deref, DerefMut};

use crate::sys::{cancel, check_returned, time, tsan, zeroed_boxed};

pub use condvar::{Condvar, Futex, Notices};
pub use robust::{fill_robust_mutex_attributes, make_consistent};

/// Initialises mutex attributes with PTHREAD_PRIO_INHERIT and PTHREAD_MUTEX_ERRORCHECK. No
/// system call; for setting up.
///
/// # Safety
/// `attributes` is writable; attributes that it may already hold aren't used any more.
///
/// # Errors
/// ENOTSUP where the C library has no priority inheritance.
pub unsafe fn fill_mutex_attributes(attributes: *mut libc::pthread_mutexattr_t) -> io::Result<()> {
    // SAFETY: by contract `attributes` is writable and holds nothing in use.
    check_returned(unsafe { libc::pthread_mutexattr_init(attributes) })?;
    // SAFETY: the attributes were initialised just now.
    check_returned(unsafe {
        libc::pthread_mutexattr_setprotocol(attributes, libc::PTHREAD_PRIO_INHERIT)
    })?;
    // A normal mutex with priority inheritance deadlocks when its holder locks it again (glibc
    // waits on the kernel's EDEADLK); this type returns the error.
    // SAFETY: the attributes were initialised above.
    check_returned(unsafe {
        libc::pthread_mutexattr_settype(attributes, libc::PTHREAD_MUTEX_ERRORCHECK)
    })
}

/// Initialises attributes of a condition variable whose timed wait uses CLOCK_MONOTONIC. No
/// system call; for setting up.
///
/// # Safety
/// `attributes` is writable; attributes that it may already hold aren't used any more.
///
/// # Errors
/// None in practice.
pub unsafe fn fill_condition_attributes(
    attributes: *mut libc::pthread_condattr_t,
) -> io::Result<()> {
    // SAFETY: by contract `attributes` is writable and holds nothing in use.
    check_returned(unsafe { libc::pthread_condattr_init(attributes) })?;
    // SAFETY: the attributes were initialised just now.
    check_returned(unsafe { libc::pthread_condattr_setclock(attributes, libc::CLOCK_MONOTONIC) })
}

unsafe extern "C" {
    /// Since glibc 2.30; the libc crate doesn't declare it.
    fn pthread_mutex_clocklock(
        mutex: *mut libc::pthread_mutex_t,
        clock: libc::clockid_t,
        until: *const libc::timespec,
    ) -> c_int;
}

/// Locks a mutex of the C library, waiting until an instant of CLOCK_MONOTONIC at most, in ns.
/// Returns the result of the C library, and ENOTSUP where it can't wait on this clock. Real-time
/// safe like [`PiMutex::lock_until`].
///
/// # Safety
/// `mutex` is initialised.
#[must_use = "the mutex may not be held"]
pub unsafe fn lock_until(mutex: *mut libc::pthread_mutex_t, at_ns: u64) -> c_int {
    if tsan::watches() {
        // SAFETY: by contract the mutex is initialised.
        return unsafe { lock_by_looking(mutex, at_ns) };
    }
    let until = time::timespec(at_ns);
    // SAFETY: by contract the mutex is initialised; the time is a live local.
    match unsafe { pthread_mutex_clocklock(mutex, libc::CLOCK_MONOTONIC, &until) } {
        // The time is well-formed, so EINVAL means that the clock is refused: FUTEX_LOCK_PI
        // supports only CLOCK_REALTIME, and FUTEX_LOCK_PI2 exists since Linux 5.14.
        libc::EINVAL | libc::ENOSYS => libc::ENOTSUP,
        returned => returned,
    }
}

/// Implements [`lock_until`] by polling with calls that ThreadSanitizer knows: gcc 12 and clang
/// 14 don't know `pthread_mutex_clocklock`, and report each unlock after it. There is no priority
/// inheritance.
///
/// # Safety
/// `mutex` is initialised.
#[cold]
unsafe fn lock_by_looking(mutex: *mut libc::pthread_mutex_t, at_ns: u64) -> c_int {
    let _held = cancel::hold();
    loop {
        // SAFETY: by contract the mutex is initialised.
        match unsafe { libc::pthread_mutex_trylock(mutex) } {
            libc::EBUSY if time::monotonic_now() >= at_ns => return libc::ETIMEDOUT,
            libc::EBUSY => std::thread::sleep(std::time::Duration::from_millis(1)),
            returned => return returned,
        }
    }
}

/// A mutex whose holder inherits the priority of the highest-priority waiting thread.
///
/// When the holder panics the mutex is unlocked, but not poisoned as `std::sync::Mutex` is: the
/// next thread gets the value as the panic left it. A mutex that stayed locked would stop the
/// real-time threads too.
pub struct PiMutex<T: ?Sized> {
    /// Boxed, because a pthread mutex must not move once it is in use.
    raw: ManuallyDrop<Box<UnsafeCell<libc::pthread_mutex_t>>>,
    value: UnsafeCell<T>,
}

// SAFETY: the mutex gives one thread at a time access to the value, so T only has to be Send.
unsafe impl<T: ?Sized + Send> Sync for PiMutex<T> {}
// SAFETY: moving the PiMutex moves the box's pointer, not the pthread mutex; and no guard exists
// while it is moved, so it isn't locked.
unsafe impl<T: ?Sized + Send> Send for PiMutex<T> {}

/// A function that initialises attributes.
type Fill = unsafe fn(*mut libc::pthread_mutexattr_t) -> io::Result<()>;

impl<T> PiMutex<T> {
    /// Creates an unlocked mutex. Not real-time safe (allocates).
    ///
    /// # Errors
    /// ENOTSUP where the kernel has no priority inheritance.
    pub fn new(value: T) -> io::Result<Self> {
        Self::with(fill_mutex_attributes, value)
    }

    fn with(fill: Fill, value: T) -> io::Result<Self> {
        let mut attributes = zeroed_boxed::<libc::pthread_mutexattr_t>();
        // SAFETY: the box is live and writable, and holds no attributes yet.
        unsafe { fill(&mut *attributes) }?;
        let raw = zeroed_boxed::<UnsafeCell<libc::pthread_mutex_t>>();
        // SAFETY: the mutex lies in its final place and is initialised once.
        check_returned(unsafe { libc::pthread_mutex_init(raw.get(), &*attributes) })?;
        // SAFETY: initialised above, destroyed once.
        check_returned(unsafe { libc::pthread_mutexattr_destroy(&mut *attributes) })?;
        Ok(Self {
            raw: ManuallyDrop::new(raw),
            value: UnsafeCell::new(value),
        })
    }
}

impl<T: ?Sized> PiMutex<T> {
    /// Locks the mutex. Real-time safe: no system call unless another thread holds it; while this
    /// thread waits, the holder inherits its priority.
    ///
    /// # Errors
    /// EDEADLK when the calling thread already holds it.
    #[inline]
    pub fn lock(&self) -> io::Result<PiGuard<'_, T>> {
        // SAFETY: the mutex was initialised in `new` and lives as long as `self`.
        self.guard(unsafe { libc::pthread_mutex_lock(self.raw.get()) })
    }

    /// The guard, or the error, for a result of the C library.
    #[inline]
    fn guard(&self, returned: c_int) -> io::Result<PiGuard<'_, T>> {
        let owner_died = returned == libc::EOWNERDEAD;
        if !owner_died {
            check_returned(returned)?;
        }
        Ok(PiGuard {
            mutex: self,
            owner_died,
            not_send: PhantomData,
        })
    }

    /// Like [`PiMutex::lock`], but waits until an instant of CLOCK_MONOTONIC at most, in ns;
    /// `None` when the instant is reached. Real-time safe in the same way.
    ///
    /// # Errors
    /// Those of [`PiMutex::lock`]; ENOTSUP when the mutex is held and the kernel (before 5.14) or
    /// the C library (glibc before 2.35) doesn't support CLOCK_MONOTONIC for a mutex with
    /// priority inheritance.
    #[inline]
    pub fn lock_until(&self, at_ns: u64) -> io::Result<Option<PiGuard<'_, T>>> {
        // SAFETY: the mutex was initialised in `new` and lives as long as `self`.
        match unsafe { lock_until(self.raw.get(), at_ns) } {
            libc::ETIMEDOUT => Ok(None),
            returned => self.guard(returned).map(Some),
        }
    }

    /// Locks the mutex if it is unlocked; `None` when any thread, even the caller, holds it.
    /// Real-time safe: no system call.
    ///
    /// # Errors
    /// None in practice.
    #[inline]
    pub fn try_lock(&self) -> io::Result<Option<PiGuard<'_, T>>> {
        // SAFETY: the mutex was initialised in `new` and lives as long as `self`.
        match unsafe { libc::pthread_mutex_trylock(self.raw.get()) } {
            // glibc returns EDEADLK when the caller holds an error-checking mutex.
            libc::EBUSY | libc::EDEADLK => Ok(None),
            returned => self.guard(returned).map(Some),
        }
    }
}

impl<T: ?Sized> Drop for PiMutex<T> {
    fn drop(&mut self) {
        let raw = self.raw.get();
        // A forgotten guard leaves the mutex locked. A robust mutex is then in the C library's list of held
        // mutexes, and the library writes to it later; glibc's destroy doesn't prevent that.
        // SAFETY: initialised in `new`, and destroyed only below.
        match unsafe { libc::pthread_mutex_trylock(raw) } {
            // SAFETY: this thread holds the mutex: from before if EDEADLK, else since this call.
            0 | libc::EOWNERDEAD | libc::EDEADLK => unsafe { libc::pthread_mutex_unlock(raw) },
            libc::ENOTRECOVERABLE => 0,
            // Another thread holds it, so the memory is leaked.
            _ => return,
        };
        // SAFETY: no borrow of the mutex is left and it is unlocked; destroyed once.
        unsafe { libc::pthread_mutex_destroy(raw) };
        // SAFETY: dropped only here, and not used after that.
        unsafe { ManuallyDrop::drop(&mut self.raw) };
    }
}

/// Access to the value of a locked [`PiMutex`]; unlocks when dropped.
pub struct PiGuard<'a, T: ?Sized> {
    mutex: &'a PiMutex<T>,
    /// Whether the previous holder ended while it held the mutex, and the value was not declared
    /// consistent since.
    owner_died: bool,
    /// Not Send: the thread that locked a priority-inheriting mutex must unlock it.
    not_send: PhantomData<*const ()>,
}

impl<T: ?Sized> PiGuard<'_, T> {
    /// Unlocks the mutex while `between` runs, and locks it again.
    #[inline]
    fn without<R>(&mut self, between: impl FnOnce() -> R) -> R {
        let raw = self.mutex.raw.get();
        // SAFETY: this thread holds the mutex, and `self` is borrowed exclusively, so no
        // reference to the value exists.
        unsafe { libc::pthread_mutex_unlock(raw) };
        let result = between();
        // SAFETY: the mutex was initialised in `new` and outlives the guard.
        match unsafe { libc::pthread_mutex_lock(raw) } {
            0 => self.owner_died = false,
            libc::EOWNERDEAD => self.owner_died = true,
            // Returning would leave a guard without its mutex, a robust one that is not
            // recoverable.
            _ => std::process::abort(),
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
    use crate::clock;

    #[test]
    fn no_increment_under_the_mutex_is_lost() {
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
    fn try_lock_never_waits() {
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
    fn a_timed_lock_fails_at_its_instant_and_not_before() {
        let mutex = PiMutex::new(7).unwrap();
        let at = || clock::now_ns() + 2_000_000;
        {
            // An instant in the past is sufficient when the mutex is free.
            let held = mutex.lock_until(1).unwrap().expect("nobody holds it");
            let again = mutex.lock_until(at()).map(drop);
            assert_eq!(again.unwrap_err().raw_os_error(), Some(libc::EDEADLK));
            std::thread::scope(|scope| {
                let other = scope.spawn(|| {
                    let at = at();
                    let taken = mutex.lock_until(at).unwrap().is_some();
                    (taken, clock::now_ns() >= at)
                });
                assert_eq!(other.join().unwrap(), (false, true));
            });
            assert_eq!(*held, 7);
        }
        std::thread::scope(|scope| {
            let held = mutex.lock().unwrap();
            let far = clock::now_ns() + 20_000_000_000;
            let mutex = &mutex;
            let other = scope.spawn(move || mutex.lock_until(far).unwrap().is_some());
            drop(held);
            assert!(other.join().unwrap());
        });
    }

    /// The C library keeps a list of the robust mutexes that a thread holds, and writes to them
    /// when the thread locks another one.
    #[test]
    fn a_mutex_that_is_dropped_while_it_is_held_leaves_no_trace_in_other_memory() {
        const PATTERN: u8 = 0x5a;
        let size = size_of::<libc::pthread_mutex_t>();
        let held = PiMutex::robust(()).unwrap();
        std::mem::forget(held.lock().unwrap());
        let place = held.raw.get() as usize;
        drop(held);
        // If the allocator reuses the memory of the mutex, one of these is there.
        let blocks: Vec<Vec<u8>> = (0..64).map(|_| vec![PATTERN; size]).collect();
        let other = PiMutex::robust(()).unwrap();
        drop(other.lock().unwrap());
        let whole = |block: &Vec<u8>| block.iter().all(|&byte| byte == PATTERN);
        assert!(blocks.iter().all(whole));
        // The mutex, held by this thread, was unlocked, and its memory is free.
        assert!(blocks.iter().any(|block| block.as_ptr() as usize == place));

        // A mutex whose holder ended, and one that another thread holds.
        let left = PiMutex::robust(()).unwrap();
        let mutex = PiMutex::new(()).unwrap();
        std::thread::scope(|scope| {
            let both = || {
                std::mem::forget(left.lock().unwrap());
                std::mem::forget(mutex.lock().unwrap());
            };
            scope.spawn(both).join().unwrap();
        });
        drop((left, mutex));
    }

    #[test]
    fn locking_twice_is_an_error_and_not_a_deadlock() {
        let mutex = PiMutex::new(()).unwrap();
        let _held = mutex.lock().unwrap();
        let again = mutex.lock().map(drop);
        assert_eq!(again.unwrap_err().raw_os_error(), Some(libc::EDEADLK));
    }
}
