//! The thread that empties the rings, without real-time priority.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use super::pace::Pace;
use crate::conduct::error::ConductError;
use crate::conduct::housekeeper::Housekeeper;
use crate::probe::collector::Collector;

/// How long the collector sleeps between two rounds. The rings hold seconds, so few wake-ups matter
/// more than speed.
const NAP: Duration = Duration::from_millis(100);

/// A running collector.
pub struct Gathering {
    collector: Arc<Mutex<Collector>>,
    thread: Housekeeper,
}

impl Gathering {
    /// Starts the collector, on the housekeeping CPU if there is one.
    ///
    /// # Errors
    /// The thread cannot be started.
    pub fn begin(
        collector: Collector,
        housekeeping: Option<usize>,
        pace: &Arc<Pace>,
    ) -> Result<Self, ConductError> {
        let collector = Arc::new(Mutex::new(collector));
        let (shared, pace) = (Arc::clone(&collector), Arc::clone(pace));
        let round = move |last: bool| {
            lock(&shared).collect();
            if !last {
                pace.nap(NAP);
            }
        };
        let thread = Housekeeper::begin("collector", 256 << 10, housekeeping, round)
            .map_err(ConductError::Collector)?;
        Ok(Self { collector, thread })
    }

    /// Locks the collector. The rings continue to fill.
    pub fn look(&self) -> MutexGuard<'_, Collector> {
        lock(&self.collector)
    }

    /// Processor time that collecting has taken, in ns.
    #[must_use]
    pub fn cpu_ns(&self) -> u64 {
        self.thread.cpu_ns()
    }

    /// Empties the rings and ends the thread.
    pub fn end(&mut self) {
        self.thread.end();
    }
}

fn lock(collector: &Mutex<Collector>) -> MutexGuard<'_, Collector> {
    // A panic elsewhere must not lose the figures: they are counters, always consistent.
    collector.lock().unwrap_or_else(PoisonError::into_inner)
}
