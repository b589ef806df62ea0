//! The verdict and its text.

mod support;

use punctual_stats::verdict::RequirementResult;
use punctual_stats::{
    Histogram, Outcome, Peak, Peaks, Requirement, RunEvidence, Settings, ThreadEvidence, Verdict,
    analyse, judge,
};
use support::{PERIOD, Rng};

struct Thread {
    histogram: Histogram,
    peaks: Peaks,
    late: u64,
    missed: u64,
    lost: u64,
    may_be_empty: bool,
}

/// Independent latencies around 8 µs, plus `extra` ones at given cycles.
fn thread(cycles: u64, deadline: u64, extra: &[(u64, u64)]) -> Thread {
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

fn evidence<'a>(threads: &'a [Thread], deadline: u64, cycles: u64) -> RunEvidence<'a> {
    RunEvidence {
        threads: threads
            .iter()
            .enumerate()
            .map(|(cpu, t)| ThreadEvidence {
                cpu: cpu as u32,
                histogram: &t.histogram,
                late: t.late,
                missed: t.missed,
                missed_late: t.missed,
                interval_ns: Some(1_000_000),
                lost: t.lost,
                unseen: 0,
                may_be_empty: t.may_be_empty,
                peaks: &t.peaks,
            })
            .collect(),
        duration_ns: cycles * PERIOD,
        deadline_ns: Some(deadline),
        seconds: cycles / 1000,
        seconds_with_miss: threads
            .iter()
            .map(|t| t.late)
            .sum::<u64>()
            .min(cycles / 1000),
        halves: None,
        rows: None,
        load: Some("standard load v1"),
        repeats: false,
    }
}

const DEADLINE: u64 = 100_000;
const CYCLES: u64 = 100_000;

fn miss(allowed: f64) -> Requirement {
    Requirement::MissProbability {
        deadline_ns: DEADLINE,
        allowed,
    }
}

fn verdict(threads: &[Thread], requirements: &[Requirement]) -> Verdict {
    judge(
        requirements,
        &evidence(threads, DEADLINE, CYCLES),
        &[],
        0.95,
    )
}

fn only(verdict: &Verdict) -> &RequirementResult {
    assert_eq!(verdict.requirements.len(), 1);
    &verdict.requirements[0]
}

#[test]
fn no_miss_in_enough_cycles_passes() {
    let verdict = verdict(&[thread(CYCLES, DEADLINE, &[])], &[miss(1e-4)]);
    assert_eq!(verdict.outcome, Outcome::Pass);
    assert!(
        verdict.sentence.starts_with(
            "PASS: no wake-up in 100,000 was later than 100 µs under standard load v1; \
             with 95 % confidence fewer than 0.0046 %, allowed 0.01 %."
        ),
        "{}",
        verdict.sentence
    );
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
    assert!(
        verdict
            .sentence
            .contains(" longer: enough if no miss comes. ")
            && verdict.sentence.ends_with(
                " longer is enough for 9 in 10 machines that miss half as often as is allowed."
            ),
        "{}",
        verdict.sentence
    );
}

#[test]
fn what_is_needed_is_what_suffices() {
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
    let text = &verdict.sentence;
    assert!(
        text.starts_with(
            "FAIL: 0.04 % of 100,000 cycles missed 100 µs (40 late; 40 bursts; worst 1.52 ms)"
        ),
        "{text}"
    );
    assert!(
        text.ends_with("confidence at least 0.03 %, allowed 0.001 %."),
        "{text}"
    );
}

#[test]
fn one_burst_is_not_forty_misses() {
    // The same forty in a row: one event, which proves next to nothing.
    let planted: Vec<(u64, u64)> = (0..40).map(|i| (1_000 + i, 1_520_000)).collect();
    let verdict = verdict(&[thread(CYCLES, DEADLINE, &planted)], &[miss(2e-4)]);
    assert_eq!(verdict.outcome, Outcome::Inconclusive);
    assert_eq!(only(&verdict).bound.bursts, Some(1));
    assert!(
        verdict
            .sentence
            .contains("(40 late; 1 burst; worst 1.52 ms)"),
        "{}",
        verdict.sentence
    );
}

#[test]
fn where_none_may_the_first_fails() {
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
    // A maximum is always reported with its sample size.
    assert!(verdict(&[clean], &[max]).sentence.contains("in 100,000"));
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
    let verdict = verdict(&[stalled], &[miss(1e-4)]);
    let bound = &only(&verdict).bound;
    assert_eq!((bound.misses, bound.cycles), (51, 100_050));
    assert_eq!((bound.bursts, bound.largest_burst), (Some(1), Some(51)));
    assert_eq!(verdict.outcome, Outcome::Inconclusive);
    assert!(
        verdict
            .sentence
            .contains("0.051 % of 100,050 cycles missed 100 µs (1 late, 50 skipped; 1 burst;"),
        "{}",
        verdict.sentence
    );
}

