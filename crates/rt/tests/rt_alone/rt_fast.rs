//! Functions documented as real-time safe allocate nothing, make no system call and take no page
//! fault.
#![allow(unsafe_code, reason = "tests call the C library and unsafe functions")]

use crate::counting;
use crate::stack_support::{alone, confined};
use punctual_rt::advice::{Attempt, advice};
use punctual_rt::heap::FaultMark;
use punctual_rt::periodic::{Loop, Overrun};
use punctual_rt::records::Records;
use punctual_rt::sched::Policy;
use punctual_rt::sync::{Condvar, PiMutex};
use punctual_rt::thread::Builder;
use punctual_rt::{clock, log};

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
    let _alone = alone();
    let (mut duty, writer) = duty();
    let thread = Builder::new().start(move || {
        // The pages of the code are faulted in by its first use, since nothing is locked here.
        duty.once();
        let mut every = Loop::every(50_000, Overrun::Skip);
        every.wait().unwrap();
        let mark = FaultMark::now().unwrap();
        let calls = counting::calls();
        for _ in 0..2_000 {
            every.wait().unwrap();
            duty.once();
        }
        let calls = counting::calls() - calls;
        (mark.check(), calls)
    });
    let (checked, calls) = thread.unwrap().join().unwrap();
    assert_eq!(checked, Ok(()));
    assert_eq!(calls, 0, "calls of the allocator");
    writer.close().unwrap();
}

#[test]
fn the_calls_of_a_real_time_section_make_no_system_call() {
    let _alone = alone();
    let (duty, writer) = duty();
    let prepare = move || {
        let mut duty = duty;
        duty.without_time();
        duty
    };
    confined(prepare, |duty| {
        (0..1_000).for_each(|_| duty.without_time());
    });
    writer.close().unwrap();
}
