//! `clock_nanosleep` for a length of time, as naive programs sleep.

use std::io;

use punctual_rt::clock;

use super::source::WaitSource;

/// Reads the clock and sleeps for the remaining time. The time between the reading and
/// the call is part of the latency, as it is in such programs.
#[derive(Debug, Clone, Copy, Default)]
pub struct NanosleepRelative;

impl WaitSource for NanosleepRelative {
    #[inline]
    fn wait_until(&mut self, due_ns: u64) -> io::Result<()> {
        clock::sleep_for(due_ns.saturating_sub(clock::now_ns()))
    }
}
