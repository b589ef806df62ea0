//! Clocks, periodic loops, and attributes of POSIX objects for real time.

use std::ffi::{CStr, c_int};
use std::mem::offset_of;

use libc::timespec;
use punctual_rt::clock;
use punctual_rt::periodic::{Fixed, Loop, Overrun};
use punctual_rt::sync::{
    fill_condition_attributes, fill_mutex_attributes, fill_robust_mutex_attributes,
};
use punctual_rt::sys::time;

use crate::errno::{fail, null, number, wrong_size};
use crate::versioned::{self, Versioned};

const NS_PER_S: u64 = 1_000_000_000;

/// The time now on CLOCK_MONOTONIC, in ns.
///
/// A real-time thread may call it, and a signal handler: no system call where the vDSO
/// answers. It never fails.
#[unsafe(no_mangle)]
pub extern "C" fn punctual_now_ns() -> u64 {
    clock::now_ns()
}

/// Converts an instant in ns to a timespec, for clock_nanosleep(), pthread_cond_timedwait() and
/// others.
///
/// A real-time thread may call it, and a signal handler: it is arithmetic. It never fails.
#[unsafe(no_mangle)]
pub extern "C" fn punctual_timespec(ns: u64) -> timespec {
    time::timespec(ns)
}

pub(crate) const MALFORMED: &CStr =
    c"timespec: expected 0 to 999999999 ns, not negative, and less than 584 years";

/// The result of an interrupted sleep.
#[cold]
fn interrupted(error: &std::io::Error) -> c_int {
    let words = match number(error) {
        libc::EINTR => c"a signal handler ran: sleep again until the same instant",
        _ => c"the kernel refused the sleep",
    };
    fail(number(error), words)
}

pub(crate) fn nanoseconds(at: &timespec) -> Option<u64> {
    let rest = u64::try_from(at.tv_nsec)
        .ok()
        .filter(|&rest| rest < NS_PER_S)?;
    let whole = u64::try_from(at.tv_sec).ok()?;
    whole.checked_mul(NS_PER_S)?.checked_add(rest)
}

/// Converts a timespec to ns.
///
/// A real-time thread may call it, and a signal handler: it is arithmetic. UINT64_MAX with
/// errno: EFAULT `at` is NULL; EINVAL it is negative, malformed or beyond 584 years.
///
/// # Safety
/// `at` is NULL or can be read.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn punctual_ns(at: *const timespec) -> u64 {
    // SAFETY: by contract `at` is NULL or readable.
    let Some(at) = (unsafe { at.as_ref() }) else {
        null();
        return u64::MAX;
    };
    nanoseconds(at).unwrap_or_else(|| {
        fail(libc::EINVAL, MALFORMED);
        u64::MAX
    })
}

/// Sleeps until an instant of CLOCK_MONOTONIC; returns at once when it has passed.
///
/// A real-time thread may call it: one system call. -1 with errno: EFAULT `at` is NULL; EINVAL
/// it is malformed; EINTR a signal handler ran.
///
/// # Safety
/// `at` is NULL or can be read.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn punctual_sleep_until(at: *const timespec) -> c_int {
    // SAFETY: by contract `at` is NULL or readable.
    let Some(at) = (unsafe { at.as_ref() }) else {
        return null();
    };
    let Some(at) = nanoseconds(at) else {
        return fail(libc::EINVAL, MALFORMED);
    };
    match clock::sleep_until(at) {
        Ok(()) => 0,
        Err(error) => interrupted(&error),
    }
}

/// Missed periods are skipped, and the phase is kept: for control loops.
pub const PUNCTUAL_SKIP: c_int = 0;
/// Late cycles run back to back until the loop has caught up: for work that must be done for each
/// period.
pub const PUNCTUAL_CATCH_UP: c_int = 1;

/// A periodic loop of one thread. Its fields are private to the library.
#[repr(C)]
pub struct punctual_loop {
    /// Private.
    pub storage: [u64; 16],
}

/// The content of a `punctual_loop`.
#[repr(C)]
struct Inside {
    magic: u64,
    body: Loop<Fixed>,
}

const _: () = assert!(size_of::<Inside>() <= size_of::<punctual_loop>());
const _: () = assert!(align_of::<Inside>() <= align_of::<punctual_loop>());
/// Distinguishes an initialised loop from other memory.
const MAGIC: u64 = 0x7075_6e63_6c6f_6f70;

