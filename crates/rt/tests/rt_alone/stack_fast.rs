//! An allocation that finds a free stack makes no system call and takes no page fault, in any
//! thread.
#![allow(unsafe_code, reason = "tests call the C library and unsafe functions")]

use std::ptr::NonNull;
use std::sync::mpsc;
use std::thread;

use crate::stack_support::{alone, confined, faults};
use punctual_rt::stack::{self, Class, Stack, Stats};

fn class(size: usize) -> Class {
    Class::exact(size).unwrap()
}

fn pair(class: Class) {
    let base = stack::alloc(class).unwrap();
    // SAFETY: the stack has at least 32 KB.
    let middle = unsafe { base.add(16 << 10) };
    // SAFETY: the stack was allocated above.
    unsafe { middle.write_volatile(1) };
    // SAFETY: allocated above and not used any more.
    unsafe { stack::free(base.as_ptr() as usize, class) }.unwrap();
}

#[test]
fn allocating_a_free_stack_makes_no_system_call() {
    let _alone = alone();
    let class = class(256 << 10);
    let prepare = move || pair(class);
    confined(prepare, move |()| (0..100_000).for_each(|_| pair(class)));
}

#[test]
fn a_first_use_on_a_new_thread_makes_no_system_call() {
    let _alone = alone();
    let class = class(128 << 10);
    stack::reserve(class, 1).unwrap();
    confined(|| (), move |()| pair(class));
}

/// Stacks that a thread of the next test allocates.
const EACH: usize = 8;

/// The page faults of a thread that allocates stacks and writes to each of their pages.
fn faults_of_use(class: Class) -> (i64, [NonNull<u8>; EACH]) {
    // The thread's own stack is a default one: touch its pages before counting.
    let mut room = [0_u8; 32 << 10];
    std::hint::black_box(&mut room);
    faults();
    let before = faults();
    let held = std::array::from_fn(|_| stack::alloc(class).unwrap());
    for base in held {
        for offset in (0..class.size()).step_by(4096) {
            // SAFETY: the offset is within the stack.
            let place: NonNull<u8> = unsafe { base.add(offset) };
            // SAFETY: the stack was allocated above.
            unsafe { place.write_volatile(1) };
        }
    }
    (faults() - before, held)
}

#[test]
fn a_first_use_on_a_new_thread_takes_no_fault() {
    let _alone = alone();
    let class = class(128 << 10);
    let made = Stats::of(class).made;
    let taken = thread::scope(|scope| {
        // The threads live, and hold what they have, until these are dropped.
        let mut ends = Vec::new();
        let mut three_threads = || {
            stack::reserve(class, 3 * EACH).unwrap();
            [(); 3].map(|()| {
                let (tell, told) = mpsc::channel();
                let (end, wait) = mpsc::channel::<()>();
                ends.push(end);
                scope.spawn(move || {
                    let (taken, held) = faults_of_use(class);
                    tell.send(taken).unwrap();
                    let _ = wait.recv();
                    for base in held {
                        // SAFETY: allocated above and not used any more.
                        unsafe { stack::free(base.as_ptr() as usize, class) }.unwrap();
                    }
                });
                told.recv().unwrap()
            })
        };
        // The pages of the program's code and data are faulted in by their first use: by threads that
        // find stacks in the depot, in their own magazines and, the third, in those of the others.
        three_threads();
        three_threads()
    });
    assert_eq!(taken, [0; 3], "page faults");
    assert_eq!(Stats::of(class).made - made, 6 * EACH as u64);
}

#[test]
fn reserved_stacks_are_available_to_every_thread() {
    let _alone = alone();
    let class = class(64 << 10);
    stack::reserve(class, 12).unwrap();
    let made = Stats::of(class).made;
    // This thread keeps as many as possible in its magazine, and lives meanwhile.
    let held: Vec<_> = (0..12).map(|_| Stack::new(class.size()).unwrap()).collect();
    drop(held);
    assert_eq!(Stats::of(class).kept, 12);
    thread::spawn(move || {
        let held: Vec<_> = (0..12).map(|_| Stack::new(class.size()).unwrap()).collect();
        assert_eq!(held.len(), 12);
    })
    .join()
    .unwrap();
    let stats = Stats::of(class);
    assert_eq!((stats.made, stats.used, stats.free()), (made, 0, 12));
    assert!(stats.stolen > 0);
}

#[test]
fn a_thread_that_ends_returns_the_stacks_of_its_magazines() {
    let _alone = alone();
    let class = class(32 << 10);
    thread::spawn(move || {
        let held: Vec<_> = (0..10).map(|_| Stack::new(class.size()).unwrap()).collect();
        drop(held);
        assert_eq!(Stats::of(class).kept, 10);
    })
    .join()
    .unwrap();
    let stats = Stats::of(class);
    assert_eq!((stats.kept, stats.stored), (0, 10));
}

#[test]
fn trim_unmaps_free_stacks_including_those_in_magazines() {
    let _alone = alone();
    let class = class(1 << 20);
    let held: Vec<_> = (0..6).map(|_| Stack::new(class.size()).unwrap()).collect();
    let addresses: Vec<_> = held
        .iter()
        .map(|stack| stack.base().as_ptr() as usize)
        .collect();
    drop(held);
    let stats = Stats::of(class);
    assert!(stats.kept > 0 && stats.stored > 0, "{stats:?}");
    assert_eq!(stack::trim(class, 2), Ok(4));
    assert_eq!(Stats::of(class).free(), 2);
    assert_eq!(stack::trim(class, 0), Ok(2));
    assert_eq!(stack::trim(class, 0), Ok(0));
    let stats = Stats::of(class);
    assert_eq!((stats.free(), stats.used), (0, 0));
    assert_eq!(stats.made - stats.unmapped, 0);
    for address in addresses {
        assert!(stack::locate(address).is_none());
        // SAFETY: a wrong free, which must be refused and change nothing.
        let answer = unsafe { stack::free(address, class) };
        assert_eq!(answer, Err(stack::StackError::NotAStack(address)));
    }
    pair(class);
}

#[test]
fn every_one_of_many_stacks_is_found() {
    let _alone = alone();
    let class = class(32 << 10);
    // More than the first two sections of the table hold.
    let held: Vec<_> = (0..2_000)
        .map(|_| Stack::new(class.size()).unwrap())
        .collect();
    for stack in &held {
        let place = stack::locate(stack.base().as_ptr() as usize + 5).unwrap();
        assert_eq!(place.bounds, stack.bounds());
    }
    drop(held);
    assert_eq!(Stats::of(class).used, 0);
    stack::trim(class, 10).unwrap();
    assert_eq!(Stats::of(class).free(), 10);
}
