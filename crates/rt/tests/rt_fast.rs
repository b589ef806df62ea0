//! Functions documented as real-time safe allocate nothing, make no system call and take no page
//! fault.
#![allow(unsafe_code, reason = "tests call the C library and unsafe functions")]

mod stack_support;

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};

use punctual_rt::advice::{Attempt, advice};
use punctual_rt::heap::FaultMark;
use punctual_rt::periodic::{Loop, Overrun};
use punctual_rt::records::Records;
use punctual_rt::sched::Policy;
use punctual_rt::sync::{Condvar, PiMutex};
use punctual_rt::thread::Builder;
use punctual_rt::{clock, log};
use stack_support::{exit_thread, forbid_system_calls};

/// Counts the calls of the watched thread.
struct Counting;

/// The handle of the watched thread; 0 for none.
static WATCHED: AtomicUsize = AtomicUsize::new(0);
static ASKED: AtomicU64 = AtomicU64::new(0);

fn note() {
    let watched = WATCHED.load(Ordering::Relaxed);
    // SAFETY: pthread_self has no precondition.
    if watched != 0 && unsafe { libc::pthread_self() } as usize == watched {
        ASKED.fetch_add(1, Ordering::Relaxed);
    }
}

// SAFETY: every call is passed to the system allocator, which keeps the contract.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        note();
        // SAFETY: the contract of the caller is that of the system allocator.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, place: *mut u8, layout: Layout) {
        note();
        // SAFETY: the contract of the caller is that of the system allocator.
        unsafe { System.dealloc(place, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// The calls in a real-time section, without waits.
struct Duty {
    records: Records,
    logger: log::Logger,
    mutex: PiMutex<u64>,
    condvar: Condvar,
}

impl Duty {
    fn once(&mut self) {
        std::hint::black_box(clock::now_ns());
        self.logger.log(0, &[1, 2, 3]);
        self.without_time();
    }

    /// seccomp takes away the TSC, which the vDSO reads.
    fn without_time(&mut self) {
        let mut record = [7; 8];
        // SAFETY: only this thread uses the ring, whose records have 8 bytes.
        unsafe { self.records.push(record.as_ptr()) };
        // SAFETY: only this thread uses the ring, and there is room for 8 bytes.
        unsafe { self.records.pop(record.as_mut_ptr()) };
        // SAFETY: only this thread uses the ring, whose records have 8 bytes.
        assert!(unsafe { self.records.push_value(record) });
        // SAFETY: only this thread uses the ring, and its records are values of 8 bytes.
        assert!(unsafe { self.records.pop_value(&mut record) });
        if let Ok(mut held) = self.mutex.lock() {
            *held += 1;
        }
        // No thread waits.
        self.condvar.notify_one();
        std::hint::black_box(advice(Attempt::Policy(Policy::Fifo(1)), libc::EPERM));
    }
}

fn duty() -> (Duty, log::Writer) {
    let (logger, writer) = log::open(256, vec!["%u %u %u".to_owned()], std::io::sink()).unwrap();
    let records = Records::new(8, 64).unwrap();
    let mutex = PiMutex::new(0).unwrap();
    let duty = Duty {
        records,
        logger,
        mutex,
        condvar: Condvar::new(),
    };
    (duty, writer)
}

#[test]
fn the_calls_of_a_real_time_section_allocate_nothing_and_take_no_page_fault() {
    let (mut duty, writer) = duty();
    let thread = Builder::new().start(move || {
        // The pages of the code are faulted in by its first use, since nothing is locked here.
        duty.once();
        let mut every = Loop::every(50_000, Overrun::Skip);
        every.wait().unwrap();
        let mark = FaultMark::now().unwrap();
        // SAFETY: pthread_self has no precondition.
        WATCHED.store(unsafe { libc::pthread_self() } as usize, Ordering::Relaxed);
        for _ in 0..2_000 {
            every.wait().unwrap();
            duty.once();
        }
        WATCHED.store(0, Ordering::Relaxed);
        mark.check()
    });
    assert_eq!(thread.unwrap().join().unwrap(), Ok(()));
    assert_eq!(ASKED.load(Ordering::Relaxed), 0, "calls of the allocator");
    writer.close().unwrap();
}

#[test]
fn the_calls_of_a_real_time_section_make_no_system_call() {
    static DONE: AtomicBool = AtomicBool::new(false);
    let (mut duty, writer) = duty();
    let confined = std::thread::spawn(move || {
        duty.without_time();
        forbid_system_calls();
        (0..1_000).for_each(|_| duty.without_time());
        DONE.store(true, Ordering::SeqCst);
        exit_thread(0)
    });
    // The thread exits by the raw system call, so it can't be joined.
    for _ in 0..5_000 {
        if DONE.load(Ordering::SeqCst) {
            writer.close().unwrap();
            return;
        }
        std::thread::sleep(std::time::Duration::from_millis(1));
    }
    drop(confined);
    panic!("the thread was killed at a system call");
}
