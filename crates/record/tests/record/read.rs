//! Reading is total: what is damaged is named with its place.

use super::{damaged, support as record_support};

use std::path::Path;

use punctual_record::{Document, RecordError, Run, read_each};
use serde_json::{Value, json};

fn refused(bytes: &[u8]) -> String {
    let error = Run::parse(Path::new("run.json"), bytes).unwrap_err();
    let line = error.to_string();
    assert!(
        line.starts_with("run.json: ") && !line.contains('\n'),
        "{line}"
    );
    line
}

fn json_of(run: &Run) -> Value {
    serde_json::to_value(run).unwrap()
}

/// A whole record with one value replaced.
fn with(pointer: &str, value: Value) -> Vec<u8> {
    let mut json = json_of(&record_support::run(1));
    *json
        .pointer_mut(pointer)
        .unwrap_or_else(|| panic!("{pointer}")) = value;
    serde_json::to_vec(&json).unwrap()
}

#[test]
fn each_broken_promise_is_named() {
    let last = |run: &Run| run.threads[0].peaks.len() - 1;
    let run = record_support::run(1);
    let late_peak = json!([0, 1, 50_000]);
    for (pointer, value, words) in [
        (
            "/request/confidence",
            json!(1.0),
            "request.confidence: 1 does not lie between 0 and 1",
        ),
        ("/request/confidence", json!(-0.5), "request.confidence"),
        (
            "/request/confidence",
            json!(null),
            "at request.confidence: invalid type: null",
        ),
        (
            "/request/priority",
            json!(100),
            "request.priority: above 99",
        ),
        (
            "/request/cpus/1",
            json!(70_000),
            "request.cpus[1]: 70000 is not a CPU number",
        ),
        (
            "/threads/1/cpu",
            json!(70_000),
            "threads[1].cpu: 70000 is not a CPU number",
        ),
        (
            "/threads/0/cpu",
            json!("zero"),
            "at threads[0].cpu: invalid type: string",
        ),
        (
            "/threads/0/latency/count",
            json!(3),
            "threads[0].latency: the histogram does not agree with its count",
        ),
        ("/threads/0/latency/max_ns", json!(3), "threads[0].latency"),
        (
            "/threads/0/latency/encoded",
            json!("!"),
            "threads[0].latency: the encoded histogram is not base64",
        ),
        (
            "/threads/0/latency/encoded",
            json!("AAAA"),
            "threads[0].latency",
        ),
        (
            "/threads/1/late",
            json!(10_001),
            "threads[1].late: 10001 of 10000 samples",
        ),
        ("/threads/1/early", json!(10_001), "threads[1].early"),
        (
            "/threads/0/peaks_above_ns",
            json!(50_000),
            "is not above peaks_above_ns",
        ),
        (
            &format!("/threads/0/peaks/{}", last(&run)),
            late_peak,
            "not in order of time",
        ),
        (
            "/threads/0/peaks/0/2",
            json!(u64::MAX),
            "threads[0].peaks[0]: 18446744073709551615 ns is above the maximum",
        ),
        (
            "/threads/0/first_half/count",
            json!(7),
            "threads[0].first_half",
        ),
        ("/timeline/row_ns", json!(0), "timeline.row_ns"),
        (
            "/timeline/seconds_with_miss",
            json!(11),
            "timeline.seconds_with_miss: 11 of 10 seconds",
        ),
        (
            "/timeline/rows/3/min_ns",
            json!(u64::MAX),
            "timeline.rows[3]",
        ),
        (
            "/timeline/rows/3/count",
            json!(0),
            "timeline.rows[3]: figures without samples",
        ),
        (
            "/timeline/rows/3/late",
            json!(9_999),
            "timeline.rows[3]: more samples late",
        ),
        ("/loads/0/rate", json!(-1.0), "loads[0].rate: not a rate"),
        (
            "/system/virtualisation/stolen_share",
            json!(1.5),
            "system.virtualisation.stolen_share",
        ),
        (
            "/system/processor/online",
            json!([0, 99_999_999]),
            "system.processor.online",
        ),
        ("/format", json!("other"), "not a punctual record"),
        ("/version", json!(0), "version: no version"),
        (
            "/version",
            json!(7),
            "written by a newer program (record version 7, this program reads up to 2)",
        ),
        ("/version", json!(u64::MAX), "written by a newer program"),
        (
            "/version",
            json!(1),
            "record version 1, this program reads version 2: measure again",
        ),
        ("/state", json!({"state": "imaginary"}), "at state"),
        (
            "/request/requirements/0/kind",
            json!("wish"),
            "at request.requirements[0]",
        ),
    ] {
        let line = refused(&with(pointer, value));
        assert!(
            line.contains(words),
            "{pointer} gave {line:?}, not {words:?}"
        );
    }
}

