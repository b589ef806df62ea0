//! A POSIX timer whose signal is waited for: no handler runs.

use std::io;

use punctual_rt::sys::time::SignalTimer;

use super::source::{Expirations, WaitSource};

/// A timer that sends SIGALRM to the probe thread: periodic if all intervals
/// are the same, armed again for each cycle if they differ.
#[derive(Debug)]
pub struct TimerSignal {
    timer: SignalTimer,
    expirations: Expirations,
}

impl TimerSignal {
    /// Creates the timer for the calling thread.
    ///
    /// # Errors
    /// EAGAIN when the limit of pending signals is reached.
    pub fn new(period_ns: u64) -> io::Result<Self> {
        Ok(Self {
            timer: SignalTimer::for_this_thread(libc::SIGALRM)?,
            expirations: Expirations::every(period_ns),
        })
    }
}

impl WaitSource for TimerSignal {
    #[inline]
    fn wait_until(&mut self, due_ns: u64) -> io::Result<()> {
        let timer = &self.timer;
        self.expirations
            .reach(due_ns, |at, period| timer.arm(at, period), || timer.wait())
    }
}
