//! When a set ends.

use std::sync::atomic::{AtomicU64, Ordering};

use punctual_rt::clock;

/// No job arrives at this instant or later; shared by all tasks.
#[derive(Debug)]
pub struct End(AtomicU64);

impl Default for End {
    fn default() -> Self {
        Self(AtomicU64::new(u64::MAX))
    }
}

impl End {
    /// Sets the instant, unless it is set, or [`End::now`] was called.
    pub fn set(&self, at_ns: u64) {
        let _ = self
            .0
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, |current| {
                (current == u64::MAX).then_some(at_ns)
            });
    }

    /// Lets no further job arrive; those that have arrived still count. Real-time safe.
    pub fn now(&self) {
        self.0.fetch_min(clock::now_ns(), Ordering::Relaxed);
    }

    /// The end, in ns of CLOCK_MONOTONIC; `u64::MAX` until it is known.
    #[must_use]
    pub fn at_ns(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }

    /// Whether an instant is the end or later. Real-time safe.
    #[inline]
    #[must_use]
    pub fn is_reached(&self, at_ns: u64) -> bool {
        at_ns >= self.0.load(Ordering::Relaxed)
    }

    /// How many arrivals come before the end: one at an instant, and one after each period.
    /// Real-time safe.
    #[inline]
    pub(crate) fn left(&self, at_ns: u64, period_ns: u64) -> u64 {
        let end_ns = self.0.load(Ordering::Relaxed);
        end_ns.saturating_sub(at_ns).div_ceil(period_ns.max(1))
    }
}
