//! Watchpoints of the processor, on variables and on stacks. There are few slots, and each test
//! uses all of them.
#![allow(unsafe_code, reason = "tests call the C library and unsafe functions")]
#![allow(clippy::print_stdout, reason = "a skipped test says so")]

use std::ptr::read_volatile;

use crate::needs::Absent;
use crate::stack_support::alone;
use punctual_rt::clock;
use punctual_rt::stack::Stack;
use punctual_rt::watchpoint::{self, Access, KEPT, WatchError, Watchpoint};

/// The store is an instruction of this function in every profile: a call of `write_volatile` would
/// be one of the standard library.
#[inline(never)]
fn write(place: *mut u64, value: u64) {
    // SAFETY: the tests hand over live, aligned variables.
    unsafe { *place = value };
}

/// `None` where watchpoints aren't supported.
fn watch(place: *const u64, access: Access) -> Option<Watchpoint> {
    match watchpoint::watch(place as usize, 8, access) {
        Ok(found) => Some(found),
        Err(error @ (WatchError::NoHardware | WatchError::Forbidden(_))) => {
            Absent::hardware(error).report();
            None
        }
        Err(error) => panic!("{error}"),
    }
}

#[test]
fn a_hit_contains_the_thread_and_the_instruction_of_the_write() {
    let _alone = alone();
    let mut variables = [0_u64; 2];
    let place = variables.as_mut_ptr();
    let Some(watched) = watch(place, Access::Write) else {
        return;
    };
    let begin = clock::now_ns();
    write(place, 1);
    // SAFETY: both variables are live.
    let _ = unsafe { read_volatile(place) };
    // SAFETY: the next element is within the array.
    write(unsafe { place.add(1) }, 1);
    assert_eq!(watched.count(), 1, "neither the read nor the neighbour");
    let hit = watched.hit(0).expect("a hit");
    // SAFETY: gettid has no precondition.
    assert_eq!(hit.tid, unsafe { libc::gettid() });
    let code = write as *const () as usize;
    let at = hit.instruction;
    assert!(
        (code..code + 512).contains(&at),
        "{at:#x}, not in {code:#x}"
    );
    assert!((begin..=clock::now_ns()).contains(&hit.time_ns), "{hit:?}");
    assert!(watched.hit(1).is_none());
    drop(watched);
    write(place, 2);
}

#[test]
fn existing_and_later_threads_are_watched() {
    let _alone = alone();
    let mut variable = 0_u64;
    let place = &raw mut variable as usize;
    let (go, wait) = std::sync::mpsc::channel::<()>();
    let earlier = std::thread::spawn(move || {
        wait.recv().expect("told to go");
        write(place as *mut u64, 1);
        // SAFETY: gettid has no precondition.
        unsafe { libc::gettid() }
    });
    let Some(watched) = watch(place as *const u64, Access::Write) else {
        drop(go);
        return;
    };
    go.send(()).expect("it waits");
    let earlier = earlier.join().expect("joined");
    let later = std::thread::spawn(move || {
        write(place as *mut u64, 2);
        // SAFETY: gettid has no precondition.
        unsafe { libc::gettid() }
    });
    let later = later.join().expect("joined");
    let hits: Vec<i32> = watched.hits().iter().map(|hit| hit.tid).collect();
    assert_eq!(hits, [earlier, later]);
}

#[test]
fn reads_are_hits_of_a_read_write_watchpoint() {
    let _alone = alone();
    let variable = 5_u64;
    let Some(watched) = watch(&variable, Access::ReadWrite) else {
        return;
    };
    // SAFETY: the variable is live.
    assert_eq!(unsafe { read_volatile(&variable) }, 5);
    assert_eq!(watched.count(), 1);
}

#[test]
fn hits_beyond_the_kept_ones_are_counted() {
    let _alone = alone();
    let mut variable = 0_u64;
    let place = &raw mut variable;
    let Some(watched) = watch(place, Access::Write) else {
        return;
    };
    (0..1000).for_each(|value| write(place, value));
    assert_eq!(watched.count(), 1000);
    assert_eq!(watched.hits().len(), KEPT);
}

#[test]
fn the_thread_that_corrupts_a_stack_is_found() {
    let _alone = alone();
    let stack = Stack::new(64 << 10).expect("a stack");
    let place = stack.base().as_ptr() as usize;
    let Some(watched) = watch(place as *const u64, Access::Write) else {
        return;
    };
    let culprit = std::thread::spawn(move || {
        // SAFETY: the stack is mapped, and no thread runs on it.
        unsafe { std::ptr::write_bytes(place as *mut u8, 0xff, 256) };
        // SAFETY: gettid has no precondition.
        unsafe { libc::gettid() }
    });
    let culprit = culprit.join().expect("joined");
    assert_eq!(watched.hit(0).map(|hit| hit.tid), Some(culprit));
}

#[test]
fn invalid_ranges_and_used_up_slots_are_refused() {
    let _alone = alone();
    let variables = [0_u64; 32];
    let place = variables.as_ptr() as usize;
    let refused = |address, length| watchpoint::watch(address, length, Access::Write).err();
    assert_eq!(
        refused(place + 1, 8).map(|error| error.errno()),
        Some(libc::EINVAL)
    );
    assert_eq!(
        refused(place, 3).map(|error| error.errno()),
        Some(libc::EINVAL)
    );
    assert_eq!(
        refused(place, 0).map(|error| error.errno()),
        Some(libc::EINVAL)
    );
    if watch(place as *const u64, Access::Write).is_none() {
        return;
    }
    let mut all = Vec::new();
    let last = loop {
        match watchpoint::watch(place + 8 * all.len(), 8, Access::Write) {
            Ok(watched) => all.push(watched),
            Err(error) => break error,
        }
    };
    assert_eq!(last.errno(), libc::ENOSPC, "{last}");
    assert!(!all.is_empty() && all.len() <= 16, "{}", all.len());
    drop(all);
    assert!(refused(place, 8).is_none(), "the slots are free again");
}