#[test]
fn invalid_whatever_was_measured() {
    let mut lossy = thread(CYCLES, DEADLINE, &[]);
    lossy.lost = 2;
    let v = verdict(&[lossy], &[miss(0.0)]);
    assert_eq!(
        (v.outcome, v.sentence.as_str()),
        (Outcome::Invalid, "INVALID: 2 samples were lost")
    );
    let v = verdict(
        &[thread(CYCLES, DEADLINE, &[]), thread(0, DEADLINE, &[])],
        &[miss(0.0)],
    );
    assert_eq!(v.sentence, "INVALID: the thread on CPU 1 never woke up");
    let v = verdict(&[], &[miss(0.0)]);
    assert_eq!(v.outcome, Outcome::Invalid);
    // A thread that had ended before its first wake-up proves nothing against the others; alone
    // it leaves nothing to judge.
    let mut ended = thread(0, DEADLINE, &[]);
    ended.may_be_empty = true;
    let v = verdict(&[ended], &[miss(0.0)]);
    assert_eq!(v.sentence, "INVALID: not one wake-up was measured");
    let mut ended = thread(0, DEADLINE, &[]);
    ended.may_be_empty = true;
    let v = verdict(&[thread(CYCLES, DEADLINE, &[]), ended], &[miss(0.0)]);
    assert_eq!(v.outcome, Outcome::Pass);
    let threads = [thread(CYCLES, DEADLINE, &[])];
    let reasons = ["the priority was not in force".to_owned()];
    let v = judge(
        &[miss(0.0)],
        &evidence(&threads, DEADLINE, CYCLES),
        &reasons,
        0.95,
    );
    assert_eq!((v.outcome, v.outcome.exit_code()), (Outcome::Invalid, 4));
    assert_eq!(v.requirements[0].outcome, Outcome::Invalid);
}

#[test]
fn the_worst_of_several_decides() {
    let threads = [thread(CYCLES, DEADLINE, &[])];
    let max = |limit_ns| Requirement::Max { limit_ns };
    let v = verdict(&threads, &[max(DEADLINE), max(4_000), miss(1e-6)]);
    assert_eq!(v.outcome, Outcome::Fail);
    assert_eq!(v.reasons.len(), 3);
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
    assert_eq!(back.verdict.sentence, analysis.verdict.sentence);
    assert_eq!(back.total.max_ns, analysis.total.max_ns);
}

#[test]
fn hardly_any_data_is_no_evidence() {
    for cycles in [1u64, 2, 5, 31] {
        let threads = [thread(cycles, DEADLINE, &[])];
        let v = judge(
            &[miss(1e-3)],
            &evidence(&threads, DEADLINE, cycles),
            &[],
            0.95,
        );
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
            &[],
            0.95,
        );
        let expected = if limit == DEADLINE {
            Outcome::Pass
        } else {
            Outcome::Fail
        };
        assert_eq!(v.outcome, expected, "{}", v.sentence);
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
fn the_collectors_count_and_the_peaks_are_exact_where_buckets_are_not() {
    // 200,003 ns and 200,001 ns share a bucket.
    let one = thread(CYCLES, 200_001, &[(10, 200_003), (900, 200_001)]);
    let threads = [one];
    let evidence = evidence(&threads, 200_001, CYCLES);
    assert!(threads[0].histogram.count_above(200_001) == 2);
    assert_eq!(evidence.late(200_001), (1, 1));
    assert_eq!(evidence.late(200_002), (1, 1));
    assert_eq!(evidence.late(200_000), (2, 2));
}

/// Only their number is known: a PASS must hold even if all of them were late.
#[test]
fn wake_ups_that_went_unseen_may_have_been_late() {
    let one = thread(CYCLES, DEADLINE, &[]);
    let judged = |unseen: u64, allowed: f64| {
        let threads = [&one];
        let mut evidence = evidence(std::slice::from_ref(threads[0]), DEADLINE, CYCLES);
        evidence.threads[0].unseen = unseen;
        judge(&[miss(allowed)], &evidence, &[], 0.95)
    };
    assert_eq!(judged(0, 1e-4).outcome, Outcome::Pass);
    assert_eq!(judged(2, 1e-4).outcome, Outcome::Pass);
    for (unseen, allowed) in [(9, 1e-4), (1, 0.0)] {
        let verdict = judged(unseen, allowed);
        assert_eq!(
            verdict.outcome,
            Outcome::Inconclusive,
            "{}",
            verdict.sentence
        );
    }
    let sentence = judged(9, 1e-4).sentence;
    assert!(sentence.contains("wake-ups went unseen"), "{sentence}");
    assert_eq!(judged(9, 1e-3).outcome, Outcome::Pass);
}

#[test]
fn in_virtual_time_the_advice_speaks_of_no_share_of_machines() {
    for late in [&[][..], &[(7, 200_000)]] {
        let threads = [thread(CYCLES, DEADLINE, late)];
        let mut run = evidence(&threads, DEADLINE, CYCLES);
        let advice = |run: &RunEvidence<'_>| judge(&[miss(2e-5)], run, &[], 0.95).sentence;
        assert!(advice(&run).contains("9 in 10"), "{}", advice(&run));
        run.repeats = true;
        let sentence = advice(&run);
        assert!(!sentence.contains("9 in 10"), "{sentence}");
        assert!(sentence.contains(" longer: enough if "), "{sentence}");
    }
}
