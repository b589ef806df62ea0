//! Merging adds evidence up; nothing is averaged.

use super::support as record_support;

use std::path::Path;

use proptest::prelude::*;
use punctual_record::conditions::Aspect;
use punctual_record::*;
use punctual_stats::histogram::{Histogram, HistogramRecord};
use punctual_stats::requirement::Requirement;
use punctual_stats::verdict::Outcome;
use record_support::{fifo_80_on, latencies, run, run_of, thread};

pub fn exact(runs: &[Run], force: bool) -> Run {
    merge(runs, force, vec!["merge".to_owned()]).unwrap_or_else(|e| panic!("{e}"))
}

/// A record that passes its own reader.
pub fn checked(run: &Run) {
    let text = serde_json::to_vec(run).unwrap();
    assert_eq!(&Run::parse(Path::new("merged"), &text).unwrap(), run);
}

/// A twentieth of the run: more of it, and nobody knows what the machine did.
#[test]
fn runs_that_were_stopped_add_up_and_too_much_of_it_is_invalid() {
    let stopped = |number: u64, length_ns: u64| {
        let mut run = run(number);
        let mut stops = Stops::default();
        let (at_ns, cause, cpu) = (1, StopCause::Signal, None);
        stops.add(Stop {
            at_ns,
            length_ns,
            cause,
            cpu,
            tid: None,
        });
        stops.cycles = 100;
        run.stops = Some(stops);
        run
    };
    // Of 10 s each.
    assert_eq!(invalid_reasons(&stopped(1, 500_000_000)), []);
    let too_long = InvalidReason::Stopped {
        watched: false,
        total_ns: 510_000_000,
        run_ns: 10_000_000_000,
    };
    assert_eq!(invalid_reasons(&stopped(1, 510_000_000)), [too_long]);
    let merged = exact(
        &[stopped(1, 900_000_000), run(2), stopped(3, 700_000_000)],
        false,
    );
    checked(&merged);
    let stops = merged.stops.as_ref().unwrap();
    assert_eq!((stops.count, stops.cycles), (2, 200));
    assert_eq!(
        (stops.total_ns, stops.longest_ns),
        (1_600_000_000, 900_000_000)
    );
    assert_eq!(merged.verdict.unwrap().outcome, Outcome::Invalid);
    let merged = exact(&[stopped(1, 400_000_000), run(2)], false);
    assert_ne!(merged.verdict.unwrap().outcome, Outcome::Invalid);
}

#[test]
fn sums_and_maxima() {
    let runs = [run(1), run(2), run(3)];
    let merged = exact(&runs, false);
    checked(&merged);
    assert_eq!(merged.verb, "merge");
    assert_eq!(merged.measured_ns, 30_000_000_000);
    assert_eq!(merged.timeline.seconds, 30);
    assert_eq!(merged.timeline.rows.len(), 30);
    assert_eq!(merged.events.len(), 3);
    assert_eq!(merged.events[2].run, Some(3));
    assert_eq!(merged.loads.len(), 1);
    assert_eq!(merged.loads[0].work, 3_000_000);
    assert_eq!(merged.loads[0].rate, 100_000.0);
    assert_eq!(merged.demands.len(), 2);
    assert!(
        merged
            .threads
            .iter()
            .all(|thread| thread.first_half.is_none())
    );
    for cpu in 0..2 {
        let parts = runs
            .iter()
            .map(|run| Histogram::try_from(&run.threads[cpu].latency).unwrap());
        let expected = Histogram::merged(&parts.collect::<Vec<_>>());
        assert_eq!(
            Histogram::try_from(&merged.threads[cpu].latency).unwrap(),
            expected
        );
    }
    assert_eq!(merged.merged.as_ref().unwrap().samples, [20_000; 3]);
    assert_eq!(merged.verdict.as_ref().unwrap().outcome, Outcome::Pass);
    assert_eq!(merged.analysis.as_ref().unwrap().total.samples, 60_000);

    let again = exact(&[merged.clone(), run(4)], false);
    assert_eq!(again.merged.unwrap().runs, 4);
}

