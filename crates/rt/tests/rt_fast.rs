//! What is said to be real-time safe allocates nothing, makes no system call and takes no
//! page fault.

mod stack_support;

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};

use punctual_rt::advice::{Attempt, advice};
use punctual_rt::heap::Mark;
use punctual_rt::periodic::{Loop, Overrun};
use punctual_rt::records::Records;
use punctual_rt::sched::Policy;
use punctual_rt::sync::{Condvar, PiMutex};
use punctual_rt::thread::Builder;
use punctual_rt::{clock, log};
use stack_support::{exit_thread, forbid_system_calls};

/// Counts what the watched thread asks of it.
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

// SAFETY: passed on to the system's, which keeps the contract.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        note();
        // SAFETY: the caller's promise.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, place: *mut u8, layout: Layout) {
        note();
        // SAFETY: the caller's promise.
        unsafe { System.dealloc(place, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// What a thread on duty does, but for waiting.
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

    /// The confinement takes the processor's clock away, which the vDSO reads.
    fn without_time(&mut self) {
        let mut record = [7; 8];
        // SAFETY: one thread, and 8 bytes.
        unsafe { self.records.push(record.as_ptr()) };
        // SAFETY: as above.
        unsafe { self.records.pop(record.as_mut_ptr()) };
        // SAFETY: one thread, and 8 bytes.
        assert!(unsafe { self.records.push_value(record) });
        // SAFETY: one thread, and values of 8 bytes.
        assert!(unsafe { self.records.pop_value(&mut record) });
        if let Ok(mut held) = self.mutex.lock() {
            *held += 1;
        }
        // Nobody waits.
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
fn no_allocation_and_no_fault() {
    let (mut duty, writer) = duty();
    let thread = Builder::new().start(move || {
        // The code's own pages come with its first use, since nothing is locked here.
        duty.once();
        let mut every = Loop::every(50_000, Overrun::Skip);
        every.wait().unwrap();
        let mark = Mark::now().unwrap();
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
    writer.finish().unwrap();
}

#[test]
fn no_system_call() {
    static DONE: AtomicBool = AtomicBool::new(false);
    let (mut duty, writer) = duty();
    let confined = std::thread::spawn(move || {
        duty.without_time();
        forbid_system_calls();
        (0..1_000).for_each(|_| duty.without_time());
        DONE.store(true, Ordering::SeqCst);
        exit_thread(0)
    });
    // The thread leaves by the raw system call, so that there is nothing to join.
    for _ in 0..5_000 {
        if DONE.load(Ordering::SeqCst) {
            writer.finish().unwrap();
            return;
        }
        std::thread::sleep(std::time::Duration::from_millis(1));
    }
    drop(confined);
    panic!("the thread was killed at a system call");
}
