//! Randomisation tests: how often a difference at least as large arises when the labels are
//! given to the units at random.
//!
//! The statistic is studentised and the largest over all measures decides (Westfall and
//! Young 1993), so each p-value is already adjusted for the number of measures.

use crate::random::Random;

/// Relabelings that are all enumerated; of more, [`DRAWS`] are drawn.
const MOST_ENUMERATED: u64 = 20_000;
const DRAWS: u64 = 4_999;
/// Sums in another order differ in the last digits.
const TOLERANCE: f64 = 1e-9;

/// What a test gave.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Tested {
    /// One p-value for each measure, two-sided, adjusted for the number of measures.
    pub(super) p: Vec<f64>,
    /// The smallest p-value that this many units can give.
    pub(super) smallest: f64,
}

/// Number of ways to choose `k` of `n`, as a float: it may be huge.
fn choose(n: usize, k: usize) -> f64 {
    (0..k.min(n - k)).fold(1.0, |product, i| product * (n - i) as f64 / (i + 1) as f64)
}

/// The smallest two-sided p-value with `first` and `second` units on the sides.
pub(super) fn smallest_of_sides(first: usize, second: usize) -> f64 {
    let ways = choose(first + second, first);
    // Sides of equal size may swap their names: the same split.
    let ends = if first == second { 2.0 } else { 1.0 };
    (ends / ways).min(1.0)
}

/// The smallest two-sided p-value with `pairs` pairs.
pub(super) fn smallest_of_pairs(pairs: usize) -> f64 {
    2.0_f64
        .powi(1 - i32::try_from(pairs).unwrap_or(i32::MAX))
        .min(1.0)
}

/// The smallest p-value that [`pairs`] gives of this many pairs and of any larger number: of many,
/// not all signs are tried.
pub(super) fn smallest_tested_of_pairs(pairs: usize) -> f64 {
    smallest_of_pairs(pairs).max(1.0 / (DRAWS + 1) as f64)
}

/// Compares two sides of units; `first[unit][measure]`. Both sides have two units or more.
pub(super) fn sides(first: &[Vec<f64>], second: &[Vec<f64>]) -> Tested {
    let all: Vec<&[f64]> = first.iter().chain(second).map(Vec::as_slice).collect();
    let measures = all.first().map_or(0, |unit| unit.len());
    let total = all.len();
    let statistic = |is_first: &[bool]| -> Vec<f64> {
        (0..measures)
            .map(|measure| {
                let of = |side: bool| {
                    let units = all.iter().zip(is_first).filter(move |(_, at)| **at == side);
                    Moments::of(units.map(|(unit, _)| unit[measure]))
                };
                of(true).separation(&of(false))
            })
            .collect()
    };
    let observed_labels: Vec<bool> = (0..total).map(|unit| unit < first.len()).collect();
    let observed = statistic(&observed_labels);
    let mut count = Counted::of(&observed);
    let ways = choose(total, first.len());
    if ways <= MOST_ENUMERATED as f64 {
        let mut labels = observed_labels;
        // Every split, from the observed one on to the last.
        loop {
            count.add(&statistic(&labels));
            if !next_split(&mut labels) {
                break;
            }
        }
    } else {
        let mut random = Random::new(0x7370_6c69_7473);
        let mut labels = observed_labels;
        count.add(&observed);
        for _ in 0..DRAWS {
            shuffle(&mut labels, &mut random);
            count.add(&statistic(&labels));
        }
    }
    count.tested(smallest_of_sides(first.len(), second.len()))
}

/// Compares the members of groups that were measured together: `units[unit][member][measure]`.
/// Returns the p-values by member and measure, flat: those of member 0 first. Within each
/// unit the labels of the members are given at random.
pub(super) fn within(units: &[Vec<Vec<f64>>]) -> Tested {
    let members = units.first().map_or(0, Vec::len);
    let measures = units.first().map_or(0, |unit| unit[0].len());
    // By unit, member and measure: how far above the others.
    let distance = |unit: &Vec<Vec<f64>>, member: usize, measure: usize| {
        let values = unit.iter().map(|of| of[measure]);
        unit[member][measure] - median_of_others(values, member)
    };
    let distances: Vec<f64> = units
        .iter()
        .flat_map(|unit| (0..members).map(move |member| (unit, member)))
        .flat_map(|(unit, member)| (0..measures).map(move |measure| (unit, member, measure)))
        .map(|(unit, member, measure)| distance(unit, member, measure))
        .collect();
    let statistic = |order: &dyn Fn(usize, usize) -> usize| -> Vec<f64> {
        let mut all = Vec::with_capacity(members * measures);
        for member in 0..members {
            for measure in 0..measures {
                let of =
                    |at: usize| distances[(at * members + order(at, member)) * measures + measure];
                all.push(Moments::of((0..units.len()).map(of)).away_from_zero());
            }
        }
        all
    };
    let observed = statistic(&|_, member| member);
    let mut count = Counted::of(&observed);
    if members == 2 && units.len() <= 14 {
        for flips in 0..1_usize << units.len() {
            count.add(&statistic(&|at, member| member ^ (flips >> at & 1)));
        }
    } else {
        let mut random = Random::new(0x6d65_6d62_6572);
        let mut orders: Vec<Vec<usize>> = vec![(0..members).collect(); units.len()];
        count.add(&observed);
        for _ in 0..DRAWS {
            orders
                .iter_mut()
                .for_each(|order| shuffle(order, &mut random));
            count.add(&statistic(&|at, member| orders[at][member]));
        }
    }
    let permutations: f64 = (1..=members).map(|k| k as f64).product();
    let smallest = 2.0 / permutations.powf(units.len() as f64);
    count.tested(smallest.min(1.0))
}

