//! A mutex with priority inheritance, and a condition variable on CLOCK_MONOTONIC.
//!
//! Rust's own `Mutex` has no priority inheritance: a low-priority holder that is
//! kept off its CPU keeps a real-time thread waiting without bound. The mutex is the
//! C library's, made with PTHREAD_PRIO_INHERIT.

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

unsafe extern "C" {
    /// Since glibc 2.30; the libc crate doesn't declare it.
    fn pthread_mutex_clocklock(
        mutex: *mut libc::pthread_mutex_t,
        clock: libc::clockid_t,
        until: *const libc::timespec,
    ) -> c_int;
}

/// Locks a mutex of the C library and waits until an instant of CLOCK_MONOTONIC at most, in ns:
/// what the C library returned, and ENOTSUP where it can't wait so. Real-time safe as
/// [`PiMutex::lock_until`].
///
/// # Safety
/// `mutex` is initialised.
#[must_use = "the mutex may not be held"]
pub unsafe fn lock_until(mutex: *mut libc::pthread_mutex_t, at_ns: u64) -> c_int {
    if tsan::watches() {
        // SAFETY: initialised, by contract.
        return unsafe { lock_by_looking(mutex, at_ns) };
    }
    let until = time::timespec(at_ns);
    // SAFETY: initialised, by contract; the time is a live local.
    match unsafe { pthread_mutex_clocklock(mutex, libc::CLOCK_MONOTONIC, &until) } {
        // The time is well-formed, so it is the clock that is refused: FUTEX_LOCK_PI knows
        // CLOCK_REALTIME alone, and FUTEX_LOCK_PI2 is Linux 5.14's.
        libc::EINVAL | libc::ENOSYS => libc::ENOTSUP,
        returned => returned,
    }
}

/// [`lock_until`] by calls that ThreadSanitizer knows: gcc 12's and clang 14's don't know
/// `pthread_mutex_clocklock`, and report each unlock after it. The holder inherits nothing.
///
/// # Safety
/// `mutex` is initialised.
#[cold]
unsafe fn lock_by_looking(mutex: *mut libc::pthread_mutex_t, at_ns: u64) -> c_int {
    let _held = cancel::hold();
    loop {
        // SAFETY: initialised, by contract.
        match unsafe { libc::pthread_mutex_trylock(mutex) } {
            libc::EBUSY if time::monotonic_now() >= at_ns => return libc::ETIMEDOUT,
            libc::EBUSY => std::thread::sleep(std::time::Duration::from_millis(1)),
            returned => return returned,
        }
    }
}

/// A mutex whose holder inherits the priority of the highest thread that waits.
///
/// A panic of the holder unlocks it, and it isn't poisoned as `std::sync::Mutex` is: the next
/// thread gets the value as the panic left it. A lock that failed for ever would stop the
/// real-time threads too.
pub struct PiMutex<T: ?Sized> {
    /// Boxed: a pthread mutex must not move once it is in use.
    raw: ManuallyDrop<Box<UnsafeCell<libc::pthread_mutex_t>>>,
    value: UnsafeCell<T>,
}

// SAFETY: the mutex gives access to one thread at a time, so the value only has to
// be allowed to be touched by another thread.
unsafe impl<T: ?Sized + Send> Sync for PiMutex<T> {}
// SAFETY: moving the mutex moves the box's pointer, not the pthread mutex itself;
// it isn't locked while it can be moved.
unsafe impl<T: ?Sized + Send> Send for PiMutex<T> {}

/// What fills attributes in.
type Fill = unsafe fn(*mut libc::pthread_mutexattr_t) -> io::Result<()>;

