//! Three functions of Solaris' stack library under their original names.

use std::ffi::{c_int, c_uint, c_void};

use crate::stack::{punctual_stack_alloc, punctual_stack_free, punctual_stack_sizes};

/// punctual_stack_alloc() under its name in Solaris' stack library. Define
/// PUNCTUAL_NO_STACK_NAMES before this header if your program uses the name itself.
///
/// A real-time thread may call it under the same conditions, and it costs the same. NULL with
/// errno as there.
#[cfg(not(punctual_no_stack_names))]
#[unsafe(no_mangle)]
pub extern "C" fn stack_alloc(size: usize) -> *mut c_void {
    punctual_stack_alloc(size)
}

/// punctual_stack_free() under its name in Solaris' stack library; see stack_alloc().
///
/// A real-time thread may call it, and it costs the same. -1 with errno as there.
///
/// # Safety
/// As punctual_stack_free().
#[cfg(not(punctual_no_stack_names))]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn stack_free(stack: *mut c_void, size: usize) -> c_int {
    // SAFETY: both functions have the same contract.
    unsafe { punctual_stack_free(stack, size) }
}

/// punctual_stack_sizes() under its name in Solaris' stack library; see stack_alloc(). Its type
/// there, uint_t, is unsigned int.
///
/// Not for a real-time thread: it calls malloc(). NULL with ENOMEM.
#[cfg(not(punctual_no_stack_names))]
#[unsafe(no_mangle)]
pub extern "C" fn fetch_stack_sizes() -> *mut c_uint {
    punctual_stack_sizes()
}
