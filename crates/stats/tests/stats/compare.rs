//! Comparisons with a known truth: how often equal sides are called different, and how often a
//! real difference is found. The machine drifts and stalls; the rates are printed.
#![allow(clippy::print_stdout, reason = "the rates are the point")]

use crate::support::Rng;
use punctual_stats::Histogram;
use punctual_stats::compare::{
    BlockFigures, Comparand, Comparison, Conclusion, Confounded, Order, RunComparand, Unit,
    Untested, members, pair, sides,
};

const CONFIDENCE: f64 = 0.95;

fn normal(rng: &mut Rng) -> f64 {
    let radius = (-2.0 * rng.unit().ln()).sqrt();
    radius * (2.0 * std::f64::consts::PI * rng.unit()).cos()
}

/// A machine at 1 kHz: most wake-ups are near its level, with bursts of 5 to 300 ms in which all
/// are slow.
struct Machine {
    rng: Rng,
    burst: u64,
    bursts_per_second: f64,
}

impl Machine {
    fn new(seed: u64, bursts_per_second: f64) -> Self {
        Self {
            rng: Rng::new(seed),
            burst: 0,
            bursts_per_second,
        }
    }

    fn block(&mut self, samples: u64, level: f64) -> Histogram {
        let mut histogram = Histogram::new();
        for _ in 0..samples {
            if self.burst == 0 && self.rng.unit() < self.bursts_per_second / 1000.0 {
                self.burst = (5.0 / self.rng.unit().powf(0.8)).min(300.0) as u64;
            }
            let slow = if self.burst > 0 { 6.0 } else { 1.0 };
            self.burst = self.burst.saturating_sub(1);
            let latency = 2_000.0 + self.rng.exponential(4_000.0 * slow);
            histogram.record((latency * level) as u64);
        }
        histogram
    }
}

/// How the machine drifts from run to run.
#[derive(Clone, Copy, Debug)]
enum Drift {
    Walk,
    Straight,
    Daily,
}

/// `word` is the order of the runs; the second side is slower by `effect`.
fn several(seed: u64, word: &str, drift: Drift, effect: f64) -> Comparison {
    let mut machine = Machine::new(seed, 4.0);
    let mut level = 0.0;
    let mut runs: [Vec<(Histogram, u64)>; 2] = [Vec::new(), Vec::new()];
    for (at, side) in word.chars().enumerate() {
        level += match drift {
            Drift::Walk => 0.08 * normal(&mut machine.rng),
            Drift::Straight => 0.05,
            Drift::Daily => 0.1 * (at as f64 * 0.4 + seed as f64).sin(),
        };
        let own = 0.03 * normal(&mut machine.rng);
        let side = usize::from(side == 'B');
        let factor = (1.0 + effect * side as f64).ln();
        let total = machine.block(4_000, (level + own + factor).exp());
        runs[side].push((total, at as u64 * 30));
    }
    sides(&view(&runs[0]), &view(&runs[1]), CONFIDENCE)
}

/// Runs with their start times.
fn view(runs: &[(Histogram, u64)]) -> Vec<RunComparand<'_>> {
    let of = |run| {
        let (total, at): &(Histogram, u64) = run;
        RunComparand {
            total,
            started_ns: Some(*at),
            limit_ns: None,
        }
    };
    runs.iter().map(of).collect()
}

fn names_a_side(conclusion: Conclusion) -> bool {
    matches!(
        conclusion,
        Conclusion::FirstSlower | Conclusion::SecondSlower | Conclusion::Mixed
    )
}

fn share(experiments: u64, of: impl Fn(u64) -> bool) -> f64 {
    (0..experiments).filter(|seed| of(*seed)).count() as f64 / experiments as f64
}

/// The nominal level and twice the standard error of `experiments`.
fn nominal(experiments: u64) -> f64 {
    0.05 + 2.0 * (0.05 * 0.95 / experiments as f64).sqrt()
}

