//! Budgets on made-up runs with known answers.

use punctual_record::budget::{
    Budget, BudgetBasis, BudgetDemand, CommonFigures, Hop, HopOrigin, HopTimes, PartOfRun, Whole,
    judge, of_chain,
};
use punctual_record::taskset::{ChainHop, ChainSplit, Times};
use punctual_record::{Run, State, Timeline};
use punctual_stats::budget::Exceedance;
use punctual_stats::histogram::{Histogram, HistogramRecord};
use punctual_stats::verdict::Outcome;

use crate::support::{Random, fifo_80_on, run_of, thread};
use crate::tasksets::executed;
use crate::watches;
use punctual_record::{Demand, Fix};

const MS: u64 = 1_000_000;

/// Some 50 µs each, and `stall_ns` more in cycles that are multiples of `every`.
fn latencies(seed: u64, count: u64, every: u64, stall_ns: u64) -> Vec<u64> {
    let mut random = Random(seed * 2 + 1);
    let of = |cycle: u64, jitter: u64| {
        let stall = if cycle % every == every - 1 {
            stall_ns
        } else {
            0
        };
        40_000 + jitter % 20_000 + stall
    };
    (0..count).map(|cycle| of(cycle, random.next())).collect()
}

fn measured(cpu: usize, latencies: &[u64]) -> Run {
    let mut run = run_of(vec![thread(cpu, latencies, 4096)]);
    run.demands = vec![Demand::requested(
        fifo_80_on(&[cpu]),
        true,
        || unreachable!(),
    )];
    run
}

fn hop(name: &str, times: HopTimes) -> Hop {
    Hop {
        name: name.to_owned(),
        times,
        within_ns: None,
    }
}

fn of_run(name: &str, run: &Run) -> Hop {
    let run = Box::new(run.clone());
    hop(
        name,
        HopTimes::Run {
            run,
            of: PartOfRun::Threads { cpu: None },
        },
    )
}

fn demand(deadline_ns: u64, allowed: f64) -> BudgetDemand {
    BudgetDemand {
        deadline_ns,
        allowed,
        confidence: 0.95,
    }
}

fn judged(demand: &BudgetDemand, hops: &[Hop], whole: Option<&Run>) -> Budget {
    let whole = whole.map(|run| Whole {
        run: run.clone(),
        of: PartOfRun::Threads { cpu: None },
    });
    judge(demand, hops, whole.as_ref()).expect("records")
}

/// Its last checks are missing: what would have made it INVALID is not known.
#[test]
fn a_record_that_was_cut_off_proves_no_budget() {
    let run = measured(0, &[1_000; 20_000]);
    let mut cut_off = run.clone();
    cut_off.state = State::Unfinished;
    let demand = demand(MS, 1e-2);
    let of = |hop: &Run, whole: Option<&Run>| judged(&demand, &[of_run("a", hop)], whole).outcome;
    assert_eq!(of(&run, Some(&run)), Outcome::Pass);
    assert_eq!(of(&cut_off, None), Outcome::Invalid);
    assert_eq!(of(&run, Some(&cut_off)), Outcome::Invalid);
}

#[test]
fn wake_ups_of_a_hop_that_went_unseen_may_have_been_longer_than_any_time() {
    let outcome = |unseen: u64, allowed: f64| {
        let mut run = measured(0, &latencies(1, 10_000, 20_000, MS));
        let mut watch = watches::program("controller", 1);
        (watch.threads[0].unseen, watch.threads[0].unseen_most_ns) = (unseen, None);
        watch.beyond = 0;
        watch.marks.clear();
        run.watch = Some(watch);
        let budget = judged(
            &demand(10 * MS, allowed),
            &[of_run("controller", &run)],
            None,
        );
        assert!(
            budget.at_most >= unseen as f64 / (10_000 + unseen) as f64,
            "{budget:#?}"
        );
        budget.outcome
    };
    assert_eq!(outcome(0, 0.01), Outcome::Pass);
    assert_eq!(outcome(2, 0.01), Outcome::Pass);
    // As one burst they may come again.
    assert_eq!(outcome(1_000, 0.12), Outcome::Inconclusive);
}

