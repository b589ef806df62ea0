//! What other tools wrote, read: golden files from Debian's cyclictest 2.4 and
//! jitterdebugger 0.3.1.

use punctual_record::Field;
use std::path::{Path, PathBuf};

use punctual_record::{RecordError, Run, State};
use punctual_report::formats::{detect_and_parse, detect_and_read};
use punctual_stats::histogram::Histogram;

fn data(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("tests/data/formats")
        .join(name)
}

fn read(name: &str) -> Run {
    detect_and_read(&data(name)).unwrap_or_else(|e| panic!("{e}"))
}

fn histogram(run: &Run, thread: usize) -> Histogram {
    Histogram::try_from(&run.threads[thread].latency).unwrap()
}

fn counts(run: &Run) -> Vec<(u64, u64, u64, u64)> {
    run.threads
        .iter()
        .map(|t| (t.latency.count, t.latency.min_ns, t.latency.max_ns, t.lost))
        .collect()
}

#[test]
fn cyclictest_histogram_with_one_sample_beyond() {
    let run = read("cyclictest-h200.txt");
    // The one sample beyond 200 µs is the maximum, so nothing is unknown.
    assert_eq!(
        counts(&run),
        [(4000, 7_000, 489_000, 0), (4000, 7_000, 408_000, 0)]
    );
    let buckets: Vec<_> = histogram(&run, 0)
        .buckets()
        .take(3)
        .map(|b| b.count)
        .collect();
    assert_eq!(buckets, [89, 791, 721]);
    let imported = run.imported.as_ref().unwrap();
    assert_eq!(imported.resolution_ns, 1000);
    assert_eq!(imported.threads[1].mean_ns, Some(11_000.0));
    for unknown in [
        Field::Cpus,
        Field::Interval,
        Field::Priority,
        Field::MeasuredTime,
        Field::Resolution,
        Field::Load,
    ] {
        assert!(!run.knows(unknown), "{unknown:?}");
    }
    assert_eq!(run.thread_label(1), "thread 1");
    assert_eq!(run.system.power.cpu_dma_latency_held_us, Some(0));
    assert_eq!(run.state, State::Finished);
    assert!(run.events.is_empty());
}

#[test]
fn cyclictest_overflow_is_not_invented_away() {
    let run = read("cyclictest-h20-overflow.txt");
    assert_eq!(
        counts(&run),
        [(3987, 7_000, 81_000, 13), (3990, 7_000, 39_000, 10)]
    );
    assert!(
        run.events
            .iter()
            .all(|e| e.kind() == "histogram-overflow" && e.invalidates)
    );
    assert!(
        run.analysis.is_none(),
        "the statistics would take it as whole"
    );
    // Its JSON doesn't say so; the number of cycles does.
    let json = read("cyclictest-h20.json");
    assert_eq!(counts(&json), counts(&run));
    assert_eq!(json.imported.unwrap().threads[0].beyond, 13);
}

#[test]
fn cyclictest_sum_column_is_no_thread() {
    let run = read("cyclictest-H200.txt");
    assert_eq!(
        counts(&run),
        [(4000, 7_000, 35_000, 0), (4000, 6_000, 115_000, 0)]
    );
}

#[test]
fn rt_tests_json_states_more() {
    let run = read("cyclictest-h20.json");
    assert_eq!(run.tool.name, "cyclictest");
    assert_eq!(run.tool.version, "2.40");
    assert_eq!(run.started, "2026-11-21T02:49:24Z");
    assert_eq!(run.measured_ns, 2_000_000_000);
    assert_eq!(run.request.interval.nominal_ns(), 500_000);
    assert_eq!(run.request.priority, 80);
    assert_eq!(run.request.cpus, [0, 1]);
    assert_eq!(run.thread_label(1), "CPU 1");
    assert_eq!(run.system.kernel.release, "6.18.44");
    assert!(run.knows(Field::Resolution) && !run.knows(Field::Policy) && !run.knows(Field::Load));
}

