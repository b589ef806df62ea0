//! Priority inversion: a low-priority thread holds a lock that a high-priority thread waits for,
//! while a thread in between computes. With inheritance, the wait takes only as long as the
//! holder's work.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use crate::needs::skip;
use crate::stack_support::alone;
use punctual_rt::clock::{now_ns, sleep_until};
use punctual_rt::sched::Policy;
use punctual_rt::sync::PiMutex;
use punctual_rt::sys::task::current_cpu;
use punctual_rt::sys::time::clock_now;
use punctual_rt::thread::{Builder, Handle, SpawnError};

const MS: u64 = 1_000_000;
/// The holder's work, and that of the thread in between.
const WORK: u64 = 20 * MS;
const BETWEEN: u64 = 200 * MS;

/// Runs a function under a lock.
trait Lock: Send + Sync + 'static {
    fn under(&self, body: &dyn Fn());
}

impl Lock for PiMutex<()> {
    fn under(&self, body: &dyn Fn()) {
        let _held = self.lock().unwrap();
        body();
    }
}

impl Lock for Mutex<()> {
    fn under(&self, body: &dyn Fn()) {
        let _held = self.lock().unwrap();
        body();
    }
}

/// Computes for `ns` of the thread's own CPU time.
fn compute(ns: u64) {
    let used = || clock_now(libc::CLOCK_THREAD_CPUTIME_ID);
    let begun = used();
    while used() - begun < ns {
        std::hint::spin_loop();
    }
}

/// How long the high-priority thread waited, in ns.
fn waited(lock: impl Lock) -> Result<u64, SpawnError> {
    let lock = Arc::new(lock);
    let cpu = current_cpu();
    // The number of threads that are ready; then the time when the lock was taken, from which
    // they start.
    let there = Arc::new(AtomicU64::new(0));
    let taken = Arc::new(AtomicU64::new(0));
    let after_that = {
        let (there, taken) = (Arc::clone(&there), Arc::clone(&taken));
        move |ms: u64| {
            there.fetch_add(1, Ordering::Release);
            while taken.load(Ordering::Acquire) == 0 {
                sleep_until(now_ns() + MS).unwrap();
            }
            sleep_until(taken.load(Ordering::Acquire) + ms * MS).unwrap();
        }
    };
    fn at<R: Send + 'static>(
        priority: u32,
        cpu: usize,
        body: impl FnOnce() -> R + Send + 'static,
    ) -> Result<Handle<R>, SpawnError> {
        let builder = Builder::new().cpus(&[cpu]).policy(Policy::Fifo(priority));
        builder.start(body)
    }
    let low = {
        let lock = Arc::clone(&lock);
        at(10, cpu, move || {
            while there.load(Ordering::Acquire) < 2 {
                sleep_until(now_ns() + MS).unwrap();
            }
            lock.under(&|| {
                taken.store(now_ns(), Ordering::Release);
                compute(WORK);
            });
        })?
    };
    let then = after_that.clone();
    let high = at(30, cpu, move || {
        then(5);
        let begun = now_ns();
        lock.under(&|| ());
        now_ns() - begun
    })?;
    let between = at(20, cpu, move || {
        after_that(10);
        compute(BETWEEN);
    })?;
    let waited = high.join().unwrap();
    between.join().unwrap();
    low.join().unwrap();
    Ok(waited)
}

#[test]
fn the_holder_inherits_the_priority_of_the_waiting_thread() {
    let _alone = alone();
    let inheriting = match waited(PiMutex::new(()).unwrap()) {
        Ok(waited) => waited,
        Err(error) => skip!(crate::needs::not_permitted(&error.to_string())),
    };
    let plain = waited(Mutex::new(())).unwrap();
    // With a plain mutex it waits for the whole computation of the thread in between.
    assert!(plain > BETWEEN, "{} ms", plain / MS);
    assert!(
        inheriting < plain / 2,
        "{} of {} ms",
        inheriting / MS,
        plain / MS
    );
}
