//! The verdict on the durations of program sections: alone, and together with wake-ups.

use crate::support;
use punctual_stats::lengths::{LengthEvidence, judge_lengths};
use punctual_stats::verdict::judge;
use punctual_stats::{
    Histogram, Outcome, Peaks, Requirement, RunEvidence, ThreadEvidence, Verdict,
};

const LIMIT: u64 = 500_000;

/// A run of 1000 wake-ups of 20 µs, under these requirements.
fn wake_ups(requirements: &[Requirement]) -> Verdict {
    let mut histogram = Histogram::new();
    histogram.record_n(20_000, 1000);
    let peaks = Peaks::new();
    let limit_ns = requirements.first().map(Requirement::limit_ns);
    let late = limit_ns.is_some_and(|limit| limit < 20_000);
    let thread = ThreadEvidence {
        late: if late { 1000 } else { 0 },
        ..support::thread(&histogram, &peaks)
    };
    let evidence = RunEvidence {
        parts: Vec::new(),
        threads: vec![thread],
        duration_ns: 1_000_000_000,
        deadline_ns: limit_ns,
        seconds: 1,
        seconds_with_miss: u64::from(late),
        halves: None,
        rows: None,
    };
    judge(requirements, &evidence, 0.95)
}

fn step(longer: u64, max_ns: u64) -> LengthEvidence<'static> {
    LengthEvidence {
        name: "step()",
        limit_ns: LIMIT,
        count: 2_402,
        longer,
        max_ns: Some(max_ns),
    }
}

#[test]
fn a_limit_that_was_kept_is_a_pass_to_the_nanosecond() {
    let verdict = wake_ups(&[]).with_lengths(&[step(0, LIMIT)]);
    assert_eq!(verdict.outcome, Outcome::Pass);
    assert_eq!(verdict.lengths[0].too_long_ns(), None);
    assert_eq!(
        (verdict.lengths[0].count, verdict.lengths.len()),
        (2_402, 1)
    );
    let verdict = wake_ups(&[]).with_lengths(&[step(1, LIMIT + 1)]);
    assert_eq!(verdict.outcome, Outcome::Fail);
}

#[test]
fn a_length_above_its_limit_fails_although_wake_ups_are_good() {
    let good = Requirement::Max { limit_ns: 50_000 };
    let verdict = wake_ups(&[good]).with_lengths(&[step(3, 1_370_000)]);
    assert_eq!(verdict.outcome, Outcome::Fail);
    let [waking] = &verdict.requirements[..] else {
        panic!("one requirement")
    };
    let [taking] = &verdict.lengths[..] else {
        panic!("one length")
    };
    let (pass, fail) = (Outcome::Pass, Outcome::Fail);
    assert_eq!((waking.outcome, taking.outcome), (pass, fail));
    assert_eq!((taking.longer, taking.count), (3, 2_402));
    assert_eq!(taking.too_long_ns(), Some(1_370_000));
}

#[test]
fn late_wake_ups_still_fail_and_both_failures_are_reported() {
    let bad = Requirement::Max { limit_ns: 10_000 };
    let verdict = wake_ups(&[bad]).with_lengths(&[step(0, 1)]);
    let outcomes = |verdict: &Verdict| {
        let (waking, taking) = (&verdict.requirements[0], &verdict.lengths[0]);
        (verdict.outcome, waking.outcome, taking.outcome)
    };
    let (pass, fail) = (Outcome::Pass, Outcome::Fail);
    assert_eq!(outcomes(&verdict), (fail, fail, pass));
    let verdict = wake_ups(&[bad]).with_lengths(&[step(3, 1_370_000)]);
    assert_eq!(outcomes(&verdict), (fail, fail, fail));
}

#[test]
fn an_inconclusive_run_stays_inconclusive_and_states_the_time_needed() {
    let rare = Requirement::MissProbability {
        deadline_ns: 50_000,
        allowed: 1e-6,
    };
    let open = wake_ups(&[rare]);
    let verdict = open.clone().with_lengths(&[step(0, 1)]);
    assert_eq!(verdict.outcome, Outcome::Inconclusive);
    assert_eq!(verdict.needed_seconds, open.needed_seconds);
    assert!(verdict.needed_seconds.is_some());
}

#[test]
fn an_invalid_run_stays_invalid_and_an_unmeasured_length_meets_no_limit() {
    let invalid = wake_ups(&[]).invalidated();
    let verdict = invalid.with_lengths(&[step(0, 1)]);
    assert_eq!(verdict.outcome, Outcome::Invalid);
    assert_eq!(verdict.lengths[0].outcome, Outcome::Invalid);
    let nothing = LengthEvidence {
        count: 0,
        max_ns: None,
        ..step(0, 0)
    };
    let verdict = wake_ups(&[]).with_lengths(&[nothing]);
    assert_eq!(verdict.outcome, Outcome::Inconclusive);
    let nothing = wake_ups(&[]).with_lengths(&[]);
    assert_eq!(nothing.outcome, Outcome::Inconclusive);
    assert!(nothing.requirements.is_empty() && nothing.lengths.is_empty());
}

#[test]
fn a_program_that_never_slept_is_judged_by_its_limits_alone() {
    let verdict = judge_lengths(&[step(0, LIMIT)], 0.95);
    assert_eq!(verdict.outcome, Outcome::Pass);
    assert_eq!(verdict.lengths[0].count, 2_402);
    let verdict = judge_lengths(&[step(3, 1_370_000)], 0.95);
    assert_eq!(verdict.outcome, Outcome::Fail);
}
