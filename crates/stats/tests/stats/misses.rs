//! The effect of more evidence on a verdict, and whether the bounds hold for every relation of
//! deadline and interval: simulated machines whose truth is known.
#![allow(clippy::print_stdout, reason = "the table is what one runs this for")]

use crate::support::{self, PERIOD, Rng, Run, Stall, stalled};
use proptest::prelude::*;
use punctual_stats::miss::MissRows;
use punctual_stats::miss::definition::misses_of;
use punctual_stats::verdict::{RequirementResult, Seen};
use punctual_stats::{
    Histogram, Outcome, Peak, Peaks, Requirement, RunEvidence, Skipped, ThreadEvidence, Verdict,
    judge,
};

const CONFIDENCE: f64 = 0.95;

/// A run of one thread, from its wake-ups: the requested instant, the latency, skipped periods.
struct Built {
    histogram: Histogram,
    peaks: Peaks,
    deadline_ns: u64,
    late: u64,
    skipped: u64,
    missed_late: u64,
    cycles: u64,
}

impl Built {
    fn new(cycles: u64, deadline_ns: u64, late: &[(u64, u64)]) -> Self {
        let mut built = Built {
            histogram: Histogram::new(),
            peaks: Peaks::new(),
            deadline_ns,
            late: 0,
            skipped: 0,
            missed_late: 0,
            cycles,
        };
        let mut planted = late.to_vec();
        planted.sort_unstable();
        let mut planted = planted.into_iter().peekable();
        let mut cycle = 0;
        while cycle < cycles {
            let mut latency = 5_000;
            while let Some((at, ns)) = planted.peek().copied().filter(|(at, _)| *at <= cycle) {
                latency = latency.max(ns.saturating_sub((cycle - at) * PERIOD));
                planted.next();
            }
            let skipped = (latency / PERIOD).min(cycles - cycle - 1);
            built.histogram.record(latency);
            let peak = Peak::new(cycle, cycle * PERIOD, latency).with_skipped(skipped);
            built.peaks.offer(peak);
            let late = u64::from(latency > deadline_ns);
            let misses = misses_of(latency, skipped, Some(PERIOD), deadline_ns);
            built.late += late;
            built.missed_late += misses - late;
            built.skipped += skipped;
            cycle += 1 + skipped;
        }
        built
    }

    fn judged(&self, allowed: f64) -> Verdict {
        let thread = ThreadEvidence {
            late: self.late,
            missed: self.skipped,
            missed_late: self.missed_late,
            ..support::thread(&self.histogram, &self.peaks)
        };
        let run = RunEvidence {
            parts: Vec::new(),
            threads: vec![thread],
            duration_ns: self.cycles * PERIOD,
            deadline_ns: Some(self.deadline_ns),
            seconds: self.cycles / 1000,
            seconds_with_miss: 0,
            rows: None,
            halves: None,
        };
        let deadline_ns = self.deadline_ns;
        let required = Requirement::MissProbability {
            deadline_ns,
            allowed,
        };
        judge(&[required], &run, CONFIDENCE)
    }
}

/// A reported case: 100 stalls of 2.5 ms and one of 60 ms, deadline 10 ms, interval 1 ms.
#[test]
fn one_stall_beyond_a_deadline_of_many_intervals_is_one_burst() {
    let mut late: Vec<(u64, u64)> = (0..100).map(|i| (100 + i * 190, 2_500_000)).collect();
    late.push((9_999, 60_000_000));
    let built = Built::new(20_000, 10_000_000, &late);
    // Cycles due more than 10 ms before the end of the stall: at 0 (the late one), 1, ..., 49 ms.
    assert_eq!((built.late, built.missed_late), (1, 49));
    let verdict = built.judged(8e-3);
    let bound = &verdict.requirements[0].bound;
    assert_eq!((bound.misses, bound.bursts), (50, Some(1)));
    assert_eq!(verdict.outcome, Outcome::Inconclusive, "{verdict:?}");
    assert_eq!((bound.late, bound.missed), (1, 49));
    let seen = Seen::WakeUps {
        samples: 20_000 - 260,
        skipped: 260,
        worst_ns: Some(60_000_000),
    };
    assert_eq!(verdict.requirements[0].seen, seen);
}

