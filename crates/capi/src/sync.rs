//! The condition variable that waits with one system call, and functions that POSIX lacks for its
//! mutex.

use std::ffi::{CStr, c_int};

use libc::{pthread_mutex_t, timespec};
use punctual_rt::sync::{Condvar, lock_until, make_consistent};

use crate::clock::{MALFORMED, nanoseconds};
use crate::errno::{fail, null, number};

/// A condition variable of one mutex, which has the attributes of punctual_mutexattr_init().
/// Zeroed memory is an initialised one; it allocates nothing, and it and its mutex belong to one
/// process.
#[repr(C)]
pub struct punctual_condvar {
    /// Private.
    pub number: u32,
    /// Private.
    pub waiting: u32,
}

const _: () = assert!(
    size_of::<punctual_condvar>() == size_of::<Condvar>()
        && align_of::<punctual_condvar>() == align_of::<Condvar>()
);

/// # Safety
/// `condvar` is NULL, or is valid for as long as `'a` and written only by the library.
unsafe fn of<'a>(condvar: *mut punctual_condvar) -> Option<&'a Condvar> {
    // SAFETY: two words that are only accessed as atomics, with the size and alignment checked
    // above.
    unsafe { condvar.cast::<Condvar>().as_ref() }
}

/// # Safety
/// That of punctual_condvar_wait_until().
unsafe fn wait(condvar: *mut punctual_condvar, mutex: *mut pthread_mutex_t, at_ns: u64) -> c_int {
    // SAFETY: by contract `condvar` is NULL, or outlives the call.
    let Some(condvar) = (unsafe { of(condvar) }).filter(|_| !mutex.is_null()) else {
        return null();
    };
    // SAFETY: not NULL, so by contract initialised, with ERRORCHECK.
    match unsafe { condvar.wait_with(mutex, at_ns) } {
        Ok(true) => 0,
        Ok(false) => fail(
            libc::ETIMEDOUT,
            c"timed out: no notification before the instant",
        ),
        Err(error) => {
            let words = match number(&error) {
                libc::EPERM => c"the mutex is not held: lock it before the wait",
                _ => of_mutex(number(&error)),
            };
            fail(number(&error), words)
        }
    }
}

/// The text for the C library's error of a lock.
fn of_mutex(number: c_int) -> &'static CStr {
    match number {
        libc::EOWNERDEAD => {
            c"the holder ended without unlocking the mutex: repair the data that it protects, then \
              call punctual_mutex_make_consistent()"
        }
        libc::ENOTRECOVERABLE => {
            c"the mutex was unlocked before it was made consistent: destroy and initialise it again"
        }
        libc::EDEADLK => c"the caller already holds the mutex: unlock it first",
        libc::ETIMEDOUT => c"timed out: the mutex was not free before the instant",
        libc::ENOTSUP => c"a timed lock with priority inheritance needs Linux 5.14 and glibc 2.35",
        _ => c"the mutex was not initialised with attributes of punctual_mutexattr_init()",
    }
}

/// Locks a mutex like pthread_mutex_lock(), but waits until the instant `at` of CLOCK_MONOTONIC
/// at most: pthread_mutex_timedlock() uses CLOCK_REALTIME, which may be set.
///
/// A real-time thread may call it: no system call while the mutex is free, else one, and the
/// holder inherits the caller's priority meanwhile. -1 with errno: ETIMEDOUT the instant was
/// reached; EDEADLK the caller already holds it (for threads that wait in a circle see
/// punctual_mutexattr_init()); EOWNERDEAD its holder ended without unlocking it: the caller holds
/// it now, see punctual_mutex_make_consistent(); ENOTRECOVERABLE it was not made consistent;
/// ENOTSUP the mutex is held, and the kernel (before 5.14) or the C library (before glibc 2.35)
/// can't wait on this clock; EFAULT a pointer is NULL; EINVAL `at` is negative, malformed or
/// beyond 584 years.
///
/// # Safety
/// `mutex` is NULL or was initialised with attributes of the library; `at` is NULL or can be read.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn punctual_mutex_lock_until(
    mutex: *mut pthread_mutex_t,
    at: *const timespec,
) -> c_int {
    // SAFETY: by contract `at` is NULL or readable.
    let Some(at) = (unsafe { at.as_ref() }).filter(|_| !mutex.is_null()) else {
        return null();
    };
    let Some(at_ns) = nanoseconds(at) else {
        return fail(libc::EINVAL, MALFORMED);
    };
    // SAFETY: not NULL, so by contract initialised.
    match unsafe { lock_until(mutex, at_ns) } {
        0 => 0,
        number => fail(number, of_mutex(number)),
    }
}