/// What was seen of a load in 10 s.
fn looked(idle_s: u64) -> WorkCheck {
    WorkCheck {
        looked_ns: 10_000_000_000,
        idle_ns: idle_s * 1_000_000_000,
        longest_idle_ns: idle_s * 1_000_000_000,
        least_cpu_ns: None,
    }
}

#[test]
fn a_load_that_stopped_working_in_one_run_makes_no_valid_sum() {
    let with = |seed, idle_s| {
        let mut run = run(seed);
        run.loads[0].check = Some(looked(idle_s));
        let analysis = analyse_record(&run).unwrap();
        run.conclude(analysis);
        run
    };
    // A tenth of the time is allowed, and no more.
    assert_eq!(with(1, 1).verdict.unwrap().outcome, Outcome::Pass);
    let idle = with(1, 2);
    assert_eq!(idle.verdict.as_ref().unwrap().outcome, Outcome::Invalid);
    let reason = |check, in_one_run| InvalidReason::Load {
        name: "hackbench".to_owned(),
        fault: LoadFault::Idle {
            check,
            unit: "messages".to_owned(),
            in_one_run,
        },
    };
    assert_eq!(invalid_reasons(&idle), [reason(looked(2), false)]);

    let good: Vec<Run> = (1..6).map(|seed| with(seed, 0)).collect();
    let sum = exact(&good, false);
    assert_eq!(sum.verdict.as_ref().unwrap().outcome, Outcome::Pass);
    assert_eq!(sum.loads[0].check.unwrap().looked_ns, 50_000_000_000);
    for place in 0..5 {
        let mut runs = good.clone();
        runs[place] = with(20, 3);
        let sum = exact(&runs, false);
        checked(&sum);
        assert_eq!(sum.verdict.as_ref().unwrap().outcome, Outcome::Invalid);
        assert_eq!(sum.loads[0].check.unwrap().idle_ns, 3_000_000_000);
        assert_eq!(sum.loads[0].failed, None);
        assert_eq!(invalid_reasons(&sum), [reason(looked(3), true)]);
        // A sum of sums still knows it.
        let again = exact(&[sum, with(30, 0)], false);
        assert_eq!(invalid_reasons(&again), [reason(looked(3), true)]);
    }
}

/// What the sum hides: each was INVALID alone.
#[test]
fn a_run_that_is_invalid_in_its_own_figures_makes_no_valid_sum() {
    let stopped = |run: &mut Run| {
        let mut stops = Stops::default();
        stops.add(Stop {
            at_ns: 1,
            length_ns: 2_000_000_000,
            cause: StopCause::Signal,
            cpu: None,
            tid: None,
        });
        run.stops = Some(stops);
    };
    let silent = |run: &mut Run| {
        let thread = run.threads.last_mut().unwrap();
        thread.latency = HistogramRecord::from(&Histogram::new());
        thread.peaks.clear();
        (thread.late, thread.first_half) = (0, None);
        let analysis = analyse_record(run).unwrap();
        run.conclude(analysis);
    };
    let idle = |run: &mut Run| {
        for load in &mut run.loads {
            (load.work, load.check) = (0, None);
        }
    };
    let faults: [&dyn Fn(&mut Run); 3] = [&stopped, &silent, &idle];
    for fault in faults {
        let mut broken = run(2);
        fault(&mut broken);
        let good: Vec<Run> = (3..9).map(run).collect();
        let merged = exact(&[&[run(1), broken][..], &good].concat(), false);
        checked(&merged);
        let reasons = invalid_reasons(&merged);
        assert!(
            matches!(reasons[..], [InvalidReason::OfRun { run: 2, .. }]),
            "{reasons:?}"
        );
        assert_eq!(merged.verdict.as_ref().unwrap().outcome, Outcome::Invalid);
        // It is the fourth of the runs that both sums hold.
        let both = exact(&[exact(&[run(11), run(12)], false), merged], false);
        checked(&both);
        let reasons = invalid_reasons(&both);
        assert!(
            matches!(reasons[..], [InvalidReason::OfRun { run: 4, .. }]),
            "{reasons:?}"
        );
    }
}