/// A reported case: one more stall changed a FAIL to INCONCLUSIVE.
#[test]
fn a_giant_stall_does_not_take_a_failure_back() {
    let singles: Vec<(u64, u64)> = (0..59).map(|i| (500 + i * 1_000, 200_000)).collect();
    let before = Built::new(60_000, 100_000, &singles).judged(6e-4);
    assert_eq!(before.outcome, Outcome::Fail, "{before:?}");
    let mut more = singles;
    more.push((20_020, 3_000_000_000));
    // Replacing good cycles, and as an extension of the run.
    for cycles in [60_000, 63_000] {
        let after = Built::new(cycles, 100_000, &more).judged(6e-4);
        assert_eq!(after.outcome, Outcome::Fail, "{after:?}");
    }
}

/// A record may hold any numbers.
#[test]
fn instants_at_the_end_of_time_are_judged() {
    let mut run = Run::new(100_000, 0.0);
    for at in 0..60 {
        run.peaks.offer(Peak::new(at, u64::MAX - at, 1_000 + at));
    }
    run.peaks.offer(Peak::new(60, u64::MAX, u64::MAX));
    (run.samples, run.late, run.duration_ns) = (100_000, 1, u64::MAX);
    let bound = run.evidence().bound(CONFIDENCE);
    assert!((bound.observed_probability..=1.0).contains(&bound.upper));
    assert!(bound.episodes.is_some_and(|it| it.upper.is_finite()));
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, cases: 300, ..ProptestConfig::default() })]

    #[test]
    fn more_misses_never_lower_the_lower_bound(
        events in proptest::collection::vec((0u64..20_000, 1u64..=400), 0..80),
        heavy in proptest::collection::vec((0u64..20_000, 400u64..=4_000), 0..3),
        more in proptest::collection::vec((0u64..20_000, 1u64..=5_000), 1..4),
        limit in prop::sample::select(vec![100_000u64, 1_000_000, 7_000_000]),
    ) {
        let evidence = |all: &[(u64, u64)], cycles: u64| {
            let mut run = Run::new(limit, 0.0);
            let mut sorted = all.to_vec();
            sorted.sort_unstable();
            for (at, weight) in sorted {
                let latency = limit + 1 + (weight - 1) * PERIOD;
                run.wake(at * PERIOD, latency, weight - 1);
            }
            run.samples = cycles - run.skipped;
            run.duration_ns = 20_000 * PERIOD;
            run.evidence().bound(CONFIDENCE).lower
        };
        let all: Vec<(u64, u64)> = events.iter().chain(&heavy).copied().collect();
        let with: Vec<(u64, u64)> = all.iter().chain(&more).copied().collect();
        let before = evidence(&all, 500_000);
        // Replacing good cycles.
        let after = evidence(&with, 500_000);
        prop_assert!(after >= before * (1.0 - 1e-6), "{after} < {before}");
        // As further cycles.
        let added: u64 = more.iter().map(|(_, weight)| weight).sum();
        let after = evidence(&with, 500_000 + added);
        prop_assert!(after >= before * (1.0 - 1e-6), "{after} < {before}");
    }

    #[test]
    fn more_good_cycles_never_raise_the_lower_bound(
        events in proptest::collection::vec((0u64..20_000, 1u64..=400), 1..80),
        cycles in 40_000u64..60_000,
        more in 1u64..100_000,
    ) {
        let bound = |cycles: u64, duration: u64| {
            let mut run = Run::new(100_000, 0.0);
            let mut sorted = events.clone();
            sorted.sort_unstable();
            for (at, weight) in sorted {
                run.wake(at * PERIOD, 100_001 + (weight - 1) * PERIOD, weight - 1);
            }
            run.samples = cycles;
            run.duration_ns = duration * PERIOD;
            run.evidence().bound(CONFIDENCE)
        };
        let before = bound(cycles, 20_000);
        // On another CPU in the same time, and in a longer run.
        for duration in [20_000, 20_000 + more] {
            let after = bound(cycles + more, duration);
            prop_assert!(after.lower <= before.lower * (1.0 + 1e-9));
        }
    }
}

/// What is simulated: the deadline, and stalls of several kinds.
struct Machine {
    name: &'static str,
    limit: u64,
    stalls: Vec<Stall>,
    /// Whether all stalls that miss are of a kind that occurs in nearly every run.
    common: bool,
}

