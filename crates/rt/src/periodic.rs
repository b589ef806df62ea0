//! Absolute periodic schedules: when each period is due, and which periods were missed.
//!
//! A period that passes while the thread is late is *missed*. It is counted, never dropped
//! silently and never turned into a thousand late wake-ups.

use std::io;

use crate::clock;

/// The source of the interval lengths. Real-time safe.
pub trait Intervals {
    /// The length of the next interval in ns, above 0.
    fn next_ns(&mut self) -> u64;

    /// The shortest possible length in ns: a wake-up less late than that has missed no period.
    fn shortest_ns(&self) -> u64;

    /// Advances from the due instant `next_ns` to the first instant after `now_ns`. Returns that
    /// instant and the number of instants passed.
    #[inline]
    fn pass(&mut self, mut next_ns: u64, now_ns: u64) -> (u64, u64) {
        let mut come = 0;
        while next_ns <= now_ns {
            next_ns = next_ns.saturating_add(self.next_ns());
            come += 1;
        }
        (next_ns, come)
    }
}

/// Fixed intervals, in ns.
#[derive(Debug, Clone, Copy)]
pub struct Fixed(pub u64);

impl Intervals for Fixed {
    #[inline]
    fn next_ns(&mut self) -> u64 {
        self.0
    }

    #[inline]
    fn shortest_ns(&self) -> u64 {
        self.0
    }

    /// Constant time: after a stall, many short periods have passed.
    #[inline]
    fn pass(&mut self, next_ns: u64, now_ns: u64) -> (u64, u64) {
        let length = self.0.max(1);
        let come = now_ns.saturating_sub(next_ns) / length + 1;
        (next_ns.saturating_add(come.saturating_mul(length)), come)
    }
}

/// The 24 primes nearest to 1,000: twelve below, twelve above.
pub const PRIMES: [u64; 24] = [
    919, 929, 937, 941, 947, 953, 967, 971, 977, 983, 991, 997, 1009, 1013, 1019, 1021, 1031, 1033,
    1039, 1049, 1051, 1061, 1063, 1069,
];

/// Each interval drawn from 24 lengths in the proportion of [`PRIMES`], so that no
/// train of wake-ups locks onto a periodic disturbance.
#[derive(Debug, Clone)]
pub struct Primes {
    table_ns: [u64; 24],
    state: u64,
}

impl Primes {
    /// Scales the table to a nominal interval: at 1 ms the lengths are the primes
    /// themselves, in µs. The same seed draws the same intervals. Real-time safe.
    #[must_use]
    pub fn new(nominal_ns: u64, seed: u64) -> Self {
        let table_ns = PRIMES.map(|prime| {
            let scaled = u128::from(prime) * u128::from(nominal_ns) / 1000;
            u64::try_from(scaled).unwrap_or(u64::MAX).max(1)
        });
        Self {
            table_ns,
            state: seed,
        }
    }

    /// The possible lengths, in ns. Real-time safe.
    #[must_use]
    pub fn table_ns(&self) -> &[u64; 24] {
        &self.table_ns
    }
}

impl Intervals for Primes {
    #[inline]
    fn next_ns(&mut self) -> u64 {
        // Knuth's MMIX linear congruential generator; its high bits are good
        // enough to choose one of 24, and it is three instructions.
        self.state = self
            .state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        let choice = ((self.state >> 32) * 24) >> 32;
        self.table_ns[choice as usize]
    }

    fn shortest_ns(&self) -> u64 {
        self.table_ns.iter().copied().fold(u64::MAX, u64::min)
    }
}

/// A schedule of due instants.
#[derive(Debug, Clone)]
pub struct Schedule<I> {
    due_ns: u64,
    next_ns: u64,
    intervals: I,
}

impl<I: Intervals> Schedule<I> {
    /// A schedule whose first wake-up is due one interval after `start_ns`. Real-time safe.
    #[must_use]
    pub fn new(start_ns: u64, mut intervals: I) -> Self {
        let next_ns = start_ns.saturating_add(intervals.next_ns());
        Self {
            due_ns: start_ns,
            next_ns,
            intervals,
        }
    }

    /// Advances to the next due instant and returns it. Real-time safe.
    #[inline]
    pub fn advance(&mut self) -> u64 {
        self.due_ns = self.next_ns;
        self.next_ns = self.next_ns.saturating_add(self.intervals.next_ns());
        self.due_ns
    }

