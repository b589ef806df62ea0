//! The verdict and its text.

use crate::support::{self, PERIOD, Rng};
use punctual_stats::miss::{MissRows, TimeUnknown};
use punctual_stats::verdict::{RequirementResult, Seen};
use punctual_stats::{
    Histogram, InvalidEvidence, Outcome, Peak, Peaks, Requirement, RunEvidence, Settings, Skipped,
    ThreadEvidence, Verdict, analyse, judge,
};

pub struct Thread {
    histogram: Histogram,
    pub peaks: Peaks,
    late: u64,
    pub missed: u64,
    lost: u64,
    may_be_empty: bool,
}

/// Independent latencies around 8 µs, plus `extra` ones at given cycles.
pub fn thread(cycles: u64, deadline: u64, extra: &[(u64, u64)]) -> Thread {
    let mut thread = Thread {
        histogram: Histogram::new(),
        peaks: Peaks::new(),
        late: 0,
        missed: 0,
        lost: 0,
        may_be_empty: false,
    };
    let mut rng = Rng::new(5);
    for cycle in 0..cycles {
        let planted = extra.iter().find(|(at, _)| *at == cycle);
        let latency = planted.map_or_else(
            || 3_000 + rng.exponential(3_000.0).min(60_000.0) as u64,
            |(_, latency)| *latency,
        );
        thread.histogram.record(latency);
        thread
            .peaks
            .offer(Peak::new(cycle, cycle * PERIOD, latency));
        thread.late += u64::from(latency > deadline);
    }
    thread
}

pub fn evidence<'a>(threads: &'a [Thread], deadline: u64, cycles: u64) -> RunEvidence<'a> {
    let late: u64 = threads.iter().map(|t| t.late).sum();
    RunEvidence {
        parts: Vec::new(),
        threads: threads
            .iter()
            .enumerate()
            .map(|(cpu, t)| ThreadEvidence {
                cpu: Some(cpu as u32),
                late: t.late,
                missed: t.missed,
                missed_late: t.missed,
                lost: t.lost,
                may_be_empty: t.may_be_empty,
                ..support::thread(&t.histogram, &t.peaks)
            })
            .collect(),
        duration_ns: cycles * PERIOD,
        deadline_ns: Some(deadline),
        seconds: cycles / 1000,
        seconds_with_miss: late.min(cycles / 1000),
        halves: None,
        rows: None,
    }
}

pub const DEADLINE: u64 = 100_000;
pub const CYCLES: u64 = 100_000;

/// Nothing in a run can be later than a limit that is as long as the run.
#[test]
fn a_limit_longer_than_the_run_shows_nothing() {
    let threads = [thread(1_000, u64::MAX, &[])];
    let run_ns = 1_000 * PERIOD;
    for (limit_ns, outcome) in [(run_ns, Outcome::Inconclusive), (run_ns - 1, Outcome::Pass)] {
        let requirements = [
            Requirement::Max { limit_ns },
            Requirement::MissProbability {
                deadline_ns: limit_ns,
                allowed: 0.0,
            },
            Requirement::MissProbability {
                deadline_ns: limit_ns,
                allowed: 0.5,
            },
        ];
        let evidence = evidence(&threads, limit_ns, 1_000);
        for result in judge(&requirements, &evidence, 0.95).requirements {
            assert_eq!(result.outcome, outcome, "{result:?}");
            let longer = (outcome == Outcome::Inconclusive).then_some(1);
            assert_eq!(result.needed_seconds, longer, "{result:?}");
        }
    }
    // What the share would take is less.
    let evidence = evidence(&threads, 100 * run_ns, 1_000);
    let open = Requirement::MissProbability {
        deadline_ns: 100 * run_ns,
        allowed: 0.01,
    };
    let verdict = judge(&[open], &evidence, 0.95);
    assert_eq!(
        verdict.requirements[0].needed_without_miss_seconds,
        Some(199)
    );
}