/// A part of a load that stands still counts by its share, and its longest time as a whole.
#[test]
fn the_longest_time_of_a_part_may_exceed_the_share_that_counts() {
    let check = |looked_ns: u64, idle_ns: u64, longest_idle_ns: u64| {
        let check = json!({
            "looked_ns": looked_ns, "idle_ns": idle_ns, "longest_idle_ns": longest_idle_ns,
        });
        let mut json = json_of(&record_support::run(1));
        json["loads"][0]["check"] = check;
        let bytes = serde_json::to_vec(&json).unwrap();
        Run::parse(Path::new("run.json"), &bytes).is_ok()
    };
    assert!(check(10, 2, 4));
    assert!(check(10, 10, 10));
    assert!(!check(10, 2, 11));
    assert!(!check(10, 11, 4));
}

#[test]
fn stops_must_add_up() {
    let stop = |length_ns: u64| json!({"at_ns": 1, "length_ns": length_ns, "cause": "signal"});
    let stops = |count: u64, total: u64, longest: u64, list: Value| {
        let mut json = json_of(&record_support::run(1));
        json["stops"] = json!({
            "count": count, "total_ns": total, "longest_ns": longest, "cycles": 3, "list": list
        });
        serde_json::to_vec(&json).unwrap()
    };
    let whole = stops(2, 9, 5, json!([stop(4), stop(5)]));
    assert!(Run::parse(Path::new("run.json"), &whole).is_ok());
    // Only the first are kept one by one.
    assert!(Run::parse(Path::new("run.json"), &stops(3, 12, 5, json!([stop(4)]))).is_ok());
    for (bytes, words) in [
        (
            stops(1, 9, 5, json!([stop(4), stop(5)])),
            "stops.list: 2 entries of 1 stops",
        ),
        (stops(2, 4, 5, json!([])), "stops.longest_ns"),
        (stops(2, 10, 5, json!([stop(4), stop(5)])), "stops.total_ns"),
        (
            stops(2, 9, 4, json!([stop(4), stop(5)])),
            "a stop longer than the longest",
        ),
        (
            stops(
                1,
                4,
                4,
                json!([{"at_ns": 1, "length_ns": 4, "cause": "wish"}]),
            ),
            "cause",
        ),
    ] {
        let line = refused(&bytes);
        assert!(line.contains(words), "{line:?}, not {words:?}");
    }
}

#[test]
fn what_is_not_json_has_line_and_column() {
    for (text, words) in [
        ("", "line 1, column 0: EOF"),
        ("hello", "line 1, column 1: expected value"),
        (
            "{\"format\": \"punctual-run\",\n \"version\": 2,\n",
            "line 3, column 0: EOF",
        ),
        (
            "{\"format\": \"punctual-run\", \"version\": 2}",
            "missing field `tool`",
        ),
        ("{} {}", "trailing characters"),
        ("[]", "line 1"),
        (
            "{\"format\": \"punctual-run\", \"format\": 3}",
            "duplicate field",
        ),
        ("{\"format\": \"a\u{1}b\"}", "control character"),
    ] {
        let line = refused(text.as_bytes());
        assert!(
            line.contains(words),
            "{text:?} gave {line:?}, not {words:?}"
        );
    }
    assert!(refused(b"{\"format\": \"\xff\"}").contains("invalid unicode"));
}

/// Files that are small and would take much memory, or all of the stack.
#[test]
fn hostile_files_cost_little() {
    let deep = "[".repeat(1 << 20);
    assert!(refused(deep.as_bytes()).contains("nested more than 24 levels deep"));
    let deep = format!("{{\"format\": {}", "{\"a\":".repeat(1 << 20));
    assert!(refused(deep.as_bytes()).contains("nested more than 24 levels deep"));

    // Too short for the first look: the parser itself ends well.
    for (opening, closing) in [("[", "]"), ("{\"a\":", "}")] {
        let levels = 100_000;
        let deep = format!("{}1{}", opening.repeat(levels), closing.repeat(levels));
        let _ = refused(format!("{{\"unknown\":{deep}}}").as_bytes());
        let _ = refused(format!("{{\"format\":{deep}}}").as_bytes());
        let _ = refused(format!("{{\"system\":{deep}}}").as_bytes());
    }

    let mut json = json_of(&record_support::run(1));
    let idle = serde_json::to_value(record_support::thread(0, &[], 2)).unwrap();
    json["threads"] = Value::Array(vec![idle; 4097]);
    let text = serde_json::to_vec(&json).unwrap();
    assert!(refused(&text).contains("threads: 4097 entries"));

    let mut text = String::from(
        "{\"format\":\"punctual-run\",\"version\":1,\"system\":{\"processor\":{\"siblings\":[",
    );
    text.push_str(&"{},".repeat(5 << 20));
    assert!(refused(text.as_bytes()).contains("a list of more than 1048576 entries"));
    let lists = format!("{{\"system\":[{}", "[0,0,0,0,0,0,0,0],".repeat(1 << 20));
    assert!(refused(lists.as_bytes()).contains("more than 4194304 values"));
    let long = format!("{{\"format\": \"{}\"}}", "x".repeat((16 << 20) + 1));
    assert!(refused(long.as_bytes()).contains("a string of more than 16777216 bytes"));

    let mut json = json_of(&record_support::run(1));
    json["events"] = Value::Array(vec![json["events"][0].clone(); 70_000]);
    assert!(refused(&serde_json::to_vec(&json).unwrap()).contains("events: 70000 entries"));
    let mut json = json_of(&record_support::run(1));
    json["timeline"]["rows"] = Value::Array(vec![json["timeline"]["rows"][0].clone(); 70_000]);
    assert!(refused(&serde_json::to_vec(&json).unwrap()).contains("timeline.rows: 70000"));
}

