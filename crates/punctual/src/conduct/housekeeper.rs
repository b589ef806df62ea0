//! A helper thread without real-time priority, on the housekeeping CPU if there is one.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::{Builder, JoinHandle};

use punctual_rt::affinity;
use punctual_rt::sys::task;
use punctual_rt::sys::time::clock_now;

/// The nice value, if it may be set: many load processes then do not delay the thread for long.
pub(super) const NICE: i32 = -10;

/// A thread that runs one round after the other until it is ended.
pub(super) struct Housekeeper {
    over: Arc<AtomicBool>,
    cpu_ns: Arc<AtomicU64>,
    thread: Option<JoinHandle<()>>,
}

impl Housekeeper {
    /// Starts it. The argument of `round` says whether it is the last round; `round` sleeps by itself.
    ///
    /// # Errors
    /// The thread cannot be started.
    pub fn begin(
        name: &'static str,
        stack_bytes: usize,
        cpu: Option<usize>,
        mut round: impl FnMut(bool) + Send + 'static,
    ) -> io::Result<Self> {
        let over = Arc::new(AtomicBool::new(false));
        let cpu_ns = Arc::new(AtomicU64::new(0));
        let (ended, used) = (Arc::clone(&over), Arc::clone(&cpu_ns));
        let work = move || {
            let _ = task::name_current_thread(name);
            // Both are optional: without them the rings still hold seconds.
            let _ = task::set_nice(NICE);
            if let Some(cpu) = cpu {
                let _ = affinity::set_current(&[cpu]);
            }
            let mut last = false;
            while !last {
                last = ended.load(Ordering::Acquire);
                round(last);
                used.store(clock_now(libc::CLOCK_THREAD_CPUTIME_ID), Ordering::Relaxed);
            }
        };
        let thread = Builder::new()
            .name(name.to_owned())
            .stack_size(stack_bytes)
            .spawn(work)?;
        Ok(Self {
            over,
            cpu_ns,
            thread: Some(thread),
        })
    }

    /// Processor time of its rounds so far, in ns.
    pub fn cpu_ns(&self) -> u64 {
        self.cpu_ns.load(Ordering::Relaxed)
    }

    /// Whether it has run its last round.
    pub fn has_ended(&self) -> bool {
        self.thread.is_none()
    }

    /// Makes it run its last round, and waits for it.
    pub fn end(&mut self) {
        self.over.store(true, Ordering::Release);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

impl Drop for Housekeeper {
    fn drop(&mut self) {
        self.end();
    }
}