#[test]
fn equal_sides_of_a_drifting_machine_differ_at_most_at_the_nominal_rate() {
    let experiments = 160;
    for word in [
        "ABBAABBA",
        "ABABABAB",
        "ABABABABAB",
        "ABABABABABABAB",
        "ABBABAABABBABAAB",
    ] {
        for drift in [Drift::Walk, Drift::Straight, Drift::Daily] {
            let wrong = share(experiments, |seed| {
                names_a_side(several(seed + 1, word, drift, 0.0).conclusion)
            });
            println!("A/A {word} {drift:?}: {:.1} %", wrong * 100.0);
            assert!(wrong <= nominal(experiments), "{word} {drift:?}: {wrong}");
        }
    }
}

#[test]
fn one_side_before_the_other_never_names_a_side() {
    let mut differ = 0;
    for seed in 0..60 {
        for drift in [Drift::Walk, Drift::Straight] {
            let found = several(seed + 1, "AAAABBBB", drift, 0.0);
            assert_eq!(found.order, Some(Order::Apart));
            assert!(!names_a_side(found.conclusion), "{found:?}");
            let because = Confounded::Order;
            differ += usize::from(found.conclusion == Conclusion::Differ { because });
        }
    }
    println!("AAAABBBB: {differ} of 120 differ");
    assert!(differ > 40, "drift alone makes them differ: {differ}");
}

#[test]
fn a_real_difference_is_found_where_runs_are_repeated_in_mixed_order() {
    let experiments = 60;
    for (word, effect, least) in [
        ("ABBAABBA", 0.5, 0.5),
        ("ABABABABAB", 0.5, 0.6),
        ("ABBAABBAABBA", 0.3, 0.8),
        ("ABABABABABABABAB", 0.2, 0.7),
    ] {
        let found = share(experiments, |seed| {
            several(seed + 1, word, Drift::Walk, effect).conclusion == Conclusion::SecondSlower
        });
        println!("+{} % in {word}: {:.0} %", effect * 100.0, found * 100.0);
        assert!(found >= least, "{word}: {found}");
    }
}

#[test]
fn too_few_runs_state_how_many_are_needed() {
    for (word, runs) in [("ABBAAB", 3), ("AB", 1), ("ABBA", 2)] {
        let found = several(7, word, Drift::Walk, 3.0);
        assert_eq!(found.runs, (runs, runs));
        assert_eq!(found.conclusion, Conclusion::TooFewRuns { needed: 4 });
    }
    let four = several(7, "ABBAABBA", Drift::Walk, 3.0);
    let basis = four.basis.expect("tested");
    assert_eq!((basis.unit, basis.units), (Unit::Run, (4, 4)));
    assert_eq!(basis.smallest_p, 2.0 / 70.0);
    assert_eq!(four.conclusion, Conclusion::SecondSlower);
    let pairs = several(7, "ABBAABBAABBA", Drift::Walk, 3.0);
    let basis = pairs.basis.expect("tested");
    assert_eq!((basis.unit, basis.units), (Unit::Pair, (6, 6)));
    assert_eq!(basis.smallest_p, 2.0 / 64.0);
}

#[test]
fn a_straight_trend_is_no_effect_of_a_side() {
    // Far above the noise; the second run of each pair is always slower.
    let mut starts = 0;
    let mut run = |level: f64| {
        starts += 60;
        let mut machine = Machine::new(starts, 0.0);
        (machine.block(4_000, level), starts)
    };
    let (mut first, mut second) = (Vec::new(), Vec::new());
    for step in 0..8 {
        first.push(run(1.0 + 0.2 * f64::from(step)));
        second.push(run(1.1 + 0.2 * f64::from(step)));
    }
    let found = sides(&view(&first), &view(&second), CONFIDENCE);
    let because = Confounded::Trend;
    assert_eq!(
        found.conclusion,
        Conclusion::Differ { because },
        "{found:?}"
    );
}

