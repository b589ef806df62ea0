//! `clock_nanosleep` until an absolute time: the default.

use std::io;

use punctual_rt::clock::Sleeper;

use super::source::WaitSource;

/// Sleeps until the instant itself.
#[derive(Debug, Clone, Default)]
pub struct Nanosleep(Sleeper);

impl WaitSource for Nanosleep {
    #[inline]
    fn wait_until(&mut self, due_ns: u64) -> io::Result<()> {
        self.0.sleep_until(due_ns)
    }

    #[inline]
    fn now_ns(&self) -> u64 {
        self.0.now_ns()
    }
}
