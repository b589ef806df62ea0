//! Reading a timerfd.

use std::io;

use punctual_rt::sys::time::TimerFd;

use super::source::{Expirations, WaitSource};

/// A timerfd: periodic if all intervals are the same (one system call a
/// cycle), armed again for each cycle if they differ (two).
#[derive(Debug)]
pub struct TimerFdWait {
    timer: TimerFd,
    expirations: Expirations,
}

impl TimerFdWait {
    /// Creates the timer.
    ///
    /// # Errors
    /// EMFILE or ENFILE when descriptors have run out.
    pub fn new(period_ns: u64) -> io::Result<Self> {
        Ok(Self {
            timer: TimerFd::new()?,
            expirations: Expirations::every(period_ns),
        })
    }
}

impl WaitSource for TimerFdWait {
    #[inline]
    fn wait_until(&mut self, due_ns: u64) -> io::Result<()> {
        let timer = &self.timer;
        self.expirations
            .reach(due_ns, |at, period| timer.arm(at, period), || timer.wait())
    }
}
