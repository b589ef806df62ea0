//! The real cyclictest and jitterdebugger, run for a second or two: we read what
//! they just wrote, and tools made for their files take ours.
//!
//! Debian's packages: rt-tests, jitterdebugger, gnuplot-nox; for jitterplot, which
//! Debian doesn't ship, python3-matplotlib and python3-pandas besides.

use crate::needs::{self, Absent, need};
use crate::support as record_support;
use punctual_record::Field;

use std::path::Path;
use std::process::{Command, Output, Stdio};

use punctual_record::Run;
use punctual_report::compare::{TextStyle, compare, compare_text};
use punctual_report::formats::{Format, detect_and_parse, detect_and_read, write};

/// Runs a program.
fn peer(program: &str, arguments: &[&str]) -> Result<Output, Absent> {
    let mut command = Command::new(needs::program(program)?);
    let output = command.args(arguments).stdin(Stdio::null()).output();
    let output = output.unwrap_or_else(|error| panic!("{program}: {error}"));
    assert!(output.status.success(), "{program}: {output:?}");
    Ok(output)
}

fn samples(run: &Run) -> u64 {
    run.threads
        .iter()
        .map(|thread| thread.latency.count + thread.lost)
        .sum()
}

#[test]
fn cyclictest_text_just_written() {
    let arguments = [
        "-m", "-p", "80", "-i", "500", "-h", "100000", "-q", "-l", "2000",
    ];
    need!(needs::real_time());
    let output = need!(peer("cyclictest", &arguments));
    let run = detect_and_parse(Path::new("stdout"), &output.stdout).unwrap();
    // It may skip the last one.
    assert!((1999..=2000).contains(&samples(&run)), "{}", samples(&run));
    assert!(run.threads[0].latency.min_ns > 0);
    // Our text of it says the same, row by row.
    let ours = write(Format::Cyclictest, &run).unwrap();
    let rows = |text: &str| -> Vec<String> {
        let rows = text
            .lines()
            .filter(|line| line.starts_with(|c: char| c.is_ascii_digit()));
        // From 2,048 µs on our histogram has a coarser step than 1 µs.
        rows.filter(|row| !row.ends_with(" 000000") && &row[..6] < "002048")
            .map(str::to_owned)
            .collect()
    };
    let theirs = String::from_utf8(output.stdout).unwrap();
    assert_eq!(rows(&ours), rows(&theirs));
    for line in [
        "# Total:",
        "# Min Latencies:",
        "# Max Latencies:",
        "# Histogram Overflows:",
    ] {
        let of = |text: &str| {
            text.lines()
                .find(|l| l.starts_with(line))
                .map(str::to_owned)
        };
        assert_eq!(of(&ours), of(&theirs), "{line}");
    }
}

#[test]
fn cyclictest_json_just_written() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("results.json");
    let json = format!("--json={}", file.display());
    let arguments = [
        "-m", "-p", "80", "-i", "500", "-h", "50", "-q", "-l", "2000", "-S", &json,
    ];
    need!(needs::real_time());
    need!(peer("cyclictest", &arguments));
    let run = detect_and_read(&file).unwrap();
    // It ends with the first thread that is done. On a busy machine the others may not have woken yet.
    let text = std::fs::read_to_string(&file).unwrap();
    let cycles = text
        .lines()
        .filter_map(|line| line.trim().strip_prefix("\"cycles\": "));
    let cycles: Vec<u64> = cycles
        .map(|count| count.trim_end_matches(',').parse().unwrap())
        .collect();
    assert_eq!(cycles.len(), run.threads.len());
    assert!(cycles.contains(&2000), "{cycles:?}");
    assert_eq!(samples(&run), cycles.iter().sum::<u64>());
    assert_eq!(run.tool.name, "cyclictest");
    assert_eq!(run.request.priority, 80);
    assert!(run.knows(Field::Cpus));

    // Every key of theirs stands in ours, with a value of the same type.
    let text = text.replace(": -nan,", ": 0,").replace(": nan,", ": 0,");
    let theirs: serde_json::Value = serde_json::from_str(&text).unwrap();
    let ours = write(Format::RtTestsJson, &record_support::run(1)).unwrap();
    same_shape("", &theirs, &serde_json::from_str(&ours).unwrap());

    let text = compare_text(
        &compare(&[run], &[record_support::run(1)], None).unwrap(),
        TextStyle::default(),
    );
    assert!(text.contains("cyclictest"), "{text}");
}

