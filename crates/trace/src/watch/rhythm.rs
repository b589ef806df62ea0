//! Finds a thread's period from the instants that it waits for.
//!
//! A periodic thread waits for instants on a grid, whenever it woke and however long it worked.
//! Its instants show that in one of two ways:
//!
//! - their differences repeat to the nanosecond, because it adds a period to an instant;
//! - they stay near a grid, while the moments at which the waits begin do not: the thread
//!   computes the remainder of its period from the clock, as a JVM and `sleep_until` do.
//!
//! A thread that sleeps for a length of time after its work has no such grid: its instants follow
//! the moments at which it goes to sleep. It has no period, whatever the mean of the differences
//! is, so no period can be skipped.

use std::collections::VecDeque;

/// The fewest differences that establish a period.
pub const LEAST: usize = 16;
/// Differences that are examined together.
const WINDOW: usize = 64;
/// Differences this close count as equal: rounding of a period that is
/// not a whole number of ns, or of one in seconds with a fraction.
const NEAR_NS: u64 = 2;
/// A thread can't wait for a shorter period.
const SHORTEST_NS: u64 = 1000;
/// On a grid, so many of eight differences are multiples of the period (half are where a cycle has two waits),
/// and one of this many is the period itself. Differences of measured lengths hardly ever repeat.
const MULTIPLES: usize = 5;
const REPEATS: usize = 4;
/// An instant near a grid is within the first of these parts of the period; most are within the
/// second.
const NEAR_PART: u64 = 20;
const SPREAD_PART: u64 = 50;
/// The starts of the waits for a next period must spread this many times as far as the instants, and at least
/// this far: those of longer waits are elsewhere in any case.
const BEGINNINGS: u64 = 3;
const BEGINNINGS_NS: u64 = 1000;

/// What a timer's instants form.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TimerPattern {
    /// Too few to decide.
    Unknown,
    /// A grid with this period.
    Period(u64),
    /// No grid.
    Irregular,
    /// A grid for a while, and none now.
    Lost,
}

/// The instants of one timer.
#[derive(Debug, Clone, Default)]
pub struct Rhythm {
    /// The last instants, and when the wait for each began.
    instants: VecDeque<(u64, Option<u64>)>,
    /// Armed for lengths of time, which may repeat by chance.
    lengths: bool,
    since_guess: usize,
    grid: Option<Grid>,
    had_grid: bool,
    /// Its period is the kernel's interval, and not to be found.
    is_known: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Grid {
    period_ns: u64,
    exact: bool,
}

impl Grid {
    /// How many periods a difference is, if it is a multiple.
    fn multiple(self, difference: u64) -> Option<u64> {
        let period = self.period_ns;
        let times = difference.checked_add(period / 2)?.checked_div(period)?;
        let allowed = if self.exact {
            NEAR_NS.saturating_add(times).min(period / 100).max(1)
        } else {
            period / NEAR_PART
        };
        let beyond = difference.abs_diff(times.checked_mul(period)?);
        (times > 0 && beyond <= allowed).then_some(times)
    }

    /// Whether enough differences are multiples of the period.
    fn fits(self, differences: &[u64]) -> bool {
        let is_multiple = |difference: &&u64| self.multiple(**difference).is_some();
        let multiples = differences.iter().filter(is_multiple).count();
        multiples * 8 >= differences.len() * MULTIPLES
    }
}

impl Rhythm {
    /// For a timer that is armed for lengths of time.
    #[must_use]
    pub fn of_lengths() -> Self {
        Self {
            lengths: true,
            ..Self::default()
        }
    }

    /// Sets the interval at which the kernel arms the timer for the instants that follow, if it does.
    pub fn set_interval(&mut self, interval_ns: Option<u64>) {
        let known = interval_ns.filter(|it| *it >= SHORTEST_NS);
        self.is_known = known.is_some();
        if let Some(period_ns) = known {
            self.had_grid = true;
            self.grid = Some(Grid {
                period_ns,
                exact: true,
            });
        }
    }

