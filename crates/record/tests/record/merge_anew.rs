//! What a sum counts anew, and what it then does not know exactly.

use super::merge::{checked, exact};
use super::support::{latencies, run, run_of, thread};

use punctual_record::*;
use punctual_stats::Outcome;
use punctual_stats::requirement::Requirement;

#[test]
fn another_deadline_is_counted_anew() {
    let list = latencies(9, 10_000, 400_000);
    let mut other = run_of(vec![thread(0, &list, 1024), thread(1, &list, 1024)]);
    other.request.requirements[0] = Requirement::MissProbability {
        deadline_ns: 50_000,
        allowed: 1e-2,
    };
    for thread in &mut other.threads {
        thread.late = list.iter().filter(|latency| **latency > 50_000).count() as u64;
    }
    let merged = exact(&[run(1), other], true);
    let late = list.iter().filter(|latency| **latency > 100_000).count() as u64;
    assert!(late > 0);
    assert_eq!(merged.threads[0].late, late);
}

/// 3.2 ms late, three periods of 1 ms skipped: no miss of 10 ms, one of 2.2 ms and three of 1 ms.
#[test]
fn skipped_periods_are_counted_anew_for_another_deadline() {
    let judged_by = |number: u64, deadline_ns: u64| {
        let mut run = run(number);
        run.request.requirements = vec![Requirement::MissProbability {
            deadline_ns,
            allowed: 0.0,
        }];
        run
    };
    const MS: u64 = 1_000_000;
    for (deadline_ns, wanted) in [(10 * MS, 0), (3 * MS, 0), (2_150_000, 1), (MS, 3)] {
        let mut late = judged_by(2, 100_000);
        let mut list = latencies(2, 10_000, 90_000);
        list[500] = 3_200_000;
        for thread in &mut late.threads {
            let mut with = self::thread(thread.cpu.unwrap(), &list, 1024);
            let peak = with.peaks.iter_mut().find(|it| it.cycle == 500).unwrap();
            peak.skipped = 3;
            (with.missed, with.missed_late) = (3, Some(3));
            *thread = with;
        }
        let merged = exact(&[judged_by(1, deadline_ns), late], true);
        let missed: Vec<Option<u64>> = merged.threads.iter().map(|it| it.missed_late).collect();
        assert_eq!(
            missed,
            vec![Some(wanted); merged.threads.len()],
            "{deadline_ns}"
        );
    }
}

/// Of periods that were skipped at 1 ms or at 10 ms nobody knows by how much each was late.
#[test]
fn skipped_periods_of_several_intervals_have_bounds() {
    const MS: u64 = 1_000_000;
    let other = |change: fn(&mut Run, usize), number: usize| {
        let mut run = run(number as u64);
        change(&mut run, number);
        run
    };
    let mut late = other(
        |run, _| {
            run.request.interval = Interval::Fixed {
                interval_ns: 10 * MS,
            }
        },
        300,
    );
    let mut list = latencies(2, 10_000, 90_000);
    list[500] = 32 * MS;
    for thread in &mut late.threads {
        let mut with = self::thread(thread.cpu.unwrap(), &list, 1024);
        let peak = with.peaks.iter_mut().find(|it| it.cycle == 500).unwrap();
        peak.skipped = 3;
        (with.missed, with.missed_late) = (3, Some(3));
        *thread = with;
    }
    let of = |runs: &[Run]| {
        let merged = exact(runs, true);
        checked(&merged);
        let evidence = Evidence::decode(&merged).unwrap();
        evidence.view(&merged).missed_late(15 * MS)
    };
    let each = late.threads.len() as u64;
    assert_eq!(of(&[late.clone()]), (each, each));
    assert_eq!(of(&[run(1), late.clone()]), (0, 3 * each));
    // Also after more differences than are kept.
    let named = |run: &mut Run, number: usize| run.system.kernel.release = format!("6.{number}");
    let many = (0..200).map(|number| other(named, number));
    let all: Vec<Run> = [run(1)].into_iter().chain(many).chain([late]).collect();
    assert_eq!(of(&all), (0, 3 * each));
}

/// Gaps between the two thresholds were not kept.
#[test]
fn a_run_that_kept_only_longer_gaps_is_no_evidence_for_a_lower_limit() {
    let looked = |above_ns: u64| {
        let mut run = run_of(vec![thread(0, &[], 64)]);
        run.request.requirements = vec![Requirement::Max { limit_ns: 100_000 }];
        run.measured_ns = 1_000_000_000;
        run.gaps = Some(Gaps {
            subject: Subject::Noise,
            method: Method::Polling,
            above_ns,
            step_ns: 50,
            runtime_ns: 1_000_000,
            period_ns: 1_000_000,
            sifted: false,
            threads: vec![Watched {
                span_ns: 1_000_000_000,
                polled_ns: 1_000_000_000,
                polls: 20_000_000,
                ..Watched::default()
            }],
        });
        let analysis = analyse_record(&run).unwrap();
        run.conclude(analysis);
        run
    };
    let outcome = |runs: &[Run]| {
        let merged = exact(runs, true);
        assert_eq!(invalid_reasons(&merged), []);
        merged.verdict.map(|verdict| verdict.outcome)
    };
    assert_eq!(
        outcome(&[looked(1_000), looked(1_000)]),
        Some(Outcome::Pass)
    );
    assert_eq!(
        outcome(&[looked(1_000), looked(90_000)]),
        Some(Outcome::Pass)
    );
    assert_eq!(
        outcome(&[looked(1_000), looked(300_000_000)]),
        Some(Outcome::Inconclusive)
    );
}