fn single(seed: u64, bursts: f64, level: f64) -> (Histogram, Vec<Histogram>) {
    let mut machine = Machine::new(seed, bursts);
    let blocks: Vec<_> = (0..48).map(|_| machine.block(250, level)).collect();
    (Histogram::merged(&blocks), blocks)
}

fn compare_single(a: &(Histogram, Vec<Histogram>), b: &(Histogram, Vec<Histogram>)) -> Comparison {
    let [one, two] = [a, b].map(|(total, blocks)| Comparand {
        total,
        blocks,
        block_ns: 250_000_000,
        limit_ns: None,
    });
    pair(one, two, CONFIDENCE)
}

#[test]
fn two_runs_of_one_steady_machine_differ_at_most_at_the_nominal_rate_however_it_bursts() {
    let experiments = 160;
    for bursts in [0.0, 0.3, 4.0] {
        let wrong = share(experiments, |seed| {
            let (a, b) = (
                single(2 * seed + 1, bursts, 1.0),
                single(2 * seed + 2, bursts, 1.0),
            );
            let found = compare_single(&a, &b);
            assert!(!names_a_side(found.conclusion));
            found.conclusion != Conclusion::NoDifferenceSeen
        });
        println!("pairs with {bursts} bursts/s: {:.1} %", wrong * 100.0);
        assert!(wrong <= nominal(experiments), "{bursts}: {wrong}");
    }
}

#[test]
fn two_runs_that_differ_are_reported_to_differ_and_no_side_is_named() {
    let found = share(60, |seed| {
        let (a, b) = (
            single(2 * seed + 1, 4.0, 1.0),
            single(2 * seed + 2, 4.0, 1.3),
        );
        let because = Confounded::SingleRuns;
        compare_single(&a, &b).conclusion == Conclusion::Differ { because }
    });
    println!("pairs +30 %: {:.0} %", found * 100.0);
    assert!(found >= 0.8, "{found}");
}

#[test]
fn a_run_compared_with_itself_shows_no_difference_and_untestable_runs_are_untested() {
    let one = single(3, 4.0, 1.0);
    let same = compare_single(&one, &one);
    assert_eq!(same.conclusion, Conclusion::NoDifferenceSeen);
    assert_eq!((same.delta, same.quantiles[0].ratio), (0.0, Some(1.0)));
    assert!(same.quantiles.iter().all(|q| q.p.is_none_or(|p| p == 1.0)));

    let bare = (one.0.clone(), Vec::new());
    let why = Untested::NoBlocks;
    let found = compare_single(&one, &bare);
    assert_eq!(found.conclusion, Conclusion::Untested { why });
    assert!(found.quantiles.iter().all(|q| q.p.is_none()));
    let brief = (one.0.clone(), one.1[..7].to_vec());
    let why = Untested::TooShort;
    assert_eq!(
        compare_single(&one, &brief).conclusion,
        Conclusion::Untested { why }
    );
    let few = Machine::new(1, 0.0).block(50, 1.0);
    let found = compare_single(&one, &(few, Vec::new()));
    assert_eq!(found.conclusion, Conclusion::TooFewSamples);
}

#[test]
fn latencies_beyond_the_end_of_a_histogram_are_not_compared() {
    let (total, blocks) = single(3, 4.0, 1.0);
    let limit_ns = total.quantile(0.99);
    let known = Comparand {
        total: &total,
        blocks: &blocks,
        block_ns: 250_000_000,
        limit_ns: None,
    };
    let cut = Comparand { limit_ns, ..known };
    let found = pair(known, cut, CONFIDENCE);
    let quantiles: Vec<f64> = found.quantiles.iter().map(|q| q.quantile).collect();
    assert_eq!(quantiles, [0.5]);
}

