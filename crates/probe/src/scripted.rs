//! A wait source with known wake-ups, so that every statistic has an exact
//! expected value.

use std::collections::VecDeque;
use std::io;

use super::source::WaitSource;

/// Wakes with the given latencies, on a clock of its own.
#[derive(Debug, Clone, Default)]
pub struct Scripted {
    now_ns: u64,
    latencies_ns: VecDeque<i64>,
    /// The requested instants.
    pub requested_ns: Vec<u64>,
}

impl Scripted {
    /// One wake-up for each latency in ns, a negative one being early; then ECANCELED.
    #[must_use]
    pub fn new(latencies_ns: impl IntoIterator<Item = i64>) -> Self {
        Self {
            latencies_ns: latencies_ns.into_iter().collect(),
            ..Self::default()
        }
    }
}

impl WaitSource for Scripted {
    fn wait_until(&mut self, due_ns: u64) -> io::Result<()> {
        let latency = self
            .latencies_ns
            .pop_front()
            .ok_or_else(|| io::Error::from_raw_os_error(libc::ECANCELED))?;
        self.requested_ns.push(due_ns);
        self.now_ns = due_ns.saturating_add_signed(latency);
        Ok(())
    }

    fn now_ns(&self) -> u64 {
        self.now_ns
    }
}
