//! A stack is present and usable by a thread, and wrong frees of it are refused.
#![allow(unsafe_code, reason = "tests call the C library and unsafe functions")]

use std::ffi::c_void;
use std::ptr::null_mut;

use crate::stack_support::{alone, faults, run_on};
use punctual_rt::stack::{self, Class, SIZES, Stack, StackError};
use punctual_rt::sys::map;

#[test]
fn every_page_of_every_class_is_present() {
    let _alone = alone();
    for size in SIZES {
        let stack = Stack::new(size).unwrap();
        assert_eq!(stack.len(), size);
        let base = stack.base().as_ptr() as usize;
        assert_eq!(base % map::page_size(), 0);
        assert_eq!(map::resident_pages(base, size), Ok(size / map::page_size()));
    }
}

#[test]
fn a_size_above_the_largest_class_is_refused() {
    let _alone = alone();
    assert_eq!(
        Stack::new((2 << 20) + 1).err(),
        Some(StackError::NoSuchClass((2 << 20) + 1))
    );
}

#[inline(never)]
fn touch(bytes: &mut [u8]) {
    for byte in bytes.iter_mut().step_by(4096) {
        *byte = std::hint::black_box(1);
    }
}

#[inline(never)]
fn touch_200_kb() {
    let mut room = [0_u8; 200 << 10];
    touch(std::hint::black_box(&mut room));
}

extern "C" fn count_faults(_: *mut c_void) -> *mut c_void {
    faults();
    let before = faults();
    touch_200_kb();
    (faults() - before) as *mut c_void
}

#[test]
fn a_thread_that_touches_200_kb_of_its_stack_takes_no_page_fault() {
    let _alone = alone();
    // The pages of the code are faulted in by its first use; the next thread has another stack.
    let first = Stack::new(256 << 10).unwrap();
    run_on(&first, count_faults, null_mut());
    let stack = Stack::new(256 << 10).unwrap();
    assert_eq!(
        run_on(&stack, count_faults, null_mut()),
        0,
        "page faults of the thread"
    );
    assert!(stack.high_water() >= 200 << 10, "{}", stack.high_water());
}

extern "C" fn free_my_stack(stack: *mut c_void) -> *mut c_void {
    // SAFETY: the test passes a Stack that outlives this thread.
    let stack = unsafe { &*stack.cast::<Stack>() };
    let class = Class::exact(stack.len()).unwrap();
    let wrong = Class::exact(2 << 20).unwrap();
    let base = stack.base().as_ptr() as usize;
    // SAFETY: a wrong free, which must be refused and change nothing.
    let answer = unsafe { stack::free(base, class) };
    assert_eq!(answer, Err(StackError::InUse(base)));
    // SAFETY: a wrong free, which must be refused and change nothing.
    let answer = unsafe { stack::free(base, wrong) };
    assert_eq!(
        answer,
        Err(StackError::WrongClass {
            is: stack.len(),
            named: 2 << 20
        })
    );
    null_mut()
}

#[test]
fn a_thread_cant_free_its_own_stack() {
    let _alone = alone();
    let stack = Stack::new(128 << 10).unwrap();
    run_on(&stack, free_my_stack, (&raw const stack).cast_mut().cast());
}

#[test]
fn a_stack_with_a_live_thread_cant_be_freed() {
    let _alone = alone();
    // Of a class whose stacks no other test counts.
    let class = Class::exact(2 << 20).unwrap();
    let stack = Stack::new(class.size()).unwrap();
    let base = stack.base().as_ptr() as usize;
    assert!(stack.mark_live());
    assert!(!stack.mark_live());
    // SAFETY: a wrong free, which must be refused and change nothing.
    let answer = unsafe { stack::free(base, class) };
    assert_eq!(answer, Err(StackError::InUse(base)));
    drop(stack);
    assert!(
        stack::locate(base).unwrap().in_use,
        "a dropped live stack is leaked"
    );
}

#[test]
fn wrong_frees_are_refused_and_change_nothing() {
    let _alone = alone();
    let class = Class::exact(512 << 10).unwrap();
    let base = stack::alloc(class).unwrap();
    let address = base.as_ptr() as usize;
    let local = 0_u64;
    let foreign = (&raw const local) as usize;
    for wrong in [
        foreign,
        foreign & !0xfff,
        address + 1,
        address + 4096,
        address - 4096,
        8,
        0,
    ] {
        // SAFETY: a wrong free, which must be refused and change nothing.
        let answer = unsafe { stack::free(wrong, class) };
        assert_eq!(answer, Err(StackError::NotAStack(wrong)));
    }
    for other in Class::all().filter(|other| *other != class) {
        let answer = StackError::WrongClass {
            is: class.size(),
            named: other.size(),
        };
        // SAFETY: a wrong free, which must be refused and change nothing.
        assert_eq!(unsafe { stack::free(address, other) }, Err(answer));
    }
    assert!(stack::locate(address).unwrap().in_use);
    // SAFETY: the stack was allocated above and is not used.
    assert_eq!(unsafe { stack::free(address, class) }, Ok(()));
    for class in Class::all() {
        // SAFETY: a double free, which must be refused and change nothing.
        let answer = unsafe { stack::free(address, class) };
        assert_eq!(answer, Err(StackError::NotInUse(address)));
    }
}