    /// The shortest possible interval, in ns: [`Intervals::shortest_ns`]. Real-time safe.
    #[must_use]
    pub fn shortest_ns(&self) -> u64 {
        self.intervals.shortest_ns()
    }

    /// Skips each period that was due by `now_ns`, and returns their number: the missed periods.
    /// Real-time safe; with [`Primes`] it takes a few ns for each missed period.
    #[inline]
    pub fn skip_until(&mut self, now_ns: u64) -> u64 {
        if now_ns < self.next_ns {
            return 0;
        }
        let (next_ns, missed) = self.intervals.pass(self.next_ns, now_ns);
        self.next_ns = next_ns;
        missed
    }

    /// The due instant that [`Schedule::advance`] returned last. Real-time safe.
    #[must_use]
    pub fn due_ns(&self) -> u64 {
        self.due_ns
    }
}

/// One cycle of a periodic loop.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Cycle {
    /// The requested instant, on CLOCK_MONOTONIC.
    pub due_ns: u64,
    /// The instant at which the thread ran again.
    pub woke_ns: u64,
    /// Periods missed before this cycle because the last one ended too late.
    pub missed: u64,
}

impl Cycle {
    /// How late the thread woke, in ns. Real-time safe.
    #[must_use]
    pub fn latency_ns(&self) -> u64 {
        self.woke_ns.saturating_sub(self.due_ns)
    }
}

/// What a loop does when a cycle took longer than its period.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Overrun {
    /// Skip the missed periods and keep the phase: for control loops.
    #[default]
    Skip,
    /// Run the late cycles back to back until the loop has caught up: for work that must be done
    /// for each period.
    CatchUp,
}

/// An absolute periodic loop of one thread.
#[derive(Debug)]
pub struct Loop<I = Fixed> {
    schedule: Schedule<I>,
    overrun: Overrun,
    missed: u64,
    /// How many of these a returned cycle has reported: a wait that a signal ended reports none.
    told: u64,
    cycles: u64,
}

impl Loop<Fixed> {
    /// A loop with a fixed period, its first cycle one period from now. Real-time safe.
    #[must_use]
    pub fn every(period_ns: u64, overrun: Overrun) -> Self {
        Self::new(
            Schedule::new(clock::now_ns(), Fixed(period_ns.max(1))),
            overrun,
        )
    }
}

impl<I: Intervals> Loop<I> {
    /// A loop over a schedule. Real-time safe.
    #[must_use]
    pub fn new(schedule: Schedule<I>, overrun: Overrun) -> Self {
        Self {
            schedule,
            overrun,
            missed: 0,
            told: 0,
            cycles: 0,
        }
    }

    /// Waits for the next due instant. Real-time safe; one system call.
    ///
    /// # Errors
    /// EINTR when a signal handler ran; the same period is still due.
    pub fn wait(&mut self) -> io::Result<Cycle> {
        if self.overrun == Overrun::Skip {
            self.missed += self.schedule.skip_until(clock::now_ns());
        }
        let due_ns = self.schedule.next_ns;
        clock::sleep_until(due_ns)?;
        self.schedule.advance();
        self.cycles += 1;
        let missed = self.missed - self.told;
        self.told = self.missed;
        let woke_ns = clock::now_ns();
        // A no-operation by which the laboratory recognises a wake-up.
        clock::mark_wake_up();
        Ok(Cycle {
            due_ns,
            woke_ns,
            missed,
        })
    }

    /// Periods missed since the loop was created. Real-time safe.
    #[must_use]
    pub fn missed(&self) -> u64 {
        self.missed
    }

