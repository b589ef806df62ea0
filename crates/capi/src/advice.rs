//! The explanation of each thread's last error.
//!
//! The texts are static, and the pointer to them is the value of a pthread key, which glibc keeps
//! in the thread's control block: thread-local storage of a library that is opened late would be
//! allocated at its first use.

use std::ffi::{CStr, c_char, c_void};
use std::sync::atomic::{AtomicU32, Ordering};

const NO_KEY: u32 = u32::MAX;
static KEY: AtomicU32 = AtomicU32::new(NO_KEY);

/// Creates the key; called once, when the library is loaded.
pub(crate) fn set_up() {
    if KEY.load(Ordering::Acquire) != NO_KEY {
        return;
    }
    let mut key = 0;
    // SAFETY: the key is written before the call returns; values need no destructor.
    if unsafe { libc::pthread_key_create(&mut key, None) } == 0 {
        KEY.store(key, Ordering::Release);
    }
}

/// Stores `words` for punctual_last_error().
pub(crate) fn keep(words: &'static CStr) {
    set_up();
    let key = KEY.load(Ordering::Acquire);
    if key != NO_KEY {
        // SAFETY: the key exists for the life of the process; the value is never written to.
        unsafe { libc::pthread_setspecific(key, words.as_ptr().cast::<c_void>()) };
    }
}

/// What the last error of this library's functions in the calling thread means, and how to fix
/// it: one line without a newline, "" before the first error. Each function that fails sets it;
/// one that succeeds leaves it unchanged. The string is static: always valid, and must not be
/// freed.
///
/// A real-time thread may call it: no system call, no lock. It never fails.
#[unsafe(no_mangle)]
pub extern "C" fn punctual_last_error() -> *const c_char {
    let key = KEY.load(Ordering::Acquire);
    if key == NO_KEY {
        return c"".as_ptr();
    }
    // SAFETY: the key exists for the life of the process.
    let value = unsafe { libc::pthread_getspecific(key) };
    if value.is_null() {
        c"".as_ptr()
    } else {
        value.cast_const().cast()
    }
}