/// One cycle of a loop.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct punctual_cycle {
    /// sizeof(struct punctual_cycle), filled in by the caller.
    pub struct_size: usize,
    /// The requested instant, ns of CLOCK_MONOTONIC.
    pub due_ns: u64,
    /// The instant at which the thread ran again, ns of CLOCK_MONOTONIC.
    pub woke_ns: u64,
    /// The wake-up latency, ns.
    pub latency_ns: u64,
    /// Periods skipped before this one because the last cycle ended too late.
    pub missed: u64,
    /// 0.
    pub reserved: [u64; 3],
}

// SAFETY: only integers, the size first.
unsafe impl Versioned for punctual_cycle {
    const LEAST: usize = offset_of!(Self, reserved);
}

/// Initialises a loop whose first cycle is due one period from now. It needs no clean-up.
///
/// A real-time thread may call it: no system call. -1 with errno: EFAULT `wheel` is NULL; EINVAL
/// a period of 0 or of more than 2^62 ns, or `overrun` is neither PUNCTUAL_SKIP nor
/// PUNCTUAL_CATCH_UP.
///
/// # Safety
/// `wheel` is NULL or writable.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn punctual_loop_init(
    wheel: *mut punctual_loop,
    period_ns: u64,
    overrun: c_int,
) -> c_int {
    if wheel.is_null() {
        return null();
    }
    let overrun = match overrun {
        PUNCTUAL_SKIP => Overrun::Skip,
        PUNCTUAL_CATCH_UP => Overrun::CatchUp,
        _ => {
            return fail(
                libc::EINVAL,
                c"overrun: expected PUNCTUAL_SKIP or PUNCTUAL_CATCH_UP",
            );
        }
    };
    if period_ns == 0 || period_ns > 1 << 62 {
        return fail(libc::EINVAL, c"period: expected 1 to 2^62 ns");
    }
    let made = Inside {
        magic: MAGIC,
        body: Loop::every(period_ns, overrun),
    };
    // SAFETY: by contract the memory is writable; its size and alignment are asserted above.
    unsafe { wheel.cast::<Inside>().write(made) };
    0
}

/// The initialised loop in the caller's memory.
///
/// # Safety
/// `wheel` is NULL, or a place that holds zeros, or a loop.
unsafe fn inside<'a>(wheel: *const punctual_loop) -> Result<&'a Inside, c_int> {
    if wheel.is_null() {
        return Err(null());
    }
    // SAFETY: by contract the place holds zeros or a loop, so its first word is readable.
    if unsafe { wheel.cast::<u64>().read() } != MAGIC {
        return Err(fail(
            libc::EINVAL,
            c"the loop is not initialised: call punctual_loop_init() first",
        ));
    }
    // SAFETY: the first word shows that punctual_loop_init() has initialised it.
    Ok(unsafe { &*wheel.cast::<Inside>() })
}

/// Waits for the next due instant, and fills `out` unless it is NULL (`out->struct_size` is
/// filled in by the caller).
///
/// A real-time thread may call it: one system call. -1 with errno: EFAULT `wheel` is NULL; EINVAL
/// it was not initialised, or the size of `out` is too small: there was no wait; EINTR a signal
/// handler ran: the same period is still due.
///
/// # Safety
/// `wheel` is NULL, zeroed, or a loop that no other thread uses; `out` is NULL, or
/// `out->struct_size` bytes are writable.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn punctual_loop_wait(
    wheel: *mut punctual_loop,
    out: *mut punctual_cycle,
) -> c_int {
    // SAFETY: by contract `wheel` is NULL, zeroed, or a loop.
    if let Err(failed) = unsafe { inside(wheel) } {
        return failed;
    }
    if !out.is_null() {
        // SAFETY: not NULL, so readable by contract; the size is the first field in every
        // version.
        let room = unsafe { out.cast::<usize>().read() };
        if !(punctual_cycle::LEAST..=4096).contains(&room) {
            return wrong_size();
        }
    }
    // SAFETY: initialised, and by contract no other thread uses the loop.
    let this = unsafe { &mut *wheel.cast::<Inside>() };
    let cycle = match this.body.wait() {
        Ok(cycle) => cycle,
        Err(error) => return interrupted(&error),
    };
    if !out.is_null() {
        let cycle_out = punctual_cycle {
            struct_size: 0,
            due_ns: cycle.due_ns,
            woke_ns: cycle.woke_ns,
            latency_ns: cycle.latency_ns(),
            missed: cycle.missed,
            reserved: [0; 3],
        };
        // SAFETY: by contract `out` is writable for its size, which was checked above.
        unsafe { versioned::write(out, cycle_out) };
    }
    0
}

