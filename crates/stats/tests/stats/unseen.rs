//! Cycles that went unseen: a PASS holds even if all of them missed, whenever they were.

use crate::episodes::minute;
use crate::support::{PERIOD, Rng};
use punctual_stats::binomial;
use punctual_stats::miss::TimeUnknown;
use punctual_stats::skips::{Skip, Skips};
use punctual_stats::verdict::RequirementResult;
use punctual_stats::{
    Histogram, Outcome, Peak, Peaks, Requirement, RunEvidence, Skipped, ThreadEvidence, judge,
};

const DEADLINE: u64 = 100_000;
const CONFIDENCE: f64 = 0.95;

/// A thread that is late in some of its cycles, and otherwise on time.
struct Machine {
    histogram: Histogram,
    peaks: Peaks,
    late: u64,
    skipped: u64,
    unseen: u64,
}

impl Machine {
    /// So many wake-ups, with late ones in these cycles.
    fn new(cycles: u64, late: &[u64]) -> Self {
        let mut machine = Self {
            histogram: Histogram::new(),
            peaks: Peaks::new(),
            late: late.len() as u64,
            skipped: 0,
            unseen: 0,
        };
        let mut rng = Rng::new(5);
        for cycle in 0..cycles {
            let latency = match late.contains(&cycle) {
                true => DEADLINE + 7,
                false => 3_000 + rng.exponential(3_000.0).min(60_000.0) as u64,
            };
            machine.histogram.record(latency);
            let peak = Peak::new(cycle, cycle * PERIOD, latency);
            machine.peaks.offer(peak);
        }
        machine
    }

    /// With so many periods more, of which nothing is known.
    fn unseen(self, unseen: u64) -> Self {
        Self { unseen, ..self }
    }

    /// With so many periods more, that it skipped from this cycle on.
    fn skipped(self, skipped: u64, cycle: u64) -> Self {
        let skip = Skip {
            at_ns: cycle * PERIOD,
            count: skipped,
            most_ns: skipped * PERIOD,
            least_ns: PERIOD,
            period_ns: PERIOD,
            longest_period_ns: 0,
            joined: false,
        };
        let skips: Skips = [skip].into_iter().collect();
        let peaks = self.peaks.with_skips(skips);
        Self {
            peaks,
            skipped,
            ..self
        }
    }

    fn judged(&self, requirement: Requirement) -> RequirementResult {
        let thread = ThreadEvidence {
            cpu: Some(0),
            histogram: &self.histogram,
            rounded_up: None,
            late: self.late,
            interval_ns: Some(PERIOD),
            missed: self.skipped,
            missed_late: self.skipped,
            lost: 0,
            unseen: self.unseen,
            unseen_most_ns: None,
            may_be_empty: false,
            skipped: Skipped::Alone,
            peaks: &self.peaks,
        };
        let cycles = thread.cycles();
        let run = RunEvidence {
            parts: Vec::new(),
            threads: vec![thread],
            duration_ns: cycles * PERIOD,
            deadline_ns: Some(DEADLINE),
            seconds: cycles / 1_000,
            seconds_with_miss: 0,
            rows: None,
            halves: None,
        };
        let verdict = judge(&[requirement], &run, CONFIDENCE);
        verdict.requirements.into_iter().next().expect("one result")
    }

    fn upper(&self) -> f64 {
        self.judged(miss(0.5)).bound.upper
    }

    fn outcome(&self, allowed: f64) -> Outcome {
        self.judged(miss(allowed)).outcome
    }
}

fn miss(allowed: f64) -> Requirement {
    Requirement::MissProbability {
        deadline_ns: DEADLINE,
        allowed,
    }
}

#[test]
fn few_unseen_cycles_leave_a_pass_where_many_are_allowed() {
    let outcome = |unseen, allowed| Machine::new(100_000, &[]).unseen(unseen).outcome(allowed);
    for (unseen, allowed) in [(0, 1e-4), (1, 1e-4), (2, 1e-3), (9, 1e-2), (30, 1e-2)] {
        assert_eq!(outcome(unseen, allowed), Outcome::Pass, "{unseen}");
    }
    for (unseen, allowed) in [(1, 0.0), (2, 1e-4), (9, 1e-4), (11, 1e-4), (90, 1e-3)] {
        assert_eq!(outcome(unseen, allowed), Outcome::Inconclusive, "{unseen}");
    }
}

/// As large a share of a longer run goes unseen.
#[test]
fn a_longer_run_shows_what_unseen_cycles_leave_room_for() {
    let judged = |late: &[u64], unseen, allowed| {
        let result = Machine::new(20_000, late)
            .unseen(unseen)
            .judged(miss(allowed));
        assert_eq!(result.outcome, Outcome::Inconclusive);
        (result.never, result.needed_seconds.is_some())
    };
    assert_eq!(judged(&[], 11, 1e-3), (Some(TimeUnknown::Unseen), false));
    assert_eq!(judged(&[], 1, 0.0), (Some(TimeUnknown::Unseen), false));
    let spread: Vec<u64> = (0..6).map(|n| 1_500 + 3_001 * n).collect();
    assert_eq!(judged(&spread, 1, 7e-4), (None, true));
}

