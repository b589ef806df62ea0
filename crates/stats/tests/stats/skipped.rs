//! Verdicts on periods, jobs and messages without a sample.

use punctual_stats::evidence::Skipped;
use punctual_stats::miss::MissRows;
use punctual_stats::tasks::{TaskEvidence, judge_tasks};
use punctual_stats::{Outcome, Peak, Peaks, Requirement, RunEvidence, judge};

use crate::support::PERIOD;
use crate::verdict::{CYCLES, DEADLINE, evidence, miss, only, thread};

#[test]
fn skipped_periods_are_as_late_as_their_wake_ups_and_unanswered_messages_never_come() {
    let mut one = thread(CYCLES, DEADLINE, &[(500, 4 * PERIOD)]);
    one.missed = 4;
    let judged = |skipped: Skipped, required: Requirement| {
        let mut evidence = evidence(std::slice::from_ref(&one), 20 * PERIOD, CYCLES);
        evidence.threads[0].skipped = skipped;
        evidence.threads[0].missed_late = 0;
        only(&judge(&[required], &evidence, 0.95)).outcome
    };
    // Another requirement than the one for which they were counted.
    let ten = Requirement::MissProbability {
        deadline_ns: 10 * PERIOD,
        allowed: 0.0,
    };
    assert_eq!(judged(Skipped::ByWakeUps, ten), Outcome::Pass);
    assert_eq!(judged(Skipped::Alone, ten), Outcome::Inconclusive);
    let most = Requirement::Max {
        limit_ns: 10 * PERIOD,
    };
    assert_eq!(judged(Skipped::ByWakeUps, most), Outcome::Pass);
    assert_eq!(judged(Skipped::Never, most), Outcome::Fail);
    assert_eq!(judged(Skipped::Never, ten), Outcome::Fail);
}

/// Of 300 lost messages, one every now and then, and three late replies: the losses are no part of these.
#[test]
fn messages_that_never_came_are_not_taken_for_periods_that_late_replies_skipped() {
    let late = [
        (500, 200 * PERIOD),
        (30_000, 200 * PERIOD),
        (60_000, 200 * PERIOD),
    ];
    let mut one = thread(CYCLES, DEADLINE, &late);
    one.missed = 300;
    let mut evidence = evidence(std::slice::from_ref(&one), DEADLINE, CYCLES);
    evidence.threads[0].skipped = Skipped::Never;
    let judged = judge(&[miss(1e-2)], &evidence, 0.95);
    let bound = &only(&judged).bound;
    assert_eq!((bound.misses, bound.late, bound.missed), (303, 3, 300));
    assert_eq!((bound.bursts, bound.largest_burst), (None, None));
}

/// A job that was not done misses each limit above its deadline, too.
#[test]
fn jobs_that_were_not_done_are_later_than_any_longer_limit() {
    let mut one = thread(CYCLES, PERIOD, &[(500, 3 * PERIOD + PERIOD / 2)]);
    one.missed = 2;
    let mut evidence = evidence(std::slice::from_ref(&one), PERIOD, CYCLES);
    evidence.threads[0].missed_late = 2;
    for (skipped, least) in [(Skipped::Undone, 2), (Skipped::Alone, 0)] {
        evidence.threads[0].skipped = skipped;
        assert_eq!(evidence.missed_late(4 * PERIOD), (least, 2), "{skipped:?}");
    }
}

/// One task's jobs never ended; the other is released by it, and has none.
#[test]
fn a_task_without_a_job_leaves_the_failure_of_another_shown() {
    let mut hung = thread(0, DEADLINE, &[]);
    hung.missed = CYCLES;
    let threads = [hung, thread(0, DEADLINE, &[])];
    let outcome = |which: &[usize]| {
        let tasks = which.iter().map(|at| {
            let mut jobs = evidence(&threads[*at..=*at], DEADLINE, CYCLES);
            for thread in &mut jobs.threads {
                thread.may_be_empty = true;
                thread.missed_late = thread.missed;
            }
            TaskEvidence {
                name: "task",
                jobs,
                requirement: miss(1e-4),
            }
        });
        let tasks: Vec<TaskEvidence<'_>> = tasks.collect();
        judge_tasks(&tasks, &[], 0.95).outcome
    };
    assert_eq!(outcome(&[0, 1]), Outcome::Fail);
    assert_eq!(outcome(&[1, 1]), Outcome::Invalid);
}

/// A watch of the system keeps the 16 latest wake-ups of each CPU: how they come in stalls they can't say. A hundred
/// threads that a stall delays together are one of them.
#[test]
fn few_kept_latencies_do_not_make_wake_ups_independent() {
    let quiet = thread(CYCLES, DEADLINE, &[]);
    let mut evidence = evidence(std::slice::from_ref(&quiet), DEADLINE, CYCLES);
    let mut few = Peaks::with_capacity(16);
    (0..20).for_each(|at| few.offer(Peak::new(at, at * PERIOD, 10_000 + at)));
    evidence.threads[0].peaks = &few;
    evidence.rows = Some(MissRows {
        width_ns: evidence.duration_ns / 1_000,
        misses: vec![0; 1_000],
        start_ns: Some(0),
        slack_ns: 0,
    });
    let outcome = |evidence: &RunEvidence<'_>| only(&judge(&[miss(1e-4)], evidence, 0.95)).outcome;
    assert_eq!(outcome(&evidence), Outcome::Pass);
    evidence.threads[0].rounded_up = Some(64);
    assert_eq!(outcome(&evidence), Outcome::Inconclusive);
    // One row in a thousand is as much as this shows.
    let rough = judge(&[miss(1e-2)], &evidence, 0.95);
    assert_eq!(rough.outcome, Outcome::Pass);
}
