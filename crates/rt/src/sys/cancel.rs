//! Cancellation of POSIX threads, kept away from Rust's frames.
//!
//! `pthread_cancel` unwinds the thread at its next cancellation point: open, read, write, a
//! sleep, a join. That must not happen below a frame of Rust's: one that C called can't be
//! unwound and ends the process, and what it had locked or allocated would stay so. A function
//! that C calls, and that comes to such a point, holds a [`Hold`] meanwhile; the request stays
//! pending until the thread comes to a point of the program's own.

use std::marker::PhantomData;

/// No cancellation of the calling thread until this is dropped.
#[derive(Debug)]
pub struct Hold {
    #[cfg(not(miri))]
    before: libc::c_int,
    /// The state belongs to the thread.
    not_send: PhantomData<*const ()>,
}

#[cfg(not(miri))]
unsafe extern "C" {
    /// POSIX; the libc crate doesn't declare it.
    fn pthread_setcancelstate(state: libc::c_int, before: *mut libc::c_int) -> libc::c_int;
}

/// `PTHREAD_CANCEL_DISABLE` of glibc and musl alike.
#[cfg(not(miri))]
const DISABLE: libc::c_int = 1;

/// Holds cancellation of the calling thread off; in any state, and also within another hold. No
/// system call.
#[must_use = "cancellation is possible again when it is dropped"]
pub fn hold() -> Hold {
    #[cfg(not(miri))]
    let mut before = 0;
    // SAFETY: the state is one of the two that there are; the place is a live local.
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
        // No cancellation point itself, and deferred cancellation acts at the next one alone.
        // SAFETY: the state that `hold` found; NULL is allowed for the one before.
        unsafe { pthread_setcancelstate(self.before, std::ptr::null_mut()) };
    }
}