/// What was seen to miss is judged by when it was; of what went unseen the worst is assumed.
#[test]
fn no_bound_is_below_that_of_cycles_that_were_seen_to_miss() {
    const CYCLES: u64 = 400;
    let lates: [&[u64]; 4] = [&[], &[77], &[30, 31, 32], &[9, 60, 140, 141, 260, 333, 390]];
    for late in lates {
        for unseen in [1, 2, 4, 17, 60] {
            let hidden = Machine::new(CYCLES, late).unseen(unseen).upper();
            let independent = binomial::upper(
                (late.len() as u64 + unseen) as f64,
                (CYCLES + unseen) as f64,
                CONFIDENCE,
            );
            assert!(hidden >= independent, "{late:?} {unseen}: {hidden}");
            // Exact: of bursts as large as this one came.
            let bursts = (CYCLES + unseen) as f64 / unseen as f64;
            let one = binomial::upper(1.0, bursts, CONFIDENCE);
            assert!(hidden >= one, "{late:?} {unseen}: {hidden}, {one}");
            // One burst at any time; where the lengths of stalls decide, these are known.
            for cycle in (3..CYCLES).step_by(44) {
                let seen = Machine::new(CYCLES, late).skipped(unseen, cycle);
                let bound = seen.judged(miss(0.5)).bound;
                assert!(
                    bound.stalls.is_some() || hidden >= bound.upper * 0.999,
                    "{late:?} {unseen} at {cycle}: {hidden}, {bound:?}"
                );
            }
            // Each by itself, at random.
            let mut rng = Rng::new(unseen);
            let mut all = late.to_vec();
            while all.len() < late.len() + unseen as usize {
                let cycle = rng.next() % (CYCLES + unseen);
                if !all.contains(&cycle) {
                    all.push(cycle);
                }
            }
            let seen = Machine::new(CYCLES + unseen, &all);
            let bound = seen.judged(miss(0.5)).bound;
            assert!(
                bound.stalls.is_some() || hidden >= bound.upper * 0.999,
                "{late:?} {unseen} singly: {hidden}, {bound:?}"
            );
        }
    }
}

/// Exact: all misses go unseen, each by itself, and they are just more frequent than is allowed.
#[test]
fn a_machine_whose_misses_all_go_unseen_passes_in_few_runs() {
    const CYCLES: u64 = 2_000;
    for expected in [10.0, 30.0, 100.0] {
        let allowed = expected / CYCLES as f64;
        let passes = |unseen: &u64| {
            let seen = Machine::new(CYCLES - unseen, &[]);
            seen.unseen(*unseen).outcome(allowed) == Outcome::Pass
        };
        let most = (0..CYCLES).take_while(passes).last();
        let most = most.expect("none at all passes") as f64;
        let wrong = binomial::at_most(most, CYCLES as f64, allowed * 1.000_001);
        assert!(wrong <= 1.0 - CONFIDENCE, "{expected}: {most}, {wrong}");
        // And yet some may go unseen.
        assert!(most >= 1.0, "{expected}: {most}");
    }
}

/// Every other miss goes unseen.
#[test]
fn a_machine_that_misses_more_than_allowed_passes_in_few_runs() {
    const CYCLES: u64 = 500;
    const RUNS: u64 = 400;
    let allowed = 0.04;
    let mut wrong = 0;
    for seed in 0..RUNS {
        let mut rng = Rng::new(seed + 1);
        let misses: Vec<u64> = (0..CYCLES)
            .filter(|_| rng.unit() < allowed * 1.01)
            .collect();
        let (late, unseen): (Vec<u64>, Vec<u64>) = misses.iter().partition(|_| rng.unit() < 0.5);
        let unseen = unseen.len() as u64;
        let machine = Machine::new(CYCLES - unseen, &late).unseen(unseen);
        wrong += u64::from(machine.outcome(allowed) == Outcome::Pass);
    }
    // Three deviations above what the confidence allows.
    assert!(wrong <= 33, "{wrong} of {RUNS}");
}

/// Each of them may have been an episode, and they may have come in a row.
#[test]
fn unseen_cycles_may_be_episodes() {
    const HOUR: u64 = 3_600_000_000_000;
    let mut histogram = Histogram::new();
    histogram.record_n(5_000, 60_000);
    let peaks = Peaks::restored(5_000, &[]);
    let outcome = |unseen: u64, per_hour: f64| {
        let mut run = minute(&histogram, 0, &peaks);
        (run.duration_ns, run.threads[0].unseen) = (10 * HOUR, unseen);
        let required = Requirement::Episodes {
            deadline_ns: DEADLINE,
            per_hour,
        };
        judge(&[required], &run, CONFIDENCE).outcome
    };
    // Poisson: with none fewer than 3.0, with one fewer than 4.74.
    assert_eq!(outcome(0, 0.31), Outcome::Pass);
    assert_eq!(outcome(1, 0.47), Outcome::Inconclusive);
    assert_eq!(outcome(1, 0.48), Outcome::Pass);
    // With four singly 9.15.
    assert_eq!(outcome(4, 1.0), Outcome::Inconclusive);
    assert_eq!(outcome(4, 10.0), Outcome::Pass);
}

#[test]
fn what_went_unseen_matters_only_to_limits_that_it_may_have_exceeded() {
    let mut histogram = Histogram::new();
    histogram.record_n(5_000, 60_000);
    let peaks = Peaks::restored(5_000, &[]);
    let outcome = |most_ns, limit_ns| {
        let mut run = minute(&histogram, 0, &peaks);
        (run.threads[0].unseen, run.threads[0].unseen_most_ns) = (1, most_ns);
        judge(&[Requirement::Max { limit_ns }], &run, 0.95).outcome
    };
    assert_eq!(outcome(Some(600_000), 600_000), Outcome::Pass);
    assert_eq!(outcome(Some(600_000), 599_999), Outcome::Inconclusive);
    assert_eq!(outcome(None, 5_000_000), Outcome::Inconclusive);
}
