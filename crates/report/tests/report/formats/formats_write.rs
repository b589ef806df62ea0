//! What other tools shall read: round trips, and each format's own rules.

use crate::support as record_support;

use std::path::Path;

use proptest::prelude::*;
use punctual_record::{Fix, Run, Standing, State};
use punctual_report::formats::{Format, detect_and_parse, write};
use punctual_stats::verdict::Outcome;
use record_support::{latencies, run, run_of, thread};

fn text(format: Format, run: &Run) -> String {
    write(format, run).unwrap_or_else(|e| panic!("{e}"))
}

fn back(format: Format, run: &Run) -> Run {
    let text = text(format, run);
    detect_and_parse(Path::new("back"), text.as_bytes()).unwrap_or_else(|e| panic!("{e}\n{text}"))
}

#[test]
fn names_are_words_of_the_command_line() {
    for format in Format::ALL {
        assert_eq!(format.name().parse(), Ok(format));
    }
    let error = "hdf5".parse::<Format>().unwrap_err();
    assert_eq!(
        error.to_string(),
        "accepted are cyclictest, rt-tests-json, jitterdebugger, junit, ktap, lava, openmetrics, prometheus, csv"
    );
}

#[test]
fn cyclictest_text_line_by_line() {
    let run = run_of(vec![
        thread(0, &[1_500, 3_100, 3_900, 5_999], 64),
        thread(1, &[999, 3_000, 12_345], 64),
    ]);
    assert_eq!(
        text(Format::Cyclictest, &run),
        "# /dev/cpu_dma_latency set to 0us\n# Histogram\n\
         000000 000000\t000001\n000001 000001\t000000\n000002 000000\t000000\n\
         000003 000002\t000001\n000004 000000\t000000\n000005 000001\t000000\n\
         000006 000000\t000000\n000007 000000\t000000\n000008 000000\t000000\n\
         000009 000000\t000000\n000010 000000\t000000\n000011 000000\t000000\n\
         000012 000000\t000001\n\
         # Total: 000000004 000000003\n# Min Latencies: 00001 00000\n\
         # Avg Latencies: 00003 00005\n# Max Latencies: 00005 00012\n\
         # Histogram Overflows: 00000 00000\n# Histogram Overflow at cycle number:\n\
         # Thread 0:\n# Thread 1:\n"
    );
}

#[test]
fn beyond_a_second_is_overflow_and_said_so() {
    let run = run_of(vec![thread(
        0,
        &[5_000, 6_000, 2_000_000_000, 3_000_000_000],
        64,
    )]);
    let text = text(Format::Cyclictest, &run);
    assert!(text.contains("\n000006 000001\n"));
    assert!(
        !text.contains("\n000007 "),
        "{} bytes: no row serves the two beyond",
        text.len()
    );
    assert!(text.contains("# Histogram Overflows: 00002\n"));
    assert!(text.ends_with("# Thread 0: 00002 00003\n"));
    // The maximum is known, the other is not.
    let read = back(Format::Cyclictest, &run);
    assert_eq!(read.threads[0].latency.count, 3);
    assert_eq!(
        (read.threads[0].latency.max_ns, read.threads[0].lost),
        (3_000_000_000, 1)
    );
    // JSON has room for all of them.
    let read = back(Format::RtTestsJson, &run);
    assert_eq!(
        (read.threads[0].latency.count, read.threads[0].lost),
        (4, 0)
    );
}

#[test]
fn what_is_known_survives_rt_tests_json() {
    let run = run(4);
    let read = back(Format::RtTestsJson, &run);
    assert_eq!(read.started, run.started);
    assert_eq!(read.measured_ns, run.measured_ns);
    assert_eq!(read.request.cpus, run.request.cpus);
    assert_eq!(read.system.kernel.release, run.system.kernel.release);
    assert_eq!(read.system.kernel.preemption, "rt");
    let json: serde_json::Value = serde_json::from_str(&text(Format::RtTestsJson, &run)).unwrap();
    assert_eq!(json["return_code"], 0);
    assert_eq!(json["thread"]["1"]["cpu"], 1);
    assert!(json["cmdline:"].is_string());
}

