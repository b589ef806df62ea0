//! Wake-ups of a program that is not a probe. When they were due is not recorded, but the wake-ups of a
//! periodic loop are due on a grid, and its own marks show that grid.
//!
//! The grid is found from the wake-ups on time: these are one period apart and at the same place in it,
//! while late ones are anywhere. The lateness of a wake-up is its distance from that place.

use punctual_record::lab::NoBill;

/// The largest difference between wake-ups on time.
const ON_TIME_NS: u64 = 2_000;
/// The precision of the start of those.
const NARROW_NS: u64 = 250;
/// The fewest marks from which a grid can be found.
const FEWEST: usize = 16;
/// The most marks that are used to find the grid.
const MOST: usize = 1 << 16;
/// One in this many wake-ups must be on time: with fewer, a false grid may be found.
const ONE_IN: usize = 3;
/// There must also be this many times more than by chance.
const MORE_THAN_CHANCE: f64 = 5.0;
/// Periods that are tried to either side, at each doubling of the span.
const TRIES: i32 = 8;

/// How much later than on time the program woke at each mark, in ns; 0 for the first.
///
/// # Errors
/// The wake-ups do not have one period.
pub fn lateness(marks: &[u64]) -> Result<Vec<u64>, NoBill> {
    if marks.len() < FEWEST {
        return Err(NoBill::FewMarks {
            marks: marks.len() as u64,
            fewest: FEWEST as u64,
        });
    }
    let marks_used = &marks[..marks.len().min(MOST)];
    let none = || NoBill::NoPeriod;
    let mut period = common_gap(marks_used).ok_or_else(none)?;
    let mut span = FEWEST;
    loop {
        // Over this many periods the grid moves by a fraction of the window for wake-ups on time.
        let step = ON_TIME_NS as f64 / span as f64 / 4.0;
        period = best_period(&marks_used[..span], period, step, TRIES, ON_TIME_NS);
        if span == marks_used.len() {
            break;
        }
        span = (span * 2).min(marks_used.len());
    }
    let (count, _) = on_time(marks_used, period, ON_TIME_NS);
    let by_chance = marks_used.len() as f64 * ON_TIME_NS as f64 / period;
    let fewest = (marks_used.len() / ONE_IN).max(FEWEST / 2) as f64;
    if (count as f64) < fewest.max(by_chance * MORE_THAN_CHANCE) {
        return Err(none());
    }
    if has_another_gap(marks_used, period) {
        return Err(NoBill::SeveralLoops);
    }
    // All marks in the wider window count as on time; the narrow window is its start.
    let step = NARROW_NS as f64 / marks_used.len() as f64 / 4.0;
    let tries = TRIES * (ON_TIME_NS / NARROW_NS) as i32;
    period = best_period(marks_used, period, step, tries, NARROW_NS);
    let (_, phase) = on_time(marks_used, period, NARROW_NS);
    let late = |pair: &[u64]| {
        // Due was the first instant after the wake-up before.
        let periods = ((pair[0] as f64 - phase + ON_TIME_NS as f64) / period).floor() + 1.0;
        let due = phase + periods * period;
        (pair[1] as f64 - due).max(0.0) as u64
    };
    let mut all = vec![0];
    all.extend(marks.windows(2).map(late));
    Ok(all)
}

/// The period near this one with the most marks at one place; among equals the nearest.
fn best_period(marks: &[u64], period: f64, step: f64, tries: i32, width: u64) -> f64 {
    let mut best = (0, period);
    for index in 0..=2 * tries {
        let side = if index % 2 == 0 { 1.0 } else { -1.0 };
        let tried = period + side * f64::from((index + 1) / 2) * step;
        let count = on_time(marks, tried, width).0;
        if count > best.0 {
            best = (count, tried);
        }
    }
    best.1
}

fn gaps(marks: &[u64]) -> Vec<u64> {
    let mut gaps: Vec<u64> = marks
        .windows(2)
        .map(|pair| pair[1].saturating_sub(pair[0]))
        .collect();
    gaps.sort_unstable();
    gaps
}

/// Whether many gaps are not a multiple of the period: then there are two loops.
fn has_another_gap(marks: &[u64], period: f64) -> bool {
    let mut others = gaps(marks);
    others.retain(|gap| {
        let within = *gap as f64 % period;
        within.min(period - within) > ON_TIME_NS as f64
    });
    densest(&others, ON_TIME_NS).1 > marks.len() / 5
}

