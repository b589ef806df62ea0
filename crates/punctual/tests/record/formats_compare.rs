//! Two runs held against each other.

use super::support as record_support;

use std::path::Path;

use punctual::record::conditions::Role;
use punctual::record::{Blocking, Run, State};
use punctual::report::compare::{TextStyle, compare, compare_text};
use punctual::report::formats::{Format, detect_and_parse, write};
use punctual_stats::compare::{ComparisonStatement, Resampling};
use punctual_stats::histogram::Histogram;
use record_support::{latencies, run, run_of, thread};

fn slower(by_ns: u64) -> Run {
    let list: Vec<u64> = latencies(5, 10_000, 90_000)
        .iter()
        .map(|ns| ns + by_ns)
        .collect();
    run_of(vec![thread(0, &list, 512), thread(1, &list, 512)])
}

fn text(first: &Run, second: &Run) -> String {
    let text = compare_text(&compare(first, second).unwrap(), TextStyle::default());
    for line in text.lines() {
        assert!(line.chars().count() <= 80, "{line:?}");
        assert!(
            line.trim_end() == line && !line.contains('\u{1b}'),
            "{line:?}"
        );
    }
    text
}

#[test]
fn no_difference_is_said_plainly() {
    let comparison = compare(&run(1), &run(2)).unwrap();
    assert_eq!(
        comparison.statistics.statement,
        ComparisonStatement::NoDifferenceShown
    );
    let text = text(&run(1), &run(2));
    assert!(
        text.starts_with("No difference shown. That does not show that there is none.\n"),
        "{text}"
    );
    assert!(text.contains("These runs were made alike"), "{text}");
}

#[test]
fn where_runs_keep_their_stretches_of_time_these_are_what_is_drawn() {
    let in_stretches = |seed: u64| {
        let mut run = run(seed);
        let mut blocking = Blocking::of(1_000_000_000);
        for part in latencies(seed, 20_000, 90_000).chunks(1_000) {
            let mut block = Histogram::new();
            part.iter().for_each(|latency| block.record(*latency));
            blocking.add(&block, 1);
        }
        run.blocks = blocking.blocks();
        run
    };
    let said = |first: &Run, second: &Run| {
        let comparison = compare(first, second).unwrap();
        let warned = comparison
            .warnings
            .iter()
            .any(|w| w.contains("independent"));
        (comparison.statistics.resampling, warned)
    };
    let (one, two) = (in_stretches(1), in_stretches(2));
    assert_eq!(said(&one, &two), (Resampling::Blocks, false));
    assert_eq!(said(&one, &run(2)), (Resampling::Independent, true));
}

#[test]
fn a_slower_run_is_named_and_every_sample_is_in_a_band() {
    let (first, second) = (run(1), slower(4000));
    let comparison = compare(&first, &second).unwrap();
    assert_eq!(
        comparison.statistics.statement,
        ComparisonStatement::FirstEarlier
    );
    assert_eq!(
        comparison.bands.iter().map(|band| band.first).sum::<u64>(),
        20_000
    );
    assert_eq!(
        comparison.bands.iter().map(|band| band.second).sum::<u64>(),
        20_000
    );
    assert!(text(&first, &second).starts_with("The first wakes up earlier."));
    assert!(text(&second, &first).starts_with("The second wakes up earlier."));
}

#[test]
fn percentiles_stop_where_the_samples_do() {
    let few = run_of(vec![thread(0, &latencies(1, 2000, 90_000), 64)]);
    let comparison = compare(&run(1), &few).unwrap();
    let of = |percentile: f64| {
        *comparison
            .percentiles
            .iter()
            .find(|p| p.percentile == percentile)
            .unwrap()
    };
    assert!(of(99.0).second_ns.is_some());
    assert!(of(99.9).first_ns.is_some() && of(99.9).second_ns.is_none());
    assert!(comparison.percentiles.iter().all(|p| p.percentile < 99.999));
    assert!(text(&run(1), &few).contains("too few samples"));
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
    let comparison = compare(&run(1), &other).unwrap();
    let names: Vec<_> = comparison
        .differences
        .iter()
        .map(|d| (d.name, d.role))
        .collect();
    assert_eq!(
        names,
        [
            ("priority", Role::Method),
            ("load", Role::Method),
            ("kernel", Role::Subject)
        ]
    );
    let text = text(&run(1), &other);
    for words in [
        "not measured alike (priority, load)",
        "the second run is not valid: it lost 5 samples",
        "the second run is unfinished",
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
    let comparison = compare(&ours, &theirs).unwrap();
    assert_eq!(comparison.resolution_ns, 1000);
    // The same samples: rounding one side alone would show a difference.
    assert_eq!(
        comparison.statistics.statement,
        ComparisonStatement::NoDifferenceShown
    );
    assert!(
        comparison.statistics.delta.abs() < 0.005,
        "{}",
        comparison.statistics.delta
    );
    let text = text(&ours, &theirs);
    assert!(text.contains("known to 1 µs alone"), "{text}");
    assert!(
        text.contains("the load of the second run is not known"),
        "{text}"
    );
}

#[test]
fn too_few_and_none() {
    let empty = run_of(vec![thread(0, &[], 2)]);
    let text = text(&run(1), &empty);
    assert!(text.starts_with("Too few samples to compare."), "{text}");
    self::text(&empty, &empty);
}

#[test]
fn styles() {
    let comparison = compare(&run(1), &slower(4000)).unwrap();
    let ascii = compare_text(
        &comparison,
        TextStyle {
            colour: false,
            ascii: true,
        },
    );
    assert!(ascii.is_ascii(), "{ascii}");
    let colour = compare_text(
        &comparison,
        TextStyle {
            colour: true,
            ascii: false,
        },
    );
    assert!(colour.contains("\u{1b}[1mThe first"));
    assert!(
        !colour.contains("host\u{1b}"),
        "escapes of a record don't reach the terminal"
    );
}