/// Periods missed since the loop was initialised.
///
/// A real-time thread may call it: a few loads. UINT64_MAX with errno: EFAULT, EINVAL as
/// punctual_loop_wait().
///
/// # Safety
/// `wheel` is NULL, zeroed, or a loop.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn punctual_loop_missed(wheel: *const punctual_loop) -> u64 {
    // SAFETY: by contract `wheel` is NULL, zeroed, or a loop.
    unsafe { inside(wheel) }.map_or(u64::MAX, |inside| inside.body.missed())
}

/// Cycles run since the loop was initialised.
///
/// A real-time thread may call it: a few loads. UINT64_MAX with errno: EFAULT, EINVAL as
/// punctual_loop_wait().
///
/// # Safety
/// `wheel` is NULL, zeroed, or a loop.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn punctual_loop_cycles(wheel: *const punctual_loop) -> u64 {
    // SAFETY: by contract `wheel` is NULL, zeroed, or a loop.
    unsafe { inside(wheel) }.map_or(u64::MAX, |inside| inside.body.cycles())
}

/// Initialises attributes for pthread_mutex_init(): PTHREAD_PRIO_INHERIT, so that the holder of
/// the mutex inherits the highest priority of its waiters, and PTHREAD_MUTEX_ERRORCHECK, because
/// a normal mutex deadlocks when its holder locks it again. The rest is POSIX: lock it with
/// pthread_mutex_lock(), and destroy the attributes with pthread_mutexattr_destroy().
///
/// A thread that ends while it holds the mutex leaves it locked for ever, unless the mutex is
/// robust: punctual_mutexattr_init_robust(). When threads wait for each other in a circle, the
/// kernel detects the deadlock, and glibc ends the program (Assertion `e != EDEADLK ...), also in
/// a timed lock: lock several mutexes in the same order everywhere.
///
/// For setting up; no system call. -1 with errno: EFAULT `attr` is NULL; ENOTSUP no priority
/// inheritance.
///
/// # Safety
/// `attr` is NULL or writable.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn punctual_mutexattr_init(attr: *mut libc::pthread_mutexattr_t) -> c_int {
    // SAFETY: by contract `attr` is NULL or writable.
    unsafe { filled(attr, fill_mutex_attributes) }
}

/// # Safety
/// `attr` is NULL or writable.
unsafe fn filled(
    attr: *mut libc::pthread_mutexattr_t,
    fill: unsafe fn(*mut libc::pthread_mutexattr_t) -> std::io::Result<()>,
) -> c_int {
    if attr.is_null() {
        return null();
    }
    // SAFETY: not NULL, so writable by contract.
    match unsafe { fill(attr) } {
        Ok(()) => 0,
        Err(error) => fail(
            number(&error),
            c"the C library or the kernel has no priority inheritance",
        ),
    }
}

/// Like punctual_mutexattr_init(), with PTHREAD_MUTEX_ROBUST: after a thread ends while it holds
/// the mutex, the next lock returns EOWNERDEAD. The locking thread then holds the mutex, and
/// calls punctual_mutex_make_consistent() once the data that the mutex protects are consistent.
///
/// For setting up; no system call. -1 with errno: EFAULT `attr` is NULL; ENOTSUP no priority
/// inheritance.
///
/// # Safety
/// `attr` is NULL or writable.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn punctual_mutexattr_init_robust(
    attr: *mut libc::pthread_mutexattr_t,
) -> c_int {
    // SAFETY: by contract `attr` is NULL or writable.
    unsafe { filled(attr, fill_robust_mutex_attributes) }
}

/// Initialises attributes for pthread_cond_init(): pthread_cond_timedwait() uses CLOCK_MONOTONIC,
/// which is never set. The rest is POSIX; destroy them with pthread_condattr_destroy().
///
/// For setting up; no system call. -1 with errno: EFAULT `attr` is NULL.
///
/// # Safety
/// `attr` is NULL or writable.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn punctual_condattr_init(attr: *mut libc::pthread_condattr_t) -> c_int {
    if attr.is_null() {
        return null();
    }
    // SAFETY: not NULL, so writable by contract.
    match unsafe { fill_condition_attributes(attr) } {
        Ok(()) => 0,
        Err(error) => fail(
            number(&error),
            c"the C library has no condition variables on CLOCK_MONOTONIC",
        ),
    }
}