/// Compares the halves of pairs; `differences[pair][measure]`: which half is which is given at
/// random, and so the sign of each pair's differences.
pub(super) fn pairs(differences: &[Vec<f64>]) -> Tested {
    let (count, measures) = (differences.len(), differences.first().map_or(0, Vec::len));
    let squares: Vec<f64> = (0..measures)
        .map(|measure| differences.iter().map(|pair| pair[measure].powi(2)).sum())
        .collect();
    let mut sums = vec![0.0; measures];
    // The sum of squares is the same for all signs.
    let mut statistic = |is_flipped: &mut dyn FnMut(usize) -> bool| -> Vec<f64> {
        sums.fill(0.0);
        for (at, pair) in differences.iter().enumerate() {
            let flipped = is_flipped(at);
            for (sum, value) in sums.iter_mut().zip(pair) {
                *sum += if flipped { -value } else { *value };
            }
        }
        let of = |(sum, squares): (&f64, &f64)| {
            let mean = sum / count as f64;
            let spread = (squares / count as f64 - mean * mean).max(0.0);
            ratio(mean, spread / (count as f64 - 1.0).max(1.0))
        };
        sums.iter().zip(&squares).map(of).collect()
    };
    let observed = statistic(&mut |_| false);
    let mut counted = Counted::of(&observed);
    if count <= 14 {
        for flips in 0..1_usize << count {
            counted.add(&statistic(&mut |at| flips >> at & 1 == 1));
        }
    } else {
        let mut random = Random::new(0x7061_6972_7373);
        counted.add(&observed);
        for _ in 0..DRAWS {
            let mut bits = 0;
            counted.add(&statistic(&mut |at| {
                if at % 64 == 0 {
                    bits = random.next();
                }
                bits >> (at % 64) & 1 == 1
            }));
        }
    }
    counted.tested(smallest_of_pairs(count))
}

/// The median of the values but the one at `place`.
pub(super) fn median_of_others(values: impl Iterator<Item = f64>, place: usize) -> f64 {
    let others = values.enumerate().filter(|(at, _)| *at != place);
    let mut others: Vec<f64> = others.map(|(_, value)| value).collect();
    others.sort_unstable_by(f64::total_cmp);
    let half = others.len() / 2;
    match others.len() {
        0 => 0.0,
        odd if odd % 2 == 1 => others[half],
        _ => (others[half - 1] + others[half]) / 2.0,
    }
}

fn shuffle<T>(items: &mut [T], random: &mut Random) {
    for last in (1..items.len()).rev() {
        items.swap(last, random.below(last + 1));
    }
}

/// The next way to choose as many: `true`s move on like the digits of a number.
fn next_split(labels: &mut [bool]) -> bool {
    let Some(at) = labels.windows(2).rposition(|two| two[0] && !two[1]) else {
        return false;
    };
    labels.swap(at, at + 1);
    labels[at + 2..].sort_unstable_by(|a, b| b.cmp(a));
    true
}

/// Relabelings counted, and those that are at least as extreme as what was observed.
struct Counted<'a> {
    observed: &'a [f64],
    as_extreme: Vec<u64>,
    all: u64,
}

impl<'a> Counted<'a> {
    fn of(observed: &'a [f64]) -> Self {
        Self {
            observed,
            as_extreme: vec![0; observed.len()],
            all: 0,
        }
    }

    fn add(&mut self, statistic: &[f64]) {
        let largest = statistic.iter().copied().fold(0.0, f64::max);
        self.all += 1;
        for (count, observed) in self.as_extreme.iter_mut().zip(self.observed) {
            *count += u64::from(largest >= observed * (1.0 - TOLERANCE));
        }
    }

    fn tested(self, smallest: f64) -> Tested {
        let share = |count: &u64| *count as f64 / self.all.max(1) as f64;
        Tested {
            p: self.as_extreme.iter().map(share).collect(),
            smallest: smallest.max(1.0 / self.all.max(1) as f64),
        }
    }
}