/// Two wake-ups on time say nothing of the third.
#[test]
fn few_cycles_show_nothing() {
    for (cycles, outcome) in [(2, Outcome::Inconclusive), (10, Outcome::Pass)] {
        let threads = [thread(cycles, DEADLINE, &[])];
        let evidence = evidence(&threads, DEADLINE, cycles);
        let verdict = judge(&[miss(0.0)], &evidence, 0.95);
        assert_eq!(verdict.outcome, outcome, "{verdict:?}");
    }
    // Whether misses come in bursts is not known of fewer than 60.
    for (cycles, allowed, outcome) in [
        (59, 0.055, Outcome::Inconclusive),
        (150, 0.055, Outcome::Pass),
        (59, 0.5, Outcome::Pass),
    ] {
        let threads = [thread(cycles, DEADLINE, &[])];
        let verdict = judge(
            &[miss(allowed)],
            &evidence(&threads, DEADLINE, cycles),
            0.95,
        );
        assert_eq!(verdict.outcome, outcome, "{verdict:?}");
    }
    // One that was late is one.
    let threads = [thread(2, DEADLINE, &[(1, 2 * DEADLINE)])];
    let verdict = judge(&[miss(0.0)], &evidence(&threads, DEADLINE, 2), 0.95);
    assert_eq!(verdict.outcome, Outcome::Fail);
}

pub fn miss(allowed: f64) -> Requirement {
    Requirement::MissProbability {
        deadline_ns: DEADLINE,
        allowed,
    }
}

pub fn verdict(threads: &[Thread], requirements: &[Requirement]) -> Verdict {
    judge(requirements, &evidence(threads, DEADLINE, CYCLES), 0.95)
}

fn verdict_of_wake_ups(threads: &[Thread], requirements: &[Requirement]) -> Verdict {
    let mut evidence = evidence(threads, DEADLINE, CYCLES);
    for thread in &mut evidence.threads {
        thread.skipped = Skipped::ByWakeUps;
    }
    judge(requirements, &evidence, 0.95)
}

pub fn only(verdict: &Verdict) -> &RequirementResult {
    assert_eq!(verdict.requirements.len(), 1);
    &verdict.requirements[0]
}

#[test]
fn no_miss_in_enough_cycles_passes() {
    let threads = [thread(CYCLES, DEADLINE, &[])];
    let verdict = verdict(&threads, &[miss(1e-4)]);
    assert_eq!(verdict.outcome, Outcome::Pass);
    let result = only(&verdict);
    let seen = Seen::WakeUps {
        samples: CYCLES,
        skipped: 0,
        worst_ns: Some(threads[0].histogram.max().expect("samples")),
    };
    assert_eq!((result.seen, result.bound.misses), (seen, 0));
    assert!((4.5e-5..4.6e-5).contains(&result.bound.upper), "{result:?}");
    assert_eq!(verdict.needed_seconds, None);
}

#[test]
fn no_miss_in_too_few_cycles_says_how_long_to_run() {
    let verdict = verdict(&[thread(CYCLES, DEADLINE, &[])], &[miss(1e-6)]);
    assert_eq!(verdict.outcome, Outcome::Inconclusive);
    // Independent cycles would need 2,996 s; bursts make it a little longer.
    let result = only(&verdict);
    let needed = result.needed_without_miss_seconds.expect("known");
    assert!((2_896..5_000).contains(&needed), "{needed}");
    // A machine that misses half as often as allowed will show some misses: some 20 expected in
    // total.
    let likely = verdict.needed_seconds.expect("known");
    assert!((20_000..90_000).contains(&likely), "{likely}");
    assert_eq!((result.needed_seconds, result.never), (Some(likely), None));
}

#[test]
fn the_stated_time_suffices() {
    let verdict = verdict(
        &[thread(CYCLES, DEADLINE, &[(5_000, 200_000)])],
        &[miss(2e-4)],
    );
    let bound = &only(&verdict).bound;
    for allowed in [5e-5, 2e-5] {
        let needed = bound.time_needed(allowed).expect("the rate is 1e-5");
        let times = 1.0 + needed.likely_ns as f64 / bound.duration_ns as f64;
        // Independent cycles need at least as much.
        let n = bound.cycles as f64 * times;
        assert!(punctual_stats::binomial::upper(times, n, 0.95) <= allowed);
    }
    assert!(bound.time_needed(1e-5).is_err());
    assert!(bound.time_needed(0.0).is_err());
}

