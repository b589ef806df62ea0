//! The condition variable that waits with one system call, and what POSIX lacks for its mutex.

use std::ffi::{CStr, c_int};

use libc::{pthread_mutex_t, timespec};
use punctual_rt::sync::{Condvar, lock_until, make_consistent};

use crate::clock::{MALFORMED, nanoseconds};
use crate::errno::{fail, null, number};

/// A condition variable of one mutex, which has the attributes of punctual_mutexattr_init(). All
/// 0 is one that nobody waits on; it needs no memory of its own, and its mutex and itself belong
/// to one process.
#[repr(C)]
pub struct punctual_condvar {
    /// The library's.
    pub number: u32,
    /// The library's.
    pub waiting: u32,
}

const _: () = assert!(
    size_of::<punctual_condvar>() == size_of::<Condvar>()
        && align_of::<punctual_condvar>() == align_of::<Condvar>()
);

/// # Safety
/// `condvar` is NULL, or is valid for as long as `'a` and written by the library alone.
unsafe fn of<'a>(condvar: *mut punctual_condvar) -> Option<&'a Condvar> {
    // SAFETY: two words that are only accessed as atomics, of the size and alignment seen above.
    unsafe { condvar.cast::<Condvar>().as_ref() }
}

/// # Safety
/// As punctual_condvar_wait_until().
unsafe fn wait(condvar: *mut punctual_condvar, mutex: *mut pthread_mutex_t, at_ns: u64) -> c_int {
    // SAFETY: NULL or the caller's, for as long as it waits.
    let Some(condvar) = (unsafe { of(condvar) }).filter(|_| !mutex.is_null()) else {
        return null();
    };
    // SAFETY: not NULL, so initialised, with ERRORCHECK: the caller's promise.
    match unsafe { condvar.wait_with(mutex, at_ns) } {
        Ok(true) => 0,
        Ok(false) => fail(libc::ETIMEDOUT, c"the instant came before a notification"),
        Err(error) => {
            let words = match number(&error) {
                libc::EPERM => c"the mutex is not held: lock it before the wait",
                _ => of_mutex(number(&error)),
            };
            fail(number(&error), words)
        }
    }
}

/// What the C library's answer to a lock means.
fn of_mutex(number: c_int) -> &'static CStr {
    match number {
        libc::EOWNERDEAD => {
            c"its holder ended with the mutex: make what it guards whole, then call \
              punctual_mutex_make_consistent()"
        }
        libc::ENOTRECOVERABLE => {
            c"the mutex was unlocked before it was made consistent: initialise it anew"
        }
        libc::EDEADLK => c"the caller holds the mutex already",
        libc::ETIMEDOUT => c"the instant came before the mutex was free",
        libc::ENOTSUP => c"a timed lock with priority inheritance needs Linux 5.14 and glibc 2.35",
        _ => c"the mutex is not one of punctual_mutexattr_init()",
    }
}

/// Locks a mutex as pthread_mutex_lock() does, and waits until the instant `at` of
/// CLOCK_MONOTONIC at most: pthread_mutex_timedlock() counts on CLOCK_REALTIME, which is set.
///
/// A real-time thread may call it: no system call while the mutex is free, else one, and the
/// holder runs at the caller's priority meanwhile. -1 with errno: ETIMEDOUT the instant has come;
/// EDEADLK the caller holds it already (where threads wait in a circle see
/// punctual_mutexattr_init()); EOWNERDEAD its holder ended with it: the caller holds it
/// now, see punctual_mutex_make_consistent(); ENOTRECOVERABLE it was not made consistent; ENOTSUP
/// the mutex is held, and the kernel (before 5.14) or the C library (before glibc 2.35) can't wait so;
/// EFAULT a pointer is NULL; EINVAL `at` is negative, malformed or beyond 584 years.
///
/// # Safety
/// `mutex` is NULL or was initialised with attributes of the library; `at` is NULL or can be read.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn punctual_mutex_lock_until(
    mutex: *mut pthread_mutex_t,
    at: *const timespec,
) -> c_int {
    // SAFETY: NULL or readable, by contract.
    let Some(at) = (unsafe { at.as_ref() }).filter(|_| !mutex.is_null()) else {
        return null();
    };
    let Some(at_ns) = nanoseconds(at) else {
        return fail(libc::EINVAL, MALFORMED);
    };
    // SAFETY: not NULL, so initialised: the caller's promise.
    match unsafe { lock_until(mutex, at_ns) } {
        0 => 0,
        number => fail(number, of_mutex(number)),
    }
}