/// Number, mean and squared error of the mean.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Moments {
    pub(crate) count: f64,
    pub(crate) mean: f64,
    pub(crate) error2: f64,
}

impl Moments {
    pub(crate) fn of(values: impl Iterator<Item = f64> + Clone) -> Self {
        let count = values.clone().count() as f64;
        let mean = values.clone().sum::<f64>() / count;
        let squares: f64 = values.map(|value| (value - mean).powi(2)).sum();
        Self {
            count,
            mean,
            error2: squares / (count - 1.0).max(1.0) / count,
        }
    }

    fn separation(&self, other: &Self) -> f64 {
        ratio(self.mean - other.mean, self.error2 + other.error2)
    }

    fn away_from_zero(&self) -> f64 {
        ratio(self.mean, self.error2)
    }
}

/// The ratio of two sides of logarithms, second by first, with its interval (Welch and
/// Satterthwaite).
pub(super) fn welch(first: Moments, second: Moments, confidence: f64) -> (f64, (f64, f64)) {
    let difference = second.mean - first.mean;
    let error2 = first.error2 + second.error2;
    let parts = [first, second].map(|side| side.error2.powi(2) / (side.count - 1.0).max(1.0));
    let freedom = match parts[0] + parts[1] {
        0.0 => first.count + second.count - 2.0,
        sum => error2.powi(2) / sum,
    };
    let interval = super::ratio_interval(difference, error2, freedom, confidence);
    (difference.exp(), interval)
}

/// |t|. Without any spread a difference is infinitely clear, and none is none.
fn ratio(difference: f64, error2: f64) -> f64 {
    if difference.abs() <= TOLERANCE {
        0.0
    } else {
        (difference.abs() / error2.sqrt()).min(f64::MAX)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn one(values: &[f64]) -> Vec<Vec<f64>> {
        values.iter().map(|value| vec![*value]).collect()
    }

    #[test]
    fn three_runs_a_side_reach_a_p_value_of_a_tenth_and_four_of_a_thirty_fifth() {
        let tested = sides(&one(&[1.0, 1.1, 1.2]), &one(&[5.0, 5.1, 5.3]));
        assert_eq!((tested.p[0], tested.smallest), (0.1, 0.1));
        let tested = sides(&one(&[1.0, 1.1, 1.2, 1.3]), &one(&[5.0, 5.1, 5.3, 5.2]));
        assert_eq!(tested.p[0], 2.0 / 70.0);
        assert_eq!(tested.smallest, 2.0 / 70.0);
        // One side of one: no swap of names.
        assert_eq!(smallest_of_sides(1, 3), 0.25);
    }

    #[test]
    fn the_same_on_both_sides_is_never_a_difference() {
        let same = one(&[2.0, 2.0, 2.0, 2.0]);
        assert_eq!(sides(&same, &same).p, [1.0]);
        assert_eq!(pairs(&one(&[0.0; 8])).p, [1.0]);
        // No spread, but another value: as clear as the number of units permits.
        let tested = sides(&same, &one(&[3.0; 4]));
        assert_eq!(tested.p, [2.0 / 70.0]);
    }

    #[test]
    fn pairs_flip_their_signs() {
        let tested = pairs(&one(&[0.3, 0.2, 0.4, 0.1, 0.25, 0.35]));
        assert_eq!((tested.p[0], tested.smallest), (2.0 / 64.0, 2.0 / 64.0));
        let tested = pairs(&one(&[0.3, -0.2, 0.4, -0.1, 0.25, -0.35]));
        assert!(tested.p[0] > 0.5, "{tested:?}");
    }

    #[test]
    fn all_splits_are_visited_once() {
        let mut labels = [true, true, true, false, false, false];
        let mut seen = std::collections::BTreeSet::from([labels]);
        while next_split(&mut labels) {
            assert!(seen.insert(labels));
        }
        assert_eq!(seen.len(), 20);
    }

    #[test]
    fn more_measures_cost_significance() {
        let sides_of = |noise: &[f64]| -> (Vec<Vec<f64>>, Vec<Vec<f64>>) {
            let first = (0..5).map(|i| [vec![i as f64 * 0.1], noise[..3].to_vec()].concat());
            let second =
                (0..5).map(|i| [vec![0.25 + i as f64 * 0.1], noise[..3].to_vec()].concat());
            (first.collect(), second.collect())
        };
        let (first, second) = sides_of(&[0.0, 0.0, 0.0]);
        let flat = sides(&first, &second).p[0];
        let (mut first, mut second) = (first, second);
        let mut random = Random::new(3);
        for unit in first.iter_mut().chain(&mut second) {
            unit[1..]
                .iter_mut()
                .for_each(|value| *value = random.unit());
        }
        assert!(sides(&first, &second).p[0] > flat);
    }
}
