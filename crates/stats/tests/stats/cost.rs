//! What a treatment costs: machines on which it costs nothing, planted costs, and break-evens by hand.

use crate::support::Rng;
use punctual_stats::Histogram;
use punctual_stats::cost::{
    BreakEvenKind, CostEffect, CostMeasure, Price, TailQuantile, Usage, UsagePair, break_even,
    judge_apart, judge_costs, least_pairs, tail_of_runs,
};

/// A shared machine: CPU time varies by some per cent, elapsed time up to half, both drift, and now
/// and then a run is disturbed.
struct Machine {
    rng: Rng,
    drift: f64,
}

impl Machine {
    fn new(seed: u64) -> Self {
        Self {
            rng: Rng::new(seed),
            drift: 0.0,
        }
    }

    fn noise(&mut self, size: f64) -> f64 {
        // The sum of twelve is as good as normal.
        let sum: f64 = (0..12).map(|_| self.rng.unit()).sum();
        (sum - 6.0) * size
    }

    /// A run with so much more CPU time.
    fn run(&mut self, factor: f64) -> Usage {
        self.drift += self.noise(0.002);
        let burst = match self.rng.unit() < 0.05 {
            true => self.rng.exponential(0.1),
            false => 0.0,
        };
        let user = 8e8 * factor * (self.drift + self.noise(0.01) + burst).exp();
        let system = 2e8 * factor * (self.drift + self.noise(0.03) + burst).exp();
        let elapsed = (user + system) * (self.noise(0.15) + 3.0 * burst).exp();
        Usage {
            user_ns: user as u64,
            system_ns: system as u64,
            elapsed_ns: elapsed as u64,
            voluntary_switches: (100.0 * self.noise(0.2).exp()) as u64,
            minor_faults: 2_000,
            ..Usage::default()
        }
    }

    /// Pairs in random order.
    fn pairs(&mut self, count: usize, factor: f64) -> Vec<UsagePair> {
        let one = |_| {
            if self.rng.unit() < 0.5 {
                let without = self.run(1.0);
                let with = self.run(factor);
                UsagePair { without, with }
            } else {
                let with = self.run(factor);
                let without = self.run(1.0);
                UsagePair { without, with }
            }
        };
        (0..count).map(one).collect()
    }
}

fn named(effects: &[CostEffect]) -> Vec<CostMeasure> {
    let named = effects.iter().filter(|it| it.is_named);
    named.map(|it| it.measure).collect()
}

fn of(effects: &[CostEffect], measure: CostMeasure) -> CostEffect {
    *effects.iter().find(|it| it.measure == measure).unwrap()
}

#[test]
fn on_a_thousand_machines_without_a_cost_one_is_named_at_most_as_often_as_promised() {
    let (mut with_any, mut beyond_chance) = (0, 0);
    for seed in 0..1_000 {
        let mut machine = Machine::new(seed);
        let treatments = [machine.pairs(12, 1.0), machine.pairs(12, 1.0)];
        let identical = machine.pairs(12, 1.0);
        let results = judge_costs(&treatments, &identical, 0.95);
        let all = || results.treatments.iter().flatten();
        with_any += u32::from(all().any(|it| it.is_named));
        beyond_chance += u32::from(all().any(|it| it.p <= 0.05));
    }
    // 50 are promised; a binomial of 1,000 exceeds 70 in 2 of 1,000.
    assert!(beyond_chance <= 70, "{beyond_chance}");
    assert!(with_any <= beyond_chance, "{with_any}");
    // The test itself works: some are beyond chance by chance.
    assert!(beyond_chance >= 15, "{beyond_chance}");
}

#[test]
fn a_planted_cost_is_named_with_its_size() {
    let (mut found, mut covered) = (0, 0);
    for seed in 0..200 {
        let mut machine = Machine::new(seed);
        let treatments = [machine.pairs(12, 1.10)];
        let identical = machine.pairs(12, 1.0);
        let results = judge_costs(&treatments, &identical, 0.95);
        let cpu = of(&results.treatments[0], CostMeasure::CpuTime);
        found += u32::from(cpu.is_named);
        covered += u32::from(cpu.interval.0 <= 1.10 && 1.10 <= cpu.interval.1);
    }
    assert!(found >= 140, "{found}");
    assert!(covered >= 180, "{covered}");
}