#[test]
fn of_a_load_no_more_is_without_work_than_was_looked_at() {
    let mut run = run(1);
    run.loads[0].check = Some(looked(11));
    let text = serde_json::to_vec(&run).unwrap();
    let error = Run::parse(Path::new("hostile"), &text)
        .unwrap_err()
        .to_string();
    assert!(error.contains("loads[0].check"), "{error}");
    run.loads[0].check = Some(looked(1));
    run.placement = Some(Placement {
        load: vec![usize::MAX],
        ..Placement::default()
    });
    let text = serde_json::to_vec(&run).unwrap();
    let error = Run::parse(Path::new("hostile"), &text)
        .unwrap_err()
        .to_string();
    assert!(error.contains("placement.load[0]"), "{error}");
}

#[test]
fn a_run_that_a_sum_holds_already_is_not_counted_again() {
    let [mut first, mut second, mut third] = [run(1), run(2), run(3)];
    for (run, at) in [(&mut first, "01"), (&mut second, "02"), (&mut third, "03")] {
        run.started = format!("2026-11-21T02:46:{at}Z");
    }
    let sum = exact(&[first.clone(), second.clone()], false);
    for runs in [[sum.clone(), second.clone()], [second.clone(), sum.clone()]] {
        let error = merge(&runs, true, Vec::new()).unwrap_err();
        let said = error.to_string();
        assert!(said.contains("02:46:02Z) was given twice"), "{said}");
    }
    // Nor is a copy of one that does not say when it began.
    let mut unknown = third.clone();
    unknown.start_ns = None;
    let error = merge(&[unknown.clone(), unknown], true, Vec::new()).unwrap_err();
    assert!(error.to_string().contains("was given twice"), "{error}");
    let merged = exact(&[third, sum], false).merged.unwrap();
    assert_eq!(merged.runs, 3);
    assert!(merged.first_started.ends_with(":01Z"), "{merged:?}");
    assert!(merged.last_started.ends_with(":03Z"), "{merged:?}");
}

#[test]
fn the_same_time_of_the_same_cpus_is_counted_once() {
    let began = |run: &mut Run, start_ns: u64, boot: &str| {
        run.start_ns = Some(start_ns);
        run.system.boot_id = Some(boot.to_owned());
    };
    let [mut first, mut second, mut third] = [run(1), run(2), run(3)];
    let length_ns = first.measured_ns;
    began(&mut first, 5_000, "a");
    began(&mut second, 5_000 + length_ns, "a");
    let sum = exact(&[first.clone(), second.clone()], false);
    // One ns of the second.
    began(&mut third, 5_000 + 2 * length_ns - 1, "a");
    for runs in [[sum.clone(), third.clone()], [third.clone(), sum.clone()]] {
        let said = merge(&runs, true, Vec::new()).unwrap_err().to_string();
        assert!(said.contains("in the same time"), "{said}");
    }
    // Other CPUs, after a new start of the machine, or later.
    let mut elsewhere = third.clone();
    for thread in &mut elsewhere.threads {
        thread.cpu = thread.cpu.map(|cpu| cpu + 100);
    }
    assert!(merge(&[sum.clone(), elsewhere], true, Vec::new()).is_ok());
    began(&mut third, 5_000, "b");
    assert!(merge(&[sum.clone(), third.clone()], false, Vec::new()).is_ok());
    began(&mut third, 5_000 + 2 * length_ns, "a");
    assert!(merge(&[sum, third], false, Vec::new()).is_ok());
}

