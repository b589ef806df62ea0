//! An allocation that finds a free stack makes no system call and takes no page fault, in any
//! thread.
//!
//! The tests run one at a time: the allocator is global, and these tests count its stacks.
#![allow(unsafe_code, reason = "tests call the C library and unsafe functions")]

mod stack_support;

use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use punctual_rt::stack::{self, Class, Stack, Stats};
use stack_support::{End, exit_thread, faults, forbid_system_calls, in_child};

static ALONE: Mutex<()> = Mutex::new(());

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
    let _alone = ALONE.lock().unwrap();
    let class = class(256 << 10);
    pair(class);
    let ended = in_child(|| {
        // The child's first allocation of each stack prefaults it again, see `fork`.
        pair(class);
        forbid_system_calls();
        for _ in 0..100_000 {
            pair(class);
        }
        exit_thread(7)
    });
    assert_eq!(ended, End::Exit(7));
}

#[test]
fn a_first_use_on_a_new_thread_takes_no_fault() {
    let _alone = ALONE.lock().unwrap();
    let class = class(128 << 10);
    stack::reserve(class, 8).unwrap();
    let made = Stats::of(class).made;
    let taken = thread::spawn(move || {
        // The thread's own stack is a default one: touch its pages before counting.
        let mut room = [0_u8; 32 << 10];
        std::hint::black_box(&mut room);
        faults();
        let before = faults();
        let held: [_; 8] = std::array::from_fn(|_| stack::alloc(class).unwrap());
        let taken = faults() - before;
        for base in held {
            // SAFETY: allocated above and not used any more.
            unsafe { stack::free(base.as_ptr() as usize, class) }.unwrap();
        }
        taken
    })
    .join()
    .unwrap();
    assert_eq!(taken, 0, "page faults");
    assert_eq!(Stats::of(class).made, made);
}

#[test]
fn a_first_use_on_a_new_thread_makes_no_system_call() {
    static DONE: AtomicBool = AtomicBool::new(false);
    let _alone = ALONE.lock().unwrap();
    let class = class(128 << 10);
    stack::reserve(class, 1).unwrap();
    let confined = thread::spawn(move || {
        forbid_system_calls();
        pair(class);
        DONE.store(true, Ordering::SeqCst);
        exit_thread(0)
    });
    // The thread exits by the raw system call, so it can't be joined.
    for _ in 0..2_000 {
        if DONE.load(Ordering::SeqCst) {
            return;
        }
        thread::sleep(Duration::from_millis(1));
    }
    drop(confined);
    panic!("the thread was killed at a system call");
}

#[test]
fn reserved_stacks_are_available_to_every_thread() {
    let _alone = ALONE.lock().unwrap();
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
    let _alone = ALONE.lock().unwrap();
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
    let _alone = ALONE.lock().unwrap();
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
    let _alone = ALONE.lock().unwrap();
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
