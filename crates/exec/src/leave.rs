//! When the threads of a set may end: not before its last job.
//!
//! The end of a thread takes the kernel 40 µs. At a real-time priority that would keep the last jobs of
//! lower tasks from their CPU, by more than any job does. So a task that has a timer sleeps after its
//! last job, until all of them have done theirs.
//!
//! A set that is ended early may find a task asleep until its next job, for up to its period: no job of it is under way,
//! so it is woken.

use std::sync::atomic::{AtomicBool, AtomicI32, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::{Duration, Instant};

use crate::end::End;
use crate::sys::signal;

/// How long a thread that sleeps may take to end.
const WITHIN: Duration = Duration::from_secs(1);

/// How far a task is.
#[derive(Debug, Default)]
pub(crate) struct Way {
    /// It executes no more jobs.
    is_done: AtomicBool,
    /// Its thread does nothing any more.
    is_over: AtomicBool,
    /// Its thread.
    tid: AtomicI32,
    /// The arrival of the job that its timer waits for, or that it executes, and the deadline of that one: 0 once it
    /// has ended.
    arrival_ns: AtomicU64,
    due_ns: AtomicU64,
}

/// A job that has not ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Unended {
    /// Its arrival.
    pub arrival_ns: u64,
    /// Its deadline.
    pub due_ns: u64,
}

impl Way {
    pub fn over(&self) {
        self.is_done.store(true, Ordering::Release);
        self.is_over.store(true, Ordering::Release);
    }

    pub fn is_over(&self) -> bool {
        self.is_over.load(Ordering::Acquire)
    }

    /// Of this thread.
    pub fn belongs_to(&self, tid: i32) {
        self.tid.store(tid, Ordering::Release);
    }

    /// The next job arrives at an instant, and has this deadline. Real-time safe.
    #[inline]
    pub fn waits_for(&self, arrival_ns: u64, due_ns: u64) {
        self.arrival_ns.store(arrival_ns, Ordering::Relaxed);
        self.due_ns.store(due_ns, Ordering::Release);
    }

    /// That job has ended. Real-time safe.
    #[inline]
    pub fn has_ended(&self) {
        self.due_ns.store(0, Ordering::Relaxed);
    }

    /// The job that it waits for or executes, if there is one.
    pub fn unended(&self) -> Option<Unended> {
        let due_ns = self.due_ns.load(Ordering::Acquire);
        let arrival_ns = self.arrival_ns.load(Ordering::Relaxed);
        // Between the two it may have gone on to the next one.
        let is_it = due_ns > 0 && due_ns == self.due_ns.load(Ordering::Acquire);
        let is_unended = is_it && !self.is_done.load(Ordering::Acquire);
        is_unended.then_some(Unended { arrival_ns, due_ns })
    }

    /// Wakes it if its timer waits for a job that will not arrive. It may be about to sleep: then the next call does.
    pub fn wake_after(&self, end: &End) {
        let arrival_ns = self.arrival_ns.load(Ordering::Relaxed);
        if end.is_reached(arrival_ns) && !self.is_done.load(Ordering::Acquire) {
            // One that has ended needs none.
            let _ = signal::interrupt(std::process::id(), self.tid.load(Ordering::Acquire));
        }
    }

    /// Whether it sleeps until it may end.
    fn sleeps(&self) -> bool {
        self.is_done.load(Ordering::Acquire) && !self.is_over()
    }
}

/// Shared by all tasks of a set.
#[derive(Debug)]
pub(crate) struct Leave {
    /// Tasks with a timer that have jobs before them.
    at_work: AtomicUsize,
    is_allowed: Mutex<bool>,
    told: Condvar,
}

impl Leave {
    /// Of a set with so many tasks that have a timer.
    pub fn new(timers: usize) -> Self {
        Self {
            at_work: AtomicUsize::new(timers),
            is_allowed: Mutex::default(),
            told: Condvar::new(),
        }
    }

    /// Lets all end now.
    pub fn now(&self) {
        // A panic while it was locked has left it consistent.
        *self
            .is_allowed
            .lock()
            .unwrap_or_else(PoisonError::into_inner) = true;
        self.told.notify_all();
    }

    /// Lets all end if none has a job before it that a timer releases.
    pub fn if_done(&self) {
        if self.at_work.load(Ordering::Acquire) == 0 {
            self.now();
        }
    }

    /// Waits until a task that has a timer may end.
    pub fn wait(&self, way: &Way) {
        way.is_done.store(true, Ordering::Release);
        self.at_work.fetch_sub(1, Ordering::AcqRel);
        let is_allowed = self
            .is_allowed
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        let ended = self.told.wait_while(is_allowed, |is_allowed| !*is_allowed);
        drop(ended);
    }

    /// Lets all end, and waits a while for those that only slept.
    pub fn all(&self, ways: &[Arc<Way>]) {
        self.now();
        let patience = Instant::now() + WITHIN;
        while ways.iter().any(|way| way.sleeps()) && Instant::now() < patience {
            std::thread::sleep(Duration::from_millis(1));
        }
    }
}