    /// Cycles run since the loop was created. Real-time safe.
    #[must_use]
    pub fn cycles(&self) -> u64 {
        self.cycles
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn skipping_fixed_periods_at_once_equals_skipping_them_one_by_one() {
        /// The same lengths, advanced one by one without the division.
        struct Slow(u64);
        impl Intervals for Slow {
            fn next_ns(&mut self) -> u64 {
                self.0
            }
            fn shortest_ns(&self) -> u64 {
                self.0
            }
        }
        for length in [1, 2, 3, 7, 1000] {
            for late in [0, 1, 2, 5, 6, 7, 999, 1000, 1001, 4321] {
                let mut one_by_one = Schedule::new(10, Slow(length));
                let mut at_once = Schedule::new(10, Fixed(length));
                let now = 10 + late;
                assert_eq!(at_once.skip_until(now), one_by_one.skip_until(now));
                assert_eq!(at_once.advance(), one_by_one.advance());
            }
        }
        // 10 s of 1 ns periods: advancing one by one would take a real-time thread seconds.
        let mut shortest = Schedule::new(0, Fixed(1));
        assert_eq!(shortest.skip_until(1 << 60), 1 << 60);
        assert_eq!(shortest.advance(), (1 << 60) + 1);
        // An instant that never comes.
        let mut never = Schedule::new(5, Fixed(u64::MAX));
        assert_eq!(never.skip_until(u64::MAX - 1), 0);
        assert_eq!(never.advance(), u64::MAX);
        assert_eq!(never.advance(), u64::MAX);
    }

    #[test]
    fn the_table_holds_24_primes_next_to_1000() {
        let is_prime = |n: u64| {
            (2..n)
                .take_while(|d| d * d <= n)
                .all(|d| !n.is_multiple_of(d))
        };
        let below = (0..1000).rev().filter(|&n| is_prime(n)).take(12);
        let above = (1001..).filter(|&n| is_prime(n)).take(12);
        let mut expected: Vec<u64> = below.chain(above).collect();
        expected.sort_unstable();
        assert_eq!(PRIMES.to_vec(), expected);
    }

    #[test]
    fn the_draw_repeats_and_uses_the_whole_table_evenly() {
        let mut intervals = Primes::new(1_000_000, 42);
        let mut again = Primes::new(1_000_000, 42);
        let mut counts = std::collections::BTreeMap::new();
        for _ in 0..240_000 {
            let length = intervals.next_ns();
            assert_eq!(length, again.next_ns());
            *counts.entry(length).or_insert(0u32) += 1;
        }
        assert_eq!(counts.len(), 24);
        // 10,000 each; six standard deviations are 590.
        assert!(
            counts.values().all(|count| count.abs_diff(10_000) < 590),
            "{counts:?}"
        );
    }

    #[test]
    fn the_shortest_interval_is_the_minimum_of_the_table() {
        assert_eq!(Fixed(5).shortest_ns(), 5);
        let mut intervals = Primes::new(1_000_000, 3);
        let drawn = (0..1_000).map(|_| intervals.next_ns()).min();
        assert_eq!(Some(intervals.shortest_ns()), drawn);
        assert_eq!(Schedule::new(0, intervals).shortest_ns(), 919_000);
    }

    #[test]
    fn one_stall_of_a_second_is_one_late_wake_up_and_999_missed_periods() {
        let mut schedule = Schedule::new(0, Fixed(1_000_000));
        assert_eq!(schedule.advance(), 1_000_000);
        assert_eq!(schedule.skip_until(1_005_000), 0);
        assert_eq!(schedule.advance(), 2_000_000);
        // Due at 2 ms, woken at 1,002 ms: the periods from 3 ms to 1,002 ms are missed.
        assert_eq!(schedule.skip_until(1_001_999_999), 999);
        assert_eq!(schedule.advance(), 1_002_000_000);
    }

    #[test]
    fn a_period_is_missed_exactly_when_its_instant_has_come() {
        let mut schedule = Schedule::new(0, Fixed(100));
        schedule.advance();
        assert_eq!(schedule.skip_until(199), 0);
        assert_eq!(schedule.skip_until(200), 1);
        assert_eq!(schedule.skip_until(200), 0);
        assert_eq!(schedule.advance(), 300);
    }

    #[test]
    fn a_loop_keeps_its_phase_after_an_overrun_and_counts_the_missed_periods() {
        let mut control = Loop::every(2_000_000, Overrun::Skip);
        let first = control.wait().unwrap();
        clock::sleep_until(first.due_ns + 7_000_000).unwrap();
        let second = control.wait().unwrap();
        assert_eq!((second.due_ns - first.due_ns) % 2_000_000, 0);
        assert!(second.missed >= 3, "{second:?}");
        assert_eq!(control.missed(), first.missed + second.missed);
        assert_eq!(control.cycles(), 2);
    }

    #[test]
    fn a_loop_that_catches_up_runs_every_cycle() {
        let mut control = Loop::every(1_000_000, Overrun::CatchUp);
        let first = control.wait().unwrap();
        clock::sleep_until(first.due_ns + 5_000_000).unwrap();
        for cycle in 1..=5 {
            assert_eq!(
                control.wait().unwrap().due_ns,
                first.due_ns + cycle * 1_000_000
            );
        }
        assert_eq!(control.missed(), 0);
    }
}