#[test]
fn hops_that_fit_together_pass_however_they_depend() {
    let run = |seed| measured(0, &latencies(seed, 200_000, 20_000, MS));
    let hops = [
        of_run("sensor", &run(1)),
        hop("bus", HopTimes::Constant(250_000)),
        of_run("controller", &run(2)),
    ];
    let budget = judged(&demand(6 * MS, 1e-3), &hops, None);
    assert_eq!(budget.outcome, Outcome::Pass, "{budget:#?}");
    assert_eq!(budget.basis, BudgetBasis::AnyDependence);
    assert!(budget.at_most > 0.0 && budget.at_most <= 1e-3);
    let parts = budget.hops.iter().map(|hop| hop.share.expect("a part"));
    assert!(parts.map(|part| part.within_ns).sum::<u64>() <= 6 * MS);
    assert_eq!(budget.hops[1].origin, HopOrigin::Constant);
    assert!(matches!(
        budget.hops[0].origin,
        HopOrigin::Run { cycles: 200_000 }
    ));
}

/// With a part fixed beforehand, fewer doubts are shared, and the bound is tighter.
#[test]
fn a_part_that_is_fixed_beforehand_has_a_tighter_bound() {
    let run = measured(0, &latencies(1, 50_000, u64::MAX, 0));
    let free = of_run("sensor", &run);
    let fixed = Hop {
        within_ns: Some(2 * MS),
        ..free.clone()
    };
    let [free, fixed] = [free, fixed].map(|hop| judged(&demand(2 * MS, 1e-4), &[hop], None));
    assert!(
        fixed.at_most < free.at_most / 1.1,
        "{} {}",
        fixed.at_most,
        free.at_most
    );
}

/// Hops that stall together in 1 of 1,000 cycles: independence promises 1 in a million.
#[test]
fn independence_never_decides() {
    let of = |seed| measured(0, &latencies(seed, 100_000, 1_000, 3 * MS));
    let hops = [of_run("a", &of(1)), of_run("b", &of(2))];
    let budget = judged(&demand(5 * MS, 1e-5), &hops, None);
    assert!(budget.independent.above_deadline < 1.1e-6);
    assert!(budget.any_dependence.above_deadline > 9e-4);
    assert_eq!(budget.outcome, Outcome::Inconclusive);
    // The whole path says that they do stall together.
    let both: Vec<u64> = (latencies(1, 100_000, 1_000, 3 * MS).iter())
        .zip(latencies(2, 100_000, 1_000, 3 * MS))
        .map(|(a, b)| a + b)
        .collect();
    let whole = measured(0, &both);
    let budget = judged(&demand(5 * MS, 1e-5), &hops, Some(&whole));
    assert_eq!(
        (budget.outcome, budget.basis),
        (Outcome::Fail, BudgetBasis::Whole)
    );
}

#[test]
fn a_hop_that_alone_exceeds_the_deadline_fails() {
    let late = measured(0, &latencies(1, 100_000, 100, 9 * MS));
    let hops = [
        hop("bus", HopTimes::Constant(MS)),
        of_run("controller", &late),
    ];
    let budget = judged(&demand(10 * MS, 1e-3), &hops, None);
    assert_eq!(budget.outcome, Outcome::Fail, "{budget:#?}");
    let BudgetBasis::OneHop { hop: 1, at_least } = budget.basis else {
        panic!("{:?}", budget.basis);
    };
    assert!(at_least > 1e-3 && at_least <= 1e-2, "{at_least}");
    // The constants alone.
    let constants = [4, 7].map(|ms| hop("bus", HopTimes::Constant(ms * MS)));
    let budget = judged(&demand(10 * MS, 1e-3), &constants, None);
    assert_eq!(budget.outcome, Outcome::Fail);
    assert!(budget.hops.iter().all(|hop| hop.share.is_none()));
}