/// The most frequent gap.
fn common_gap(marks: &[u64]) -> Option<f64> {
    let gaps = gaps(marks);
    let (first, count) = densest(&gaps, ON_TIME_NS);
    let middle = *gaps.get(first + count / 2)?;
    (middle > 2 * ON_TIME_NS).then_some(middle as f64)
}

/// Where in a sorted list the most entries are within a width, and how many.
fn densest(sorted: &[u64], width: u64) -> (usize, usize) {
    let mut best = (0, 0);
    let mut first = 0;
    for (last, value) in sorted.iter().enumerate() {
        while value - sorted[first] > width {
            first += 1;
        }
        if last + 1 - first > best.1 {
            best = (first, last + 1 - first);
        }
    }
    best
}

/// The most marks in a window of this width, modulo this period, and where the window begins.
fn on_time(marks: &[u64], period: f64, width: u64) -> (usize, f64) {
    let mut places: Vec<u64> = marks
        .iter()
        .map(|mark| (*mark as f64 % period) as u64)
        .collect();
    // The end of a period is next to its start.
    let again: Vec<u64> = places
        .iter()
        .filter(|place| **place <= width)
        .map(|place| place + period as u64)
        .collect();
    places.extend(again);
    places.sort_unstable();
    let (first, count) = densest(&places, width);
    (count, places.get(first).map_or(0.0, |place| *place as f64))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Marks of a loop of 1 ms on a clock that goes wrong by so many parts in a million, with
    /// these latenesses by cycle.
    fn marks(count: u64, wrong: f64, late: impl Fn(u64) -> u64) -> Vec<u64> {
        let period = 1e6 * (1.0 + wrong / 1e6);
        let mut cycle = 0;
        let mut found = Vec::new();
        for index in 0..count {
            let due = |cycle: u64| (cycle as f64 * period) as u64 + 123_456;
            let woke = due(cycle) + late(index) + index * 7 % 90;
            found.push(woke);
            // As the loop does it: the first instant after the wake-up.
            while due(cycle) <= woke {
                cycle += 1;
            }
        }
        let first = found[0];
        found.iter().map(|mark| mark - first).collect()
    }

    #[test]
    fn late_wake_ups_are_found_where_most_are_on_time() {
        for (wrong, each) in [(0.0, 100), (37.0, 100), (-50.0, 10), (5.0, 4)] {
            let late = |index: u64| match index % each {
                1 => 10_000 + index * 977 % 5_900_000,
                _ => 0,
            };
            let marks = marks(4000, wrong, late);
            let found = lateness(&marks).expect("a period");
            for (index, found) in found.iter().enumerate().skip(1) {
                let expected = late(index as u64);
                assert!(
                    found.abs_diff(expected) <= 300,
                    "{wrong} {each}: {index}: {found} and not {expected}"
                );
            }
        }
        let mostly = |index: u64| (index % 4) * (3_000 + index * 7_919 % 5_000_000);
        for late in [mostly, |index| {
            index % 2 * (10_000 + index * 977 % 5_900_000)
        }] {
            assert!(lateness(&marks(4000, 20.0, late)).is_err());
        }
    }

    #[test]
    fn where_there_is_no_one_period_it_is_said() {
        let none = NoBill::FewMarks {
            marks: 0,
            fewest: FEWEST as u64,
        };
        assert_eq!(lateness(&[]), Err(none));
        assert_eq!(lateness(&[5; 100]), Err(NoBill::NoPeriod));
        let mut state = 1_u64;
        let mut at = 0;
        let random: Vec<u64> = (0..1000)
            .map(|_| {
                state = state
                    .wrapping_mul(6_364_136_223_846_793_005)
                    .wrapping_add(1);
                at += 100_000 + (state >> 32) % 3_000_000;
                at
            })
            .collect();
        assert_eq!(lateness(&random), Err(NoBill::NoPeriod));
        let one = marks(1000, 0.0, |_| 0);
        let mut two: Vec<u64> = one
            .iter()
            .flat_map(|mark| [*mark, mark + 300_000])
            .collect();
        two.sort_unstable();
        assert!(lateness(&two).is_err());
    }

    proptest! {
        #[test]
        fn no_marks_make_it_panic(marks in proptest::collection::vec(any::<u64>(), 0..60)) {
            let _ = lateness(&marks);
            let mut sorted = marks;
            sorted.sort_unstable();
            let _ = lateness(&sorted);
        }
    }
}
