//! What a cost says: its table, each end, and where predictability pays off.

use punctual_record::cost::*;
use punctual_report::cost::{break_even, sentence, summary};
use punctual_report::style::Style;
use punctual_report::summary_json;
use punctual_stats::cost::{BreakEven, BreakEvenKind, CostMeasure, Price};
use serde_json::Value;

use crate::costs::{across_reboot, cost, parts};
use crate::formats::schema::published;

fn judged(mut cost: Cost) -> Cost {
    cost.judge();
    cost
}

/// The text as a single line; none of its lines is too long.
fn flat(cost: &Cost) -> String {
    let text = summary(cost, &Style::plain());
    for line in text.lines() {
        assert!(line.chars().count() <= 80, "{line}");
        assert!(!line.ends_with(' '), "{line:?}");
    }
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

#[test]
fn the_table_has_both_sides_the_ratio_and_identical_runs() {
    let cost = judged(cost(parts()));
    let said = flat(&cost);
    for words in [
        "./filter data: --rt-load 0.3 --priority 50 --locked --isolate 1 --preempt full: CPU time × 1.250, instructions × 1.250, elapsed × 1.250",
        "CPU time 1 s 1.25 s 1.250 1.250-1.250 1.000-1.000 more",
        "faults 2,001 2,001 1.000 1.000-1.000 1.000-1.000 not distinguishable",
        "p99 of a wake-up beside the command: 1 ms (1 ms to 1 ms) without, 100 µs",
        "by elapsed time: work shorter than 3.6",
        "a real-time load uses 30 % of CPU 1, SCHED_FIFO 70, in periods of 10 ms",
        "preempt=full instead of voluntary",
        "every 1 ms; in pairs with and without a priority of the command: one above the command",
        "rt-box, Linux 6.1.0",
    ] {
        assert!(said.contains(words), "{words}: {said}");
    }
    assert!(!said.contains("Instructions not counted"), "{said}");
}

#[test]
fn a_reboot_shows_what_differs_and_what_it_cannot_show() {
    let cost = judged(across_reboot());
    let said = flat(&cost);
    for words in [
        "after the reboot: CPU time × 1.250",
        "kernel 6.1.0 → 6.1.0-rt",
        "were not interleaved",
    ] {
        assert!(said.contains(words), "{words}: {said}");
    }
    let mut first = across_reboot();
    first.outcome = CostOutcome::FirstHalf;
    assert!(
        sentence(&first).contains("--resume"),
        "{}",
        sentence(&first)
    );
}

#[test]
fn virtual_time_says_what_it_cannot_show() {
    let cost = judged(cost(vec![CostPart::Kernel {
        without: "standard (6.1.0)".to_owned(),
        with: "rt (6.1.0-rt)".to_owned(),
    }]));
    let said = flat(&cost);
    assert!(said.contains("a lower bound of the price"), "{said}");
    assert!(said.contains("neither caches nor contention"), "{said}");
    assert!(!said.contains("rt-box"), "{said}");
}

#[test]
fn every_end_has_its_sentence() {
    let starts = |change: fn(&mut Cost), words: &str| {
        let mut cost = cost(parts());
        change(&mut cost);
        cost.judge();
        let said = sentence(&cost);
        assert!(said.starts_with(words), "{words}: {said}");
        flat(&cost);
    };
    starts(
        |cost| cost.runs.retain(|run| run.pair < 3),
        "INCONCLUSIVE: too few pairs of runs to name a cost: 6 of each are needed",
    );
    starts(
        |cost| {
            cost.runs
                .iter_mut()
                .for_each(|run| run.load = run.load.map(|_| 0.1))
        },
        "INVALID: in 12 runs the real-time load used 10 % of its CPUs instead of 30 %",
    );
    starts(
        |cost| {
            cost.outcome = CostOutcome::Failed {
                error: "./filter ended with status 3".to_owned(),
            };
        },
        "./filter ended with status 3",
    );
    starts(
        |cost| cost.outcome = CostOutcome::Stopped,
        "INCONCLUSIVE: it was ended before its time. So far, ./filter data: ",
    );
    // None of the measures that a sentence names otherwise.
    let mut faults = cost(parts());
    for run in &mut faults.runs {
        let with = run.usage.user_ns > crate::costs::usage(1.0).user_ns;
        run.usage = crate::costs::usage(1.0);
        run.usage.minor_faults *= if with { 7 } else { 1 };
    }
    let said = sentence(&judged(faults));
    assert!(said.ends_with(": faults × 6.997"), "{said}");
    let mut same = cost(parts());
    for run in &mut same.runs {
        run.usage = crate::costs::usage(1.0);
        run.left = usize::from(run.pair == 0);
        run.status = i32::from(run.pair == 1);
    }
    same.no_instructions = Some("no such file or directory".to_owned());
    let said = flat(&judged(same));
    for words in [
        "no cost is distinguishable (CPU time × 1.000; identical runs differ by up to 0.0 %)",
        "4 processes in 4 runs",
        "4 runs ended with a status other than 0",
        "offers no counter of them here",
        "pays off for work up to at least",
    ] {
        assert!(said.contains(words), "{words}: {said}");
    }
}

#[test]
fn tails_that_are_not_known_say_why() {
    let mut few = cost(parts());
    few.plan.quantile = 0.9999;
    let said = flat(&judged(few));
    assert!(
        said.contains("p99.99 needs 100,000 wake-ups in each configuration, and there are 12,000"),
        "{said}"
    );
    let mut lost = cost(parts());
    for run in &mut lost.runs {
        run.wake_ups.as_mut().unwrap().lost = 1;
        run.wake_ups.as_mut().unwrap().skipped = 2;
    }
    let said = flat(&judged(lost.clone()));
    assert!(
        said.contains("not known: 24 wake-ups of the probe were lost"),
        "{said}"
    );
    for run in &mut lost.runs {
        run.wake_ups.as_mut().unwrap().lost = 0;
    }
    let said = flat(&judged(lost.clone()));
    assert!(said.contains("24 and 24 periods were skipped"), "{said}");
    for run in &mut lost.runs {
        run.wake_ups = None;
    }
    assert!(!flat(&judged(lost)).contains("Break-even"));
}

#[test]
fn each_kind_of_break_even_is_said_in_its_words() {
    let even = |kind: BreakEvenKind| {
        break_even(&BreakEven {
            measure: CostMeasure::Elapsed,
            price: Price::new(1.25, (1.2, 1.3), 1.1, true),
            kind,
        })
    };
    const MS: u64 = 1_000_000;
    let (ns, low_ns) = (3 * MS, 2 * MS);
    for (kind, words) in [
        (
            BreakEvenKind::Below {
                ns,
                low_ns,
                high_ns: Some(4 * MS),
            },
            "work shorter than 3 ms (2 ms to 4 ms) is complete earlier with it",
        ),
        (
            BreakEvenKind::Above {
                ns,
                low_ns,
                high_ns: None,
            },
            "work longer than 3 ms (2 ms to ?) is complete earlier with it",
        ),
        (BreakEvenKind::Always, "always"),
        (BreakEvenKind::Never, "never"),
        (BreakEvenKind::UpToAtLeast { ns }, "up to at least 3 ms"),
        (
            BreakEvenKind::AtMostBelow { ns: Some(ns) },
            "if it pays off at all, then only for work shorter than 3 ms",
        ),
        (
            BreakEvenKind::AtMostBelow { ns: None },
            "the tail without is open",
        ),
        (BreakEvenKind::NotDistinguishable, "not distinguishable"),
    ] {
        let said = even(kind);
        assert!(said.starts_with("by elapsed time: "), "{said}");
        assert!(said.contains(words), "{said}");
    }
}

#[test]
fn the_json_is_valid_under_the_schema() {
    let validator = jsonschema::validator_for(&published("cost-1")).unwrap();
    for cost in [cost(parts()), across_reboot()] {
        let mut cost = judged(cost);
        cost.no_instructions = Some("none".to_owned());
        cost.runs[0].status = 3;
        cost.runs[0].left = 2;
        cost.plan.accepts_failure = true;
        let json: Value = serde_json::from_str(&summary_json::of_cost(&cost)).unwrap();
        assert!(validator.is_valid(&json), "{json}");
        assert_eq!(json["verdict"], "PASS");
        assert_eq!(json["sentence"], sentence(&cost));
        let mut bad = json;
        bad["runs"][0]["usage"]["user_ns"] = "many".into();
        assert!(!validator.is_valid(&bad));
    }
}
