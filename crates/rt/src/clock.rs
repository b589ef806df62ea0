//! The clock of every measurement: CLOCK_MONOTONIC, in ns.

use crate::sys::time;

pub use crate::sys::mark::mark_wake_up;
pub use time::{Sleeper, sleep_for, sleep_until};

/// The time now on CLOCK_MONOTONIC, in ns. Real-time safe.
#[inline]
#[must_use]
pub fn now_ns() -> u64 {
    time::monotonic_now()
}

/// Resolution of CLOCK_MONOTONIC in ns; 1 with high-resolution timers, 0 when the kernel doesn't
/// report it. Real-time safe; one system call.
#[must_use]
pub fn resolution_ns() -> u64 {
    time::clock_resolution(libc::CLOCK_MONOTONIC).unwrap_or(0)
}

/// Median cost of one reading, in ns, over 1,001 pairs of readings. Takes about
/// 0.1 ms; not for a real-time loop.
#[must_use]
pub fn read_cost_ns() -> u64 {
    let mut costs: Vec<u64> = (0..1001)
        .map(|_| {
            let before = now_ns();
            now_ns() - before
        })
        .collect();
    let middle = costs.len() / 2;
    *costs.select_nth_unstable(middle).1
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sleeping_until_an_instant_never_ends_before_it() {
        for ahead in [0, 1, 50_000, 1_000_000] {
            let at = now_ns() + ahead;
            sleep_until(at).unwrap();
            assert!(now_ns() >= at);
        }
    }

    #[test]
    fn a_sleeper_computes_the_right_second_for_any_instant() {
        let mut sleeper = Sleeper::default();
        // Into the next second, then to instants long past, then forward again.
        for ahead in [1, 1_000_100_000, 1_000_200_000] {
            let at = now_ns() + ahead % 1_000_000_000;
            sleeper.sleep_until(at).unwrap();
            assert!(now_ns() >= at);
            for past in [0, 999_999_999, 1_000_000_000, ahead] {
                let before = now_ns();
                sleeper.sleep_until(past).unwrap();
                assert!(now_ns() - before < 1_000_000_000);
            }
        }
        let start = now_ns();
        for step in 1..=4 {
            sleeper.sleep_until(start + step * 300_000_000).unwrap();
            assert!(now_ns() >= start + step * 300_000_000);
        }
    }

    #[test]
    fn a_clock_reading_costs_less_than_1_ms() {
        assert!(read_cost_ns() < 1_000_000);
    }
}
