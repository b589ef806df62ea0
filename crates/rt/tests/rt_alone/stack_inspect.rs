//! The bounds of stacks, and which of their pages are in memory.
#![allow(unsafe_code, reason = "tests call the C library and unsafe functions")]

use std::ffi::c_void;
use std::ptr::null_mut;
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use crate::stack_support::{alone, faults, run_on};
use punctual_rt::stack::{self, Bounds, Part, Stack, StackError};
use punctual_rt::sys::map::page_size;

fn tid() -> libc::pid_t {
    // SAFETY: gettid has no precondition.
    unsafe { libc::gettid() }
}

#[test]
fn bounds_of_a_blocked_thread_contain_its_frames() {
    let _alone = alone();
    let (say, hear) = mpsc::channel();
    let (end, wait) = mpsc::channel::<()>();
    let other = thread::spawn(move || {
        let here = 0_u8;
        say.send((tid(), (&raw const here) as usize, stack::bounds().unwrap()))
            .unwrap();
        let _ = wait.recv();
    });
    let (tid, frame, own) = hear.recv().unwrap();
    let seen = stack::bounds_of(tid).unwrap();
    assert!(seen.contains(frame) && own.contains(frame));
    assert!(!stack::contains(frame));
    drop(end);
    other.join().unwrap();
    // A joined thread exists for a moment more.
    let gone = || stack::bounds_of(tid) == Err(StackError::NoSuchThread(tid));
    let looks = || thread::sleep(Duration::from_millis(1));
    assert!((0..2_000).any(|_| gone() || {
        looks();
        false
    }));
}

extern "C" fn tell_and_wait(channels: *mut c_void) -> *mut c_void {
    // SAFETY: the test passes a Channels that outlives this thread.
    let (say, wait) = unsafe { &*channels.cast::<Channels>() };
    say.send(tid()).unwrap();
    let _ = wait.recv();
    null_mut()
}

type Channels = (mpsc::Sender<libc::pid_t>, mpsc::Receiver<()>);

#[test]
fn bounds_of_a_thread_on_a_stack_of_the_allocator_are_that_stacks() {
    let _alone = alone();
    let stack = Stack::new(128 << 10).unwrap();
    let expected = stack.bounds();
    let (say, hear) = mpsc::channel();
    let (end, wait) = mpsc::channel();
    thread::scope(|scope| {
        scope.spawn(move || {
            let channels: Channels = (say, wait);
            run_on(
                &stack,
                tell_and_wait,
                (&raw const channels).cast_mut().cast(),
            );
        });
        assert_eq!(stack::bounds_of(hear.recv().unwrap()), Ok(expected));
        drop(end);
    });
}

#[test]
fn bounds_of_a_thread_that_never_blocks_give_running() {
    let _alone = alone();
    let over = std::sync::atomic::AtomicBool::new(false);
    let (say, hear) = mpsc::channel();
    thread::scope(|scope| {
        scope.spawn(|| {
            say.send(tid()).unwrap();
            while !over.load(std::sync::atomic::Ordering::Relaxed) {
                std::hint::spin_loop();
            }
        });
        let tid = hear.recv().unwrap();
        // The thread may be observed while it waits for a CPU: then its stack is returned.
        match stack::bounds_of(tid) {
            Ok(bounds) => assert!(bounds.len() >= page_size()),
            Err(error) => assert_eq!(error, StackError::Running(tid)),
        }
        over.store(true, std::sync::atomic::Ordering::Relaxed);
    });
}

#[test]
fn locate_distinguishes_the_stack_and_both_guards() {
    let _alone = alone();
    let stack = Stack::new(32 << 10).unwrap();
    let Bounds { low, high } = stack.bounds();
    let part = |address| stack::locate(address).map(|place| place.part);
    assert_eq!(part(low - 1), Some(Part::LowerGuard));
    assert_eq!(part(low), Some(Part::Stack));
    assert_eq!(part(high - 1), Some(Part::Stack));
    assert_eq!(part(high), Some(Part::UpperGuard));
    assert!(stack::locate(low).unwrap().in_use);
    assert_eq!(part((&raw const low) as usize), None);
}

#[inline(never)]
fn go_down(bytes: usize) -> usize {
    let mut room = [0_u8; 8192];
    std::hint::black_box(&mut room);
    let rest = if bytes > 8192 {
        go_down(bytes - 8192)
    } else {
        0
    };
    rest + usize::from(std::hint::black_box(room[0]))
}

#[test]
fn a_prefaulted_default_stack_takes_no_page_fault() {
    let _alone = alone();
    thread::Builder::new()
        .stack_size(4 << 20)
        .spawn(|| {
            // The pages of the code are faulted in by its first use, with two frames of the stack.
            go_down(2 * 8192);
            assert!(stack::prefault(2 << 20).unwrap() >= 2 << 20);
            faults();
            let before = faults();
            go_down(1 << 20);
            assert_eq!(faults(), before);
            assert!(stack::prefault(0).unwrap() > 3 << 20);
            let found = stack::residency(stack::bounds().unwrap()).unwrap();
            assert_eq!(found.resident, found.pages);
        })
        .unwrap()
        .join()
        .unwrap();
}

#[test]
fn residency_refuses_a_range_that_is_not_mapped() {
    let _alone = alone();
    let stack = Stack::new(32 << 10).unwrap();
    let Bounds { low, high } = stack.bounds();
    assert_eq!(
        stack::residency(Bounds { low: low + 1, high }),
        Err(StackError::NotAStack(low + 1))
    );
    assert_eq!(
        stack::residency(Bounds {
            low: 0,
            high: page_size()
        }),
        Err(StackError::NotMapped(0))
    );
    let here = stack::residency(Bounds { low, high }).unwrap();
    assert_eq!((here.pages, here.resident), (8, 8));
}