#[test]
fn peaks_stay_complete_above_their_threshold() {
    let all: Vec<Vec<u64>> = (0..5).map(|seed| latencies(seed, 8000, 400_000)).collect();
    let runs: Vec<Run> = all
        .iter()
        .map(|list| run_of(vec![thread(3, list, 64)]))
        .collect();
    let merged = exact(&runs, false);
    checked(&merged);
    let thread = &merged.threads[0];
    assert_eq!(thread.cpu, Some(3));
    let above = all
        .iter()
        .flatten()
        .filter(|latency| **latency > thread.peaks_above_ns)
        .count();
    assert_eq!(thread.peaks.len(), above);
    assert!(above > 10);
    // 8 s each, one after the other.
    assert_eq!(starts_s(&merged), [0, 8, 16, 24, 32]);
}

/// Where each run begins in the sum, in s.
fn starts_s(merged: &Run) -> Vec<u64> {
    let parts = &merged.merged.as_ref().unwrap().parts;
    parts
        .iter()
        .map(|part| part.start_ns / 1_000_000_000)
        .collect()
}

/// 1 ms apart, at the end of one and at the beginning of the next.
#[test]
fn misses_of_two_runs_are_two_bursts_and_two_episodes() {
    let with_late = |cycles: &[usize]| {
        let mut list = latencies(1, 1_000, 90_000);
        cycles.iter().for_each(|cycle| list[*cycle] = 250_000);
        run_of(vec![thread(0, &list, 4096)])
    };
    let of = |run: &Run| {
        let miss = run.analysis.as_ref().unwrap().miss.as_ref().unwrap();
        (
            miss.misses,
            miss.bursts.unwrap(),
            miss.episodes.unwrap().seen,
        )
    };
    assert_eq!(of(&with_late(&[500, 501])), (2, 1, 1));
    let [first, second] = [with_late(&[999]), with_late(&[0])];
    let two = exact(&[first, second], false);
    checked(&two);
    assert_eq!(of(&two), (2, 2, 2));
    // As parts of another sum too.
    let three = exact(&[with_late(&[999]), two.clone()], false);
    assert_eq!(of(&three), (3, 3, 3));
    assert_eq!(starts_s(&two), [0, 1]);
    assert_eq!(starts_s(&three), [0, 1, 2]);
}

#[test]
fn a_condition_not_in_force_in_one_run_is_not_in_force() {
    let mut bad = run(2);
    bad.demands[0].standing = Standing::NotInForce;
    bad.demands[0].condition = fifo_80_on(&[]);
    let merged = exact(&[run(1), bad, run(3)], false);
    assert_eq!(merged.demands[0].condition, fifo_80_on(&[]));
    assert_eq!(merged.verdict.as_ref().unwrap().outcome, Outcome::Invalid);
    let mut cut_off = run(2);
    cut_off.state = State::Unfinished;
    let merged = exact(&[run(1), cut_off], false);
    let of = |runs| {
        State::Stopped(Ending::UnfinishedRuns {
            unfinished: 1,
            runs,
        })
    };
    assert_eq!(merged.state, of(2));
    // What would have made it INVALID may be missing, as in a record without a verdict.
    let verdict = merged.verdict.as_ref().unwrap();
    assert_eq!(verdict.outcome, Outcome::Invalid);
    let reason = InvalidReason::OfRun {
        run: 2,
        reason: Box::new(InvalidReason::Unfinished),
    };
    assert_eq!(invalid_reasons(&merged), [reason]);
    let again = exact(&[run(4), merged], false);
    assert_eq!(again.state, of(3));
    let reasons = invalid_reasons(&again);
    assert!(
        matches!(reasons[..], [InvalidReason::OfRun { .. }]),
        "{reasons:?}"
    );
}