/// As cyclictest 2.40 writes it while something else has the second thread's CPU.
const NEVER_WOKE: &str = r#"{
  "file_version": 1,
  "cmdline:": "cyclictest -m -p 80 -i 500 -h 50 -q -l 2 -S --json=results.json",
  "rt_test_version:": "2.40",
  "num_threads": 2,
  "resolution_in_ns": 0,
  "thread": {
    "0": {
      "histogram": {
        "11": 1,
        "49": 1
      },
      "cycles": 2,
      "min": 11,
      "max": 49,
      "avg": 30.00,
      "cpu": 0,
      "node": -1
    },
    "1": {
      "histogram": {      },
      "cycles": 0,
      "min": 1000000,
      "max": 0,
      "avg": -nan,
      "cpu": 1,
      "node": -1
    }
  }
}
"#;

#[test]
fn a_thread_that_never_woke_has_no_mean() {
    for avg in ["-nan", "nan", "null"] {
        let text = NEVER_WOKE.replace("-nan", avg);
        let run = detect_and_parse(Path::new("results.json"), text.as_bytes()).unwrap();
        assert_eq!(counts(&run), [(2, 11_000, 49_000, 0), (0, 0, 0, 0)]);
        let imported = run.imported.as_ref().unwrap();
        assert_eq!(imported.threads[1].mean_ns, None);
        // A run in which a thread measured nothing says nothing of its CPU.
        let kinds: Vec<_> = run
            .events
            .iter()
            .map(|it| (it.kind(), it.invalidates))
            .collect();
        assert_eq!(kinds, [("no-samples", true)]);
    }
    // Elsewhere it is no number.
    for (from, to) in [("30.00", "30.00nan"), ("\"max\": 49", "\"max\": -nan")] {
        let text = NEVER_WOKE.replace(from, to);
        let error = detect_and_parse(Path::new("results.json"), text.as_bytes());
        assert!(error.is_err(), "{to}");
    }
}

#[test]
fn summaries_alone_are_read_as_such() {
    for (name, resolution) in [
        ("cyclictest-no-histogram.json", 1000),
        ("cyclictest-summary.txt", 1000),
        ("cyclictest-ns.json", 1),
    ] {
        let run = read(name);
        let imported = run.imported.as_ref().unwrap();
        assert_eq!(imported.resolution_ns, resolution, "{name}");
        for (thread, stated) in run.threads.iter().zip(&imported.threads) {
            assert_eq!(thread.latency.count, 0, "{name}: no latency is invented");
            assert_eq!(thread.lost, stated.count, "{name}");
            assert!(stated.max_ns > stated.min_ns && stated.min_ns > 0, "{name}");
        }
        assert!(run.analysis.is_none());
        assert!(
            run.events
                .iter()
                .all(|e| e.kind() == "no-histogram" && e.invalidates)
        );
    }
    let summary = read("cyclictest-summary.txt");
    assert_eq!(summary.request.priority, 80);
    assert_eq!(summary.imported.unwrap().threads[0].max_ns, 681_000);
}

#[test]
fn output_for_a_terminal_counts_its_last_lines() {
    let run = read("cyclictest-live.txt");
    let imported = run.imported.unwrap();
    assert_eq!(imported.threads.len(), 2);
    assert!(imported.threads[0].count > 900, "{:?}", imported.threads[0]);
}

#[test]
fn jitterdebugger_counts_what_it_dropped() {
    let run = read("jitterdebugger.json");
    let imported = run.imported.as_ref().unwrap();
    assert_eq!(imported.threads[0].count, 3992);
    assert_eq!(run.threads[0].latency.max_ns, 8_308_000);
    assert!(run.threads[0].lost > 0);
    assert_eq!(run.threads[0].latency.count + run.threads[0].lost, 3992);
    assert!(!run.knows(Field::Cpus));

    let ns = read("jitterdebugger-ns.json");
    assert_eq!(ns.imported.as_ref().unwrap().resolution_ns, 1);
    assert_eq!(
        counts(&ns),
        [(1, 40_712, 40_712, 0), (1, 30_747, 30_747, 0)]
    );
}

