//! A stack is present, guarded and usable by a thread.

use std::ffi::c_void;
use std::mem::MaybeUninit;
use std::ptr::null_mut;

use punctual_rt::stack::{SIZES, Stack, StackError};
use punctual_rt::sys::map;

fn faults() -> i64 {
    let mut usage = MaybeUninit::<libc::rusage>::zeroed();
    // SAFETY: getrusage fills the struct it is given.
    let asked = unsafe { libc::getrusage(libc::RUSAGE_THREAD, usage.as_mut_ptr()) };
    assert_eq!(asked, 0);
    // SAFETY: all-zero is a value of rusage and the call filled it.
    let usage = unsafe { usage.assume_init() };
    usage.ru_minflt + usage.ru_majflt
}

#[test]
fn every_page_of_every_class_is_present() {
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

extern "C" fn body(_: *mut c_void) -> *mut c_void {
    faults();
    let before = faults();
    touch_200_kb();
    (faults() - before) as *mut c_void
}

#[test]
fn a_thread_that_touches_200_kb_takes_no_fault() {
    let stack = Stack::new(256 << 10).unwrap();
    let mut attr = MaybeUninit::<libc::pthread_attr_t>::uninit();
    // SAFETY: the attribute is initialised before it is used.
    assert_eq!(unsafe { libc::pthread_attr_init(attr.as_mut_ptr()) }, 0);
    let base = stack.base().as_ptr().cast();
    // SAFETY: the stack outlives the thread, which is joined below.
    let set = unsafe { libc::pthread_attr_setstack(attr.as_mut_ptr(), base, stack.len()) };
    assert_eq!(set, 0);
    let mut thread = 0;
    // SAFETY: the body takes no argument and the attribute is initialised.
    let made = unsafe { libc::pthread_create(&mut thread, attr.as_ptr(), body, null_mut()) };
    assert_eq!(made, 0);
    let mut found = null_mut();
    // SAFETY: the thread was made above and is joined once.
    assert_eq!(unsafe { libc::pthread_join(thread, &mut found) }, 0);
    assert_eq!(found as usize, 0, "page faults of the thread");
}
