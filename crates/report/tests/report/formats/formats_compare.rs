//! Runs compared.

use crate::support as record_support;

use std::path::Path;

use punctual_record::conditions::{Aspect, Role};
use punctual_record::{Blocking, Merger, Run, State};
use punctual_report::compare::{
    Comparison, TextStyle, Warning, compare, compare_cpus, compare_text, cpus_text,
};
use punctual_report::formats::{Format, detect_and_parse, write};
use punctual_report::known::Reading;
use punctual_stats::compare::{Conclusion, Confounded, Order, Unit, Untested};
use punctual_stats::histogram::Histogram;
use record_support::{latencies, run, run_of, thread};

/// 20 s of a machine whose every stretch is alike, `by_ns` slower.
fn in_stretches(seed: u64, by_ns: u64) -> Run {
    let lists = [seed, seed + 500].map(|seed| -> Vec<u64> {
        let all = latencies(seed, 20_000, 90_000);
        all.iter().map(|ns| ns + by_ns).collect()
    });
    let [one, two] = &lists;
    let mut run = run_of(vec![thread(0, one, 512), thread(1, two, 512)]);
    let mut blocking = Blocking::new(1_000_000_000);
    for (a, b) in one.chunks(1_000).zip(two.chunks(1_000)) {
        let parts = [a, b].map(|part| {
            let mut block = Histogram::new();
            part.iter().for_each(|latency| block.record(*latency));
            block
        });
        blocking.add_with(&Histogram::merged(&parts), &parts, 1);
    }
    run.blocks = blocking.blocks();
    run
}

fn pair(first: &Run, second: &Run) -> Comparison {
    let one = std::slice::from_ref;
    compare(one(first), one(second), None).unwrap()
}

fn checked(text: String) -> String {
    for line in text.lines() {
        assert!(line.chars().count() <= 80, "{line:?}");
        assert!(
            line.trim_end() == line && !line.contains('\u{1b}'),
            "{line:?}"
        );
    }
    text
}

fn text(comparison: &Comparison) -> String {
    checked(compare_text(comparison, TextStyle::default()))
}

#[test]
fn no_difference_is_said_plainly() {
    let comparison = pair(&in_stretches(1, 0), &in_stretches(2, 0));
    assert_eq!(
        comparison.statistics.conclusion,
        Conclusion::NoDifferenceSeen
    );
    let text = text(&comparison);
    assert!(
        text.starts_with("No difference seen. That does not show that there is none.\n"),
        "{text}"
    );
    assert!(
        text.contains("The stated conditions of these runs are the same"),
        "{text}"
    );
}

#[test]
fn one_run_on_each_side_never_names_a_slower_side() {
    let comparison = pair(&in_stretches(1, 0), &in_stretches(2, 4_000));
    let because = Confounded::SingleRuns;
    assert_eq!(
        comparison.statistics.conclusion,
        Conclusion::Differ { because }
    );
    let basis = comparison.statistics.basis.unwrap();
    let length_ns = 2_000_000_000;
    assert_eq!(basis.unit, Unit::Block { length_ns });
    let text = text(&comparison);
    assert!(text.starts_with("These two runs differ in p50"), "{text}");
    assert!(
        text.contains("One run on each side cannot show why"),
        "{text}"
    );
    for word in ["slower", "faster", "earlier"] {
        assert!(!text.contains(word), "{word}: {text}");
    }
    for side in [
        &comparison.bands.iter().map(|b| b.first).sum::<u64>(),
        &comparison.bands.iter().map(|b| b.second).sum(),
    ] {
        assert_eq!(*side, 40_000, "every sample is in a band");
    }
}

#[test]
fn without_stretches_of_time_chance_is_not_judged() {
    // One block for each thread.
    let comparison = pair(&run(1), &in_stretches(2, 4_000));
    let why = Untested::TooShort;
    assert_eq!(
        comparison.statistics.conclusion,
        Conclusion::Untested { why }
    );
    let mut without = run(1);
    without.blocks = None;
    let comparison = pair(&without, &in_stretches(2, 4_000));
    let why = Untested::NoBlocks;
    assert_eq!(
        comparison.statistics.conclusion,
        Conclusion::Untested { why }
    );
    let text = text(&comparison);
    assert!(text.starts_with("Not tested"), "{text}");
    assert!(text.contains("punctual compare A1 A2"), "{text}");
}

