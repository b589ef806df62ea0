//! `clock_nanosleep` for a length of time, as programs sleep that don't know better.

use std::io;

use punctual_rt::clock;

use super::source::WaitSource;

/// Reads the clock and sleeps for what is left. The time between the reading and
/// the call stands in the latency, as it does in such programs.
#[derive(Debug, Clone, Copy, Default)]
pub struct NanosleepRelative;

impl WaitSource for NanosleepRelative {
    #[inline]
    fn wait_until(&mut self, due_ns: u64) -> io::Result<()> {
        clock::sleep_for(due_ns.saturating_sub(clock::now_ns()))
    }
}
