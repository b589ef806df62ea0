//! The thread that empties the rings, at ordinary priority.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use punctual_rt::affinity;
use punctual_rt::sys::task;
use punctual_rt::sys::time::clock_now;

use super::error::ConductError;
use super::pace::Pace;
use crate::probe::collector::Collector;

/// How long the collector sleeps between two looks. Rings hold seconds, so this
/// is chosen for few wake-ups, not for speed.
const NAP: Duration = Duration::from_millis(100);

/// Nice value of the collector where it may be set.
pub(super) const NICE: i32 = -10;

/// A collector at work.
pub struct Gathering {
    collector: Arc<Mutex<Collector>>,
    over: Arc<AtomicBool>,
    cpu_ns: Arc<AtomicU64>,
    thread: Option<JoinHandle<()>>,
}

impl Gathering {
    /// Sets the collector to work, on the housekeeping CPU where there is one.
    ///
    /// # Errors
    /// When no thread can be had.
    pub(super) fn begin(
        collector: Collector,
        housekeeping: Option<usize>,
        pace: &Arc<Pace>,
    ) -> Result<Self, ConductError> {
        let collector = Arc::new(Mutex::new(collector));
        let over = Arc::new(AtomicBool::new(false));
        let cpu_ns = Arc::new(AtomicU64::new(0));
        let (shared, ended, used, pace) = (
            Arc::clone(&collector),
            Arc::clone(&over),
            Arc::clone(&cpu_ns),
            Arc::clone(pace),
        );
        let thread = std::thread::Builder::new()
            .name("collector".to_owned())
            .stack_size(256 << 10)
            .spawn(move || {
                let _ = task::name_current_thread("collector");
                // Still an ordinary thread, but one that a crowd of load processes
                // can't keep waiting for long. A wish, too: the rings are large.
                let _ = task::set_nice(NICE);
                if let Some(cpu) = housekeeping {
                    // A wish: where it is refused the collector runs anywhere.
                    let _ = affinity::set_current(&[cpu]);
                }
                while !ended.load(Ordering::Acquire) {
                    lock(&shared).collect();
                    used.store(clock_now(libc::CLOCK_THREAD_CPUTIME_ID), Ordering::Relaxed);
                    pace.nap(NAP);
                }
                lock(&shared).collect();
                used.store(clock_now(libc::CLOCK_THREAD_CPUTIME_ID), Ordering::Relaxed);
            })
            .map_err(ConductError::Collector)?;
        Ok(Self {
            collector,
            over,
            cpu_ns,
            thread: Some(thread),
        })
    }

    /// A look at the collector while it is held still. The rings go on filling.
    pub fn look(&self) -> MutexGuard<'_, Collector> {
        lock(&self.collector)
    }

    /// Processor time that collecting has taken, in ns.
    #[must_use]
    pub fn cpu_ns(&self) -> u64 {
        self.cpu_ns.load(Ordering::Relaxed)
    }

    /// Takes what is left in the rings and ends the thread.
    pub fn end(&mut self) {
        self.over.store(true, Ordering::Release);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

impl Drop for Gathering {
    fn drop(&mut self) {
        self.end();
    }
}

fn lock(collector: &Mutex<Collector>) -> MutexGuard<'_, Collector> {
    // A panic elsewhere must not lose the figures: they are counters, always whole.
    collector.lock().unwrap_or_else(PoisonError::into_inner)
}