#[test]
fn a_given_distribution_is_taken_at_its_word() {
    let points = [(50_000, 0.5), (MS, 0.999), (4 * MS, 1.0)];
    let times = HopTimes::Known(Exceedance::of_points(&points).expect("ascending"));
    let hops = [hop("bus", times), hop("rest", HopTimes::Constant(MS))];
    for (deadline_ns, allowed, outcome) in [
        (2 * MS, 1e-2, Outcome::Pass),
        (2 * MS, 1e-4, Outcome::Fail),
        (5 * MS, 0.0, Outcome::Pass),
    ] {
        let budget = judged(&demand(deadline_ns, allowed), &hops, None);
        assert_eq!(budget.outcome, outcome, "{budget:#?}");
    }
}

/// A share of 0.99 leaves 0.01, and 0.1 with 0.2 are 0.3, whatever binary fractions make of them.
#[test]
fn as_much_as_is_allowed_is_no_failure() {
    let known =
        |points: &[(u64, f64)]| HopTimes::Known(Exceedance::of_points(points).expect("ascending"));
    for share in [0.9, 0.99, 0.999, 0.9999, 0.999_999] {
        let allowed = 1.0 - share;
        let allowed = (allowed * 1e6_f64).round() / 1e6;
        let hops = [hop("bus", known(&[(MS, share), (9 * MS, 1.0)]))];
        let budget = judged(&demand(MS, allowed), &hops, None);
        assert_eq!(budget.outcome, Outcome::Pass, "{share}: {budget:#?}");
        let budget = judged(&demand(MS, allowed * 0.999), &hops, None);
        assert_eq!(budget.outcome, Outcome::Fail, "{share}: {budget:#?}");
    }
    let hops = [0.9, 0.8].map(|share| hop("bus", known(&[(MS, share), (9 * MS, 1.0)])));
    let budget = judged(&demand(2 * MS, 0.3), &hops, None);
    assert_eq!(budget.outcome, Outcome::Pass, "{budget:#?}");
}

/// Neither hop alone takes longer than the deadline; together they do, however they depend on each other.
#[test]
fn hops_that_exceed_the_deadline_under_every_dependence_fail() {
    // Each is above 2 ms in 60 %: both are in at least 20 % of all cycles.
    let points = [(MS, 0.0), (2 * MS, 0.4), (3 * MS, 1.0)];
    let known = || HopTimes::Known(Exceedance::of_points(&points).expect("ascending"));
    let hops = [
        hop("a", known()),
        hop("b", known()),
        hop("bus", HopTimes::Constant(MS)),
    ];
    let budget = judged(&demand(5 * MS, 0.1), &hops, None);
    assert_eq!(budget.outcome, Outcome::Fail, "{budget:#?}");
    let BudgetBasis::AtLeast { at_least } = budget.basis else {
        panic!("{:?}", budget.basis);
    };
    assert!((at_least - 0.2).abs() < 1e-9, "{at_least}");
    let budget = judged(&demand(5 * MS, 0.25), &hops, None);
    assert_eq!(budget.outcome, Outcome::Inconclusive);
    // Each is always longer than 1 ms.
    let budget = judged(&demand(3 * MS, 0.7), &hops, None);
    assert_eq!(budget.basis, BudgetBasis::AtLeast { at_least: 1.0 });
    // Measured: 9 of 10 cycles take 3 ms, 8 of 10 are both at least.
    let slow = |seed: u64| {
        let times = latencies(seed, 50_000, 10, 0).into_iter().zip(0..);
        let times = times.map(|(ns, at): (u64, u64)| {
            if (at + seed).is_multiple_of(10) {
                ns
            } else {
                ns + 3 * MS
            }
        });
        measured(0, &times.collect::<Vec<_>>())
    };
    let hops = [of_run("a", &slow(1)), of_run("b", &slow(2))];
    let budget = judged(&demand(5 * MS, 0.5), &hops, None);
    let BudgetBasis::AtLeast { at_least } = budget.basis else {
        panic!("{budget:#?}");
    };
    assert_eq!(budget.outcome, Outcome::Fail);
    assert!((0.6..=0.8).contains(&at_least), "{at_least}");
}

