//! Disables the cancellation of POSIX threads during Rust's frames.
//!
//! `pthread_cancel` unwinds the thread at its next cancellation point: open, read, write, a
//! sleep, a join. That must not happen below a Rust frame: a frame that C called can't be unwound
//! and ends the process, and its locks and allocations would leak. A function that C calls and
//! that reaches such a point holds a [`Hold`] meanwhile. The request stays pending until the
//! thread reaches a cancellation point of the program.

use std::marker::PhantomData;

/// Disables cancellation of the calling thread until it is dropped.
#[derive(Debug)]
pub struct Hold {
    #[cfg(not(miri))]
    before: libc::c_int,
    /// Not Send: the state belongs to the thread.
    not_send: PhantomData<*const ()>,
}

#[cfg(not(miri))]
unsafe extern "C" {
    /// POSIX; the libc crate doesn't declare it.
    fn pthread_setcancelstate(state: libc::c_int, before: *mut libc::c_int) -> libc::c_int;
}

/// `PTHREAD_CANCEL_DISABLE`, the same in glibc and musl.
#[cfg(not(miri))]
const DISABLE: libc::c_int = 1;

/// Disables cancellation of the calling thread, whatever its state; holds may be nested. No
/// system call.
#[must_use = "cancellation is possible again when it is dropped"]
pub fn hold() -> Hold {
    #[cfg(not(miri))]
    let mut before = 0;
    // SAFETY: the state is one of the two valid ones; the pointer is to a live local.
    #[cfg(not(miri))]
    unsafe {
        pthread_setcancelstate(DISABLE, &mut before)
    };
    Hold {
        #[cfg(not(miri))]
        before,
        not_send: PhantomData,
    }
}

#[cfg(not(miri))]
impl Drop for Hold {
    fn drop(&mut self) {
        // Not a cancellation point itself: deferred cancellation acts at the next one.
        // SAFETY: the state that `hold` saved; NULL is allowed for the old state.
        unsafe { pthread_setcancelstate(self.before, std::ptr::null_mut()) };
    }
}