impl<T> PiMutex<T> {
    /// Makes an unlocked mutex. Not real-time safe (allocates).
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
    /// Locks. Real-time safe: no system call unless another thread holds it, and
    /// then the holder runs at our priority.
    ///
    /// # Errors
    /// EDEADLK when the calling thread holds it already.
    #[inline]
    pub fn lock(&self) -> io::Result<PiGuard<'_, T>> {
        // SAFETY: the mutex was initialised in `new` and lives as long as `self`.
        self.guard(unsafe { libc::pthread_mutex_lock(self.raw.get()) })
    }

    /// The guard of a lock that the C library answered like this.
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

    /// As [`PiMutex::lock`], and waits until an instant of CLOCK_MONOTONIC at most, in ns; `None`
    /// at the instant. Real-time safe in the same way.
    ///
    /// # Errors
    /// As [`PiMutex::lock`]; ENOTSUP where the mutex is held and the kernel (before 5.14) or the C
    /// library (glibc before 2.35) can't count on CLOCK_MONOTONIC for one with priority
    /// inheritance.
    #[inline]
    pub fn lock_until(&self, at_ns: u64) -> io::Result<Option<PiGuard<'_, T>>> {
        // SAFETY: the mutex was initialised in `new` and lives as long as `self`.
        match unsafe { lock_until(self.raw.get(), at_ns) } {
            libc::ETIMEDOUT => Ok(None),
            returned => self.guard(returned).map(Some),
        }
    }

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
            returned => self.guard(returned).map(Some),
        }
    }
}

impl<T: ?Sized> Drop for PiMutex<T> {
    fn drop(&mut self) {
        let raw = self.raw.get();
        // A guard that was forgotten leaves it locked, and a robust one in the C library's list of
        // those that its holder has, which writes to it later: glibc's destroy doesn't mind.
        // SAFETY: initialised in `new`, and destroyed below alone.
        match unsafe { libc::pthread_mutex_trylock(raw) } {
            // SAFETY: EDEADLK says that this thread holds it, the others that it does now.
            0 | libc::EOWNERDEAD | libc::EDEADLK => unsafe { libc::pthread_mutex_unlock(raw) },
            libc::ENOTRECOVERABLE => 0,
            // Another thread's: the memory stays.
            _ => return,
        };
        // SAFETY: nobody holds a borrow any more, and it is unlocked; destroyed once.
        unsafe { libc::pthread_mutex_destroy(raw) };
        // SAFETY: dropped here alone, and not used after that.
        unsafe { ManuallyDrop::drop(&mut self.raw) };
    }
}

/// Access to the value of a locked [`PiMutex`]; unlocks when dropped.
pub struct PiGuard<'a, T: ?Sized> {
    mutex: &'a PiMutex<T>,
    /// Whether the thread that held it before ended with it, and nobody has said since that the
    /// value is whole.
    owner_died: bool,
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
        match unsafe { libc::pthread_mutex_lock(raw) } {
            0 => self.owner_died = false,
            libc::EOWNERDEAD => self.owner_died = true,
            // The guard would be one without its mutex: a robust one that was given up.
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
    fn a_timed_lock_ends_at_its_instant_and_not_before() {
        let mutex = PiMutex::new(7).unwrap();
        let at = || clock::now_ns() + 2_000_000;
        {
            // In the past is soon enough where nobody holds it.
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

    /// The C library has a list of the robust mutexes that a thread holds, and writes to them when
    /// it locks another one.
    #[test]
    fn a_mutex_that_is_dropped_while_it_is_held_leaves_no_trace_in_other_memory() {
        const PATTERN: u8 = 0x5a;
        let size = size_of::<libc::pthread_mutex_t>();
        let held = PiMutex::robust(()).unwrap();
        std::mem::forget(held.lock().unwrap());
        let place = held.raw.get() as usize;
        drop(held);
        // Where the allocator has it back, one of these lies there.
        let blocks: Vec<Vec<u8>> = (0..64).map(|_| vec![PATTERN; size]).collect();
        let other = PiMutex::robust(()).unwrap();
        drop(other.lock().unwrap());
        let whole = |block: &Vec<u8>| block.iter().all(|&byte| byte == PATTERN);
        assert!(blocks.iter().all(whole));
        // Held by this thread, it was unlocked, and its memory is free.
        assert!(blocks.iter().any(|block| block.as_ptr() as usize == place));

        // One that another thread ended with, and one that another thread holds.
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
    fn locking_twice_is_an_error_not_a_hang() {
        let mutex = PiMutex::new(()).unwrap();
        let _held = mutex.lock().unwrap();
        let again = mutex.lock().map(drop);
        assert_eq!(again.unwrap_err().raw_os_error(), Some(libc::EDEADLK));
    }
}