/// The CPUs of one run: a stall of the machine affects all of them, and each has its own level.
fn together(seed: u64, levels: &[f64]) -> Vec<Vec<BlockFigures>> {
    let mut shared = Rng::new(seed);
    let mut machines: Vec<Machine> = (0..levels.len() as u64)
        .map(|cpu| Machine::new(seed * 64 + cpu + 1, 2.0))
        .collect();
    let mut all = vec![Vec::new(); levels.len()];
    let mut drift = 0.0;
    for _ in 0..48 {
        drift += 0.2 * normal(&mut shared);
        for ((machine, level), blocks) in machines.iter_mut().zip(levels).zip(&mut all) {
            let block = machine.block(250, level * f64::exp(drift));
            blocks.push(BlockFigures::of(&block));
        }
    }
    all
}

#[test]
fn cpus_of_one_run_are_paired_by_their_time() {
    let experiments = 80;
    for levels in [[1.0; 2].as_slice(), &[1.0; 4]] {
        let wrong = share(experiments, |seed| {
            let found = members(&together(seed + 1, levels), 250_000_000, CONFIDENCE);
            found.members.iter().any(|member| member.slower.is_some())
        });
        println!("{} equal CPUs: {:.1} %", levels.len(), wrong * 100.0);
        assert!(wrong <= nominal(experiments), "{wrong}");
    }
}

/// Which CPUs with these levels are called slower (`Some(true)`) or faster than the others.
fn called(seed: u64, levels: &[f64]) -> Vec<Option<bool>> {
    let found = members(&together(seed, levels), 250_000_000, CONFIDENCE);
    found.members.iter().map(|member| member.slower).collect()
}

#[test]
fn only_the_cpu_that_differs_is_named() {
    let experiments = 60;
    let (slow, fast) = (Some(true), Some(false));
    let cases: [(&[f64], &[Option<bool>]); 6] = [
        (&[1.0, 1.0, 1.3], &[None, None, slow]),
        (&[1.0, 1.0, 1.3, 1.0], &[None, None, slow, None]),
        (&[1.0, 0.7, 1.0, 1.0], &[None, fast, None, None]),
        (
            &[1.0, 1.0, 2.0, 1.0, 1.0, 1.0, 1.0, 1.0],
            &[None, None, slow, None, None, None, None, None],
        ),
        (&[1.4, 1.0, 1.0, 1.0, 1.4], &[slow, None, None, None, slow]),
        (&[0.7, 1.0, 1.0, 1.0, 1.4], &[fast, None, None, None, slow]),
    ];
    for (levels, expected) in cases {
        let found = share(experiments, |seed| called(seed + 1, levels) == expected);
        let more = share(experiments, |seed| {
            let called = called(seed + 1, levels);
            called
                .iter()
                .zip(expected)
                .any(|(is, truth)| is.is_some() && is != truth)
        });
        println!(
            "{levels:?}: {:.0} %, too much {:.0} %",
            found * 100.0,
            more * 100.0
        );
        assert!(found >= 0.8, "{levels:?}: {found}");
        assert!(more <= nominal(experiments), "{levels:?}: {more}");
    }
    // If only two CPUs differ, each differs from the other.
    assert!(
        share(experiments, |seed| called(seed + 1, &[1.0, 1.4])
            == [fast, slow])
            >= 0.8
    );
    // Two kinds of CPUs in equal number: one kind is reported, not both.
    let halves = share(experiments, |seed| {
        let called = called(seed + 1, &[1.0, 1.0, 1.4, 1.4]);
        called == [fast, fast, None, None] || called == [None, None, slow, slow]
    });
    assert!(halves >= 0.8, "{halves}");
}

#[test]
fn cpus_without_blocks_are_not_tested() {
    let found = members(&[Vec::new(), Vec::new()], 0, CONFIDENCE);
    assert_eq!(found.untested, Some(Untested::NoBlocks));
    let brief: Vec<_> = together(1, &[1.0, 1.0])
        .into_iter()
        .map(|blocks| blocks[..5].to_vec())
        .collect();
    let found = members(&brief, 250_000_000, CONFIDENCE);
    assert_eq!(found.untested, Some(Untested::TooShort));
    assert!(found.members.is_empty());
}
