//! Costs with known answers, and records that contradict themselves.

use punctual_record::Document;
use std::path::Path;

use punctual_record::cost::*;
use punctual_stats::cost::{BreakEvenKind, CostMeasure};
use punctual_stats::verdict::Outcome;
use serde_json::{Value, json};

use crate::costs::{across_reboot, cost, machine, parts, wake_ups};

fn judged(mut cost: Cost) -> Cost {
    cost.judge();
    cost
}

fn is_about(ns: u64, wanted_ns: u64) -> bool {
    // A histogram has three digits.
    ns.abs_diff(wanted_ns) <= wanted_ns / 200
}

#[test]
fn a_cost_and_its_break_even_are_those_of_the_runs() {
    for cost in [judged(cost(parts())), judged(across_reboot())] {
        let results = cost.results.as_ref().unwrap();
        let [result] = &results.treatments[..] else {
            panic!("{results:?}");
        };
        assert_eq!((result.pairs, results.identical_pairs), (12, 12));
        for effect in &result.effects {
            let is_cost = !matches!(effect.measure, CostMeasure::Switches | CostMeasure::Faults);
            assert_eq!(effect.is_named, is_cost, "{effect:?}");
            let ratio = if is_cost { 1.25 } else { 1.0 };
            assert!((effect.ratio - ratio).abs() < 1e-9, "{effect:?}");
        }
        assert_eq!(result.effects.len(), 7);
        assert!(results.identical.iter().all(|it| it.ratio == 1.0));
        for even in &result.break_even {
            let BreakEvenKind::Below {
                ns,
                low_ns,
                high_ns,
            } = even.kind
            else {
                panic!("{even:?}");
            };
            // 900 us by 0.25.
            let all = [ns, low_ns, high_ns.unwrap()];
            assert!(all.iter().all(|ns| is_about(*ns, 3_600_000)), "{even:?}");
        }
        let measures: Vec<CostMeasure> = result.break_even.iter().map(|it| it.measure).collect();
        assert_eq!(measures, [CostMeasure::Elapsed, CostMeasure::CpuTime]);
        assert_eq!(cost.verdict(), Some(Outcome::Pass));
    }
}

#[test]
fn half_a_pair_does_not_count_and_too_few_pairs_are_inconclusive() {
    let mut cost = cost(parts());
    let first = cost.runs.iter().position(|run| run.treatment.is_some());
    cost.runs.remove(first.unwrap());
    let cost = judged(cost);
    assert_eq!(cost.results.as_ref().unwrap().treatments[0].pairs, 11);
    assert_eq!(cost.verdict(), Some(Outcome::Pass));
    let mut few = cost.clone();
    few.runs.retain(|run| run.pair < 5);
    let mut few = judged(few);
    assert_eq!(few.verdict(), Some(Outcome::Inconclusive));
    few.outcome = CostOutcome::Stopped;
    assert_eq!(few.verdict(), Some(Outcome::Inconclusive));
    few.outcome = CostOutcome::UnderWay;
    assert_eq!(few.verdict(), None);
}

#[test]
fn a_load_that_was_not_in_force_makes_the_cost_invalid() {
    let mut cost = judged(cost(parts()));
    // 0.29 of 0.3 is within a tenth.
    assert_eq!(cost.load_not_in_force(), None);
    let treated = cost.runs.iter_mut().filter(|run| run.load.is_some());
    for (run, load) in treated.zip([0.2, 0.31, 0.36]) {
        run.load = Some(load);
    }
    assert_eq!(cost.load_not_in_force(), Some((2, 0.3, 0.2)));
    assert_eq!(cost.verdict(), Some(Outcome::Invalid));
    // A run without any is the farthest from it.
    let mut treated = cost.runs.iter_mut().filter(|run| run.load.is_some());
    treated.next().unwrap().load = None;
    drop(treated);
    assert_eq!(cost.load_not_in_force(), Some((2, 0.3, 0.0)));
}

