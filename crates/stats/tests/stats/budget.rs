//! Sums of times: against a maximum flow, brute force, and a simulation in which hops stall together.

use proptest::prelude::*;
use punctual_stats::Histogram;
use punctual_stats::budget::{
    CommonBlocks, Exceedance, ExceedanceError, Within, at_least_under_any_dependence, best_split,
    common_blocks, independent, under_any_dependence,
};

/// Times 0, 1, 2 ..., as often as the counts say.
fn counted(counts: &[u64]) -> Exceedance {
    let total: u64 = counts.iter().sum();
    let mut below = 0;
    let mut points: Vec<(u64, f64)> = Vec::new();
    for (at, count) in counts.iter().enumerate().filter(|(_, count)| **count > 0) {
        below += count;
        points.push((at as u64, below as f64 / total as f64));
    }
    Exceedance::of_points(&points).expect("ascending")
}

fn of_samples(samples: &[u64]) -> Exceedance {
    let mut histogram = Histogram::new();
    samples.iter().for_each(|sample| histogram.record(*sample));
    Exceedance::of_histogram(&histogram, 0).expect("samples")
}

/// How often each of the samples is not exceeded.
fn exactly(samples: &[u64]) -> Vec<Within> {
    let mut sorted = samples.to_vec();
    sorted.sort_unstable();
    let within = |at_ns: u64| {
        let count = sorted.partition_point(|sample| *sample <= at_ns);
        Within {
            at_ns,
            probability: count as f64 / sorted.len() as f64,
        }
    };
    std::iter::once(0)
        .chain(sorted.iter().copied())
        .map(within)
        .collect()
}

/// The most cases in which two times, each as often as its counts say, can add up to more than `d`: a
/// maximum flow from the ones to the others (Ford and Fulkerson).
fn most_above(x: &[u64], y: &[u64], d: usize) -> u64 {
    let (n, m) = (x.len(), y.len());
    let (source, sink) = (n + m, n + m + 1);
    let mut room = vec![vec![0u64; n + m + 2]; n + m + 2];
    room[source][..n].copy_from_slice(x);
    for (j, count) in y.iter().enumerate() {
        room[n + j][sink] = *count;
    }
    for (i, row) in room.iter_mut().enumerate().take(n) {
        for j in (0..m).filter(|j| i + j > d) {
            row[n + j] = u64::MAX / 4;
        }
    }
    let mut flow = 0;
    loop {
        let mut from = vec![usize::MAX; n + m + 2];
        let mut queue = std::collections::VecDeque::from([source]);
        from[source] = source;
        while let Some(at) = queue.pop_front() {
            for next in 0..n + m + 2 {
                if from[next] == usize::MAX && room[at][next] > 0 {
                    from[next] = at;
                    queue.push_back(next);
                }
            }
        }
        if from[sink] == usize::MAX {
            return flow;
        }
        let (mut at, mut least) = (sink, u64::MAX);
        while at != source {
            least = least.min(room[from[at]][at]);
            at = from[at];
        }
        at = sink;
        while at != source {
            room[from[at]][at] -= least;
            room[at][from[at]] += least;
            at = from[at];
        }
        flow += least;
    }
}

#[test]
fn the_maximum_flow_of_this_test_is_right_in_a_case_done_by_hand() {
    // 1 + 1 > 1 alone: the smaller of both.
    assert_eq!(most_above(&[3, 2], &[1, 4], 1), 2);
    // Everything but 0 + 0, which must be met at least 3 - 2 + ... times: 5 - 0.
    assert_eq!(most_above(&[3, 2], &[1, 4], 0), 5);
}

/// The counts of a time, with the same sum.
fn shares() -> impl Strategy<Value = Vec<u64>> {
    prop::collection::vec(0u64..20, 1..8).prop_map(|mut counts| {
        let sum: u64 = counts.iter().sum();
        counts[0] += 200 - sum.min(199);
        counts
    })
}