#[test]
fn many_misses_fail_with_their_number_worst_and_bursts() {
    let planted: Vec<(u64, u64)> = (0..40).map(|i| (1_000 + 2_311 * i, 1_520_000)).collect();
    let verdict = verdict(&[thread(CYCLES, DEADLINE, &planted)], &[miss(1e-5)]);
    assert_eq!(verdict.outcome, Outcome::Fail);
    let (bound, seen) = (&only(&verdict).bound, only(&verdict).seen);
    assert_eq!((bound.misses, bound.late, bound.cycles), (40, 40, CYCLES));
    assert_eq!((bound.bursts, bound.largest_burst), (Some(40), Some(1)));
    assert_eq!(bound.observed_probability, 4e-4);
    assert!((2.9e-4..3.1e-4).contains(&bound.lower), "{bound:?}");
    let worst_ns = Some(1_520_000);
    assert!(matches!(seen, Seen::WakeUps { worst_ns: it, .. } if it == worst_ns));
}

#[test]
fn one_burst_of_forty_misses_counts_as_one_event() {
    // The same forty in a row: one event, which proves next to nothing.
    let planted: Vec<(u64, u64)> = (0..40).map(|i| (1_000 + i, 1_520_000)).collect();
    let verdict = verdict(&[thread(CYCLES, DEADLINE, &planted)], &[miss(2e-4)]);
    assert_eq!(verdict.outcome, Outcome::Inconclusive);
    assert_eq!(only(&verdict).bound.bursts, Some(1));
    assert_eq!(only(&verdict).bound.late, 40);
}

/// Of `count` stalls of ten misses, at equal distances in `hours`.
fn episodes(count: u64, hours: u64, per_hour: f64) -> RequirementResult {
    stalls_of(10, count, hours, per_hour)
}

/// The same of so many misses each.
fn stalls_of(misses: u64, count: u64, hours: u64, per_hour: f64) -> RequirementResult {
    const SPARSE: u64 = 1_000;
    // One of a thousand cycles is enough: each is a second long.
    let cycles = hours * 3_600;
    let apart = cycles / count.max(1);
    let planted: Vec<(u64, u64)> = (0..count).map(|i| (apart * i, 1_520_000)).collect();
    let mut threads = [thread(cycles, DEADLINE, &planted)];
    let mut peaks = Peaks::new();
    for (at, latency) in planted {
        for miss in 0..misses {
            peaks.offer(Peak::new(
                at * SPARSE + miss,
                (at * SPARSE + miss) * PERIOD,
                latency,
            ));
        }
        (1..misses).for_each(|_| threads[0].histogram.record(latency));
        threads[0].late += misses - 1;
    }
    threads[0].peaks = peaks;
    let mut evidence = evidence(&threads, DEADLINE, cycles * SPARSE);
    evidence.seconds_with_miss = count;
    let requirement = Requirement::Episodes {
        deadline_ns: DEADLINE,
        per_hour,
    };
    judge(&[requirement], &evidence, 0.95).requirements[0].clone()
}

#[test]
fn episodes_are_judged_by_their_number_whatever_each_holds() {
    // Bounds of a Poisson variable: none in an hour, at most 3.0; 60, 48 to 74.
    let outcome = |count, hours, per_hour| episodes(count, hours, per_hour).outcome;
    assert_eq!(outcome(0, 1, 3.1), Outcome::Pass);
    assert_eq!(outcome(0, 1, 2.9), Outcome::Inconclusive);
    assert_eq!(outcome(0, 10, 0.31), Outcome::Pass);
    assert_eq!(outcome(60, 1, 76.0), Outcome::Pass);
    assert_eq!(outcome(60, 1, 60.0), Outcome::Inconclusive);
    assert_eq!(outcome(60, 1, 46.0), Outcome::Fail);
    // One may be chance, however many misses it has.
    assert_eq!(outcome(1, 1, 0.5), Outcome::Inconclusive);
    let sixty = episodes(60, 1, 76.0).bound;
    assert_eq!(
        (sixty.misses, sixty.episodes.map(|it| it.seen)),
        (600, Some(60))
    );
    // Misses that never cease are many episodes: 360 of ten seconds.
    let always = stalls_of(1, 3_600, 1, 300.0);
    let seen = always.bound.episodes.expect("each is kept").seen;
    assert_eq!((seen, always.outcome), (360, Outcome::Fail));
    // The time that it names is enough, and a tenth less is not.
    let open = episodes(0, 1, 0.5);
    let hours = open.needed_without_miss_seconds.expect("a time") as f64 / 3_600.0;
    assert!((4.9..5.6).contains(&hours), "{hours}: 3.0 / 0.5 in all");
    // 40 an hour where 50 are allowed.
    let open = episodes(40, 1, 50.0);
    assert_eq!(open.outcome, Outcome::Inconclusive);
    let more = open.needed_seconds.expect("a time") as f64 / 3_600.0;
    let hours = (more + 1.0).ceil() as u64;
    assert_eq!(outcome(40 * hours, hours, 50.0), Outcome::Pass, "{hours}");
    assert_eq!(episodes(50, 1, 50.0).never, Some(TimeUnknown::RateTooHigh));
}