#[test]
fn jitterdebugger_just_written() {
    let directory = tempfile::tempdir().unwrap();
    let out = directory.path().join("out");
    let arguments = [
        "-p",
        "80",
        "-i",
        "500",
        "-l",
        "2000",
        "-o",
        out.to_str().unwrap(),
    ];
    need!(needs::real_time());
    need!(peer("jitterdebugger", &arguments));
    // Its directory, as a person would name it.
    let run = detect_and_read(&out).unwrap();
    assert_eq!(samples(&run), run.threads.len() as u64 * 2000);
    assert!(!run.knows(Field::Cpus) && run.knows(Field::Resolution));
    let theirs = std::fs::read(out.join("results.json")).unwrap();
    let ours = write(Format::Jitterdebugger, &record_support::run(1)).unwrap();
    same_shape(
        "",
        &serde_json::from_slice(&theirs).unwrap(),
        &serde_json::from_str(&ours).unwrap(),
    );
}

fn same_shape(place: &str, theirs: &serde_json::Value, ours: &serde_json::Value) {
    use serde_json::Value::{Number, Object, String};
    match (theirs, ours) {
        (Object(_), Object(_)) if place.ends_with(".histogram") => {}
        (Object(theirs), Object(ours)) => {
            for (key, value) in theirs {
                // Threads are as many as there are CPUs.
                let Some(other) = ours.get(key) else {
                    assert!(key.parse::<u32>().is_ok(), "{place}.{key} is missing");
                    continue;
                };
                same_shape(&format!("{place}.{key}"), value, other);
            }
        }
        (Number(_), Number(_)) | (String(_), String(_)) => {}
        _ => panic!("{place}: {theirs} and {ours}"),
    }
}

/// The usual way to plot a cyclictest histogram: rows without comments to gnuplot.
#[test]
fn gnuplot_takes_our_histogram() {
    let directory = tempfile::tempdir().unwrap();
    let data = directory.path().join("histogram");
    let plot = directory.path().join("plot.svg");
    std::fs::write(
        &data,
        write(Format::Cyclictest, &record_support::run(1)).unwrap(),
    )
    .unwrap();
    let script = format!(
        "set terminal svg; set output '{}'; set logscale y; \
         plot '{data}' using 1:2 with histeps, '{data}' using 1:3 with histeps",
        plot.display(),
        data = data.display()
    );
    let output = need!(peer("gnuplot", &["-e", &script]));
    assert!(
        output.stderr.is_empty(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    let svg = std::fs::read_to_string(&plot).unwrap();
    assert!(svg.contains("</svg>") && svg.matches("<path").count() >= 2);
}

#[test]
fn jitterplot_takes_our_results() {
    let directory = tempfile::tempdir().unwrap();
    let results = directory.path().join("results.json");
    std::fs::write(
        &results,
        write(Format::Jitterdebugger, &record_support::run(1)).unwrap(),
    )
    .unwrap();
    need!(needs::program("jitterplot"));
    for plot in ["hist", "cdf"] {
        let picture = directory.path().join(format!("{plot}.png"));
        let done = Command::new("jitterplot")
            .env("MPLBACKEND", "Agg")
            .args([
                "--output".as_ref(),
                picture.as_os_str(),
                plot.as_ref(),
                results.as_os_str(),
            ])
            .output()
            .unwrap();
        let said = String::from_utf8_lossy(&done.stderr);
        assert!(done.status.success(), "{said}");
        assert!(std::fs::metadata(&picture).unwrap().len() > 1000);
    }
}