#[test]
fn tails_are_known_with_enough_wake_ups_and_none_lost() {
    let tails = |change: fn(&mut Cost)| {
        let mut cost = cost(parts());
        change(&mut cost);
        let result = judged(cost).results.unwrap().treatments.remove(0);
        let is_known = matches!(result.tails, Tails::Known { .. });
        assert_eq!(result.break_even.is_empty(), !is_known);
        result.tails
    };
    assert!(matches!(
        tails(|_| {}),
        Tails::Known {
            wake_ups: (12_000, 12_000),
            ..
        }
    ));
    let few = tails(|cost| cost.plan.quantile = 0.9999);
    assert_eq!(
        few,
        Tails::TooFew {
            wake_ups: 12_000,
            needed: 100_000
        }
    );
    let none = tails(|cost| cost.runs.iter_mut().for_each(|run| run.wake_ups = None));
    assert_eq!(none, Tails::NoProbe);
    let lost = tails(|cost| {
        let mut treated = cost.runs.iter_mut().filter(|run| run.treatment.is_some());
        let run = treated.next().unwrap();
        run.wake_ups = Some(CostWakeUps {
            lost: 3,
            ..wake_ups(1_000_000)
        });
    });
    assert_eq!(lost, Tails::Lost { lost: 3 });
}

#[test]
fn machines_differ_by_what_bears_on_cost_and_not_by_their_boot() {
    let (before, mut after) = (machine("6.1.0"), machine("6.1.0"));
    after.boot_id = "another".to_owned();
    assert!(before.differences(&after).is_empty());
    after.kernel = "6.1.0-rt".to_owned();
    after.cpus = vec![0];
    after.settings.clear();
    let names = |it: Vec<MachineDifference>| it.into_iter().map(|it| it.name).collect::<Vec<_>>();
    assert_eq!(
        names(before.differences(&after)),
        ["kernel", "CPUs", "/proc/sys/vm/swappiness"]
    );
}

fn read(value: &Value) -> Result<Cost, String> {
    let text = value.to_string();
    Cost::parse(Path::new("cost.json"), text.as_bytes()).map_err(|error| error.to_string())
}

#[test]
fn what_follows_from_runs_is_made_of_them_again() {
    let cost = judged(cost(parts()));
    let mut value = serde_json::to_value(&cost).unwrap();
    assert_eq!(read(&value).unwrap(), cost);
    // Somebody claims that it costs nothing.
    value["results"]["treatments"][0]["effects"] = json!([]);
    assert_eq!(read(&value).unwrap(), cost);
    value["results"] = Value::Null;
    assert_eq!(read(&value).unwrap(), cost);
}

#[test]
fn a_cost_that_contradicts_itself_is_refused_with_the_place() {
    let good = serde_json::to_value(cost(parts())).unwrap();
    let cases = [
        ("/version", json!(9), "version"),
        ("/format", json!("other"), "punctual-cost"),
        ("/plan/program", json!([]), "plan.program: no command"),
        ("/plan/confidence", json!(1.0), "plan.confidence"),
        ("/plan/quantile", json!(0), "plan.quantile"),
        ("/machines", json!([]), "machines"),
        ("/machines/0/cpus", json!([70_000]), "does not exist"),
        ("/runs/0/treatment", json!(1), "runs[0]: names a treatment"),
        ("/runs/0/machine", json!(1), "runs[0]: names a machine"),
        ("/runs/1/with", good["runs"][0]["with"].clone(), "twice"),
        (
            "/runs/2/usage/elapsed_ns",
            json!(u64::MAX),
            "more than a year",
        ),
        ("/runs/3/load", json!(-1.0), "a load that is none"),
        ("/runs/4/wake_ups/latency/count", json!(1), "runs[4]"),
        (
            "/treatments/0/parts/0/utilisation",
            json!(2.0),
            "utilisation",
        ),
    ];
    for (pointer, value, says) in cases {
        let mut bad = good.clone();
        if let Some(place) = bad.pointer_mut(pointer) {
            *place = value;
        } else {
            let (parent, key) = pointer.rsplit_once('/').unwrap();
            bad.pointer_mut(parent).unwrap()[key] = value;
        }
        let refused = read(&bad).expect_err(pointer);
        assert!(refused.contains(says), "{pointer}: {refused}");
    }
}