#[test]
fn more_misses_than_are_kept_one_by_one_are_episodes_by_rows() {
    const HOUR: usize = 3_600;
    let judged = |rows: &[u64], per_hour| {
        let misses: u64 = rows.iter().sum();
        let mut threads = [thread(HOUR as u64, DEADLINE, &[])];
        (0..misses).for_each(|_| threads[0].histogram.record(1_520_000));
        threads[0].late = misses;
        let mut evidence = evidence(&threads, DEADLINE, HOUR as u64 * 1_000);
        evidence.seconds_with_miss = rows.iter().filter(|it| **it > 0).count() as u64;
        evidence.rows = (!rows.is_empty()).then(|| MissRows {
            width_ns: 1_000_000_000,
            misses: rows.to_vec(),
            start_ns: Some(0),
            slack_ns: 0,
        });
        let requirement = Requirement::Episodes {
            deadline_ns: DEADLINE,
            per_hour,
        };
        judge(&[requirement], &evidence, 0.95).requirements[0].clone()
    };
    // Always late: an episode every ten seconds, and by rows alone every eleven at least.
    let always = vec![10; HOUR];
    let fails = judged(&always, 280.0);
    assert_eq!(fails.outcome, Outcome::Fail);
    assert_eq!(fails.bound.episodes.expect("rows").seen, 328);
    assert_eq!(judged(&always, 5_000.0).outcome, Outcome::Pass);
    // Stretches of ten seconds: each may have been one.
    let mut stretches = vec![0; HOUR];
    for begin in (0..HOUR).step_by(180) {
        stretches[begin..begin + 10].fill(100);
    }
    let seen = judged(&stretches, 25.0).bound.episodes.expect("rows").seen;
    assert_eq!(seen, 20);
    assert_ne!(judged(&stretches, 21.0).outcome, Outcome::Fail);
    // 36,000 misses in two seconds: one episode or two.
    let mut once = vec![0; HOUR];
    once[7..9].fill(18_000);
    assert_eq!(judged(&once, 8.0).outcome, Outcome::Pass);
    assert_eq!(judged(&once, 4.0).outcome, Outcome::Inconclusive);
}

#[test]
fn where_no_miss_is_allowed_the_first_one_fails() {
    let clean = thread(CYCLES, DEADLINE, &[]);
    let dirty = thread(CYCLES, DEADLINE, &[(77, DEADLINE + 1)]);
    let max = Requirement::Max { limit_ns: DEADLINE };
    assert_eq!(
        verdict(std::slice::from_ref(&clean), &[miss(0.0)]).outcome,
        Outcome::Pass
    );
    assert_eq!(
        verdict(std::slice::from_ref(&clean), &[max]).outcome,
        Outcome::Pass
    );
    assert_eq!(
        verdict(std::slice::from_ref(&dirty), &[miss(0.0)]).outcome,
        Outcome::Fail
    );
    assert_eq!(
        verdict(std::slice::from_ref(&dirty), &[max]).outcome,
        Outcome::Fail
    );
    // Exactly at the limit is in time.
    let edge = thread(CYCLES, DEADLINE, &[(77, DEADLINE)]);
    assert_eq!(
        verdict(std::slice::from_ref(&edge), &[max]).outcome,
        Outcome::Pass
    );
    // A maximum always comes with its sample size.
    let verdict = verdict(&[clean], &[max]);
    assert!(matches!(
        only(&verdict).seen,
        Seen::WakeUps {
            samples: CYCLES,
            ..
        }
    ));
}

