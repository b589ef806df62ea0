//! Making the allocator ready, once.
//!
//! `std::sync::Once` won't do: when one thread forks while another is inside it, the child
//! waits for ever for a thread that isn't there. Here the child sees that the one at work was
//! in another process, and does the work itself.

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

/// Every step may have been done already, by the parent of a fork.
fn work() {
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
