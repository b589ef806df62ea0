//! Hardware watchpoints.

use std::ffi::{c_int, c_void};
use std::ptr::null_mut;

use punctual_rt::sys::cancel::hold;
use punctual_rt::watchpoint::{Access, Watchpoint, watch};

use crate::errno::{null, set};
use crate::reserve::Since;

/// A watchpoint; opaque.
#[expect(non_camel_case_types, reason = "the name that C programs use")]
pub struct punctual_watchpoint {
    inner: Watchpoint,
}

/// One access to the watched bytes.
#[repr(C)]
pub struct punctual_watchpoint_hit {
    /// The id of the thread.
    pub tid: libc::pid_t,
    /// The instruction after the one that accessed it.
    pub instruction: *const c_void,
    /// The stack pointer then.
    pub stack: *const c_void,
    /// When, in ns of CLOCK_MONOTONIC.
    pub time_ns: u64,
}

/// Watches 1, 2, 4 or 8 bytes at `address`, a multiple of `length`, with the processor's debug
/// registers: each write by a thread of this process is recorded, and with `reads` each read, and
/// the program continues. Use it to find the code that corrupts a stack: watch the corrupted
/// word. Writes that the kernel makes for a thread are not seen. The first call installs a
/// handler for SIGTRAP; a debugger's breakpoints work as before.
///
/// Not for a real-time thread: it allocates, and makes system calls for each thread of the
/// process. NULL with errno: ENOMEM; EINVAL the length or the alignment; ENOSPC no slot is free
/// (x86-64 has four); ENOTSUP no such hardware, or Linux before 5.13; EACCES or EPERM forbidden,
/// see kernel.perf_event_paranoid.
#[unsafe(no_mangle)]
pub extern "C" fn punctual_watchpoint_set(
    address: *const c_void,
    length: usize,
    reads: c_int,
) -> *mut punctual_watchpoint {
    let _held = hold();
    let access = if reads == 0 {
        Access::Write
    } else {
        Access::ReadWrite
    };
    let since = Since::now();
    let made = watch(address as usize, length, access);
    match made.map(|inner| Box::new(punctual_watchpoint { inner })) {
        Ok(made) if !since.is_short() => Box::into_raw(made),
        Ok(made) => {
            drop(made);
            set(libc::ENOMEM, c"no memory for the watchpoint");
            null_mut()
        }
        Err(error) => {
            set(error.errno(), error.advice());
            null_mut()
        }
    }
}

/// The number of hits.
///
/// A real-time thread may call it, and a signal handler: one load. -1 with EFAULT: NULL.
///
/// # Safety
/// `watched` is NULL, or was returned by punctual_watchpoint_set() and not cleared.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn punctual_watchpoint_count(
    watched: *const punctual_watchpoint,
) -> libc::ssize_t {
    // SAFETY: by contract `watched` is NULL, or was not cleared.
    match unsafe { watched.as_ref() } {
        Some(watched) => watched.inner.count() as libc::ssize_t,
        None => null() as libc::ssize_t,
    }
}

/// Reads hit number `index`, from 0: returns 1 and fills `out`, or returns 0 where
/// there is none. The first 64 are kept.
///
/// A real-time thread may call it: a few loads. -1 with EFAULT: NULL.
///
/// # Safety
/// As for punctual_watchpoint_count(); `out` is NULL or writable.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn punctual_watchpoint_read(
    watched: *const punctual_watchpoint,
    index: usize,
    out: *mut punctual_watchpoint_hit,
) -> c_int {
    // SAFETY: by contract `watched` is NULL, or was not cleared.
    let Some(watched) = (unsafe { watched.as_ref() }) else {
        return null();
    };
    if out.is_null() {
        return null();
    }
    let Some(hit) = watched.inner.hit(index) else {
        return 0;
    };
    let hit_out = punctual_watchpoint_hit {
        tid: hit.tid,
        instruction: hit.instruction as *const c_void,
        stack: hit.stack as *const c_void,
        time_ns: hit.time_ns,
    };
    // SAFETY: not NULL, so writable by contract.
    unsafe { out.write(hit_out) };
    1
}

/// Stops watching, and frees the watchpoint. NULL is allowed and does nothing.
///
/// Not for a real-time thread: a system call for each thread of the process. It never fails.
///
/// # Safety
/// As for punctual_watchpoint_count(); nothing uses it any more.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn punctual_watchpoint_clear(watched: *mut punctual_watchpoint) {
    let _held = hold();
    if !watched.is_null() {
        // SAFETY: not NULL, so by contract it comes from Box::into_raw, and is freed once.
        drop(unsafe { Box::from_raw(watched) });
    }
}
