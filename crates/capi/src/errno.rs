//! From results to what C expects.

use std::ffi::c_int;

use punctual_rt::stack::StackError;

/// Puts `number` into the calling thread's `errno`.
pub(crate) fn set(number: c_int) {
    // SAFETY: __errno_location has no precondition.
    let place = unsafe { libc::__errno_location() };
    // SAFETY: the place is the thread's own.
    unsafe { *place = number };
}

/// -1 with `errno`.
pub(crate) fn fail(number: c_int) -> c_int {
    set(number);
    -1
}

/// 0, or -1 with `errno`.
pub(crate) fn answer(result: Result<(), StackError>) -> c_int {
    match result {
        Ok(()) => 0,
        Err(error) => fail(error.errno()),
    }
}

/// A count, or -1 with `errno`.
pub(crate) fn count(result: Result<usize, StackError>) -> libc::ssize_t {
    match result {
        Ok(count) => libc::ssize_t::try_from(count).unwrap_or(libc::ssize_t::MAX),
        Err(error) => fail(error.errno()) as libc::ssize_t,
    }
}