#[test]
fn endless_and_absent_files() {
    let error = Run::read(Path::new("/dev/zero")).unwrap_err();
    assert!(matches!(error, RecordError::TooLarge { .. }), "{error}");
    let sparse = tempfile::NamedTempFile::new().unwrap();
    sparse.as_file().set_len(1 << 40).unwrap();
    let error = Run::read(sparse.path()).unwrap_err();
    assert!(error.to_string().contains("larger than 256 MiB"), "{error}");
    let error = Run::read(Path::new("/nonexistent/run")).unwrap_err();
    assert!(
        error.to_string().contains("/nonexistent/run: No such file"),
        "{error}"
    );
}

#[test]
fn fields_of_the_future_are_passed_over() {
    let run = record_support::run(1);
    let mut json = json_of(&run);
    json["colour"] = json!({"deep": [1, 2, {"er": null}]});
    json["threads"][0]["mood"] = json!("good");
    let back = Run::parse(Path::new("run.json"), &serde_json::to_vec(&json).unwrap()).unwrap();
    assert_eq!(back, run);
}

#[test]
fn each_damaged_record_is_refused() {
    let place = tempfile::tempdir().unwrap();
    let path = place.path().join("run.json");
    std::fs::write(&path, damaged::SOUND).unwrap();
    Run::read(&path).unwrap();
    for damaged in damaged::records() {
        std::fs::write(&path, &damaged.bytes).unwrap();
        let error = Run::read(&path).unwrap_err().to_string();
        let expected = format!("{}: {}", path.display(), damaged.error);
        assert_eq!(error, expected, "{}", damaged.name);
    }
}

/// A record of version 2 as it was written once: it must be read for ever.
#[test]
fn version_2_is_read() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/run-2.json");
    if std::env::var_os("PUNCTUAL_BLESS").is_some() {
        let small = record_support::run_of(vec![record_support::thread(
            0,
            &record_support::latencies(5, 200, 90_000),
            16,
        )]);
        std::fs::write(&path, serde_json::to_vec_pretty(&small).unwrap()).unwrap();
    }
    let run = Run::read(&path).unwrap_or_else(|e| panic!("{e}"));
    assert_eq!(run.threads[0].latency.count, 200);
    assert!(run.analysis.is_some() && run.verdict.is_some());
}

#[test]
fn many_are_handed_over_in_their_order_and_none_after_an_error() {
    let place = tempfile::tempdir().unwrap();
    let paths: Vec<_> = (0..40)
        .map(|number| place.path().join(number.to_string()))
        .collect();
    for (number, path) in paths.iter().enumerate().filter(|(number, _)| *number != 7) {
        let run = record_support::run(number as u64);
        std::fs::write(path, serde_json::to_vec(&run).unwrap()).unwrap();
    }
    let mut seen = Vec::new();
    let end: Result<(), usize> = read_each(
        &paths,
        |run| run.threads,
        |path, threads| {
            let number: usize = path.file_name().unwrap().to_str().unwrap().parse().unwrap();
            seen.push(number);
            match threads {
                Ok(threads) => assert!(threads == record_support::run(number as u64).threads),
                Err(RecordError::Read { path: named, .. }) => {
                    assert_eq!((number, named.as_path()), (7, path));
                }
                Err(error) => panic!("{error}"),
            }
            if number == 30 { Err(number) } else { Ok(()) }
        },
    );
    assert_eq!(end, Err(30));
    assert_eq!(seen, (0..=30).collect::<Vec<_>>());
    assert_eq!(read_each(&[], |run| run, |_, _| Err(())), Ok(()));
}
