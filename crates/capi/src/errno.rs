//! Converts results to C's conventions: errno, and a text for punctual_last_error().

use std::ffi::{CStr, c_int};
use std::io;

use punctual_rt::advice::{Attempt, advice};
use punctual_rt::stack::StackError;

use crate::advice::keep;
use crate::reserve::malloc_is_empty;

pub(crate) const NULL: &CStr = c"a pointer is NULL: expected a valid pointer";
pub(crate) const RESERVED: &CStr =
    c"struct_size is not the size of the struct, or a reserved field is not 0: zero the struct, \
      then set struct_size";

/// Sets the calling thread's `errno`, and stores the text for it.
#[cold]
pub(crate) fn set(number: c_int, words: &'static CStr) {
    keep(words);
    // SAFETY: __errno_location has no precondition.
    let place = unsafe { libc::__errno_location() };
    // SAFETY: the pointer is to the calling thread's own errno.
    unsafe { *place = number };
}

/// -1 with `errno` and a text.
#[cold]
pub(crate) fn fail(number: c_int, words: &'static CStr) -> c_int {
    set(number, words);
    -1
}

/// -1 with EFAULT.
#[cold]
pub(crate) fn null() -> c_int {
    fail(libc::EFAULT, NULL)
}

/// -1 with EINVAL for an invalid size field.
#[cold]
pub(crate) fn wrong_size() -> c_int {
    fail(libc::EINVAL, RESERVED)
}

/// -1 with `errno` for a system call's error, and its explanation.
#[cold]
pub(crate) fn refused(attempt: Attempt, error: &io::Error) -> c_int {
    let number = number(error);
    fail(number, advice(attempt, number))
}

/// -1 with `errno` for a thread that can't be created.
#[cold]
pub(crate) fn no_thread(error: &io::Error) -> c_int {
    // The C library returns EAGAIN for both.
    if number(error) == libc::EAGAIN && malloc_is_empty() {
        return fail(libc::ENOMEM, c"no memory for the thread");
    }
    refused(Attempt::Thread, error)
}

/// The errno of an error.
pub(crate) fn number(error: &io::Error) -> c_int {
    error.raw_os_error().unwrap_or(libc::EINVAL)
}

/// -1 with `errno` for a stack that can't be allocated.
#[cold]
pub(crate) fn no_stack(error: StackError) -> c_int {
    fail(error.errno(), error.advice())
}

/// 0, or -1 with `errno`.
pub(crate) fn answer(result: Result<(), StackError>) -> c_int {
    result.map_or_else(no_stack, |()| 0)
}

/// A count, or -1 with `errno`.
pub(crate) fn count(result: Result<usize, StackError>) -> libc::ssize_t {
    match result {
        Ok(count) => libc::ssize_t::try_from(count).unwrap_or(libc::ssize_t::MAX),
        Err(error) => no_stack(error) as libc::ssize_t,
    }
}