    /// Takes the next instant, which is later than the last, and when the wait for it began.
    pub fn add_instant(&mut self, due_ns: u64, begun_ns: Option<u64>) {
        if self.instants.len() > WINDOW {
            self.instants.pop_front();
        }
        self.instants.push_back((due_ns, begun_ns));
        self.since_guess += 1;
        if self.instants.len() > LEAST && self.since_guess >= LEAST && !self.is_known {
            self.find_grid();
        }
    }

    fn find_grid(&mut self) {
        self.since_guess = 0;
        let instants = self.instants.make_contiguous();
        let pairs = instants.windows(2);
        let mut all: Vec<u64> = pairs.map(|it| it[1].0.saturating_sub(it[0].0)).collect();
        let mut latest = all.split_off(all.len() - LEAST);
        latest.sort_unstable();
        all.extend(&latest);
        all.sort_unstable();
        // A period stays while the instants are on its grid, even if every second one is skipped:
        // that is an overload, not a new period.
        let exact = self.grid.filter(|grid| grid.exact);
        let stays = exact.filter(|grid| grid.fits(&all) || grid.fits(&latest));
        let found = || repeated(&all).or_else(|| repeated(&latest));
        self.grid = stays
            .or_else(|| found().filter(|_| !self.lengths))
            .or_else(|| near_grid(instants, &all))
            .or_else(|| near_grid(&instants[instants.len() - 1 - LEAST..], &latest));
        self.had_grid |= self.grid.is_some();
    }

    /// What the instants form.
    #[must_use]
    pub fn pattern(&self) -> TimerPattern {
        match self.grid {
            Some(grid) => TimerPattern::Period(grid.period_ns),
            None if self.had_grid => TimerPattern::Lost,
            None if self.instants.len() <= LEAST => TimerPattern::Unknown,
            None => TimerPattern::Irregular,
        }
    }

    /// The period, if there is one.
    #[must_use]
    pub fn period_ns(&self) -> Option<u64> {
        self.grid.map(|grid| grid.period_ns)
    }

    /// How many periods an instant is after another, if both are on the same grid.
    #[must_use]
    pub fn periods(&self, from_ns: u64, to_ns: u64) -> Option<u64> {
        self.grid?.multiple(to_ns.saturating_sub(from_ns))
    }

