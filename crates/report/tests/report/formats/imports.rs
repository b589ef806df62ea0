//! What another tool's file does not state is absent from every rendering: what lies beyond
//! the end of its histogram, and everything that it is silent about.

use crate::support as record_support;
use punctual_record::Field;

use std::path::Path;

use punctual_record::Run;
use punctual_record::merge::merge;
use punctual_report::compare::{TextStyle, compare, compare_text};
use punctual_report::formats::{Format, detect_and_parse, detect_and_read, write};
use punctual_report::known::Reading;
use punctual_report::style::Style;
use punctual_report::{figures::Figures, html, summary_json, terminal};
use punctual_stats::compare::Conclusion;
use serde_json::Value;

/// 1,000 samples of one thread, in µs: 900 at 10, 80 at 50, 15 at 300, 5 at 900.
const SAMPLES: [(u64, u64); 4] = [(10, 900), (50, 80), (300, 15), (900, 5)];

/// What cyclictest prints with `-h end`.
fn histogram(end: u64) -> String {
    let count = |value: u64| {
        let row = SAMPLES.iter().find(|row| row.0 == value);
        row.map_or(0, |row| row.1)
    };
    let rows: String = (0..end)
        .map(|value| format!("{value:06} {:06}\n", count(value)))
        .collect();
    let inside: u64 = (0..end).map(count).sum();
    format!(
        "# /dev/cpu_dma_latency set to 0us\n# Histogram\n{rows}# Total: {inside:09}\n\
         # Min Latencies: 00010\n# Avg Latencies: 00022\n# Max Latencies: 00900\n\
         # Histogram Overflows: {:05}\n",
        1000 - inside
    )
}

/// A reading of a tool that knows whole microseconds, and not the end of our bucket.
fn whole_us(reading: Reading) -> Reading {
    match reading {
        Reading::Value(ns) => Reading::Value(ns - ns % 1000),
        other => other,
    }
}