proptest! {
    /// Sharp: no lower bound holds for two times.
    #[test]
    fn the_bound_of_two_times_is_what_the_worst_dependence_attains(x in shares(), y in shares()) {
        let worst = under_any_dependence(&[counted(&x), counted(&y)]);
        for d in 0..x.len() + y.len() {
            let most = most_above(&x, &y, d) as f64 / 200.0;
            let bound = worst.above(d as u64);
            prop_assert!((bound - most).abs() < 1e-9, "{d}: {bound} {most}");
        }
    }

    /// Sharp too: what the best dependence can't avoid is what is not the most that stays within.
    #[test]
    fn the_least_of_two_times_is_what_the_best_dependence_attains(x in shares(), y in shares()) {
        // Times are 0, 1, 2 ... us: at most 1.999 us is at most 1 us.
        let within = |counts: &[u64]| -> Vec<Within> {
            let mut below = 0;
            let each = counts.iter().zip(1..).map(|(count, next): (&u64, u64)| {
                below += count;
                Within { at_ns: next * 1_000 - 1, probability: below as f64 / 200.0 }
            });
            [Within { at_ns: 0, probability: 0.0 }].into_iter().chain(each).collect()
        };
        let hops = [within(&x), within(&y)];
        let reversed = |of: &[u64]| of.iter().rev().copied().collect::<Vec<u64>>();
        for d in 1..x.len() + y.len() {
            // i + j <= d, counted from the other end: i' + j' > (n - 1) + (m - 1) - d - 1.
            let kept = match (x.len() + y.len() - 2).checked_sub(d + 1) {
                Some(d) => most_above(&reversed(&x), &reversed(&y), d),
                None => 200,
            };
            let least = (200 - kept) as f64 / 200.0;
            let bound = at_least_under_any_dependence(&hops, d as u64 * 1_000);
            prop_assert!((bound - least).abs() < 1e-9, "{d}: {bound} {least}");
        }
    }

    #[test]
    fn independent_times_add_up_as_every_pair_counted(x in shares(), y in shares()) {
        let sum = independent(&[counted(&x), counted(&y)]);
        for d in 0..x.len() + y.len() {
            let mut above = 0;
            for (i, a) in x.iter().enumerate() {
                for (j, b) in y.iter().enumerate() {
                    above += if i + j > d { a * b } else { 0 };
                }
            }
            let expected = above as f64 / 40_000.0;
            prop_assert!((sum.above(d as u64) - expected).abs() < 1e-9);
        }
    }

    /// However samples of several hops belong together, the bound holds, and so does the split.
    #[test]
    fn no_joint_sample_exceeds_the_bound(
        rows in prop::collection::vec(prop::collection::vec(0u64..3_000_000, 4), 1..60),
        hops in 1usize..5,
        deadline in 0u64..9_000_000,
    ) {
        let columns: Vec<Vec<u64>> = (0..hops)
            .map(|hop| rows.iter().map(|row| row[hop]).collect())
            .collect();
        let parts: Vec<Exceedance> = columns.iter().map(|column| of_samples(column)).collect();
        let sums = rows.iter().map(|row| row[..hops].iter().sum::<u64>());
        let late = sums.filter(|sum| *sum > deadline).count();
        let share = late as f64 / rows.len() as f64;
        let bound = under_any_dependence(&parts).above(deadline);
        prop_assert!(share <= bound + 1e-12, "{share} {bound}");
        let exact: Vec<Vec<Within>> = columns.iter().map(|column| exactly(column)).collect();
        let least = at_least_under_any_dependence(&exact, deadline);
        prop_assert!(share >= least - 1e-12, "{share} {least}");
        if let Some(split) = best_split(&parts, deadline) {
            prop_assert!(share <= split.above + 1e-12);
            prop_assert!(split.above <= bound + 1e-12, "{split:?} {bound}");
            let within: u64 = split.shares.iter().map(|share| share.within_ns).sum();
            prop_assert!(within <= deadline);
            for (part, share) in parts.iter().zip(&split.shares) {
                prop_assert_eq!(part.above(share.within_ns), share.above);
            }
        } else {
            prop_assert_eq!(bound, 1.0);
        }
        // Fewer steps round up only.
        let full = parts.iter().fold(Exceedance::constant(0), |sum, it| sum.plus_any(it, usize::MAX));
        let few = parts.iter().fold(Exceedance::constant(0), |sum, it| sum.plus_any(it, 20));
        prop_assert!(few.steps().len() <= 20);
        prop_assert!(few.above(deadline) >= full.above(deadline));
    }

    #[test]
    fn a_sum_of_any_points_is_a_falling_staircase(
        points in prop::collection::vec((any::<u64>(), 0.0f64..=1.0), 1..50),
        deadline in any::<u64>(),
    ) {
        let mut points = points;
        points.sort_by_key(|it| it.0);
        let mut shares: Vec<f64> = points.iter().map(|it| it.1).collect();
        shares.sort_by(f64::total_cmp);
        let points: Vec<(u64, f64)> = points.iter().map(|it| it.0).zip(shares).collect();
        let Ok(part) = Exceedance::of_points(&points) else { return Ok(()) };
        for sum in [
            independent(&[part.clone(), part.clone(), part.clone()]),
            under_any_dependence(&[part.clone(), part.clone(), part.clone()]),
        ] {
            for pair in sum.steps().windows(2) {
                prop_assert!(pair[0].at_ns < pair[1].at_ns && pair[0].above > pair[1].above);
            }
            prop_assert!((0.0..=1.0).contains(&sum.above(deadline)));
        }
    }
}

