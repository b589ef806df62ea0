//! When the helper threads of a run wake up: not at the same time as a probe.

use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

use punctual_rt::clock;

use punctual_record::Interval;

/// With a shorter interval, a helper meets a probe anyway.
const SHORTEST_NS: u64 = 200_000;

/// The period of the probes. If it is fixed, helpers start halfway between two wake-ups: even a
/// context switch disables interrupts for about a microsecond, and a probe that is due just then
/// would measure its own run.
#[derive(Debug)]
pub struct Pace {
    /// The period in ns; 0 if there is none.
    interval_ns: u64,
    /// An instant at which a probe is due; 0 until it is known.
    due_ns: AtomicU64,
}

impl Pace {
    /// The pace of probes with this interval.
    pub fn of(interval: &Interval) -> Self {
        let interval_ns = match interval {
            Interval::Fixed { interval_ns } if *interval_ns >= SHORTEST_NS => *interval_ns,
            _ => 0,
        };
        Self {
            interval_ns,
            due_ns: AtomicU64::new(0),
        }
    }

    /// Sets when the first wake-up is due.
    pub fn begin(&self, due_ns: u64) {
        self.due_ns.store(due_ns, Ordering::Relaxed);
    }

    /// Sleeps for this time, or up to one interval longer if that is at most half as long again.
    pub fn nap(&self, length: Duration) {
        let length_ns = u64::try_from(length.as_nanos()).unwrap_or(u64::MAX);
        let due_ns = self.due_ns.load(Ordering::Relaxed);
        if due_ns == 0 || self.interval_ns == 0 || self.interval_ns > length_ns / 2 {
            return thread::sleep(length);
        }
        // A signal that ends it early is harmless.
        let _ = clock::sleep_until(self.between(due_ns, clock::now_ns().saturating_add(length_ns)));
    }

    /// The instant at which such a sleep ends.
    pub fn after(&self, length_ns: u64) -> u64 {
        let at_ns = clock::now_ns().saturating_add(length_ns);
        let due_ns = self.due_ns.load(Ordering::Relaxed);
        if due_ns == 0 || self.interval_ns == 0 || self.interval_ns > length_ns / 2 {
            return at_ns;
        }
        self.between(due_ns, at_ns)
    }

    /// The first instant from `from_ns` on that lies halfway between two wake-ups.
    fn between(&self, due_ns: u64, from_ns: u64) -> u64 {
        let phase = due_ns.wrapping_add(self.interval_ns / 2) % self.interval_ns;
        let into = (from_ns % self.interval_ns + self.interval_ns - phase) % self.interval_ns;
        match into {
            0 => from_ns,
            into => from_ns.saturating_add(self.interval_ns - into),
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn fixed(interval_ns: u64) -> Pace {
        Pace::of(&Interval::Fixed { interval_ns })
    }

    #[test]
    fn helpers_wake_halfway_between_two_wake_ups() {
        let pace = fixed(1_000_000);
        assert_eq!(pace.between(7_000_100, 9_000_000), 9_500_100);
        assert_eq!(pace.between(7_000_100, 9_500_100), 9_500_100);
        assert_eq!(pace.between(7_000_100, 9_500_101), 10_500_100);
        // Also before the first of them.
        assert_eq!(pace.between(7_000_100, 3_000_000), 3_500_100);
    }

    #[test]
    fn without_a_rhythm_it_is_a_plain_sleep() {
        for pace in [fixed(100_000), fixed(1_000_000), fixed(u64::MAX)] {
            let begin = clock::now_ns();
            pace.nap(Duration::from_millis(2));
            assert!(clock::now_ns() - begin >= 2_000_000);
        }
        assert_eq!(fixed(100_000).interval_ns, 0);
    }

    #[test]
    fn a_nap_ends_between_two_wake_ups() {
        let pace = fixed(300_000_000);
        let due_ns = clock::now_ns();
        pace.begin(due_ns);
        let begin = clock::now_ns();
        pace.nap(Duration::from_millis(601));
        let end = clock::now_ns();
        assert!(end - begin >= 601_000_000);
        assert!(end - due_ns >= 750_000_000, "the third half");
    }

    proptest! {
        #[test]
        fn it_is_never_before_and_never_an_interval_after(
            interval in SHORTEST_NS..u64::MAX / 4,
            due in any::<u64>(),
            from in 0..u64::MAX / 2,
        ) {
            let at = fixed(interval).between(due, from);
            prop_assert!(at >= from && at - from < interval);
        }
    }
}