fn flat(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

fn parsed(text: &str) -> Run {
    detect_and_parse(Path::new("f"), text.as_bytes()).unwrap()
}

fn shown(run: &Run) -> String {
    let style = Style {
        colour: false,
        width: 80,
        height: 25,
        unicode: true,
        verbose: true,
        report: None,
    };
    terminal::summary(run, &style)
}

fn data(name: &str) -> Run {
    let data = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/formats");
    detect_and_read(&data.join(name)).unwrap()
}

#[test]
fn the_same_data_are_no_different_where_one_histogram_overflowed() {
    let (whole, cut) = (parsed(&histogram(1000)), parsed(&histogram(40)));
    let later = |run: &Run| Run {
        started: "2026-11-29T09:00:00Z".to_owned(),
        ..run.clone()
    };
    for (first, second) in [(&whole, &cut), (&cut, &whole), (&cut, &later(&cut))] {
        let one = std::slice::from_ref;
        let found = compare(one(first), one(second), None).unwrap();
        assert_eq!(found.statistics.delta, 0.0);
        assert_eq!(found.limit_ns, Some(40_000));
        assert_eq!(found.statistics.quantiles.len(), 1, "p50 alone lies below");
        assert!(matches!(
            found.statistics.conclusion,
            Conclusion::Untested { .. }
        ));
        assert_eq!(found.bands.iter().map(|b| b.first).sum::<u64>(), 1000);
        assert_eq!(found.bands.iter().map(|b| b.second).sum::<u64>(), 1000);
        let text = flat(&compare_text(&found, TextStyle::default()));
        assert!(text.contains("nothing from there on is compared"), "{text}");
    }
}

#[test]
fn a_percentile_beyond_the_histogram_has_no_value() {
    let run = parsed(&histogram(400));
    let row = &Figures::from_run(&run).merged;
    assert_eq!((row.count, row.unkept), (1000, 4));
    assert_eq!(whole_us(row.reading(90.0)), Reading::Value(10_000));
    assert_eq!(whole_us(row.reading(99.0)), Reading::Value(300_000));
    assert_eq!(row.reading(99.9), Reading::TooFew);
    let run = parsed(&histogram(200));
    let row = &Figures::from_run(&run).merged;
    assert_eq!(row.reading(99.0), Reading::AtLeast(200_000));
    assert_eq!((row.min, row.max), (Some(10_000), Some(900_000)));
    assert_eq!(row.mean, Some(22_000.0));
    let flat = flat(&shown(&run));
    for part in [
        ">200",
        "20 of 1,000 samples lie beyond the histogram, which ends at 200 µs",
        "the worst of 1,000 wake-ups came 900 µs",
    ] {
        assert!(flat.contains(part), "{part}: {flat}");
    }
    let page = html::page(&run);
    assert!(page.contains("&gt; 200"));
    let json: Value = serde_json::from_str(&summary_json::summary(&run)).unwrap();
    let p99 = &json["all"]["latency"]["percentiles"]["p99"];
    assert_eq!(p99["is"], "at-least");
    assert_eq!(p99["ns"], 200_000);
    // The curve ends there too, but for the maximum.
    let curve = &row.curve;
    let (last, rest) = curve.split_last().unwrap();
    assert_eq!(last.ns, 900_000);
    assert!(rest.iter().all(|point| point.ns < 200_000), "{curve:?}");
}

#[test]
fn without_a_histogram_what_is_stated_is_shown() {
    for name in ["cyclictest-no-histogram.json", "cyclictest-summary.txt"] {
        let run = data(name);
        let stated = &run.imported.as_ref().unwrap().threads;
        let text = shown(&run);
        let json: Value = serde_json::from_str(&summary_json::summary(&run)).unwrap();
        let page = html::page(&run);
        for (index, thread) in stated.iter().enumerate() {
            let latency = &json["threads"][index]["latency"];
            assert_eq!(latency["count"], thread.count, "{name}");
            assert_eq!(latency["min_ns"], thread.min_ns);
            assert_eq!(latency["max_ns"], thread.max_ns);
            assert_eq!(latency["mean_ns"].as_f64(), thread.mean_ns);
            assert_eq!(latency["percentiles"]["p50"]["is"], "too-few");
            let count = punctual_stats::format::count(thread.count);
            let max = (thread.max_ns / 1000).to_string();
            for part in [&count, &max] {
                assert!(text.contains(part.as_str()), "{name}: {part} in\n{text}");
                assert!(page.contains(part.as_str()), "{name}: {part}");
            }
        }
        assert!(text.contains("no percentile is known"), "{text}");
        assert!(!text.contains("not one wake-up"), "{text}");
        // They are compared as far as they go.
        let one = std::slice::from_ref;
        let found = compare(one(&run), one(&parsed(&histogram(1000))), None).unwrap();
        let text = compare_text(&found, TextStyle::default());
        assert!(text.contains("A has no histogram"), "{text}");
        assert!(
            text.contains(&punctual_stats::format::duration(stated[0].max_ns)) || stated.len() > 1
        );
    }
}

#[test]
fn nothing_is_said_that_no_file_states() {
    let names = [
        "cyclictest-H200.txt",
        "cyclictest-h20-overflow.txt",
        "cyclictest-h20.json",
        "cyclictest-h200.txt",
        "cyclictest-live.txt",
        "cyclictest-no-histogram.json",
        "cyclictest-ns.json",
        "cyclictest-summary.txt",
        "jitterdebugger-ns.json",
        "jitterdebugger.json",
    ];
    for name in names {
        let run = data(name);
        let own = record_support::run(3);
        let compared = compare(std::slice::from_ref(&run), &[own], None).unwrap();
        let mut renderings = vec![
            ("terminal", shown(&run)),
            ("page", html::page(&run)),
            ("compare", compare_text(&compared, TextStyle::default())),
        ];
        for format in Format::ALL {
            renderings.push((format.name(), write(format, &run).unwrap()));
        }
        for (what, text) in &renderings {
            for invented in [
                "in 0 ns",
                "held at",
                "left alone",
                "hypervisor seen",
                "clock source",
                "tuned the machine",
                "0 periods missed",
                "Lost samples",
                "missed_periods",
                "late_wakeups",
                "run.json beside",
                "time=\"0.000\"",
                "Own cost",
                "Linux ,",
            ] {
                assert!(
                    !text.contains(invented),
                    "{name}, {what}: {invented}\n{text}"
                );
            }
        }
        if !run.knows(Field::MeasuredTime) {
            let (_, terminal) = &renderings[0];
            assert!(!terminal.contains("0 ns"), "{name}: {terminal}");
        }
        let json: Value = serde_json::from_str(&summary_json::summary(&run)).unwrap();
        assert_eq!(
            json["measured_ns"].is_null(),
            !run.knows(Field::MeasuredTime)
        );
        assert_eq!(
            json["started"].is_null(),
            !run.knows(Field::Started),
            "{name}"
        );
        for place in ["own_cost", "timeline", "demands", "loads", "analysis"] {
            assert!(json[place].is_null(), "{name}: {place}");
        }
        let request = json["request"].as_object().unwrap();
        for (fact, value) in request {
            let field: Field = serde_json::from_value(fact.as_str().into()).unwrap();
            assert_eq!(value.is_null(), !run.knows(field), "{name}: {fact}");
        }
        for thread in json["threads"].as_array().unwrap() {
            for fact in ["missed", "late", "lost", "early", "tid", "measured_ns"] {
                assert!(thread.get(fact).is_none(), "{name}: {fact}");
            }
            assert_eq!(thread["cpu"].is_null(), !run.knows(Field::Cpus));
        }
    }
}

#[test]
fn what_was_not_kept_is_not_kept_in_another_format_either() {
    let run = parsed(&histogram(200));
    for format in [
        Format::Cyclictest,
        Format::RtTestsJson,
        Format::Jitterdebugger,
    ] {
        let text = write(format, &run).unwrap();
        let back = detect_and_parse(Path::new("f"), text.as_bytes()).unwrap();
        let of = |run: &Run| {
            let thread = &run.imported.as_ref().unwrap().threads[0];
            (
                thread.count,
                thread.min_ns,
                thread.max_ns,
                thread.mean_ns,
                thread.beyond,
            )
        };
        assert_eq!(of(&back), of(&run), "{format}");
        let row = Figures::from_run(&back).merged;
        assert!(
            matches!(row.reading(99.0), Reading::AtLeast(51_000..=200_000)),
            "{format}"
        );
        assert_eq!(whole_us(row.reading(90.0)), Reading::Value(10_000));
    }
    let metrics = write(Format::OpenMetrics, &run).unwrap();
    assert!(metrics.contains("le=\"0.0001\"} 980\n"), "{metrics}");
    assert!(!metrics.contains("le=\"0.0002\"") && !metrics.contains("le=\"0.01\""));
    assert!(metrics.contains("le=\"+Inf\"} 1000\n"), "{metrics}");
    let csv = write(Format::Csv, &run).unwrap();
    assert!(csv.ends_with(",200000,900000,20,1000,1000\n"), "{csv}");
}

#[test]
fn merged_runs_of_another_tool_know_as_far_as_all_of_them() {
    let with = |text: String, start: &str| {
        let mut run = parsed(&text);
        run.started = start.to_owned();
        run
    };
    let runs = [
        with(histogram(400), "2026-11-21T02:49:24Z"),
        with(histogram(40), "2026-11-21T02:50:24Z"),
    ];
    let merged = merge(&runs, true, Vec::new()).unwrap();
    let row = Figures::from_run(&merged).merged;
    assert_eq!(row.count, 2000);
    assert_eq!(whole_us(row.reading(50.0)), Reading::Value(10_000));
    assert_eq!(row.reading(99.0), Reading::AtLeast(40_000));
    assert_eq!(row.mean, None);
    for format in Format::ALL {
        let text = write(format, &merged).unwrap();
        if matches!(
            format,
            Format::Cyclictest | Format::RtTestsJson | Format::Jitterdebugger
        ) {
            let back = parsed(&text);
            assert_eq!(
                Figures::from_run(&back).merged.count,
                2000,
                "{format}: {text}"
            );
        }
    }
    shown(&merged);
    assert!(html::page(&merged).contains("2,000"));
}