/// Runs in the order of the word, B `by_ns` slower, one a minute.
fn several(word: &str, by_ns: u64) -> [Vec<Run>; 2] {
    let mut sides = [Vec::new(), Vec::new()];
    for (at, side) in word.chars().enumerate() {
        let side = usize::from(side == 'B');
        let mut run = in_stretches(at as u64 + 1, by_ns * side as u64);
        run.started = format!("2026-11-21T02:{at:02}:00Z");
        sides[side].push(run);
    }
    sides
}

#[test]
fn several_runs_in_mixed_order_name_the_slower_side() {
    for (word, unit, smallest) in [
        ("ABBAABBA", Unit::Run, 2.0 / 70.0),
        ("ABABABABABAB", Unit::Pair, 2.0 / 64.0),
    ] {
        let [first, second] = several(word, 4_000);
        let found = compare(&first, &second, None).unwrap();
        assert_eq!(found.statistics.conclusion, Conclusion::SecondSlower);
        let basis = found.statistics.basis.unwrap();
        assert_eq!((basis.unit, basis.smallest_p), (unit, smallest));
        assert_eq!(found.statistics.order, Some(Order::Pairs));
        let said = text(&found);
        assert!(said.starts_with("B is slower than A at p50"), "{said}");
        let [first, second] = several(word, 0);
        let same = compare(&first, &second, None).unwrap();
        assert_eq!(same.statistics.conclusion, Conclusion::NoDifferenceSeen);
        // What one side skipped has no latency.
        let mut second = second;
        for thread in second.iter_mut().flat_map(|run| &mut run.threads) {
            thread.missed = thread.latency.count / 100;
        }
        let other = compare(&first, &second, None).unwrap();
        let why = Untested::Skipped;
        assert_eq!(other.statistics.conclusion, Conclusion::Untested { why });
        let said = text(&other);
        assert!(
            said.contains("skipped or lost more of its cycles"),
            "{said}"
        );
    }
    // The side with the lower latencies skipped most of its periods: it is not the faster one.
    let [mut first, second] = several("ABBAABBA", 4_000);
    for thread in first.iter_mut().flat_map(|run| &mut run.threads) {
        thread.missed = thread.latency.count;
    }
    let stalled = compare(&first, &second, None).unwrap();
    let why = Untested::Skipped;
    assert_eq!(stalled.statistics.conclusion, Conclusion::Untested { why });
    let [first, second] = several("ABBAABBA", 4_000);
    let turned = compare(&second, &first, None).unwrap();
    assert_eq!(turned.statistics.conclusion, Conclusion::FirstSlower);
    let said = text(&turned);
    assert!(said.starts_with("A is slower than B"), "{said}");
    assert!(
        said.contains("the unit is the run (4 of A, 4 of B)"),
        "{said}"
    );
}

#[test]
fn one_side_after_the_other_only_differs() {
    let [first, second] = several("AAAABBBB", 4_000);
    let found = compare(&first, &second, None).unwrap();
    let because = Confounded::Order;
    assert_eq!(found.statistics.conclusion, Conclusion::Differ { because });
    let said = text(&found);
    assert!(
        said.starts_with("The runs of A and of B differ in p50"),
        "{said}"
    );
    assert!(
        said.contains("a drift of the machine looks the same"),
        "{said}"
    );
    assert!(!said.contains("slower"), "{said}");
    // And where one does not say when it was begun.
    let [mut first, second] = several("ABBAABBA", 4_000);
    first[0].started = String::new();
    let found = compare(&first, &second, None).unwrap();
    let because = Confounded::OrderUnknown;
    assert_eq!(found.statistics.conclusion, Conclusion::Differ { because });
    text(&found);
}