#[test]
fn what_identical_runs_differ_by_is_never_named() {
    // A cost of exactly 3 %, and identical runs of which the second is always 5 % dearer.
    let usage = |cpu: f64| Usage {
        user_ns: (cpu * 1e9) as u64,
        elapsed_ns: 2_000_000_000,
        ..Usage::default()
    };
    let pairs = |with: f64| -> Vec<UsagePair> {
        (0..12)
            .map(|at| UsagePair {
                without: usage(1.0 + f64::from(at) * 1e-4),
                with: usage(with),
            })
            .collect()
    };
    let results = judge_costs(&[pairs(1.03)], &pairs(1.05), 0.95);
    let cpu = of(&results.treatments[0], CostMeasure::CpuTime);
    assert!(cpu.p <= 0.05 && !cpu.is_named, "{cpu:?}");
    let results = judge_costs(&[pairs(1.03)], &pairs(1.0), 0.95);
    assert_eq!(
        named(&results.treatments[0]),
        [CostMeasure::CpuTime, CostMeasure::User]
    );
    // Less than 1 % is not named, however exact the runs are.
    let results = judge_costs(&[pairs(1.008)], &pairs(1.0), 0.95);
    assert_eq!(named(&results.treatments[0]), []);
    // Without identical pairs nothing is named.
    let results = judge_costs(&[pairs(1.03)], &[], 0.95);
    assert_eq!(named(&results.treatments[0]), []);
    assert!(judge_costs(&[Vec::new()], &[], 0.95).treatments[0].is_empty());
}

#[test]
fn instructions_are_judged_where_all_runs_have_them() {
    let mut machine = Machine::new(1);
    let mut pairs = machine.pairs(12, 1.0);
    for (at, pair) in pairs.iter_mut().enumerate() {
        pair.without.instructions = Some(1_000_000_000 + at as u64);
        pair.with.instructions = Some(1_020_000_000);
    }
    let mut identical = machine.pairs(12, 1.0);
    for pair in &mut identical {
        pair.without.instructions = Some(1_000_000_000);
        pair.with.instructions = Some(1_000_000_100);
    }
    let results = judge_costs(&[pairs.clone()], &identical, 0.95);
    let counted = of(&results.treatments[0], CostMeasure::Instructions);
    assert!((counted.ratio - 1.02).abs() < 1e-6 && counted.is_named);
    pairs[3].with.instructions = None;
    let results = judge_costs(&[pairs], &identical, 0.95);
    let measures = results.treatments[0].iter().map(|it| it.measure);
    assert!(
        !measures
            .collect::<Vec<_>>()
            .contains(&CostMeasure::Instructions)
    );
}

#[test]
fn runs_of_almost_nothing_are_no_ratio() {
    let short = |ns| Usage {
        system_ns: ns,
        elapsed_ns: ns,
        ..Usage::default()
    };
    let pair = UsagePair {
        without: short(0),
        with: short(900_000),
    };
    let results = judge_costs(&[vec![pair; 12]], &[pair; 12], 0.95);
    assert!(results.treatments[0].iter().all(|it| it.ratio == 1.0));
}

#[test]
fn so_many_pairs_can_show_something() {
    assert_eq!(least_pairs(1, 0.95), Some(6));
    assert_eq!(least_pairs(2, 0.95), Some(7));
    assert_eq!(least_pairs(1, 0.99), Some(8));
    assert_eq!(least_pairs(1, 0.999_999), None);
}

#[test]
fn arms_before_and_after_a_reboot_are_judged_by_both_series() {
    let (mut wrong, mut found) = (0, 0);
    for seed in 0..300 {
        let [mut before, mut after] = [seed * 2 + 1, seed * 2 + 2].map(Machine::new);
        let (before, same) = (before.pairs(12, 1.0), after.pairs(12, 1.0));
        let results = judge_apart(&before, &same, 0.95);
        wrong += u32::from(!named(&results.treatments[0]).is_empty());
        let mut dearer = same;
        for pair in &mut dearer {
            for usage in [&mut pair.without, &mut pair.with] {
                usage.user_ns = usage.user_ns * 13 / 10;
            }
        }
        let results = judge_apart(&before, &dearer, 0.95);
        found += u32::from(named(&results.treatments[0]).contains(&CostMeasure::CpuTime));
    }
    // A slow drift within an arm is no chance that its runs show: the page says so.
    assert!(wrong <= 60, "{wrong}");
    assert!(found >= 240, "{found}");
    assert!(judge_apart(&[], &[], 0.95).treatments.is_empty());
}