    /// How many periods were skipped between two consecutive instants: those
    /// that had passed when the wait for the next instant began. Instants that were still ahead then,
    /// and were not waited for, the thread left out on purpose. If it isn't known when the
    /// wait began, all of them are counted.
    #[must_use]
    pub fn skipped(&self, from_ns: u64, to_ns: u64, begun_ns: Option<u64>) -> u64 {
        let Some(Grid { period_ns, .. }) = self.grid else {
            return 0;
        };
        let length = to_ns.saturating_sub(from_ns);
        // A grid that is restarted: the time that passed, in whole periods.
        let between = length.saturating_add(period_ns / 2) / period_ns;
        let passed = begun_ns.map_or(u64::MAX, |begun| begun.saturating_sub(from_ns) / period_ns);
        between.saturating_sub(1).min(passed)
    }
}

/// The smallest difference that repeats, and that enough others are multiples of.
fn repeated(sorted: &[u64]) -> Option<Grid> {
    for (at, &least) in sorted.iter().enumerate() {
        let same = sorted[at..].partition_point(|other| other - least <= 2 * NEAR_NS);
        let grid = Grid {
            period_ns: sorted[at + same / 2],
            exact: true,
        };
        if least >= SHORTEST_NS && same * REPEATS >= sorted.len() && grid.fits(sorted) {
            return Some(grid);
        }
    }
    None
}

/// An instant as its number on the grid and its ns since the first.
type Numbered = (f64, f64);

/// The grid that instants stay near, although the waits for them begin at any time.
fn near_grid(instants: &[(u64, Option<u64>)], sorted: &[u64]) -> Option<Grid> {
    // Differences of one period are among the smallest, and at least a fourth of all.
    let least = *sorted.get(sorted.len() / 4)?;
    let from = sorted.partition_point(|it| *it < least - least / NEAR_PART);
    let to = sorted.partition_point(|it| *it <= least.saturating_add(least / NEAR_PART));
    let middle = sorted[(from + to) / 2];
    let first = instants.first()?.0;
    if middle < SHORTEST_NS || instants.len() <= LEAST {
        return None;
    }
    // The number of each instant on the grid: from the difference to the previous one.
    let (mut number, mut before) = (0_u64, first);
    let mut numbered: Vec<Numbered> = Vec::with_capacity(instants.len());
    let mut waits = Vec::new();
    for &(due_ns, begun_ns) in instants {
        let difference = due_ns.checked_sub(before)?;
        let periods = difference.checked_add(middle / 2)? / middle;
        number = number.checked_add(periods)?;
        before = due_ns;
        numbered.push((number as f64, (due_ns - first) as f64));
        if periods == 1 {
            waits.push(due_ns.abs_diff(begun_ns?) as f64);
        }
    }
    // The line through them, by least squares.
    let count = numbered.len() as f64;
    let mean = |of: fn(&Numbered) -> f64| numbered.iter().map(of).sum::<f64>() / count;
    let (x, y) = (mean(|it| it.0), mean(|it| it.1));
    let (mut above, mut below) = (0.0, 0.0);
    for (number, at) in &numbered {
        above += (number - x) * (at - y);
        below += (number - x) * (number - x);
    }
    let slope = above / below;
    if !slope.is_finite() || (slope - middle as f64).abs() > middle as f64 / NEAR_PART as f64 {
        return None;
    }
    let instants_ns = spread(numbered.iter().map(|it| it.1 - slope * it.0).collect())?;
    let beginnings_ns = spread(waits)?;
    let demonstrated = instants_ns <= slope / SPREAD_PART as f64
        && beginnings_ns >= BEGINNINGS as f64 * instants_ns
        && beginnings_ns >= BEGINNINGS_NS as f64;
    demonstrated.then_some(Grid {
        period_ns: slope.round() as u64,
        exact: false,
    })
}

/// How far apart the middle eight tenths are.
fn spread(mut all: Vec<f64>) -> Option<f64> {
    all.sort_by(f64::total_cmp);
    let tenth = all.len() / 10;
    Some(all.get(all.len().checked_sub(tenth + 1)?)? - all.get(tenth)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    fn after(differences: impl IntoIterator<Item = u64>) -> Rhythm {
        let mut rhythm = Rhythm::default();
        let mut at = 1_000_000_000;
        rhythm.add_instant(at, None);
        for difference in differences {
            at += difference;
            rhythm.add_instant(at, None);
        }
        rhythm
    }

    /// Waits whose starts are known; each this long after the previous instant.
    fn waits(mut rhythm: Rhythm, all: impl IntoIterator<Item = (u64, u64)>) -> Rhythm {
        let mut at = 1_000_000_000;
        for (difference, begun) in all {
            rhythm.add_instant(at + difference, Some(at + begun));
            at += difference;
        }
        rhythm
    }

    /// A pseudo-random number below another, the same for a turn each time.
    fn any(turn: u64, below: u64) -> u64 {
        turn.wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(29) % below
    }

    #[test]
    fn instants_that_are_computed_from_the_clock_are_near_a_grid_whenever_the_wait_begins() {
        for rhythm in [Rhythm::default(), Rhythm::of_lengths()] {
            let late = |turn| any(turn, 3_000);
            let tick = |turn: u64| {
                // One of nine is a garbage collection that takes some periods.
                let periods = if any(turn, 2) == 0 {
                    2 + any(turn, 70)
                } else {
                    1
                };
                let begun = (periods - 1) * MS + 30_000 + any(turn + 7, 60_000);
                (periods * MS + late(turn + 1) - late(turn), begun)
            };
            let rhythm = waits(rhythm, (1..400).map(tick));
            let period = rhythm.period_ns().expect("a period");
            assert!(period.abs_diff(MS) < 200, "{period}");
            assert_eq!(rhythm.skipped(0, 30 * MS + 700, Some(29 * MS + 90_000)), 29);
            assert_eq!(rhythm.periods(0, 30 * MS + 700), Some(30));
        }
    }

    #[test]
    fn instants_that_follow_the_starts_of_their_waits_have_no_period() {
        // A length after the clock's reading, steady work, and a latency of a few µs.
        for rhythm in [Rhythm::default(), Rhythm::of_lengths()] {
            for noise in [50, 400, 4_000, 20_000] {
                let turn = |turn: u64| {
                    let begun = 60_000 + any(turn, noise);
                    (begun + MS + any(turn + 3, 40), begun)
                };
                let found = waits(rhythm.clone(), (1..1_000).map(turn));
                assert_eq!(found.pattern(), TimerPattern::Irregular, "{noise}");
            }
        }
        // In virtual time each may take equally long.
        let same = waits(Rhythm::of_lengths(), [(1_061_000, 61_000); 200]);
        assert_eq!(same.pattern(), TimerPattern::Irregular);
    }

    #[test]
    fn a_pause_within_a_cycle_is_no_period() {
        // A loop of 10 ms that works, sleeps until a millisecond from now, and for its next cycle.
        for work in [5_000, 100_000, 400_000] {
            let cycle = |turn: u64| {
                let begun = work + any(turn, 3_000 + work / 40);
                let pause = begun + MS + 300;
                [(pause, begun), (10 * MS - pause, 60_000)]
            };
            let found = waits(Rhythm::default(), (1..300).flat_map(cycle));
            assert_eq!(found.pattern(), TimerPattern::Irregular, "{work}");
        }
    }

    #[test]
    fn a_periodic_thread_has_its_period_and_skipped_ones_are_counted() {
        let rhythm = after((0..40).map(|n| if n % 10 == 7 { 4 * MS } else { MS }));
        assert_eq!(rhythm.pattern(), TimerPattern::Period(MS));
        assert_eq!(rhythm.skipped(0, MS, None), 0);
        assert_eq!(rhythm.skipped(0, 4 * MS, None), 3);
        assert_eq!(
            rhythm.skipped(0, 1000 * MS, None),
            999,
            "exact at any number"
        );
        assert_eq!(rhythm.skipped(5, 3, None), 0);
    }

    #[test]
    fn instants_that_lay_ahead_when_the_wait_began_were_not_skipped() {
        let rhythm = after([MS; 40]);
        assert_eq!(rhythm.skipped(0, 100 * MS, Some(MS / 3)), 0, "it idles");
        assert_eq!(rhythm.skipped(0, 100 * MS, Some(3 * MS + 1)), 3);
        assert_eq!(rhythm.skipped(0, 4 * MS, Some(3 * MS + MS / 2)), 3);
        // It catches up: the wait began after the instant that it waits for.
        assert_eq!(rhythm.skipped(0, MS, Some(9 * MS)), 0);
        assert_eq!(rhythm.skipped(0, 2 * MS, Some(9 * MS)), 1);
    }

    #[test]
    fn sleeps_that_begin_when_the_work_is_done_have_no_period() {
        // 1 ms of sleep, the latency and 50 µs of work, which differs by some ns each time.
        let rhythm = after((0..640).map(|n| 1_050_000 + (n * 7919) % 6_000));
        assert_eq!(rhythm.pattern(), TimerPattern::Irregular);
        assert_eq!(rhythm.skipped(0, u64::MAX, None), 0);
        let narrow = after((0..640).map(|n| 1_050_000 + (n * 7919) % 300));
        assert_eq!(narrow.pattern(), TimerPattern::Irregular);
    }

    #[test]
    fn an_overload_that_skips_every_second_period_is_no_new_period() {
        let rhythm = after([MS; 40].into_iter().chain([2 * MS; 500]));
        assert_eq!(rhythm.pattern(), TimerPattern::Period(MS));
    }

    #[test]
    fn the_kernels_interval_is_the_period_whatever_the_instants_are() {
        let mut rhythm = Rhythm::default();
        rhythm.add_instant(MS, None);
        rhythm.set_interval(Some(MS));
        for turn in 1..100 {
            rhythm.add_instant(MS + 3 * MS * turn, None);
            assert_eq!(rhythm.pattern(), TimerPattern::Period(MS));
        }
        assert_eq!(rhythm.skipped(0, 3 * MS, Some(5 * MS / 2)), 2);
        // The program arms it itself.
        rhythm.set_interval(None);
        for turn in 200..300 {
            rhythm.add_instant(3 * MS * turn, None);
        }
        assert_eq!(rhythm.pattern(), TimerPattern::Period(MS), "on its grid");
        rhythm.set_interval(Some(0));
        assert_eq!(rhythm.pattern(), TimerPattern::Period(MS));
    }

    #[test]
    fn a_grid_that_restarts_now_and_then_keeps_its_period() {
        // Like `next = now + period` after an overrun.
        let again = |n: u64| if n % 3 == 1 { 4 * MS + n * 997 } else { MS };
        let rhythm = after((0..100).map(again));
        assert_eq!(rhythm.pattern(), TimerPattern::Period(MS));
        assert_eq!(rhythm.skipped(0, 4 * MS + MS / 2, Some(3 * MS + MS / 2)), 3);
        assert_eq!(rhythm.skipped(0, 2 * MS + 10, Some(MS + 10)), 1);
    }

    #[test]
    fn a_period_need_not_be_a_whole_number_of_ns() {
        let rhythm =
            after((0..200).map(|n| (n + 1) * 1_000_000_000 / 3000 - n * 1_000_000_000 / 3000));
        let period = rhythm.period_ns().expect("a period");
        assert!((333_333..=333_334).contains(&period), "{period}");
        assert_eq!(rhythm.skipped(0, 1_000_000_000, None), 2999);
    }

    #[test]
    fn without_a_grid_nothing_is_skipped() {
        let rhythm = after((1..80).map(|n| n * n * 10_007 % 9_000_000 + 1));
        assert_eq!(rhythm.pattern(), TimerPattern::Irregular);
        assert_eq!(rhythm.skipped(0, u64::MAX, None), 0);
        assert_eq!(after([MS; 5]).pattern(), TimerPattern::Unknown);
        assert_eq!(after([0; 100]).pattern(), TimerPattern::Irregular);
    }

    #[test]
    fn a_thread_that_changes_its_period_is_followed_and_one_that_loses_it_too() {
        let rhythm = after([MS; 70].into_iter().chain([MS / 4; 200]));
        assert_eq!(rhythm.pattern(), TimerPattern::Period(MS / 4));
        let rhythm = after([MS; 70].into_iter().chain([MS + MS / 2; 200]));
        assert_eq!(rhythm.pattern(), TimerPattern::Period(MS + MS / 2));
        let wild = (1..200).map(|n| n * n * 10_007 % 9_000_000 + 1);
        assert_eq!(
            after([MS; 70].into_iter().chain(wild)).pattern(),
            TimerPattern::Lost
        );
    }

    #[test]
    fn instants_out_of_order_and_extremes_do_not_panic() {
        let mut rhythm = Rhythm::default();
        for due in [0, u64::MAX, 5, 5, u64::MAX].into_iter().cycle().take(300) {
            rhythm.add_instant(due, Some(due / 2));
            let _ = rhythm.skipped(0, u64::MAX, Some(due));
            let _ = rhythm.periods(due, u64::MAX);
        }
    }
}