fn refused(text: &str) -> String {
    let error = detect_and_parse(Path::new("f"), text.as_bytes()).unwrap_err();
    assert!(!matches!(error, RecordError::Read { .. }));
    let line = error.to_string();
    assert!(line.starts_with("f: ") && !line.contains('\n'), "{line}");
    line
}

#[test]
fn what_is_wrong_is_named_with_its_place() {
    for (text, words) in [
        ("", "neither a punctual record nor output"),
        ("{}", "JSON that is neither"),
        ("{\"thread\": 3", "line 1, column 12"),
        (
            "# Histogram\n000001 0001\n000001 0001\n",
            "line 3: row 1 is out of order",
        ),
        (
            "# Histogram\n000001 0001\n000002 0001\t0002\n",
            "line 3: 3 columns in a row, expected 2",
        ),
        (
            "# Histogram\n000001 00x1\n",
            "line 2: '00x1' is not a count",
        ),
        ("# Histogram\n000001 0001\n", "not complete"),
        ("T: 0 (1) P:80 I:500\n", "line 1: a summary without C:"),
        ("T: 999999 (1) P:80\n", "line 1: more than 4096 threads"),
        ("{\"cpu\": {}}", "no thread"),
        (
            "{\"cpu\": {\"0\": {\"histogram\": {\"5\": 3}, \"count\": 2, \"min\": 5, \"max\": 5}}}",
            "cpu.0: its histogram holds 3 samples",
        ),
        (
            "{\"cpu\": {\"0\": {\"histogram\": {\"5\": 3}, \"count\": 3, \"min\": 4, \"max\": 5}}}",
            "its minimum is 4",
        ),
        (
            "{\"cpu\": {\"0\": {\"histogram\": {\"5\": 3}, \"count\": 3, \"min\": 5, \"max\": 9}}}",
            "its maximum is 9",
        ),
        (
            "{\"cpu\": {\"0\": {\"histogram\": {\"18446744073709551615\": 1}, \"count\": 1, \"min\": 18446744073709551615, \"max\": 18446744073709551615}}}",
            "too large",
        ),
        ("{\"cpu\": {\"0\": {\"histogram\": {\"x\": 3}}}}", "at cpu"),
        (
            "{\"version\": 9, \"cpu\": {}}",
            "written by a newer program (jitterdebugger results version 9",
        ),
        (
            "{\"file_version\": 2, \"num_threads\": 0, \"resolution_in_ns\": 0, \"thread\": {}}",
            "written by a newer program (rt-tests file version 2",
        ),
        (
            "{\"file_version\": 1, \"num_threads\": 1, \"resolution_in_ns\": 7, \"thread\": {\"0\": {\"cycles\": 0, \"min\": 0, \"max\": 0, \"avg\": 0}}}",
            "resolution_in_ns",
        ),
    ] {
        let line = refused(text);
        assert!(
            line.contains(words),
            "{text:?} gave {line:?}, not {words:?}"
        );
    }
}

#[test]
fn a_thread_that_never_woke_is_no_pass() {
    let run = detect_and_parse(
        Path::new("f"),
        b"{\"file_version\": 1, \"num_threads\": 1, \"resolution_in_ns\": 0, \"thread\": {\"0\": {\"histogram\": {}, \"cycles\": 0, \"min\": 1000000, \"max\": 0, \"avg\": 0.0}}}",
    )
    .unwrap();
    assert_eq!(run.threads[0].latency.count, 0);
    assert_eq!(run.events[0].kind(), "no-samples");
}

#[test]
fn an_absent_file_is_named() {
    let error = detect_and_read(Path::new("/nonexistent/x"))
        .unwrap_err()
        .to_string();
    assert!(error.contains("/nonexistent/x: No such file"), "{error}");
}