#[test]
fn too_few_runs_say_how_many_it_takes() {
    let [first, second] = several("ABBAAB", 4_000);
    let found = compare(&first, &second, None).unwrap();
    assert_eq!(
        found.statistics.conclusion,
        Conclusion::TooFewRuns { needed: 4 }
    );
    let said = text(&found);
    assert!(
        said.starts_with("Too few runs: no outcome of 3 and 3 runs"),
        "{said}"
    );
    for part in ["4 runs", "of 3 and 3 runs is 0.10", "it is 0.029"] {
        let flat = said.split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(flat.contains(part), "{part}: {said}");
    }
    // At 90 % they reach it.
    let found = compare(&first, &second, Some(0.9)).unwrap();
    assert_eq!(found.statistics.conclusion, Conclusion::SecondSlower);
    // One against many never does.
    let found = compare(&first[..1], &second, None).unwrap();
    let needed = 4;
    assert_eq!(
        found.statistics.conclusion,
        Conclusion::TooFewRuns { needed }
    );
    text(&found);
}

#[test]
fn a_run_is_evidence_once() {
    let [first, second] = several("ABBAABBA", 0);
    let twice = [first[0].clone(), first[0].clone()];
    let said = compare(&twice, &second, None).unwrap_err().to_string();
    assert!(said.contains("A2 is the same run as A1"), "{said}");
    let said = compare(&first, &[second[0].clone(), first[1].clone()], None)
        .unwrap_err()
        .to_string();
    assert!(said.contains("B2 is the same run as A2"), "{said}");
    // Those of another tool have no instant of a start: their figures tell.
    let json = write(Format::RtTestsJson, &first[0]).unwrap();
    let theirs = || detect_and_parse(Path::new("json"), json.as_bytes()).unwrap();
    let said = compare(&[theirs(), theirs()], &second, None)
        .unwrap_err()
        .to_string();
    assert!(said.contains("A2 is the same run as A1"), "{said}");
}

#[test]
fn a_warning_names_what_runs_of_one_side_differ_in() {
    let [first, mut second] = several("ABBAABBA", 0);
    second[2].system.kernel.release = "7.0-rt".to_owned();
    let found = compare(&first, &second, None).unwrap();
    let aspects = vec![Aspect::Kernel];
    assert!(
        found
            .warnings
            .contains(&Warning::WithinSide { side: 1, aspects })
    );
    assert!(text(&found).contains("the runs of B differ among themselves (kernel)"));
}

#[test]
fn cpus_of_one_run() {
    let alike = in_stretches(1, 0);
    let said = checked(cpus_text(
        &compare_cpus(&alike, None).unwrap(),
        TextStyle::default(),
    ));
    assert!(said.starts_with("No difference between the CPUs"), "{said}");
    // CPU 1 takes what another run had, 4 µs later.
    let mut uneven = in_stretches(1, 0);
    let slow = in_stretches(9, 4_000);
    uneven.threads[1] = slow.threads[1].clone();
    let blocks = uneven.blocks.as_mut().unwrap();
    blocks.threads[1] = slow.blocks.unwrap().threads[1].clone();
    let found = compare_cpus(&uneven, None).unwrap();
    let slower: Vec<_> = found.statistics.members.iter().map(|m| m.slower).collect();
    assert_eq!(slower, [Some(false), Some(true)]);
    let said = checked(cpus_text(&found, TextStyle::default()));
    assert!(
        said.starts_with("In this run CPU 1 was slower than CPU 0."),
        "{said}"
    );
    let mut old = in_stretches(1, 0);
    old.blocks.as_mut().unwrap().threads.clear();
    let said = checked(cpus_text(
        &compare_cpus(&old, None).unwrap(),
        TextStyle::default(),
    ));
    assert!(
        said.starts_with("Not tested: the record holds no figures"),
        "{said}"
    );
    let alone = run_of(vec![thread(0, &latencies(1, 2000, 90_000), 64)]);
    let said = compare_cpus(&alone, None).unwrap_err().to_string();
    assert!(said.contains("one probe thread"), "{said}");
}

