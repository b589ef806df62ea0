//! Files may hold anything: what is found stays bounded and on one line.

use proptest::prelude::*;
use punctual_machine::{Root, Snapshot, check};
use punctual_record::finding::{Check, StateKind};
use serde_json::Value;

use super::table::{Step, cases};
use super::tree::{Tree, request};

/// Every file that the table of findings names.
fn files() -> Vec<&'static str> {
    let mut files: Vec<&str> = cases()
        .iter()
        .flat_map(|case| case.before.iter().chain(&case.change))
        .filter_map(|step| match step {
            Step::File(path, _) if !path.ends_with('/') => Some(*path),
            _ => None,
        })
        .collect();
    files.extend([
        "/proc/sys/kernel/hostname",
        "/proc/2/task/2/stat",
        "/proc/2/task/2/status",
        "/sys/devices/system/cpu/online",
        "/proc/config.gz",
    ]);
    files.sort_unstable();
    files.dedup();
    files
}

fn is_one_line(text: &str) -> bool {
    !text.chars().any(char::is_control)
}

fn assert_lines(value: &Value) {
    match value {
        Value::String(text) => assert!(is_one_line(text), "{text:?}"),
        Value::Array(values) => values.iter().for_each(assert_lines),
        Value::Object(fields) => fields.values().for_each(assert_lines),
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}

/// Bounded, and without anything that controls a terminal.
fn assert_tame(found: &Check) {
    let json = serde_json::to_string(found).expect("JSON");
    assert!(json.len() < 4 << 20, "{} bytes", json.len());
    assert_lines(&serde_json::to_value(found).expect("JSON"));
    for finding in &found.findings {
        assert!(finding.readings.len() <= 64);
    }
}

/// Bytes as a file may hold them: numbers, masks, lists, and anything.
fn contents() -> impl Strategy<Value = Vec<u8>> {
    prop_oneof![
        prop::collection::vec(any::<u8>(), 0..200),
        "[0-9a-f,\\-\n \\[\\]()]{0,40}".prop_map(String::into_bytes),
        Just(vec![b'9'; 5000]),
        Just(b"0-99999999999,-,,1-0\n\x1b[31m\0".to_vec()),
        Just(b"-1".to_vec()),
        Just("é\u{202e}\n\n\t".into()),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn any_bytes_in_the_files_give_bounded_findings_of_one_line(
        texts in prop::collection::vec((any::<prop::sample::Index>(), contents()), 1..60),
    ) {
        let files = files();
        let tree = Tree::base();
        for (at, bytes) in &texts {
            tree.write(at.get::<&str>(&files), bytes);
        }
        let root = tree.root().recording();
        let found = check(&root, &request());
        assert_tame(&found);
        // The same from its snapshot, also when this was written and read.
        let snapshot = Snapshot::parse(root.snapshot().to_json().as_bytes()).expect("a snapshot");
        prop_assert_eq!(&snapshot, &root.snapshot());
        let again = check(&Root::of_snapshot(snapshot), &request());
        prop_assert_eq!(again, found);
    }
}

#[test]
fn the_same_bytes_in_every_file_give_bounded_findings() {
    for bytes in [
        &b""[..],
        b"\xff\xfe\x00",
        b"1",
        b"-9223372036854775808",
        b"18446744073709551615",
        b"0-1023",
        b"\x1b[2J\r\n\x07",
    ] {
        let tree = Tree::base();
        for file in files() {
            tree.write(file, bytes);
        }
        assert_tame(&tree.check());
    }
}

#[test]
fn every_machine_of_the_table_is_the_same_from_its_snapshot() {
    for case in cases() {
        let tree = Tree::base();
        for step in case.before.iter().chain(&case.change) {
            if let Step::File(path, text) = step {
                tree.write(path, text);
            }
        }
        let root = tree.root().recording();
        let found = check(&root, &request());
        let again = check(&Root::of_snapshot(root.snapshot()), &request());
        assert_eq!(again, found, "{}", case.id);
    }
}

/// The live machine changes between two looks: its snapshot is compared with itself.
#[test]
fn a_snapshot_of_the_live_machine_says_the_same_when_it_is_read_back() {
    let root = Root::live().recording();
    let live = check(&root, &request());
    assert!(live.count(StateKind::Ok) + live.count(StateKind::Bad) > 0);
    let json = root.snapshot().to_json();
    let snapshot = Snapshot::parse(json.as_bytes()).expect("a snapshot");
    assert_eq!(snapshot.to_json(), json);
    let kept = Root::of_snapshot(snapshot).recording();
    let first = check(&kept, &request());
    let names = |check: &Check| check.findings.iter().map(|it| it.id).collect::<Vec<_>>();
    assert_eq!(names(&first), names(&live));
    let again = check(&Root::of_snapshot(kept.snapshot()), &request());
    assert_eq!(again, first);
}

#[test]
fn a_damaged_snapshot_is_refused_in_a_line() {
    let tree = Tree::base();
    let root = tree.root().recording();
    let _ = check(&root, &request());
    let json = root.snapshot().to_json();
    for text in [
        "",
        "{}",
        "[]",
        "null",
        &json[..json.len() / 2],
        &json.replace("\"version\": 1", "\"version\": 2"),
        &json.replace("\"text\"", "\"hex\""),
        &json.replace("\"files\"", "\"fi\\nles\""),
        &format!("{}{}", "[".repeat(100_000), "]".repeat(100_000)),
    ] {
        let error = Snapshot::parse(text.as_bytes()).expect_err(&text[..text.len().min(60)]);
        let error = error.to_string();
        assert!(is_one_line(&error) && error.len() < 300, "{error:?}");
    }
}