#[test]
fn percentiles_are_bounds_on_the_share_beyond() {
    let threads = [thread(CYCLES, DEADLINE, &[])];
    let percentile = |percentile, limit_ns| Requirement::Percentile {
        percentile,
        limit_ns,
    };
    // exp(-7000/3000) = 9.7 % are later than 10 µs.
    assert_eq!(
        verdict(&threads, &[percentile(85.0, 10_000)]).outcome,
        Outcome::Pass
    );
    assert_eq!(
        verdict(&threads, &[percentile(95.0, 10_000)]).outcome,
        Outcome::Fail
    );
    assert_eq!(percentile(99.9, 1).allowed(), 0.001);
}

#[test]
fn skipped_periods_are_misses_of_a_deadline_within_the_interval() {
    let mut stalled = thread(CYCLES, DEADLINE, &[(500, 50_500_000)]);
    stalled.missed = 50;
    let verdict = verdict_of_wake_ups(&[stalled], &[miss(1e-4)]);
    let bound = &only(&verdict).bound;
    assert_eq!((bound.misses, bound.cycles), (51, 100_050));
    assert_eq!((bound.bursts, bound.largest_burst), (Some(1), Some(51)));
    assert_eq!(verdict.outcome, Outcome::Inconclusive);
    assert_eq!((bound.late, bound.missed), (1, 50));
    assert!(matches!(
        only(&verdict).seen,
        Seen::WakeUps { skipped: 50, .. }
    ));
}

#[test]
fn lost_samples_and_silent_threads_are_invalid_whatever_was_measured() {
    let mut lossy = thread(CYCLES, DEADLINE, &[]);
    lossy.lost = 2;
    let v = verdict(&[lossy], &[miss(0.0)]);
    assert_eq!(v.outcome, Outcome::Invalid);
    assert_eq!(v.invalid, [InvalidEvidence::Lost { samples: 2 }]);
    let v = verdict(
        &[thread(CYCLES, DEADLINE, &[]), thread(0, DEADLINE, &[])],
        &[miss(0.0)],
    );
    assert_eq!(v.invalid, [InvalidEvidence::NeverWoke { cpu: Some(1) }]);
    let v = verdict(&[], &[miss(0.0)]);
    assert_eq!(v.outcome, Outcome::Invalid);
    // A thread that had ended before its first wake-up proves nothing against the others; alone
    // it leaves nothing to judge.
    let mut ended = thread(0, DEADLINE, &[]);
    ended.may_be_empty = true;
    let v = verdict(&[ended], &[miss(0.0)]);
    assert_eq!(v.invalid, [InvalidEvidence::NoWakeUp]);
    let mut ended = thread(0, DEADLINE, &[]);
    ended.may_be_empty = true;
    let v = verdict(&[thread(CYCLES, DEADLINE, &[]), ended], &[miss(0.0)]);
    assert_eq!(v.outcome, Outcome::Pass);
    let threads = [thread(CYCLES, DEADLINE, &[])];
    // As where the priority was not in force.
    let good = verdict(&threads, &[miss(0.0), miss(1e-6)]);
    assert_eq!(good.outcome, Outcome::Inconclusive);
    let v = good.clone().invalidated();
    assert_eq!((v.outcome, v.outcome.exit_code()), (Outcome::Invalid, 4));
    for (result, before) in v.requirements.iter().zip(&good.requirements) {
        assert_eq!(result.outcome, Outcome::Invalid);
        assert_eq!(result.needed_seconds, None);
        assert_eq!((&result.bound, result.seen), (&before.bound, before.seen));
    }
    assert_eq!((v.needed_seconds, v.invalid.len()), (None, 0));
}

