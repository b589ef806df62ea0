//! An access to any guard page of any class ends the process.
#![allow(unsafe_code, reason = "tests call the C library and unsafe functions")]

use std::ptr::NonNull;

use crate::stack_support::{End, alone, in_child};
use punctual_rt::stack::{SIZES, Stack};
use punctual_rt::sys::map;

/// Touches the byte at `offset` from a stack's base, as a stack overflow does.
fn touch_at(base: NonNull<u8>, offset: isize, write: bool) {
    let place = base.as_ptr().wrapping_offset(offset);
    if write {
        // SAFETY: the byte is in the stack or in a guard page, where the access ends the process
        // before it changes anything.
        unsafe { place.write_volatile(1) };
    } else {
        // SAFETY: the byte is in the stack or in a guard page, where the access ends the process.
        std::hint::black_box(unsafe { place.read_volatile() });
    }
}

#[test]
fn each_guard_of_each_class_ends_the_process() {
    let _alone = alone();
    for size in SIZES {
        let stack = Stack::new(size).unwrap();
        let page = map::page_size() as isize;
        let end = size as isize;
        for inside in [0, page - 1, end - page, end - 1] {
            let base = stack.base();
            let touched = in_child(|| {
                touch_at(base, inside, true);
                0
            });
            assert_eq!(touched, End::Exit(0), "{size} at {inside}");
        }
        for (outside, write) in [
            (-1, true),
            (-page, true),
            (-1, false),
            (end, true),
            (end + page - 1, false),
        ] {
            let base = stack.base();
            let touched = in_child(|| {
                touch_at(base, outside, write);
                0
            });
            assert_eq!(touched, End::Signal(libc::SIGSEGV), "{size} at {outside}");
        }
    }
}