const MS: f64 = 1e6;

fn machines() -> Vec<Machine> {
    let stall = |expected: f64, least: f64, more: f64| Stall {
        expected,
        least: least * MS,
        more: more * MS,
    };
    let mut machines = Vec::new();
    let relations = [
        ("deadline < interval", 100_000u64, 0.1),
        ("deadline = interval", 1_000_000, 1.0),
        ("deadline > interval", 3_000_000, 3.0),
        ("deadline >> interval", 30_000_000, 30.0),
    ];
    for (relation, limit, ms) in relations {
        let add = |machines: &mut Vec<Machine>, name: &'static str, stalls, common| {
            machines.push(Machine {
                name,
                limit,
                stalls,
                common,
            });
        };
        println!("{relation}: {limit} ns");
        // Just beyond the deadline: a miss or two each.
        add(
            &mut machines,
            "independent",
            vec![stall(60.0, ms + 0.4, 0.3)],
            true,
        );
        // Longer by half on average: several misses each.
        add(
            &mut machines,
            "bursty",
            vec![stall(40.0, ms, ms.max(4.0))],
            true,
        );
        // Frequent short stalls that keep the deadline, and a rare giant one that only some runs
        // contain.
        let short = (ms * 0.25).max(0.05);
        add(
            &mut machines,
            "one giant stall",
            vec![
                stall(300.0, short, 0.01),
                stall(1.0, 20.0 * ms.max(3.0), 0.001),
            ],
            false,
        );
        add(
            &mut machines,
            "rare giant stalls",
            vec![
                stall(300.0, short, 0.01),
                stall(2.0, 20.0 * ms.max(3.0), 0.001),
            ],
            false,
        );
        add(
            &mut machines,
            "giants among late ones",
            vec![
                stall(60.0, ms + 0.4, 0.3),
                stall(2.0, 20.0 * ms.max(3.0), 0.001),
            ],
            false,
        );
    }
    machines
}