#[test]
fn the_worst_of_several_outcomes_decides() {
    let threads = [thread(CYCLES, DEADLINE, &[])];
    let max = |limit_ns| Requirement::Max { limit_ns };
    let v = verdict(&threads, &[max(DEADLINE), max(4_000), miss(1e-6)]);
    assert_eq!(v.outcome, Outcome::Fail);
    let outcomes: Vec<_> = v.requirements.iter().map(|r| r.outcome).collect();
    let (pass, fail) = (Outcome::Pass, Outcome::Fail);
    assert_eq!(outcomes, [pass, fail, Outcome::Inconclusive]);
    assert_eq!(v.needed_seconds, None);
    let v = verdict(&threads, &[max(DEADLINE), miss(1e-6)]);
    assert_eq!(v.outcome, Outcome::Inconclusive);
    assert_eq!(verdict(&threads, &[]).outcome, Outcome::Inconclusive);
}

#[test]
fn an_analysis_is_whole_repeatable_and_readable() {
    let threads = [
        thread(CYCLES, DEADLINE, &[]),
        thread(CYCLES, DEADLINE, &[(9, 150_000)]),
    ];
    let evidence = evidence(&threads, DEADLINE, CYCLES);
    let settings = Settings {
        requirements: vec![miss(1e-3)],
        ..Settings::default()
    };
    let analysis = analyse(&evidence, &settings);
    assert_eq!(analysis, analyse(&evidence, &settings));
    assert_eq!(analysis.total.samples, 2 * CYCLES);
    assert_eq!(analysis.total.max_ns, Some(150_000));
    assert_eq!(analysis.threads.len(), 2);
    let json = serde_json::to_string(&analysis).expect("serialises");
    let back: punctual_stats::Analysis = serde_json::from_str(&json).expect("reads back");
    assert_eq!(back.verdict.requirements.len(), 1);
    assert_eq!(
        back.verdict.requirements[0].seen,
        analysis.verdict.requirements[0].seen
    );
    assert_eq!(back.total.max_ns, analysis.total.max_ns);
}

#[test]
fn a_few_samples_prove_nothing() {
    for cycles in [1u64, 2, 5, 31] {
        let threads = [thread(cycles, DEADLINE, &[])];
        let v = judge(&[miss(1e-3)], &evidence(&threads, DEADLINE, cycles), 0.95);
        assert_eq!(v.outcome, Outcome::Inconclusive, "{cycles}");
        let b = &v.requirements[0].bound;
        assert!(
            b.upper.is_finite() && b.upper <= 1.0 && b.upper > 0.05,
            "{}",
            b.upper
        );
        assert_eq!(b.lower, 0.0);
    }
    // Only ties, and only misses.
    for limit in [DEADLINE, 1_000] {
        let mut tied = thread(0, limit, &[]);
        for cycle in 0..20_000 {
            tied.histogram.record(5_000);
            tied.peaks.offer(Peak::new(cycle, cycle * PERIOD, 5_000));
            tied.late += u64::from(5_000 > limit);
        }
        let v = judge(
            &[Requirement::MissProbability {
                deadline_ns: limit,
                allowed: 0.5,
            }],
            &evidence(&[tied], limit, 20_000),
            0.95,
        );
        let expected = if limit == DEADLINE {
            Outcome::Pass
        } else {
            Outcome::Fail
        };
        assert_eq!(v.outcome, expected, "{v:?}");
    }
}

#[test]
fn a_run_without_a_cycle_still_makes_a_record() {
    let threads = [thread(0, DEADLINE, &[])];
    let settings = Settings {
        requirements: vec![miss(1e-3)],
        ..Settings::default()
    };
    for cycles in [0, 1000] {
        let analysis = analyse(&evidence(&threads, DEADLINE, cycles), &settings);
        assert_eq!(analysis.verdict.outcome, Outcome::Invalid);
        let json = serde_json::to_string(&analysis).expect("serialises");
        let back: punctual_stats::Analysis = serde_json::from_str(&json).expect("reads back");
        assert_eq!(back, analysis);
    }
}

#[test]
fn the_collectors_count_and_the_peaks_are_exact_although_buckets_are_not() {
    // 200,003 ns and 200,001 ns share a bucket.
    let one = thread(CYCLES, 200_001, &[(10, 200_003), (900, 200_001)]);
    let threads = [one];
    let evidence = evidence(&threads, 200_001, CYCLES);
    assert!(threads[0].histogram.count_above(200_001) == 2);
    assert_eq!(evidence.late(200_001), (1, 1));
    assert_eq!(evidence.late(200_002), (1, 1));
    assert_eq!(evidence.late(200_000), (2, 2));
}