/// Between two points it may be as fast as the first: that is no FAIL; nor is what lies beyond the last.
#[test]
fn what_a_distribution_leaves_open_is_inconclusive() {
    for points in [vec![(50_000, 0.5), (MS, 1.0)], vec![(50_000, 0.999)]] {
        let times = HopTimes::Known(Exceedance::of_points(&points).expect("ascending"));
        let budget = judged(&demand(900_000, 1e-4), &[hop("actuator", times)], None);
        assert_eq!(budget.outcome, Outcome::Inconclusive, "{budget:#?}");
    }
}

#[test]
fn hops_that_the_whole_path_disproves_do_not_pass() {
    // A hop of 1 ms is missing: one that takes 40 ms in a tenth of the cycles, in bursts.
    let given = hop("known", HopTimes::Constant(MS));
    let late = |cycle: u64| if cycle % 1_000 < 100 { 40 * MS } else { MS };
    let latencies: Vec<u64> = (0..20_000).map(late).collect();
    let whole = measured(0, &latencies);
    let budget = judged(
        &demand(20 * MS, 0.08),
        std::slice::from_ref(&given),
        Some(&whole),
    );
    let of_the_whole = budget.whole.as_ref().expect("measured");
    assert!(of_the_whole.at_least > budget.at_most, "{budget:?}");
    assert_eq!(of_the_whole.outcome, Outcome::Inconclusive, "{budget:?}");
    assert_eq!(budget.outcome, Outcome::Inconclusive, "{budget:?}");
    // Without the run of the whole path the hop is taken at its word.
    let budget = judged(&demand(20 * MS, 0.08), &[given], None);
    assert_eq!(budget.outcome, Outcome::Pass);
}

#[test]
fn a_hop_whose_run_is_not_valid_makes_the_budget_invalid() {
    let mut run = measured(0, &latencies(1, 10_000, 100, 0));
    run.demands = vec![Demand::requested(fifo_80_on(&[]), false, || Fix::Memory)];
    let budget = judged(&demand(10 * MS, 0.5), &[of_run("sensor", &run)], None);
    assert_eq!(budget.outcome, Outcome::Invalid);
    assert!(!budget.hops[0].invalid.is_empty());
}