/// Declares the data that a mutex protects consistent, after a lock returned EOWNERDEAD: the
/// mutex has attributes of punctual_mutexattr_init_robust(), and the thread that held it has
/// ended. If it is unlocked without this, every later lock fails with ENOTRECOVERABLE.
///
/// A real-time thread may call it: no system call, no lock. -1 with errno: EFAULT `mutex` is
/// NULL; EINVAL it is not robust, or no holder of it has ended.
///
/// # Safety
/// `mutex` is NULL, or initialised and held by the caller.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn punctual_mutex_make_consistent(mutex: *mut pthread_mutex_t) -> c_int {
    if mutex.is_null() {
        return null();
    }
    // SAFETY: not NULL, so by contract initialised and held.
    match unsafe { make_consistent(mutex) } {
        Ok(()) => 0,
        Err(error) => fail(
            number(&error),
            c"the mutex is not robust, or no holder of it has ended",
        ),
    }
}

/// Unlocks the mutex, waits until notified, and locks the mutex again. It may end without a
/// notification, for example by a signal handler: check the condition again.
///
/// A real-time thread may call it: one system call, and one more if another thread holds the
/// mutex when it is locked again, or waits for it when it is unlocked. -1 with errno: EFAULT a
/// pointer is NULL; EPERM the caller doesn't hold the mutex; EOWNERDEAD and ENOTRECOVERABLE with
/// a robust mutex, as punctual_mutex_lock_until(): after EOWNERDEAD from a lock, make the mutex
/// consistent before the wait, because a wait unlocks it.
///
/// # Safety
/// As punctual_condvar_wait_until().
#[unsafe(no_mangle)]
pub unsafe extern "C" fn punctual_condvar_wait(
    condvar: *mut punctual_condvar,
    mutex: *mut pthread_mutex_t,
) -> c_int {
    // SAFETY: both functions have the same contract, and `at` is not used.
    unsafe { wait(condvar, mutex, u64::MAX) }
}

/// Like punctual_condvar_wait(), but waits until the instant `at` of CLOCK_MONOTONIC at most.
///
/// A real-time thread may call it: system calls as punctual_condvar_wait(). -1 with errno:
/// ETIMEDOUT the instant was reached, and the mutex is held; EFAULT a pointer is NULL; EINVAL
/// `at` is negative, malformed or beyond 584 years; EPERM the caller doesn't hold the mutex;
/// EOWNERDEAD and ENOTRECOVERABLE with a robust mutex, as punctual_mutex_lock_until().
///
/// # Safety
/// `condvar` is NULL or began as 0, `mutex` is NULL or was initialised with the attributes of
/// punctual_mutexattr_init(), and both outlive the call; `at` is NULL or can be read.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn punctual_condvar_wait_until(
    condvar: *mut punctual_condvar,
    mutex: *mut pthread_mutex_t,
    at: *const timespec,
) -> c_int {
    // SAFETY: by contract `at` is NULL or readable.
    let Some(at) = (unsafe { at.as_ref() }) else {
        return null();
    };
    match nanoseconds(at) {
        // SAFETY: both functions have the same contract for `condvar` and `mutex`.
        Some(at_ns) => unsafe { wait(condvar, mutex, at_ns) },
        None => fail(libc::EINVAL, MALFORMED),
    }
}

/// Wakes one waiting thread, the one with the highest priority. Change the condition while
/// holding the mutex; it may be unlocked before this call.
///
/// A real-time thread may call it: no system call where none waits, else one. -1 with EFAULT:
/// `condvar` is NULL.
///
/// # Safety
/// `condvar` is NULL or was initialised to 0.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn punctual_condvar_notify_one(condvar: *mut punctual_condvar) -> c_int {
    // SAFETY: by contract `condvar` is NULL, or was initialised to 0.
    let Some(condvar) = (unsafe { of(condvar) }) else {
        return null();
    };
    condvar.notify_one();
    0
}

/// Wakes all waiting threads, like punctual_condvar_notify_one() for one.
///
/// A real-time thread may call it: no system call where none waits, else one, bounded by their
/// number. -1 with EFAULT: `condvar` is NULL.
///
/// # Safety
/// As punctual_condvar_notify_one().
#[unsafe(no_mangle)]
pub unsafe extern "C" fn punctual_condvar_notify_all(condvar: *mut punctual_condvar) -> c_int {
    // SAFETY: by contract `condvar` is NULL, or was initialised to 0.
    let Some(condvar) = (unsafe { of(condvar) }) else {
        return null();
    };
    condvar.notify_all();
    0
}