/// Says that what a mutex guards is whole again, after a lock of it answered EOWNERDEAD: it has
/// attributes of punctual_mutexattr_init_robust(), and the thread that held it has ended. Once it
/// is unlocked without this, each lock of it is refused with ENOTRECOVERABLE.
///
/// A real-time thread may call it: no system call, no lock. -1 with errno: EFAULT `mutex` is NULL;
/// EINVAL it is not robust, or no holder of it has ended.
///
/// # Safety
/// `mutex` is NULL, or initialised and held by the caller.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn punctual_mutex_make_consistent(mutex: *mut pthread_mutex_t) -> c_int {
    if mutex.is_null() {
        return null();
    }
    // SAFETY: not NULL, so initialised and held: the caller's promise.
    match unsafe { make_consistent(mutex) } {
        Ok(()) => 0,
        Err(error) => fail(
            number(&error),
            c"no holder of the mutex has ended with it, or it is not robust",
        ),
    }
}

/// Gives the mutex up, waits until notified, and takes the mutex back. It may end without a
/// notification, by a signal handler for one: look at the condition again.
///
/// A real-time thread may call it: one system call, and one more where another thread holds the
/// mutex when it is taken back, or waits for it when it is given up. -1 with errno: EFAULT a
/// pointer is NULL; EPERM the caller doesn't hold the mutex; EOWNERDEAD and ENOTRECOVERABLE with a
/// robust mutex, as punctual_mutex_lock_until(): after EOWNERDEAD of a lock make it consistent
/// before you wait, since a wait unlocks it.
///
/// # Safety
/// As punctual_condvar_wait_until().
#[unsafe(no_mangle)]
pub unsafe extern "C" fn punctual_condvar_wait(
    condvar: *mut punctual_condvar,
    mutex: *mut pthread_mutex_t,
) -> c_int {
    // SAFETY: the same contract.
    unsafe { wait(condvar, mutex, u64::MAX) }
}

/// As punctual_condvar_wait(), until the instant `at` of CLOCK_MONOTONIC at most.
///
/// A real-time thread may call it: system calls as punctual_condvar_wait(). -1 with errno:
/// ETIMEDOUT the instant has come, and the mutex is held; EFAULT a pointer is NULL; EINVAL `at` is
/// negative, malformed or beyond 584 years; EPERM the caller doesn't hold the mutex; EOWNERDEAD and
/// ENOTRECOVERABLE with a robust mutex, as punctual_mutex_lock_until().
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
    // SAFETY: NULL or readable, by contract.
    let Some(at) = (unsafe { at.as_ref() }) else {
        return null();
    };
    match nanoseconds(at) {
        // SAFETY: the same contract.
        Some(at_ns) => unsafe { wait(condvar, mutex, at_ns) },
        None => fail(libc::EINVAL, MALFORMED),
    }
}

/// Wakes one waiting thread, that of the highest priority. The condition was changed with the
/// mutex held, which may be given up by now.
///
/// A real-time thread may call it: no system call where none waits, else one. -1 with EFAULT:
/// `condvar` is NULL.
///
/// # Safety
/// `condvar` is NULL or began as 0.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn punctual_condvar_notify_one(condvar: *mut punctual_condvar) -> c_int {
    // SAFETY: NULL or the caller's.
    let Some(condvar) = (unsafe { of(condvar) }) else {
        return null();
    };
    condvar.notify_one();
    0
}

/// Wakes all waiting threads, as punctual_condvar_notify_one() wakes one.
///
/// A real-time thread may call it: no system call where none waits, else one, bounded by their
/// number. -1 with EFAULT: `condvar` is NULL.
///
/// # Safety
/// As punctual_condvar_notify_one().
#[unsafe(no_mangle)]
pub unsafe extern "C" fn punctual_condvar_notify_all(condvar: *mut punctual_condvar) -> c_int {
    // SAFETY: NULL or the caller's.
    let Some(condvar) = (unsafe { of(condvar) }) else {
        return null();
    };
    condvar.notify_all();
    0
}
