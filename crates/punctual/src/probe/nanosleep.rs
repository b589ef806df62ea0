//! `clock_nanosleep` until an absolute time: the default.

use std::io;

use punctual_rt::clock;

use super::source::WaitSource;

/// Sleeps until the instant itself.
#[derive(Debug, Clone, Copy, Default)]
pub struct Nanosleep;

impl WaitSource for Nanosleep {
    #[inline]
    fn wait_until(&mut self, due_ns: u64) -> io::Result<()> {
        clock::sleep_until(due_ns)
    }
}
