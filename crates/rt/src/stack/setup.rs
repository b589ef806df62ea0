//! One-time setup of the allocator.
//!
//! `std::sync::Once` doesn't work here: when one thread forks while another runs the setup, the
//! child would wait for ever for a thread that doesn't exist there. Here the child sees that
//! another process began the setup, and runs it itself.

#![expect(unsafe_code, reason = "what is made once for a process")]

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

/// Not begun.
const NOT_YET: i32 = 0;
/// Complete. Any other number is the id of the process that runs the setup.
const DONE: i32 = -1;

static STATE: AtomicI32 = AtomicI32::new(NOT_YET);

/// Sets up the allocator. The first call does the work, later calls are one load.
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
            // Another thread of this process runs the setup. Sleep rather than spin, so that it
            // proceeds whatever our priority.
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

/// Keeps this code mapped when a program closes the plugin that contains it: the C library calls
/// it when a thread ends, and the kernel when one faults. This works while the thread that ran
/// the setup lives, in most programs the main thread.
///
/// A static library can't request this from the linker (`-z nodelete`), and a static program that
/// calls `dlopen` on itself gets a linker warning.
#[cfg(all(target_env = "gnu", not(miri)))]
fn keep_loaded() {
    unsafe extern "C" {
        /// Declared by the C library since glibc 2.18, for thread-local C++ objects. It counts
        /// them for each loaded object file, which isn't unloaded before their threads have
        /// ended.
        fn __cxa_thread_atexit_impl(
            destroys: unsafe extern "C" fn(*mut c_void),
            what: *mut c_void,
            object: *const c_void,
        ) -> c_int;
        /// Defined by the compiler, one in each loaded object file.
        static __dso_handle: c_void;
    }
    unsafe extern "C" fn destroys_nothing(_: *mut c_void) {}
    // SAFETY: the function may be called with null, and the handle belongs to the object file
    // that contains it. If memory is short, the code is only kept as long as the program keeps
    // it.
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

/// In the child of a fork, the parent may have done every step already.
fn work() {
    keep_loaded();
    // SAFETY: nothing uses the lock before set_up has returned once in this process.
    unsafe { SHARED.init() };
    options::set_up();
    let options = DebugOptions::in_force();
    if !options.any() {
        // In debug mode every stack must take the slow path.
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