#[test]
fn an_empty_run_is_written_and_read() {
    let run = run_of(vec![thread(0, &[], 2)]);
    for format in Format::ALL {
        text(format, &run);
    }
    for format in [
        Format::Cyclictest,
        Format::RtTestsJson,
        Format::Jitterdebugger,
    ] {
        assert_eq!(back(format, &run).threads[0].latency.count, 0);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// Any latencies, through each format and back: counts are kept and every
    /// sample is in its microsecond where the record knows it exactly.
    #[test]
    fn round_trips(
        list in prop::collection::vec(prop_oneof![0..3_000_u64, 0..200_000_u64, 0..20_000_000_u64], 1..300),
        capacity in 2_usize..600,
    ) {
        let run = run_of(vec![thread(2, &list, capacity)]);
        let known = run.threads[0].peaks_above_ns;
        for format in [Format::Cyclictest, Format::RtTestsJson, Format::Jitterdebugger] {
            let read = back(format, &run);
            let record = &read.threads[0].latency;
            let floor = |ns: u64| ns - ns % 1000;
            prop_assert_eq!(record.count, list.len() as u64);
            prop_assert_eq!(record.min_ns, floor(*list.iter().min().unwrap()));
            prop_assert_eq!(record.max_ns, floor(*list.iter().max().unwrap()));
            prop_assert_eq!(read.threads[0].lost, 0);
            // Rounding down loses less than a microsecond a sample; a bucket's width
            // may add 1/1024 to what the peaks don't hold.
            let sum: u128 = list.iter().map(|ns| u128::from(floor(*ns))).sum();
            let slack: u128 = list.iter().filter(|ns| **ns <= known).map(|ns| u128::from(ns / 512 + 1000)).sum();
            prop_assert!(record.sum_ns >= sum && record.sum_ns <= sum + slack, "{} {sum} {slack}", record.sum_ns);
        }
    }
}

/// An element's name and attributes.
type Element = (String, Vec<(String, String)>);

/// As much of an XML reader as it takes to see that tags match and nothing is
/// unescaped: names of elements with their attributes.
fn elements(xml: &str) -> Vec<Element> {
    let body = xml
        .strip_prefix("<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n")
        .expect("a prolog");
    let mut open: Vec<String> = Vec::new();
    let mut found = Vec::new();
    let mut rest = body;
    while let Some(start) = rest.find('<') {
        check_text(&rest[..start]);
        let end = rest[start..].find('>').expect("an end") + start;
        let tag = &rest[start + 1..end];
        rest = &rest[end + 1..];
        if let Some(name) = tag.strip_prefix('/') {
            assert_eq!(open.pop().as_deref(), Some(name));
            continue;
        }
        let (tag, empty) = tag
            .strip_suffix('/')
            .map_or((tag, false), |tag| (tag, true));
        let (name, mut attributes) = tag.split_once(' ').unwrap_or((tag, ""));
        let mut list = Vec::new();
        while let Some((key, after)) = attributes.trim_start().split_once("=\"") {
            let (value, after) = after.split_once('"').expect("a closing quote");
            check_text(value);
            assert!(!value.contains('\n'));
            list.push((key.to_owned(), value.to_owned()));
            attributes = after;
        }
        if !empty {
            open.push(name.to_owned());
        }
        found.push((name.to_owned(), list));
    }
    assert!(open.is_empty() && rest.trim().is_empty());
    found
}

fn check_text(text: &str) {
    for piece in text.split('&').skip(1) {
        let entity = piece.split(';').next().unwrap();
        assert!(
            ["amp", "lt", "gt", "quot", "#39", "#9", "#10", "#13"].contains(&entity),
            "&{entity}"
        );
    }
    assert!(
        !text.chars().any(|c| c.is_control() && c != '\n'),
        "{text:?}"
    );
}

fn junit(run: &Run) -> (Vec<Element>, String) {
    let xml = text(Format::Junit, run);
    (elements(&xml), xml)
}

fn attribute(element: &Element, name: &str) -> String {
    element
        .1
        .iter()
        .find(|(key, _)| key == name)
        .map(|(_, value)| value.clone())
        .unwrap()
}

#[test]
fn junit_says_what_the_terminal_says() {
    let (found, _) = junit(&run(1));
    assert_eq!(
        attribute(&found[1], "tests"),
        "4",
        "two requirements, the condition that was requested, the record"
    );
    assert_eq!(attribute(&found[1], "failures"), "0");
    assert_eq!(attribute(&found[1], "time"), "10.000");
    assert_eq!(attribute(&found[1], "timestamp"), "2026-11-21T02:46:09");

    let mut late = run_of(vec![thread(0, &latencies(1, 10_000, 90_000_000), 512)]);
    assert_eq!(late.verdict.as_ref().unwrap().outcome, Outcome::Fail);
    let (found, xml) = junit(&late);
    let failures: Vec<_> = found.iter().filter(|(name, _)| name == "failure").collect();
    assert_eq!(attribute(failures[0], "type"), "FAIL");
    assert_eq!(attribute(&found[1], "failures"), failures.len().to_string());
    assert!(xml.contains("<system-out>FAIL: "));

    let short = run_of(vec![thread(0, &latencies(1, 150, 90_000), 512)]);
    assert_eq!(
        short.verdict.as_ref().unwrap().outcome,
        Outcome::Inconclusive
    );
    let (found, _) = junit(&short);
    let failure = found.iter().find(|(name, _)| name == "failure").unwrap();
    assert_eq!(attribute(failure, "type"), "INCONCLUSIVE");

    late.demands[0].standing = Standing::NotInForce;
    late.demands[0].fix = Some(Fix::BootWithout {
        word: "<nolapic> & \"again\"".to_owned(),
    });
    late.events[0].invalidates = true;
    late.state = State::Unfinished;
    late.verdict = Some(punctual_record::analyse_record(&late).unwrap().verdict);
    let (found, xml) = junit(&late);
    let errors: Vec<_> = found
        .iter()
        .filter(|(name, _)| name == "error")
        .map(|error| attribute(error, "type"))
        .collect();
    assert_eq!(
        errors,
        ["INVALID", "INVALID", "INVALID", "INVALID", "unfinished"]
    );
    assert_eq!(attribute(&found[1], "errors"), "5");
    assert!(xml.contains("boot without `&lt;nolapic&gt; &amp; &quot;again&quot;`"));
}

#[test]
fn junit_has_no_case_for_what_nobody_requested() {
    let run = run(1);
    let stated = |run: &Run, standing| {
        let with = run.demands.iter().filter(|it| it.standing == standing);
        with.map(|it| it.name().to_owned()).collect::<Vec<_>>()
    };
    let (found, _) = junit(&run);
    let of = |kind: &str| {
        let of_kind = found.iter().filter(|(name, _)| name == kind);
        of_kind.map(|it| attribute(it, "name")).collect::<Vec<_>>()
    };
    let (cases, properties) = (of("testcase"), of("property"));
    let stated_only = stated(&run, Standing::Stated);
    assert!(!stated_only.is_empty());
    for name in stated_only {
        assert!(!cases.contains(&name), "a green case: {name}");
        assert!(properties.contains(&format!("stated.{name}")), "{name}");
    }
    for name in stated(&run, Standing::InForce) {
        assert!(cases.contains(&name), "{name}");
    }
}

/// The rules of OpenMetrics that a scraper falls over.
fn check_openmetrics(text: &str) -> Vec<(String, f64)> {
    assert!(text.ends_with("\n# EOF\n"));
    let mut family = String::new();
    let mut kind = String::new();
    let mut seen = Vec::new();
    let mut samples: Vec<(String, f64)> = Vec::new();
    let mut bucket: Option<(String, f64, f64)> = None;
    for line in text.strip_suffix("# EOF\n").unwrap().lines() {
        assert!(!line.is_empty() && line.trim() == line, "{line:?}");
        if let Some(comment) = line.strip_prefix("# ") {
            let mut words = comment.splitn(3, ' ');
            let (keyword, name) = (words.next().unwrap(), words.next().unwrap());
            let value = words.next().unwrap();
            match keyword {
                "TYPE" => {
                    assert!(!seen.contains(&name.to_owned()), "{name} twice");
                    seen.push(name.to_owned());
                    (family, kind) = (name.to_owned(), value.to_owned());
                }
                "UNIT" => assert!(
                    name == family && name.ends_with(&format!("_{value}")),
                    "{line}"
                ),
                "HELP" => assert_eq!(name, family),
                other => panic!("{other}"),
            }
            continue;
        }
        let (series, value) = line.rsplit_once(' ').unwrap();
        let value: f64 = value.parse().unwrap();
        let (name, labels) = series.split_once('{').unwrap();
        let labels = labels.strip_suffix('}').unwrap();
        let suffix = name
            .strip_prefix(&family)
            .unwrap_or_else(|| panic!("{line} in {family}"));
        let allowed: &[&str] = match kind.as_str() {
            "histogram" => &["_bucket", "_count", "_sum"],
            "counter" => &["_total"],
            "info" => &["_info"],
            "gauge" | "stateset" => &[""],
            other => panic!("{other}"),
        };
        assert!(allowed.contains(&suffix), "{line} of {kind}");
        // Quotes come in pairs once escaped ones are gone.
        let bare = labels.replace("\\\\", "").replace("\\\"", "");
        assert_eq!(bare.matches('"').count() % 2, 0, "{line}");
        assert!(value >= 0.0 || kind == "gauge");
        if suffix == "_bucket" {
            let (of, edge) = labels.rsplit_once(",le=\"").unwrap();
            let edge = edge.trim_end_matches('"');
            let edge: f64 = if edge == "+Inf" {
                f64::INFINITY
            } else {
                edge.parse().unwrap()
            };
            if let Some((before_of, before, count)) = &bucket
                && before_of == of
            {
                assert!(edge > *before && value >= *count, "{line}");
            }
            bucket = Some((of.to_owned(), edge, value));
        } else if suffix == "_count" {
            let (of, edge, count) = bucket.clone().unwrap();
            assert!(
                of == labels && edge.is_infinite() && count == value,
                "{line}"
            );
        }
        assert!(
            !samples.iter().any(|(known, _)| known == series),
            "{series} twice"
        );
        samples.push((series.to_owned(), value));
    }
    samples
}

#[test]
fn openmetrics_keeps_its_rules() {
    let watch = crate::watched::hostile();
    check_openmetrics(&text(Format::OpenMetrics, &watch));
    let run = run(1);
    let text = text(Format::OpenMetrics, &run);
    let samples = check_openmetrics(&text);
    let ending = |end: &str| {
        samples
            .iter()
            .filter(|(name, _)| name.ends_with(end))
            .map(|(_, v)| *v)
            .collect::<Vec<_>>()
    };
    assert_eq!(
        ending("cpu=\"0\",le=\"0.0001\"}"),
        [10_000.0],
        "the deadline has an edge"
    );
    assert_eq!(ending("punctual_verdict=\"PASS\"}"), [1.0]);
    assert_eq!(ending("punctual_verdict=\"FAIL\"}"), [0.0]);
    assert!(
        text.contains("host=\"bench <&\\\"'> \\\\ ? host\""),
        "{text}"
    );
    let sum: f64 = samples
        .iter()
        .filter(|(n, _)| n.contains("_sum{"))
        .map(|(_, v)| v)
        .sum();
    let expected: u128 = run.threads.iter().map(|thread| thread.latency.sum_ns).sum();
    assert!((sum - expected as f64 / 1e9).abs() < 1e-6);
}

#[test]
fn csv_adds_up() {
    let run = run(1);
    let text = text(Format::Csv, &run);
    let mut lines = text.lines();
    let columns = lines.next().unwrap().split(',').count();
    let mut sums = [0_u64; 2];
    for line in lines {
        let fields: Vec<u64> = line
            .split(',')
            .map(|field| field.parse().unwrap())
            .collect();
        assert_eq!(fields.len(), columns);
        assert!(fields[2] <= fields[3]);
        sums[fields[0] as usize] += fields[4];
        assert_eq!(fields[5], sums[fields[0] as usize]);
        assert_eq!(fields[6], 10_000);
    }
    assert_eq!(sums, [10_000; 2]);
}