/// Two runs beside each other: in 1 of 10 seconds the highest times of both exceed the deadline
/// together. The second began half a second later.
#[test]
fn blocks_measured_at_the_same_time_show_what_stalls_together() {
    let of = |start_ns: u64| {
        let mut run = measured(0, &latencies(1, 10_000, 10_000, 3 * MS));
        run.start_ns = Some(start_ns);
        for (row, at) in run.timeline.rows.iter_mut().zip(0u64..) {
            row.count = 1_000;
            row.max_ns = if at == 5 { 3 * MS } else { 60_000 };
        }
        assert_eq!(run.timeline.rows.len(), 10);
        run
    };
    let hops = [
        of_run("a", &of(7_000_000_000)),
        of_run("b", &of(7_500_000_000)),
        hop("bus", HopTimes::Constant(MS / 2)),
    ];
    let common = |deadline_ns| judged(&demand(deadline_ns, 1e-4), &hops, None).common;
    let of = |possible| {
        Some(CommonFigures {
            block_ns: 1_000_000_000,
            blocks: 9,
            possible,
        })
    };
    // A block may overlap two rows, and what begins at its end meets what is in the next one.
    assert_eq!(common(4 * MS), of(2));
    assert_eq!(common(3 * MS), of(2));
    assert_eq!(common(7 * MS), of(0));
    // A job that was never done has no time: its block proves nothing.
    let mut jobs = hops.clone();
    if let HopTimes::Run { run, of } = &mut jobs[1].times {
        let mut tasks = executed().tasks.expect("a set");
        tasks.tasks[0].timeline = run.timeline.clone();
        tasks.tasks[0].timeline.rows[3].missed = 1;
        tasks.tasks[0].jobs = run.threads[0].clone();
        tasks.tasks[0].jobs.missed = 1;
        run.tasks = Some(tasks);
        *of = PartOfRun::Task { task: 0 };
    }
    let of_jobs = |deadline_ns| judged(&demand(deadline_ns, 1e-4), &jobs, None).common;
    assert_eq!(of_jobs(4 * MS), of(4));
    assert_eq!(of_jobs(7 * MS), of(2));
    // Samples that were lost on their way may be of any block.
    let mut lost = hops.clone();
    if let HopTimes::Run { run, .. } = &mut lost[1].times {
        run.threads[0].lost = 1;
    }
    assert_eq!(judged(&demand(4 * MS, 1e-4), &lost, None).common, None);
    // Another machine, or another boot: nothing is known to have been at the same time.
    let mut other = hops.clone();
    if let HopTimes::Run { run, .. } = &mut other[1].times {
        run.start_ns = Some(900_000_000_000);
    }
    assert_eq!(judged(&demand(4 * MS, 1e-4), &other, None).common, None);
}

/// With known truth: of 200 budgets of two hops that are late together in 1 of 200 cycles, the bound
/// is too low in 5 % at most.
#[test]
fn the_bound_holds_as_often_as_it_says() {
    let mut too_low = 0;
    for seed in 0..200u64 {
        let mut random = Random(seed * 2 + 1);
        let mut draw = || random.next() as f64 / u64::MAX as f64;
        let late: Vec<bool> = (0..2_000).map(|_| draw() < 0.005).collect();
        let times = late.iter().map(|late| if *late { 8 * MS } else { 50_000 });
        let run = measured(0, &times.collect::<Vec<u64>>());
        // The sum is late exactly when both are. With fixed parts the bound is the tightest.
        let hops = ["a", "b"].map(|name| Hop {
            within_ns: Some(5 * MS),
            ..of_run(name, &run)
        });
        let budget = judged(&demand(10 * MS, 1e-3), &hops, None);
        too_low += u32::from(budget.at_most < 0.005);
    }
    assert!(too_low <= 10, "{too_low} of 200");
}

/// A chain whose hops stall together or apart, executed: each hop takes 50 µs, and 2 ms where its own cycle
/// is a multiple of `every`.
fn chain(together: bool) -> Run {
    let mut run = executed();
    let tasks = run.tasks.as_mut().expect("a set");
    tasks.set.chains[0].reaction_ns = Some(5 * MS);
    tasks.allowed = 1e-3;
    let hops = ChainHop::of(&tasks.set, 0).len();
    let of_hop = |hop: usize| -> Vec<u64> {
        let shift = if together { 0 } else { 37 * hop as u64 };
        (0..40_000)
            .map(|cycle| match (cycle + shift) % 1_000 {
                0 => 2 * MS,
                _ => 50_000,
            })
            .collect()
    };
    let all: Vec<Vec<u64>> = (0..hops).map(of_hop).collect();
    let whole: Vec<u64> = (0..40_000)
        .map(|cycle| all.iter().map(|hop| hop[cycle]).sum())
        .collect();
    let times = |values: &[u64]| {
        let mut times = thread(0, values, 4096);
        times.cpu = None;
        times.late = 0;
        Times {
            times,
            timeline: Timeline::default(),
        }
    };
    tasks.chains[0].split = Some(ChainSplit {
        whole: times(&whole),
        hops: all.iter().map(|hop| times(hop)).collect(),
        unsplit: 0,
    });
    run
}