/// A pseudo-random number in 0..1.
struct Draw(u64);

impl Draw {
    fn next(&mut self) -> f64 {
        self.0 = self
            .0
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 11) as f64 / (1u64 << 53) as f64
    }
}

/// Two hops of some 50 µs that stall for 0.5 to 3 ms in one of 1,000 cycles, at the same time: the
/// convolution promises far too much, adding percentiles is no bound, and the bound holds and is
/// not ten times too high.
#[test]
fn hops_that_stall_together_exceed_what_independence_promises() {
    let mut draw = Draw(1);
    let (mut first, mut second, mut sums) = (Vec::new(), Vec::new(), Vec::new());
    for _ in 0..400_000 {
        let stalls = draw.next() < 1e-3;
        let mut hop = || {
            let body = 30_000.0 + 40_000.0 * draw.next();
            let stall = 500_000.0 + 2_500_000.0 * draw.next();
            (body + if stalls { stall } else { 0.0 }) as u64
        };
        let (a, b) = (hop(), hop());
        first.push(a);
        second.push(b);
        sums.push(a + b);
    }
    let parts = [of_samples(&first), of_samples(&second)];
    let late = |d: u64| sums.iter().filter(|sum| **sum > d).count() as f64 / sums.len() as f64;
    let d = 4_000_000;
    let (truth, promised) = (late(d), independent(&parts).above(d));
    assert!(truth > 2e-4, "{truth}");
    assert!(promised < truth / 100.0, "{promised} {truth}");
    let bound = under_any_dependence(&parts).above(d);
    assert!(bound >= truth && bound < truth * 10.0, "{bound} {truth}");

    let quantile = |part: &Exceedance| part.exceeded_at_most(1e-3).expect("there is one");
    sums.sort_unstable();
    let true_quantile = sums[sums.len() * 9_995 / 10_000];
    let halves = |part: &Exceedance| part.exceeded_at_most(2.5e-4).expect("there is one");
    assert!(parts.iter().map(quantile).sum::<u64>() < true_quantile);
    assert!(parts.iter().map(halves).sum::<u64>() >= true_quantile);
}

#[test]
fn what_was_not_seen_is_longer_than_any_time() {
    let mut histogram = Histogram::new();
    histogram.record_n(1_000, 90);
    let part = Exceedance::of_histogram(&histogram, 10).expect("samples");
    assert_eq!(part.above(u64::MAX), 0.1);
    assert_eq!(part.exceeded_at_most(0.05), None);
    let sum = under_any_dependence(&[part.clone(), part.clone()]);
    assert!((sum.above(u64::MAX) - 0.2).abs() < 1e-12);
    let sum = independent(&[part.clone(), part]);
    assert!((sum.above(u64::MAX) - 0.19).abs() < 1e-12);
    assert_eq!(Exceedance::of_histogram(&Histogram::new(), 3), None);
}

#[test]
fn points_that_make_no_distribution_are_refused_by_their_place() {
    let of = Exceedance::of_points;
    assert_eq!(of(&[]), Err(ExceedanceError::Empty));
    assert_eq!(of(&[(5, 1.5)]), Err(ExceedanceError::NoProbability(0)));
    assert_eq!(of(&[(5, f64::NAN)]), Err(ExceedanceError::NoProbability(0)));
    assert_eq!(
        of(&[(5, 0.5), (5, 0.6)]),
        Err(ExceedanceError::NotAscending(1))
    );
    assert_eq!(
        of(&[(5, 0.5), (6, 0.5)]),
        Err(ExceedanceError::NotAscending(1))
    );
}

#[test]
fn hops_that_are_longer_together_than_the_deadline_have_no_split() {
    let parts = [Exceedance::constant(600), Exceedance::constant(500)];
    assert_eq!(best_split(&parts, 1_099), None);
    let split = best_split(&parts, 1_100).expect("it fits");
    assert_eq!(split.above, 0.0);
    assert_eq!(best_split(&[], 5), None);
    assert_eq!(under_any_dependence(&parts).above(1_099), 1.0);
}

#[test]
fn a_block_counts_where_all_hops_were_measured() {
    let hops = [
        vec![Some(10), Some(70), None, Some(90), Some(1)],
        vec![Some(20), Some(50), Some(90), Some(10)],
    ];
    let common = common_blocks(&hops, 100);
    assert_eq!(
        common,
        CommonBlocks {
            blocks: 3,
            possible: 1
        }
    );
    assert_eq!(common_blocks(&[], 100), CommonBlocks::default());
}