#[test]
fn percentiles_stop_where_the_samples_do() {
    let few = run_of(vec![thread(0, &latencies(1, 2000, 90_000), 64)]);
    let comparison = pair(&run(1), &few);
    let of = |percentile: f64| {
        *comparison
            .percentiles
            .iter()
            .find(|p| p.percentile == percentile)
            .unwrap()
    };
    assert!(of(99.0).second.value().is_some());
    assert!(of(99.9).first.value().is_some());
    assert_eq!(of(99.9).second, Reading::TooFew);
    assert!(comparison.percentiles.iter().all(|p| p.percentile < 99.999));
    assert!(text(&comparison).contains("too few samples"));
}

#[test]
fn conditions_and_what_is_unfair() {
    let mut other = run(2);
    other.system.kernel.release = "7.0-rt".to_owned();
    other.request.load = "none".to_owned();
    other.request.priority = 10;
    other.threads[0].lost = 5;
    other.state = State::Unfinished;
    other.measured_ns *= 3;
    let comparison = pair(&run(1), &other);
    let names: Vec<_> = comparison
        .differences
        .iter()
        .map(|d| (d.aspect, d.role))
        .collect();
    assert_eq!(
        names,
        [
            (Aspect::Priority, Role::Method),
            (Aspect::Load, Role::Method),
            (Aspect::Kernel, Role::Subject)
        ]
    );
    let text = text(&comparison);
    for words in [
        "measured in different ways (priority, load)",
        "B is not valid: it lost 5 samples",
        "B is unfinished",
        "more than twice as long",
        "! load             standard load v1 / none",
        "  kernel           6.18.44 / 7.0-rt",
    ] {
        assert!(text.contains(words), "{words:?} in\n{text}");
    }
}

#[test]
fn the_coarser_resolution_holds_for_both() {
    let ours = run(1);
    let json = write(Format::RtTestsJson, &ours).unwrap();
    let theirs = detect_and_parse(Path::new("json"), json.as_bytes()).unwrap();
    let comparison = pair(&ours, &theirs);
    assert_eq!(comparison.resolution_ns, 1000);
    // The same samples: rounding one side alone would show a difference.
    let delta = comparison.statistics.delta;
    assert!(delta.abs() < 0.005, "{delta}");
    let text = text(&comparison);
    assert!(text.contains("known to 1 µs alone"), "{text}");
    assert!(text.contains("the load of B is not known"), "{text}");
}

#[test]
fn too_few_and_none() {
    let empty = run_of(vec![thread(0, &[], 2)]);
    let said = text(&pair(&run(1), &empty));
    assert!(said.starts_with("Too few samples to compare"), "{said}");
    let other = Run {
        started: "2026-11-29T09:00:00Z".to_owned(),
        ..empty.clone()
    };
    text(&pair(&empty, &other));
}

#[test]
fn a_run_and_a_copy_of_it_are_not_compared() {
    let (one, other) = (in_stretches(1, 0), in_stretches(2, 4_000));
    let copy = one.clone();
    let one = std::slice::from_ref(&one);
    let error = compare(one, std::slice::from_ref(&copy), None).expect_err("the same");
    let said = error.to_string();
    assert!(said.contains("is the same run as A1"), "{said}");
    assert!(compare(one, &[other], None).is_ok());
    // Nor in a sum with another one.
    let mut merger = Merger::new(false);
    merger.add(&copy).unwrap();
    let sum = merger.into_run(Vec::new()).unwrap();
    assert!(compare(one, &[sum], None).is_err());
}

#[test]
fn styles() {
    let comparison = pair(&in_stretches(1, 0), &in_stretches(2, 4_000));
    let style = |colour, ascii| compare_text(&comparison, TextStyle { colour, ascii });
    let ascii = style(false, true);
    assert!(ascii.is_ascii(), "{ascii}");
    let colour = style(true, false);
    assert!(colour.contains("\u{1b}[1mThese two runs differ"));
    assert!(
        !colour.contains("host\u{1b}"),
        "escapes of a record don't reach the terminal"
    );
}