#[test]
fn unlike_runs_are_refused_by_name() {
    type Change = fn(&mut Run);
    let changes: [(Aspect, Change); 9] = [
        (Aspect::Source, |run| run.request.source = "futex".into()),
        (Aspect::Kernel, |run| {
            run.system.kernel.release = "7.0".to_owned()
        }),
        (Aspect::Host, |run| run.system.hostname = "other".to_owned()),
        (Aspect::Priority, |run| run.request.priority = 7),
        (Aspect::Load, |run| run.request.load = "none".to_owned()),
        (Aspect::Requirement, |run| {
            run.request.requirements[0] = Requirement::MissProbability {
                deadline_ns: 20_000,
                allowed: 1e-2,
            };
        }),
        (Aspect::Deployment, |run| run.request.as_deployed = true),
        (Aspect::Tracing, |run| {
            run.own_cost.tracer = match run.own_cost.tracer {
                Some(_) => None,
                None => Some(TracerCost::default()),
            };
        }),
        (Aspect::NotInForce, |run| {
            run.request.best_effort = true;
            run.demands[0].standing = Standing::NotInForce;
        }),
    ];
    for (aspect, change) in changes {
        let mut other = run(2);
        change(&mut other);
        let error = merge(&[run(1), other.clone()], false, Vec::new()).unwrap_err();
        let MergeError::Different {
            run: 1,
            differences,
        } = &error
        else {
            panic!("{error:?}");
        };
        let aspects: Vec<Aspect> = differences.iter().map(|it| it.aspect).collect();
        assert_eq!(aspects, [aspect], "{differences:?}");
        let forced = exact(&[run(1), other], true);
        checked(&forced);
        let stated = forced.merged.unwrap().differences;
        assert_eq!(&stated, differences);
    }
    assert_eq!(merge(&[], false, Vec::new()), Err(MergeError::Nothing));
}

#[test]
fn rows_of_unequal_width_fit_or_are_left_out() {
    let mut wide = run(2);
    wide.timeline.row_ns *= 4;
    wide.timeline.rows.truncate(3);
    let merged = exact(&[run(1), wide.clone()], false);
    assert_eq!(merged.timeline.row_ns, 4_000_000_000);
    assert_eq!(merged.timeline.rows.len(), 6);
    assert_eq!(merged.timeline.rows[0].count, 8000);
    wide.timeline.row_ns = 3_000_000_000;
    let merged = exact(&[run(1), wide], false);
    assert!(merged.timeline.rows.is_empty());
    assert_eq!(merged.timeline.seconds, 20);
    let many: Vec<_> = (0..300).map(|_| run(1)).collect();
    let merged = exact(&many, false);
    checked(&merged);
    assert!(merged.timeline.rows.len() <= Timeline::ROWS);
    assert_eq!(
        merged
            .timeline
            .rows
            .iter()
            .map(|row| row.count)
            .sum::<u64>(),
        300 * 20_000
    );
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    /// Each is short, and the instants between them are no silence of the machine.
    #[test]
    fn clean_runs_show_more_together_than_each(
        seed in 0_u64..1000,
        count in 2_u64..7,
        cycles in 120_usize..1200,
    ) {
        let runs: Vec<Run> = (0..count)
            .map(|number| run_of(vec![thread(0, &latencies(seed + number, cycles, 90_000), 512)]))
            .collect();
        let upper = |run: &Run| run.analysis.as_ref().unwrap().miss.as_ref().unwrap().upper;
        let merged = upper(&exact(&runs, false));
        for run in &runs {
            prop_assert!(merged <= upper(run), "{merged} of {count}, {} of one", upper(run));
        }
    }

    /// However the samples are cut into runs, the sum is the same.
    #[test]
    fn cutting_does_not_matter(seed in 0_u64..1000, cut in 1_usize..1999) {
        let list = latencies(seed, 2000, 300_000);
        let whole = run_of(vec![thread(0, &list, 4096)]);
        let halves = [
            run_of(vec![thread(0, &list[..cut], 4096)]),
            run_of(vec![thread(0, &list[cut..], 4096)]),
        ];
        let merged = exact(&halves, false);
        prop_assert_eq!(&merged.threads[0].latency, &whole.threads[0].latency);
        prop_assert_eq!(merged.threads[0].late, whole.threads[0].late);
        prop_assert_eq!(merged.threads[0].peaks.len(), whole.threads[0].peaks.len());
        let cycles: Vec<_> = merged.threads[0].peaks.iter().map(|peak| peak.cycle).collect();
        let expected: Vec<_> = whole.threads[0].peaks.iter().map(|peak| peak.cycle).collect();
        prop_assert_eq!(cycles, expected);
    }
}