#[test]
fn the_interval_of_a_tail_holds_though_samples_come_in_bursts() {
    // The 99.9th percentile of a mixture: 1 of 100 samples lies in a burst of 50, whose latencies are
    // exponential with a mean of 1 ms; P(above x) = 0.01 exp(-x / 1 ms) = 0.001 at 2.303 ms.
    let truth = 1e6 * 10.0_f64.ln();
    let mut held = 0;
    for seed in 0..300 {
        let mut rng = Rng::new(seed);
        let runs: Vec<Histogram> = (0..12)
            .map(|_| {
                let mut run = Histogram::new();
                for _ in 0..100 {
                    let in_burst = rng.unit() < 0.01;
                    for _ in 0..50 {
                        let ns = if in_burst { rng.exponential(1e6) } else { 0.0 };
                        run.record(5_000 + ns as u64);
                    }
                }
                run
            })
            .collect();
        let runs: Vec<&Histogram> = runs.iter().collect();
        let tail = tail_of_runs(&runs, 0.999, 0.95).unwrap();
        let high = tail.high_ns.unwrap_or(u64::MAX) as f64;
        held += u32::from(tail.low_ns as f64 <= truth && truth <= high);
        assert!(tail.low_ns <= tail.ns && tail.ns as f64 <= high);
    }
    assert!(held >= 265, "{held} of 300");
}

#[test]
fn a_tail_beyond_the_samples_is_not_known() {
    let mut run = Histogram::new();
    (0..900).for_each(|at| run.record(at));
    // 18 lie beyond p99, 1.8 beyond p99.9.
    assert!(tail_of_runs(&[&run, &run], 0.999, 0.95).is_none());
    assert!(tail_of_runs(&[&run], 0.9, 0.95).is_none());
    assert!(tail_of_runs(&[], 0.9, 0.95).is_none());
    let known = tail_of_runs(&[&run, &run], 0.99, 0.95).unwrap();
    assert!((885..900).contains(&known.ns), "{known:?}");
}

fn tail(ns: u64, low_ns: u64, high_ns: Option<u64>) -> TailQuantile {
    TailQuantile {
        ns,
        low_ns,
        high_ns,
    }
}

fn price(ratio: f64, interval: (f64, f64)) -> Price {
    Price {
        ratio,
        interval,
        is_named: true,
    }
}

#[test]
fn break_even_agrees_with_the_calculation_by_hand() {
    const US: u64 = 1_000;
    let (slow, fast) = (
        tail(1_000 * US, 900 * US, Some(1_200 * US)),
        tail(100 * US, 80 * US, Some(150 * US)),
    );
    // (1,000 - 100) us / 0.25; at least (900 - 150) / 0.50, at most (1,200 - 80) / 0.125.
    let below = break_even(slow, fast, price(1.25, (1.125, 1.5)));
    assert_eq!(
        below,
        BreakEvenKind::Below {
            ns: 3_600 * US,
            low_ns: 1_500 * US,
            high_ns: Some(8_960 * US),
        }
    );
    // The other way round: longer tail, and work takes half the time: 900 / 0.5; 750 / 0.75; 1,120 / 0.25.
    let above = break_even(fast, slow, price(0.5, (0.25, 0.75)));
    assert_eq!(
        above,
        BreakEvenKind::Above {
            ns: 1_800 * US,
            low_ns: 1_000 * US,
            high_ns: Some(4_480 * US),
        }
    );
    let faster = price(0.9, (0.85, 0.95));
    assert_eq!(break_even(slow, fast, faster), BreakEvenKind::Always);
    let slower = price(1.25, (1.125, 1.5));
    assert_eq!(break_even(fast, slow, slower), BreakEvenKind::Never);
}

#[test]
fn break_even_says_no_more_than_its_parts() {
    const US: u64 = 1_000;
    let slow = tail(1_000 * US, 900 * US, Some(1_200 * US));
    let fast = tail(100 * US, 80 * US, Some(150 * US));
    let open = tail(1_000 * US, 900 * US, None);
    let slower = price(1.25, (1.125, 1.5));
    let unknown = Price::new(1.01, (0.98, 1.04), 1.25, false);
    assert_eq!(unknown.interval, (0.8, 1.25));
    assert_eq!(
        Price::new(1.3, (1.28, 1.32), 1.25, true).interval,
        (1.28, 1.32)
    );
    // No price shown: it is at most 25 %, so 750 / 0.25 at least.
    assert_eq!(
        break_even(slow, fast, unknown),
        BreakEvenKind::UpToAtLeast { ns: 3_000 * US }
    );
    // No gain shown: it is at most (1,200 - 900) us, and the price at least 12.5 %.
    assert_eq!(
        break_even(slow, slow, slower),
        BreakEvenKind::AtMostBelow {
            ns: Some(2_400 * US)
        }
    );
    assert_eq!(
        break_even(open, slow, slower),
        BreakEvenKind::AtMostBelow { ns: None }
    );
    assert!(matches!(
        break_even(open, fast, slower),
        BreakEvenKind::Below { high_ns: None, .. }
    ));
    for (without, with, price) in [
        (slow, slow, unknown),
        (fast, slow, unknown),
        (slow, slow, price(0.5, (0.25, 0.75))),
        (open, open, unknown),
    ] {
        let kind = break_even(without, with, price);
        assert_eq!(kind, BreakEvenKind::NotDistinguishable);
    }
}
