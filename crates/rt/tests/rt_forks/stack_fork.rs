//! After a fork at any moment, the allocator works in both processes.
#![allow(unsafe_code, reason = "tests call the C library and unsafe functions")]

use std::ptr::NonNull;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use crate::stack_support::{End, alone, faults, in_child};
use punctual_rt::stack::{self, Class, Stack, Stats};

/// Writes to each page of 64 KB.
#[inline(never)]
fn write_each_page(base: NonNull<u8>) {
    for page in 0..16 {
        // SAFETY: there are sixteen pages.
        let place = unsafe { base.add(page << 12) };
        // SAFETY: by contract the stack belongs to the caller.
        unsafe { place.write_volatile(1) };
    }
}

#[test]
fn the_child_can_allocate_free_stacks_and_free_inherited_ones() {
    let _alone = alone();
    let class = Class::exact(64 << 10).unwrap();
    let held = Stack::new(class.size()).unwrap();
    stack::reserve(class, 6).unwrap();
    let made = Stats::of(class).made;
    let ended = in_child(|| {
        // The child's code and its own stack are faulted in before counting.
        let mut room = [0_u8; 64 << 10];
        write_each_page(NonNull::from(&mut room).cast());
        let taken: [_; 6] = std::array::from_fn(|_| stack::alloc(class).unwrap());
        faults();
        let before = faults();
        for base in taken {
            write_each_page(base);
        }
        if faults() != before {
            return 1;
        }
        for base in taken {
            // SAFETY: allocated above and not used any more.
            unsafe { stack::free(base.as_ptr() as usize, class) }.unwrap();
        }
        drop(held);
        let stats = Stats::of(class);
        if (stats.made, stats.used, stats.free()) != (made, 0, 7) {
            return 2;
        }
        0
    });
    assert_eq!(ended, End::Exit(0));
}

#[test]
fn stacks_of_threads_that_dont_exist_in_the_child_are_free_there() {
    let _alone = alone();
    let class = Class::exact(512 << 10).unwrap();
    let live = Stack::new(class.size()).unwrap();
    assert!(live.mark_live());
    let ended = in_child(|| {
        let stats = Stats::of(class);
        i32::from((stats.live, stats.free()) != (0, 1))
    });
    assert_eq!(ended, End::Exit(0));
    assert_eq!(Stats::of(class).live, 1);
    assert!(live.mark_idle());
}

/// Ends the workers even when the test fails.
struct Over<'a>(&'a AtomicBool);

impl Drop for Over<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

#[test]
fn a_fork_while_other_threads_allocate_leaves_a_working_child() {
    let _alone = alone();
    let over = AtomicBool::new(false);
    thread::scope(|scope| {
        let _over = Over(&over);
        for worker in 0..3 {
            let over = &over;
            scope.spawn(move || {
                let class = Class::all().nth(worker).unwrap();
                while !over.load(Ordering::Relaxed) {
                    let held: Vec<_> = (0..20).map(|_| Stack::new(class.size())).collect();
                    drop(held);
                    stack::trim(class, 4).unwrap();
                }
            });
        }
        for _ in 0..60 {
            let ended = in_child(|| {
                // SAFETY: alarm ends a child that hangs.
                unsafe { libc::alarm(60) };
                for class in Class::all().take(3) {
                    let taken: [_; 8] = std::array::from_fn(|_| stack::alloc(class).unwrap());
                    for base in taken {
                        // SAFETY: allocated above, at least 32 KB.
                        unsafe { base.write_bytes(7, 32 << 10) };
                        // SAFETY: not used any more.
                        unsafe { stack::free(base.as_ptr() as usize, class) }.unwrap();
                    }
                    stack::trim(class, 0).unwrap();
                    if Stats::of(class).free() != 0 {
                        return 1;
                    }
                }
                0
            });
            assert_eq!(ended, End::Exit(0));
        }
    });
    for class in Class::all().take(3) {
        assert_eq!(Stats::of(class).used, 0);
    }
}
