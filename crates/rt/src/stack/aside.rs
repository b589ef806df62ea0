//! Calls a function on a separate stack, from a signal handler whose own stack may be small.
//!
//! Rust's own threads have 8 KB for handlers, of which the kernel takes 3 KB and more for the
//! registers.
#![expect(
    unsafe_code,
    reason = "a function on another stack, by the C library's contexts"
)]

use std::ffi::c_int;
use std::ptr::NonNull;

use crate::sys::map::{self, Access};

/// The size of the mapping: the stack, and the data kept below it.
const ROOM: usize = 96 << 10;

/// Calls `run` on a separate stack, or on the caller's where there is no memory for one. `run`
/// must return and not unwind.
pub(super) fn aside<T>(what: &mut T, run: fn(&mut T)) {
    let Ok(place) = map::reserve(ROOM) else {
        return run(what);
    };
    // SAFETY: the mapping was created above, and nothing else has its address.
    let done = match unsafe { map::protect(place, ROOM, Access::ReadWrite) } {
        // SAFETY: `place` is the new mapping of ROOM bytes, zeroed and, since the call above,
        // writable.
        Ok(()) => unsafe { switch(place, what, run) },
        Err(_) => false,
    };
    // SAFETY: `switch` has returned, so no thread runs on the mapping.
    let _ = unsafe { map::unmap(place, ROOM) };
    if !done {
        run(what);
    }
}

struct Switch<T> {
    back: libc::ucontext_t,
    there: libc::ucontext_t,
    what: *mut T,
    /// Always set; an Option, so that all-zero bytes are a valid value.
    run: Option<fn(&mut T)>,
}

/// Returns whether `run` was called.
///
/// # Safety
/// `place` is ROOM bytes at the start of a page, writable, all zero, and used by no one else.
#[cfg(all(
    target_env = "gnu",
    any(target_arch = "x86_64", target_arch = "aarch64")
))]
unsafe fn switch<T>(place: NonNull<u8>, what: &mut T, run: fn(&mut T)) -> bool {
    let used = size_of::<Switch<T>>().next_multiple_of(4096);
    // SAFETY: aligned to a page, and all-zero bytes are a valid value of the struct: numbers,
    // null pointers, no function.
    let kept = unsafe { place.cast::<Switch<T>>().as_mut() };
    kept.what = what;
    kept.run = Some(run);
    let address = std::ptr::from_mut(kept) as u64;
    let (back, there) = (&raw mut kept.back, &raw mut kept.there);
    // SAFETY: getcontext fills the struct that it is given.
    if unsafe { libc::getcontext(there) } != 0 {
        return false;
    }
    // SAFETY: filled by the call above; no other reference to it exists.
    let filled = unsafe { &mut *there };
    // SAFETY: the stack lies above the struct, within the mapping.
    filled.uc_stack.ss_sp = unsafe { place.add(used) }.as_ptr().cast();
    filled.uc_stack.ss_size = ROOM - used;
    filled.uc_link = back;
    // makecontext passes 32-bit numbers.
    let (high, low) = ((address >> 32) as c_int, address as u32 as c_int);
    let entry: extern "C" fn(c_int, c_int) = enter::<T>;
    // SAFETY: `enter` takes exactly the two 32-bit numbers that are passed to it below.
    let entry: extern "C" fn() = unsafe { std::mem::transmute(entry) };
    // SAFETY: the context was filled, and has a stack and a successor.
    unsafe { libc::makecontext(there, entry, 2, high, low) };
    // SAFETY: both contexts live until `enter` has returned, which resumes this function.
    unsafe { libc::swapcontext(back, there) == 0 }
}

#[cfg(all(
    target_env = "gnu",
    any(target_arch = "x86_64", target_arch = "aarch64")
))]
extern "C" fn enter<T>(high: c_int, low: c_int) {
    let address = (high as u32 as u64) << 32 | low as u32 as u64;
    // SAFETY: `switch` passes the address of the struct, and keeps the struct until `enter`
    // returns.
    let kept = unsafe { &*(address as *const Switch<T>) };
    if let Some(run) = kept.run {
        // SAFETY: a borrow of the caller of `switch`, which waits until `enter` returns.
        run(unsafe { &mut *kept.what });
    }
}

/// For C libraries without these functions, and for those whose crate doesn't declare them.
///
/// # Safety
/// No requirement: it does nothing.
#[cfg(not(all(
    target_env = "gnu",
    any(target_arch = "x86_64", target_arch = "aarch64")
)))]
unsafe fn switch<T>(_: NonNull<u8>, _: &mut T, _: fn(&mut T)) -> bool {
    false
}

#[cfg(test)]
#[cfg(all(
    not(miri),
    target_env = "gnu",
    any(target_arch = "x86_64", target_arch = "aarch64")
))]
mod tests {
    use super::*;
    use crate::stack::bounds::stack_pointer;

    #[test]
    fn a_function_runs_on_the_separate_stack_and_returns() {
        let here = stack_pointer();
        let mut seen = (7_u64, 0);
        for _ in 0..3 {
            aside(&mut seen, |seen| {
                seen.0 += 1;
                seen.1 = std::hint::black_box(stack_pointer());
            });
        }
        assert_eq!(seen.0, 10);
        assert!(here.abs_diff(seen.1) > ROOM, "{here:#x} {:#x}", seen.1);
    }
}