/// How often each bound holds. The upper bound of a run can't include a giant stall that the run
/// didn't contain: for these machines the upper bound is asserted over the runs that contain one,
/// and the bound on episodes over all runs. (With many stalls, some are close to each other by
/// chance and are one episode: in that case the bound on episodes doesn't bound the number of
/// stalls.)
#[test]
fn the_bounds_hold_for_every_relation_of_deadline_and_interval() {
    const RUNS: u64 = 160;
    const CYCLES: u64 = 60_000;
    println!(
        "{:<26} {:>9} {:>8} {:>8} {:>12} {:>8}",
        "machine", "deadline", "upper %", "lower %", "upper seen %", "episodes %"
    );
    let deviation = |runs: f64| 3.1 * (CONFIDENCE * (1.0 - CONFIDENCE) / runs).sqrt();
    let mut wrong = Vec::new();
    for machine in machines() {
        let (mut upper, mut lower, mut seen, mut seen_upper, mut episodes) = (0, 0, 0, 0, 0);
        let giants = machine.stalls.last().expect("has stalls");
        let all: f64 = machine
            .stalls
            .iter()
            .filter(|s| s.least + s.more > machine.limit as f64)
            .map(|s| s.expected)
            .sum();
        for seed in 0..RUNS {
            let mut rng = Rng::new(seed * 104_729 + machine.limit);
            let run = stalled(&mut rng, CYCLES, machine.limit, &machine.stalls);
            let bound = run.evidence().bound(CONFIDENCE);
            let holds = u64::from(bound.upper >= run.truth);
            upper += holds;
            lower += u64::from(bound.lower <= run.truth);
            let longest = run.peaks.worst(1).first().map_or(0, |peak| peak.latency_ns);
            if machine.common || longest as f64 > giants.least * 0.9 {
                seen += 1;
                seen_upper += holds;
            }
            let rate = all / CYCLES as f64;
            episodes += u64::from(
                bound
                    .episodes
                    .is_none_or(|it| it.upper >= rate * CYCLES as f64),
            );
        }
        let share = |n: u64, of: u64| n as f64 / of.max(1) as f64;
        println!(
            "{:<26} {:>6} ms {:>8.1} {:>8.1} {:>12.1} {:>8.1}",
            machine.name,
            machine.limit as f64 / MS,
            100.0 * share(upper, RUNS),
            100.0 * share(lower, RUNS),
            100.0 * share(seen_upper, seen),
            100.0 * share(episodes, RUNS),
        );
        let least = CONFIDENCE - deviation(RUNS as f64);
        let mut check = |what: &str, share: f64, least: f64| {
            if share < least {
                wrong.push(format!(
                    "{} at {} ns: {what} {share} < {least}",
                    machine.name, machine.limit
                ));
            }
        };
        check("lower", share(lower, RUNS), least);
        check(
            "upper",
            share(seen_upper, seen),
            CONFIDENCE - deviation(seen as f64),
        );
        if machine.name.contains("giant stall") {
            check("episodes", share(episodes, RUNS), least);
        }
        if machine.common {
            check("upper of all", share(upper, RUNS), least);
        } else {
            let unseen = (-giants.expected).exp();
            check("upper of all", share(upper, RUNS), least - unseen);
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// A path in which 300 messages in a row were lost: the same at each deadline that no reply breaks, and one burst
/// where it is not known when they were.
#[test]
fn misses_of_which_only_the_number_is_known_may_have_been_one_burst() {
    let mut histogram = Histogram::new();
    let mut peaks = Peaks::new();
    for cycle in 0..2_700 {
        histogram.record(300_000 + cycle % 7);
        peaks.offer(Peak::new(cycle, cycle * 2 * PERIOD, 300_000 + cycle % 7));
    }
    let judged = |limit_ns: u64, rows: Option<MissRows>, allowed: f64| {
        let thread = ThreadEvidence {
            interval_ns: Some(2 * PERIOD),
            missed: 300,
            missed_late: 300,
            skipped: Skipped::Never,
            ..support::thread(&histogram, &peaks)
        };
        let run = RunEvidence {
            parts: Vec::new(),
            threads: vec![thread],
            duration_ns: 6_000 * PERIOD,
            deadline_ns: Some(20 * PERIOD),
            seconds: 6,
            seconds_with_miss: 1,
            rows,
            halves: None,
        };
        let required = Requirement::MissProbability {
            deadline_ns: limit_ns,
            allowed,
        };
        judge(&[required], &run, CONFIDENCE).requirements[0].clone()
    };
    let rows = || {
        let misses = (0..60).map(|row| if (20..26).contains(&row) { 50 } else { 0 });
        Some(MissRows {
            width_ns: 100 * PERIOD,
            misses: misses.collect(),
            start_ns: Some(0),
            slack_ns: 0,
        })
    };
    for allowed in [0.2, 0.05] {
        let own = judged(20 * PERIOD, rows(), allowed);
        assert_eq!(own.outcome, Outcome::Inconclusive, "{own:?}");
        for limit in [19, 21] {
            let other = judged(limit * PERIOD, rows(), allowed);
            assert_eq!(other.outcome, Outcome::Inconclusive, "{limit}: {other:?}");
            let bounds = |it: &RequirementResult| (it.bound.lower, it.bound.upper);
            assert_eq!(bounds(&other), bounds(&own));
            let unknown = judged(limit * PERIOD, None, allowed);
            assert!(unknown.bound.dispersion >= 300.0, "{unknown:?}");
            assert_eq!(unknown.outcome, Outcome::Inconclusive, "{unknown:?}");
        }
    }
}

#[test]
fn latencies_that_were_rounded_up_are_not_surely_late() {
    // Ten from 98,304 to 99,327 ns, and the highest.
    let mut histogram = Histogram::new();
    histogram.record_n(99_327, 10);
    histogram.record(200_000);
    let peaks = Peaks::restored(150_000, &[]);
    let late = |rounded_up, limit_ns| {
        let thread = ThreadEvidence {
            rounded_up,
            interval_ns: None,
            ..support::thread(&histogram, &peaks)
        };
        let run = RunEvidence {
            parts: Vec::new(),
            threads: vec![thread],
            duration_ns: 1_000_000_000,
            deadline_ns: None,
            seconds: 1,
            seconds_with_miss: 0,
            rows: None,
            halves: None,
        };
        run.late(limit_ns)
    };
    assert_eq!(late(None, 99_000), (11, 11));
    assert_eq!(late(Some(64), 99_000), (1, 11));
    assert_eq!(late(Some(64), 97_000), (11, 11));
    assert_eq!(late(Some(64), 120_000), (1, 1));
}
