//! The verdict on gaps: whether a limit was kept during the observed time.

use crate::support;
use punctual_stats::gaps::{WatchedTime, judge_gaps};
use punctual_stats::verdict::Seen;
use punctual_stats::{
    Histogram, InvalidEvidence, Outcome, Peak, Peaks, Requirement, RunEvidence, ThreadEvidence,
    Verdict,
};

const SECOND: u64 = 1_000_000_000;

fn judged(gaps: &[u64], lost: u64, watched_ns: u64, requirements: &[Requirement]) -> Verdict {
    judged_with(gaps, lost, (watched_ns, 0), requirements)
}

/// The same with the longest gap that may be another's.
fn judged_with(
    gaps: &[u64],
    lost: u64,
    (watched_ns, untold_ns): (u64, u64),
    requirements: &[Requirement],
) -> Verdict {
    let mut histogram = Histogram::new();
    let mut peaks = Peaks::new();
    for (at, ns) in gaps.iter().enumerate() {
        histogram.record(*ns);
        peaks.offer(Peak::new(at as u64, at as u64 * 1_000_000, *ns));
    }
    let limit_ns = requirements.first().map(Requirement::limit_ns);
    let above = |ns: &&u64| limit_ns.is_some_and(|limit| **ns > limit);
    let thread = ThreadEvidence {
        late: gaps.iter().filter(above).count() as u64,
        lost,
        ..support::thread(&histogram, &peaks)
    };
    let evidence = RunEvidence {
        parts: Vec::new(),
        threads: vec![thread],
        duration_ns: 10 * SECOND,
        deadline_ns: limit_ns,
        seconds: 10,
        seconds_with_miss: 0,
        halves: None,
        rows: None,
    };
    let watched = WatchedTime {
        span_ns: 10 * SECOND,
        watched_ns,
        untold_ns,
    };
    judge_gaps(requirements, &evidence, watched, 0.95)
}

const MAX: Requirement = Requirement::Max { limit_ns: 50_000 };

#[test]
fn without_a_gap_the_run_passes_and_states_how_much_was_watched() {
    let verdict = judged(&[], 0, 9 * SECOND, &[MAX]);
    assert_eq!(verdict.outcome, Outcome::Pass);
    let time = WatchedTime {
        span_ns: 10 * SECOND,
        watched_ns: 9 * SECOND,
        untold_ns: 0,
    };
    let seen = Seen::Gaps {
        longer: 0,
        longest_ns: None,
        time,
    };
    assert_eq!(verdict.requirements[0].seen, seen);
    assert_eq!(time.share(), 0.9);
}

#[test]
fn a_gap_above_the_limit_fails_and_a_gap_equal_to_it_does_not() {
    assert_eq!(
        judged(&[50_000, 3_000], 0, 9 * SECOND, &[MAX]).outcome,
        Outcome::Pass
    );
    let verdict = judged(&[50_001, 3_000, 70_000], 0, 9 * SECOND, &[MAX]);
    assert_eq!(verdict.outcome, Outcome::Fail);
    let seen = verdict.requirements[0].seen;
    assert!(
        matches!(seen, Seen::Gaps { longer: 2, longest_ns: Some(70_000), time }
            if time.watched_ns == 9 * SECOND),
        "{seen:?}"
    );
    // No share of gaps is allowed, whatever the requirement says.
    let lenient = Requirement::MissProbability {
        deadline_ns: 50_000,
        allowed: 0.9,
    };
    assert_eq!(
        judged(&[50_001, 3_000], 0, SECOND, &[lenient]).outcome,
        Outcome::Fail
    );
}

#[test]
fn a_gap_that_may_count_leaves_it_open() {
    let outcome =
        |gaps: &[u64], untold_ns| judged_with(gaps, 0, (9 * SECOND, untold_ns), &[MAX]).outcome;
    assert_eq!(outcome(&[3_000], 50_000), Outcome::Pass);
    assert_eq!(outcome(&[3_000], 50_001), Outcome::Inconclusive);
    assert_eq!(outcome(&[50_001], 50_001), Outcome::Fail);
}

#[test]
fn of_several_limits_the_one_that_is_exceeded_decides() {
    let wide = Requirement::Max { limit_ns: 90_000 };
    let verdict = judged(&[60_000], 0, SECOND, &[wide, MAX]);
    assert_eq!(verdict.outcome, Outcome::Fail);
    assert_eq!(verdict.requirements[0].outcome, Outcome::Pass);
    assert_eq!(verdict.requirements[1].outcome, Outcome::Fail);
}

#[test]
fn lost_or_unwatched_time_is_invalid_and_without_a_limit_there_is_no_verdict() {
    let lost = judged(&[], 1, SECOND, &[MAX]);
    assert_eq!(lost.outcome, Outcome::Invalid);
    assert_eq!(lost.invalid, [InvalidEvidence::Lost { samples: 1 }]);
    let unwatched = judged(&[], 0, 0, &[MAX]);
    assert_eq!(unwatched.outcome, Outcome::Invalid);
    assert_eq!(unwatched.invalid, [InvalidEvidence::NothingWatched]);
    assert_eq!(judged(&[9], 0, SECOND, &[]).outcome, Outcome::Inconclusive);
}
