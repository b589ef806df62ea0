//! Making the allocator ready, once.
//!
//! `std::sync::Once` won't do: when one thread forks while another is inside it, the child
//! waits for ever for a thread that isn't there. Here the child sees that the one at work was
//! in another process, and does the work itself.

use std::ffi::{c_int, c_void};
use std::sync::atomic::{AtomicI32, Ordering};
use std::thread;
use std::time::Duration;

use super::bounds;
use super::cache;
use super::debug;
use super::fault;
use super::fork;
use super::names;
use super::options::{self, DebugOptions};
use super::pool::SHARED;
use super::view;
use crate::sys::cancel;

/// Nobody has begun.
const NOT_YET: i32 = 0;
/// Nothing is left to do. Any other number is the process that is at it.
const DONE: i32 = -1;

static STATE: AtomicI32 = AtomicI32::new(NOT_YET);

/// Makes the allocator ready. The first call works, the others are one load.
#[inline]
pub(super) fn set_up() {
    if STATE.load(Ordering::Acquire) != DONE {
        set_up_once();
    }
}

#[cold]
fn set_up_once() {
    let _held = cancel::hold();
    let process = std::process::id().cast_signed();
    loop {
        let state = STATE.load(Ordering::Acquire);
        if state == DONE {
            return;
        }
        if state == process {
            // Another thread of this process is at it. Sleep rather than spin, so that it
            // gets on whatever our priority.
            thread::sleep(Duration::from_micros(50));
        } else if STATE
            .compare_exchange(state, process, Ordering::AcqRel, Ordering::Relaxed)
            .is_ok()
        {
            work();
            STATE.store(DONE, Ordering::Release);
            return;
        }
    }
}

/// Keeps this code where it is when a program closes the plugin that it is part of: the C library
/// calls it when a thread ends, the kernel when one faults. While the thread that set it up lives,
/// that is: the main one in most programs.
///
/// A linker can't be told so from within a static library (`-z nodelete`), and `dlopen` of itself
/// makes it warn of each static program.
#[cfg(all(target_env = "gnu", not(miri)))]
fn keep_loaded() {
    unsafe extern "C" {
        /// The C library's, since glibc 2.18, for thread-local objects of C++. It counts those of
        /// an object file, which isn't unloaded before their threads have ended.
        fn __cxa_thread_atexit_impl(
            destroys: unsafe extern "C" fn(*mut c_void),
            what: *mut c_void,
            object: *const c_void,
        ) -> c_int;
        /// The compiler's, one in each object file that is loaded.
        static __dso_handle: c_void;
    }
    unsafe extern "C" fn destroys_nothing(_: *mut c_void) {}
    // SAFETY: the function may be called with null, and the handle is that of the file it is in.
    // Without memory for it the code is kept as well as the program keeps it.
    unsafe {
        __cxa_thread_atexit_impl(
            destroys_nothing,
            std::ptr::null_mut(),
            &raw const __dso_handle,
        )
    };
}

#[cfg(not(all(target_env = "gnu", not(miri))))]
fn keep_loaded() {}

/// Every step may have been done already, by the parent of a fork.
fn work() {
    keep_loaded();
    // SAFETY: nothing uses the lock before set_up has returned once in this process.
    unsafe { SHARED.init() };
    options::set_up();
    let options = DebugOptions::in_force();
    if !options.any() {
        // Watching wants every stack to pass through the slow path.
        cache::set_up();
    }
    bounds::set_up();
    fork::set_up();
    if options.any() {
        names::set_up();
        view::keep();
    }
    if options.noaccess {
        fault::set_up();
    }
    if options.leaks || options.guards {
        debug::report_at_exit();
    }
}
