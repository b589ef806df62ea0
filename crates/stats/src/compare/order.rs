//! In which order the runs of two sides were made, and what a drift of the machine can do
//! to their comparison.

use serde::{Deserialize, Serialize};

/// How the runs of both sides follow each other in time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum Order {
    /// Each two runs that follow each other are one of each side.
    Pairs,
    /// The sides alternate often enough, and neither is on average much later.
    Mixed,
    /// One side is mostly before the other, or they alternate too rarely: a drift of the
    /// machine looks like a difference of the sides.
    Apart,
    /// Not every run says when it was started.
    Unknown,
}

/// Runs in order of time: `true` for the second side, and their places in its list.
pub(super) fn sequence(starts: [&[Option<u64>]; 2]) -> Option<Vec<(u64, bool, usize)>> {
    let mut all = Vec::new();
    for (side, starts) in starts.into_iter().enumerate() {
        for (at, start) in starts.iter().enumerate() {
            all.push(((*start)?, side == 1, at));
        }
    }
    all.sort_unstable();
    Some(all)
}

/// What that order is.
pub(super) fn order(sequence: Option<&[(u64, bool, usize)]>) -> Order {
    let Some(sequence) = sequence else {
        return Order::Unknown;
    };
    let pairs = sequence.chunks(2);
    if pairs
        .into_iter()
        .all(|two| two.len() == 2 && two[0].1 != two[1].1)
    {
        return Order::Pairs;
    }
    let total = sequence.len() as f64;
    let second = sequence.iter().filter(|run| run.1).count() as f64;
    let first = total - second;
    let mean_place = |side: bool, count: f64| {
        let of = sequence.iter().enumerate().filter(|(_, run)| run.1 == side);
        of.map(|(place, _)| place as f64).sum::<f64>() / count.max(1.0)
    };
    let apart = (mean_place(true, second) - mean_place(false, first)).abs();
    // Wilcoxon's: the spread of that figure where the order was drawn at random.
    let spread = (total * total * (total + 1.0) / (12.0 * first * second)).sqrt();
    let stretches = 1 + sequence
        .windows(2)
        .filter(|two| two[0].1 != two[1].1)
        .count();
    let expected = 1.0 + 2.0 * first * second / total;
    if apart <= 0.8 * spread && stretches as f64 >= expected.floor() {
        Order::Mixed
    } else {
        Order::Apart
    }
}

/// By how much the second side would be above the first because of a straight trend over
/// time alone: the trend within the sides times their distance in time.
pub(super) fn trend(points: &[(u64, bool, f64)]) -> f64 {
    let base = points.iter().map(|point| point.0).min().unwrap_or(0);
    let at = |point: &(u64, bool, f64)| (point.0 - base) as f64;
    let means = [false, true].map(|side| {
        let of: Vec<_> = points.iter().filter(|point| point.1 == side).collect();
        let count = of.len().max(1) as f64;
        (
            of.iter().map(|point| at(point)).sum::<f64>() / count,
            of.iter().map(|point| point.2).sum::<f64>() / count,
        )
    });
    let (mut products, mut squares) = (0.0, 0.0);
    for point in points {
        let (time, value) = means[usize::from(point.1)];
        products += (at(point) - time) * (point.2 - value);
        squares += (at(point) - time).powi(2);
    }
    if squares == 0.0 {
        return 0.0;
    }
    products / squares * (means[1].0 - means[0].0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(word: &str) -> Order {
        let mut starts = [Vec::new(), Vec::new()];
        for (at, side) in word.chars().enumerate() {
            starts[usize::from(side == 'B')].push(Some(at as u64 * 60));
        }
        order(sequence([&starts[0], &starts[1]]).as_deref())
    }

    #[test]
    fn the_orders_of_runs_are_recognised() {
        for (word, expected) in [
            ("ABABAB", Order::Pairs),
            ("ABBAABBA", Order::Pairs),
            ("BAABABBA", Order::Pairs),
            ("AABBABBAAB", Order::Mixed),
            ("ABBA", Order::Pairs),
            ("AAABBB", Order::Apart),
            ("BBBBAAAA", Order::Apart),
            ("AAABBBBBBAAA", Order::Apart),
            ("AABBAABB", Order::Apart),
            ("ABABABA", Order::Mixed),
        ] {
            assert_eq!(of(word), expected, "{word}");
        }
        assert_eq!(order(None), Order::Unknown);
        assert_eq!(sequence([&[Some(1)], &[None]]), None);
    }

    #[test]
    fn a_straight_trend_is_distinguished_from_a_step_between_the_sides() {
        let points: Vec<_> = (0..8)
            .map(|at| (at * 60, at % 2 == 1, at as f64 * 0.1))
            .collect();
        assert!((trend(&points) - 0.1).abs() < 1e-9);
        let step: Vec<_> = (0..8)
            .map(|at| (at * 60, at % 2 == 1, f64::from(u8::from(at % 2 == 1))))
            .collect();
        assert!(trend(&step).abs() < 1e-9);
    }
}