fn budget_of(run: &Run) -> Budget {
    let tasks = run.tasks.as_ref().expect("a set");
    let name = |hop: ChainHop| format!("{hop:?}");
    let budget = of_chain(run, tasks, 0, name).expect("a record");
    budget.expect("a budget")
}

#[test]
fn the_budget_of_a_chain_is_judged_by_what_was_measured_end_to_end() {
    let apart = budget_of(&chain(false));
    let together = budget_of(&chain(true));
    assert!(apart.hops.len() >= 3, "{apart:#?}");
    // The hops look the same: only what was measured end to end tells these chains apart.
    let figures = |budget: &Budget| -> Vec<_> {
        let hops = budget.hops.iter();
        hops.map(|hop| (hop.quantiles_ns.clone(), hop.max_ns))
            .collect()
    };
    assert_eq!(figures(&apart), figures(&together));
    assert_eq!(apart.independent, together.independent);
    assert_eq!(apart.any_dependence, together.any_dependence);
    assert_eq!(
        (apart.outcome, apart.basis),
        (Outcome::Pass, BudgetBasis::Whole)
    );
    assert_ne!(together.outcome, Outcome::Pass, "{together:#?}");
    let whole = |budget: &Budget| budget.whole.clone().expect("measured");
    // Stalls of two hops at once are 1e-6 each if they are independent, and 1e-3 if they are not.
    assert_eq!(
        (whole(&apart).observed, whole(&together).observed),
        (0.0, 1e-3)
    );
    assert!(together.independent.above_deadline < 1e-4);
    for budget in [&apart, &together] {
        let highest: u64 = budget.hops.iter().filter_map(|hop| hop.max_ns).sum();
        assert!(whole(budget).max_ns.expect("some") <= highest);
        let at = |sum: &[Option<u64>]| sum[2].expect("p99.9");
        assert!(at(&budget.any_dependence.quantiles_ns) >= at(&whole(budget).quantiles_ns));
    }
    // A reaction that is in no hop, and too long.
    let mut run = chain(false);
    let figures = &mut run.tasks.as_mut().expect("a set").chains[0];
    let split = figures.split.as_mut().expect("one");
    let mut all = Histogram::try_from(&split.whole.times.latency).expect("a histogram");
    for ns in [MS, 30 * MS] {
        assert_eq!(budget_of(&run).outcome, Outcome::Pass);
        all.record(ns);
        let figures = &mut run.tasks.as_mut().expect("a set").chains[0];
        figures.reaction = HistogramRecord::from(&all);
        figures.reaction_longer = u64::from(ns > 5 * MS);
        figures.split.as_mut().expect("one").unsplit += 1;
    }
    let budget = budget_of(&run);
    assert_eq!(budget.outcome, Outcome::Inconclusive);
    assert_eq!(budget.basis, BudgetBasis::Unsplit { longer: 1 });
    assert_eq!(whole(&budget).outcome, Outcome::Inconclusive);
    assert_eq!(run.tasks.as_ref().expect("a set").longer_unsplit(0), 1);
    // The same of the chain as a hop of another path.
    let of = PartOfRun::Chain { chain: 0 };
    let run = Box::new(run);
    let part = hop("chain", HopTimes::Run { run, of });
    for (deadline_ns, outcome) in [(20 * MS, Outcome::Inconclusive), (40 * MS, Outcome::Pass)] {
        let budget = judged(&demand(deadline_ns, 0.2), std::slice::from_ref(&part), None);
        assert_eq!(budget.outcome, outcome, "{budget:#?}");
    }
    // Without a limit there is nothing to judge.
    let mut run = chain(false);
    run.tasks.as_mut().expect("a set").set.chains[0].reaction_ns = None;
    let tasks = run.tasks.as_ref().expect("a set");
    assert_eq!(of_chain(&run, tasks, 0, |_| String::new()), Ok(None));
}
