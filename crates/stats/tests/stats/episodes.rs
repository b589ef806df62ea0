//! Episodes of more misses than are kept one by one.

use crate::support;
use punctual_stats::evidence::{RunEvidence, ThreadEvidence};
use punctual_stats::histogram::Histogram;
use punctual_stats::miss::{Episodes, MissRows};
use punctual_stats::peaks::{Peak, Peaks};
use punctual_stats::{Outcome, Requirement, judge};

const MS: u64 = 1_000_000;
const DEADLINE: u64 = 100_000;
/// The machine was up for longer than the run takes.
const BEGIN: u64 = 1 << 50;

/// A minute of wake-ups each ms, with some that were late.
pub fn minute<'a>(histogram: &'a Histogram, late: u64, peaks: &'a Peaks) -> RunEvidence<'a> {
    let thread = ThreadEvidence {
        late,
        ..support::thread(histogram, peaks)
    };
    RunEvidence {
        parts: Vec::new(),
        threads: vec![thread],
        duration_ns: 60_000 * MS,
        deadline_ns: Some(DEADLINE),
        seconds: 60,
        seconds_with_miss: 3,
        rows: None,
        halves: None,
    }
}

/// By rows of 100 ms, of which two have 20 late wake-ups each; a later one is known if there is one.
fn episodes(
    rows: [usize; 2],
    stall: Option<Peak>,
    start_ns: Option<u64>,
    slack_ns: u64,
) -> Episodes {
    let mut histogram = Histogram::new();
    histogram.record_n(5_000, 60_000);
    histogram.record_n(1_520_000, 40);
    let mut misses = vec![0; 600];
    rows.iter().for_each(|row| misses[*row] = 20);
    if let Some(stall) = stall {
        histogram.record(stall.latency_ns);
        misses[rows[0]] += 1;
    }
    let late = misses.iter().sum();
    let peaks = Peaks::restored(2_000_000, stall.as_slice());
    let mut run = minute(&histogram, late, &peaks);
    run.rows = Some(MissRows {
        width_ns: 100 * MS,
        misses,
        start_ns,
        slack_ns,
    });
    let peaks = run.peaks();
    let misses = run.misses(DEADLINE, late, Some(0), &peaks);
    assert!(!misses.events_complete);
    misses.bound(0.95).episodes.expect("rows")
}

#[test]
fn misses_before_and_after_a_long_stall_are_one_episode() {
    // Late at 10 s and at 13.1 s.
    let seen = |stall_ms, start_ns| {
        let stall = Peak::new(10_050, BEGIN + 10_050 * MS, stall_ms * MS);
        episodes([100, 131], Some(stall), start_ns, 0).seen
    };
    assert_eq!(seen(3_000, Some(BEGIN)), 1);
    assert_eq!(seen(3, Some(BEGIN)), 2);
    // Runs that were merged have no common clock.
    assert_eq!(seen(3_000, None), 1);
    assert_eq!(seen(3, None), 2);
}

#[test]
fn misses_that_were_read_later_may_be_closer_than_their_rows() {
    let of = |slack_ns| episodes([100, 115], None, Some(BEGIN), slack_ns);
    let (exact, late) = (of(0), of(260 * MS));
    assert_eq!((exact.seen, late.seen), (2, 1));
    // They may also be two, and what took seconds to read may be several.
    assert_eq!(exact.upper, late.upper);
    assert!(of(2_000 * MS).upper > exact.upper);
}

#[test]
fn a_long_row_has_no_more_episodes_than_misses() {
    let mut histogram = Histogram::new();
    histogram.record_n(5_000, 60_000);
    histogram.record_n(1_520_000, 20);
    let peaks = Peaks::restored(2_000_000, &[]);
    let mut run = minute(&histogram, 20, &peaks);
    run.duration_ns = 86_400_000 * MS;
    let mut misses = vec![0; 844];
    misses[400] = 20;
    run.rows = Some(MissRows {
        width_ns: 102_400 * MS,
        misses,
        start_ns: Some(BEGIN),
        slack_ns: 251 * MS,
    });
    let required = Requirement::Episodes {
        deadline_ns: DEADLINE,
        per_hour: 2.0,
    };
    let verdict = judge(&[required], &run, 0.95);
    assert_eq!(verdict.outcome, Outcome::Pass, "{verdict:?}");
}
