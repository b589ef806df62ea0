//! A thread's period, guessed from the instants that its own timer was to expire.
//!
//! The period is the median of the differences between one instant and the next. It holds if
//! most differences are near a multiple of it; a thread without a rhythm has none, and misses
//! nothing.

use std::collections::VecDeque;

/// Differences that a guess rests on, at least.
pub const LEAST: usize = 16;
/// Differences that are looked at together.
const WINDOW: usize = 64;
/// How far from a multiple is near: a tenth of the period.
const NEAR: u64 = 10;

/// The rhythm of one thread.
#[derive(Debug, Clone, Default)]
pub struct Rhythm {
    last_ns: Option<u64>,
    /// The last differences.
    differences: VecDeque<u64>,
    since_guess: usize,
    period_ns: Option<u64>,
}

impl Rhythm {
    /// Takes the next instant, which is later than the last.
    pub fn take(&mut self, due_ns: u64) {
        let before = self.last_ns.replace(due_ns);
        let Some(difference) = before.and_then(|before| due_ns.checked_sub(before)) else {
            return;
        };
        if self.differences.len() == WINDOW {
            self.differences.pop_front();
        }
        self.differences.push_back(difference);
        self.since_guess += 1;
        let first = self.period_ns.is_none() && self.differences.len() >= LEAST;
        if first || self.since_guess >= WINDOW {
            self.guess();
        }
    }

    fn guess(&mut self) {
        self.since_guess = 0;
        let mut sorted: Vec<u64> = self.differences.iter().copied().collect();
        sorted.sort_unstable();
        let Some(&median) = sorted.get(sorted.len() / 2) else {
            return;
        };
        let near = |difference: &&u64| is_near(**difference, median);
        let kept = sorted.iter().filter(near).count();
        let steady = median > 0 && kept * 4 >= sorted.len() * 3;
        match self.period_ns {
            // It stays while it still fits: the last digits of a median come and go.
            Some(period) if steady && median.abs_diff(period) <= period / (2 * NEAR) => {}
            _ => self.period_ns = steady.then_some(median),
        }
    }

    /// The period, where there is a rhythm.
    #[must_use]
    pub fn period_ns(&self) -> Option<u64> {
        self.period_ns
    }

    /// Periods that lie between two instants, neither of them asked for.
    #[must_use]
    pub fn passed(&self, from_ns: u64, to_ns: u64) -> u64 {
        let Some(period) = self.period_ns else {
            return 0;
        };
        let periods = to_ns.saturating_sub(from_ns).saturating_add(period / 2) / period;
        periods.saturating_sub(1)
    }
}

/// Whether a difference is near a multiple of the period, from 1 on.
fn is_near(difference: u64, period: u64) -> bool {
    if period == 0 || difference < period - period / NEAR {
        return false;
    }
    let beyond = difference % period;
    beyond.min(period - beyond) <= period / NEAR
}

#[cfg(test)]
mod tests {
    use super::*;

    fn after(differences: impl IntoIterator<Item = u64>) -> Rhythm {
        let mut rhythm = Rhythm::default();
        let mut at = 1_000_000_000;
        rhythm.take(at);
        for difference in differences {
            at += difference;
            rhythm.take(at);
        }
        rhythm
    }

    #[test]
    fn a_periodic_thread_has_its_period_and_skipped_ones_are_counted() {
        let rhythm = after((0..40).map(|n| if n % 10 == 7 { 4_000_000 } else { 1_000_000 }));
        assert_eq!(rhythm.period_ns(), Some(1_000_000));
        assert_eq!(rhythm.passed(0, 1_000_000), 0);
        assert_eq!(rhythm.passed(0, 4_000_000), 3);
        assert_eq!(rhythm.passed(0, 1_000_000_000), 999, "exact however many");
        assert_eq!(rhythm.passed(5, 3), 0);
    }

    #[test]
    fn sleeps_that_begin_when_the_last_is_done_have_a_rhythm_too() {
        let rhythm = after((0..64).map(|n| 1_000_000 + (n * 7919) % 60_000));
        let period = rhythm.period_ns().expect("a rhythm");
        assert!((1_000_000..1_060_000).contains(&period), "{period}");
        assert_eq!(rhythm.passed(0, 2 * period), 1);
    }

    #[test]
    fn without_a_rhythm_nothing_is_missed() {
        let rhythm = after((1..80).map(|n| n * n * 10_007 % 9_000_000 + 1));
        assert_eq!((rhythm.period_ns(), rhythm.passed(0, u64::MAX)), (None, 0));
        assert_eq!(after([1_000_000; 5]).period_ns(), None, "too few");
        assert_eq!(after([0; 100]).period_ns(), None);
    }

    #[test]
    fn a_thread_that_changes_its_period_is_followed() {
        let rhythm = after([1_000_000; 70].into_iter().chain([250_000; 200]));
        assert_eq!(rhythm.period_ns(), Some(250_000));
    }

    #[test]
    fn instants_out_of_order_and_extremes_do_no_harm() {
        let mut rhythm = Rhythm::default();
        for due in [0, u64::MAX, 5, 5, u64::MAX].into_iter().cycle().take(300) {
            rhythm.take(due);
        }
        let _ = rhythm.passed(0, u64::MAX);
    }
}
