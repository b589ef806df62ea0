//! `punctual explain` on a run whose windows were recorded on a real kernel.

use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};

use crate::common::{Ended, Place};
use crate::data::{NAMES, run, window};
use flate2::write::GzEncoder;
use punctual_record::Ledger;
use punctual_record::{Explanation, RunDirectory};
use punctual_trace::attribute::bill;
use punctual_trace::attribute::event::Window;

/// A run directory with the recorded windows of these kinds.
fn record(place: &Place, name: &str, kinds: &[&str]) -> PathBuf {
    let mut ledger = Ledger::new(Some(100_000));
    let mut lines = String::new();
    for kind in kinds {
        for number in 0..3 {
            let window = window(&format!("{kind}-{number}"));
            let bill = bill(&window);
            ledger.add_stages(&bill.stages);
            ledger.add(&bill);
            lines += &serde_json::to_string(&window).unwrap();
            lines.push('\n');
        }
    }
    let mut run = run();
    run.start_ns = Some(name.len() as u64);
    run.explanation = Some(ledger.to_record());
    let path = place.path().join(name);
    let directory = RunDirectory::create(Some(&path), "qualify", std::time::SystemTime::now());
    let directory = directory.unwrap();
    directory.save(&run).unwrap();
    fs::write(path.join("windows.jsonl"), lines).unwrap();
    path
}

fn explain(place: &Place, arguments: &[&str]) -> Ended {
    let mut all = vec!["explain"];
    all.extend(arguments);
    place.run(&all)
}

fn text(path: &Path) -> &str {
    path.to_str().unwrap()
}

#[test]
fn a_run_shows_its_bills_and_advice() {
    let place = Place::new();
    let path = record(&place, "a", &NAMES);
    let all = explain(&place, &[text(&path)]);
    assert_eq!(all.code(), 0, "{}", all.stderr);
    for part in [
        "Who stole the time",
        "9 wake-ups later than 100 µs: 9 explained, 0 not, 0 without a bill",
        "IRQ exit → switch",
        "thread fifo99-hog, SCHED_FIFO 99",
        "preempt-off could not be preempted",
        "What to do",
        "move it:",
    ] {
        assert!(all.stdout.contains(part), "{part}: {}", all.stdout);
    }
    let one = explain(&place, &[text(&path), "9"]);
    assert!(one.stdout.starts_with("Bill 9: "), "{}", one.stdout);
    assert!(!one.stdout.contains("Stage"), "{}", one.stdout);
    let json = explain(&place, &[text(&path), "--json"]);
    let read: Explanation = serde_json::from_str(&json.stdout).unwrap();
    assert_eq!(read.bills.len(), 15);
}

#[test]
fn bills_generated_again_from_the_events_are_the_same() {
    let place = Place::new();
    let path = record(&place, "a", &NAMES);
    let recorded = explain(&place, &[text(&path), "--json"]);
    let again = explain(&place, &[text(&path), "--json", "--again"]);
    assert_eq!(again.code(), 0, "{}", again.stderr);
    assert_eq!(again.stdout, recorded.stdout);
    fs::remove_file(path.join("windows.jsonl")).unwrap();
    let without = explain(&place, &[text(&path), "--again"]);
    assert_eq!(without.code(), 1);
    assert!(
        without.stderr.contains("windows.jsonl"),
        "{}",
        without.stderr
    );
    fs::write(path.join("windows.jsonl"), "{\"cpu\": 1}\n").unwrap();
    let damaged = explain(&place, &[text(&path), "--again"]);
    assert_eq!(damaged.code(), 1);
    assert!(damaged.stderr.contains("line 1"), "{}", damaged.stderr);
    assert_eq!(damaged.stderr.lines().count(), 1);
}

#[test]
fn two_runs_are_compared_by_cause() {
    let place = Place::new();
    let before = record(&place, "before", &["quiet", "hog"]);
    let after = record(&place, "after", &["quiet", "preempt-off"]);
    let both = explain(&place, &[text(&before), text(&after)]);
    assert_eq!(both.code(), 0, "{}", both.stderr);
    for part in [
        "gone: thread fifo99-hog, SCHED_FIFO",
        "new: preempt-off could not be preempted",
        "GONE",
        "NEW",
    ] {
        assert!(both.stdout.contains(part), "{part}: {}", both.stdout);
    }
    let compared = place.run(&["compare", text(&before), text(&after)]);
    assert!(
        compared.stdout.contains("GONE thread fifo99-hog"),
        "{}",
        compared.stdout
    );
}

#[test]
fn traces_and_pictures_are_written() {
    let place = Place::new();
    let path = record(&place, "a", &["hog"]);
    let out = place.path().join("out");
    let done = explain(
        &place,
        &[text(&path), "--perfetto", text(&out), "--svg", text(&out)],
    );
    assert_eq!(done.code(), 0, "{}", done.stderr);
    for number in 1..=3 {
        let trace = fs::read(out.join(format!("outlier-{number}.pftrace"))).unwrap();
        assert!(trace.len() > 1_000);
        let svg = fs::read_to_string(out.join(format!("outlier-{number}.svg"))).unwrap();
        assert!(svg.contains("fifo99-hog") && svg.contains("xmlns"));
    }
    // Only from the pictures in the record.
    fs::remove_file(path.join("windows.jsonl")).unwrap();
    let alone = place.path().join("alone");
    explain(&place, &[text(&path), "2", "--perfetto", text(&alone)]);
    let files: Vec<_> = fs::read_dir(&alone).unwrap().collect();
    assert_eq!(files.len(), 1);
}

#[test]
fn a_missing_record_is_reported_in_one_line() {
    let place = Place::new();
    let path = record(&place, "a", &["hog"]);
    for (arguments, status, part) in [
        (vec![text(&path), "4"], 64, "bills 1 to 3"),
        (vec![text(&path), "0"], 64, "bills 1 to 3"),
        (vec!["/nowhere"], 1, "/nowhere"),
        (vec![text(&path), "/nowhere"], 1, "/nowhere"),
    ] {
        let ended = explain(&place, &arguments);
        assert_eq!(ended.code(), status, "{}", ended.stderr);
        assert!(ended.stderr.contains(part), "{}", ended.stderr);
        assert_eq!(ended.stderr.lines().count(), 1, "{}", ended.stderr);
    }
    let mut run = run();
    run.explanation = None;
    fs::write(path.join("run.json"), serde_json::to_string(&run).unwrap()).unwrap();
    let ended = explain(&place, &[text(&path)]);
    assert_eq!(ended.code(), 1);
    assert!(
        ended.stderr.contains("this run was not traced"),
        "{}",
        ended.stderr
    );
}

/// The windows of the file, each compressed by itself, as a run does it.
fn pack(path: &Path, windows: &[Window]) {
    let mut bytes = Vec::new();
    for window in windows {
        let mut encoder = GzEncoder::new(&mut bytes, flate2::Compression::fast());
        serde_json::to_writer(&mut encoder, window).unwrap();
        encoder.write_all(b"\n").unwrap();
        encoder.finish().unwrap();
    }
    fs::write(path.join("outliers.jsonl.gz"), bytes).unwrap();
}

/// A window at a later time, whose latency is shorter by as much.
fn later(window: &Window, by_ns: u64) -> Window {
    Window {
        due_ns: window.due_ns + by_ns,
        ..window.clone()
    }
}

#[test]
fn every_outlier_is_listed_and_any_can_be_opened() {
    let place = Place::new();
    let path = record(&place, "a", &["hog"]);
    let kept = window("hog-0");
    let mut others: Vec<Window> = (1..=40).map(|n| later(&kept, n * 1000)).collect();
    // One that has a bill in the record: it is not an other outlier.
    others.push(kept.clone());
    // A run that was killed: in no order.
    others.rotate_left(7);
    pack(&path, &others);
    let list = explain(&place, &[text(&path), "--list"]);
    assert_eq!(list.code(), 0, "{}", list.stderr);
    let lines: Vec<&str> = list.stdout.lines().collect();
    assert_eq!(lines.len(), 1 + 3 + 40, "{}", list.stdout);
    assert!(lines[0].contains("main cause"), "{}", lines[0]);
    assert!(lines[43].contains("fifo99-hog"), "{}", lines[43]);
    // The 4th is the worst of the others.
    let worst_ns = kept.woken_ns - kept.due_ns - 1000;
    let exact = format!("{}.{:03}", worst_ns / 1000, worst_ns % 1000);
    assert!(lines[4].replace(',', "").contains(&exact), "{}", lines[4]);
    for number in ["4", "43"] {
        let one = explain(&place, &[text(&path), number]);
        assert_eq!(one.code(), 0, "{}", one.stderr);
        assert!(
            one.stdout.starts_with(&format!("Bill {number}: ")),
            "{}",
            one.stdout
        );
        assert!(one.stdout.contains("fifo99-hog"), "{}", one.stdout);
    }
    let traces = place.path().join("traces");
    let done = explain(&place, &[text(&path), "43", "--perfetto", text(&traces)]);
    assert_eq!(done.code(), 0, "{}", done.stderr);
    assert!(traces.join("outlier-43.pftrace").exists());
    let beyond = explain(&place, &[text(&path), "44"]);
    assert_eq!(beyond.code(), 64);
    assert!(
        beyond.stderr.contains("holds bills 1 to 43"),
        "{}",
        beyond.stderr
    );
    // Generated again from all of the events.
    let again = explain(&place, &[text(&path), "--again", "--json"]);
    let again: Explanation = serde_json::from_str(&again.stdout).unwrap();
    assert!(again.examined >= 43, "{}", again.examined);
}

#[test]
fn a_truncated_or_damaged_file_of_outliers_causes_no_panic() {
    let place = Place::new();
    let path = record(&place, "a", &["hog"]);
    let kept = window("hog-0");
    pack(&path, &[later(&kept, 1000), later(&kept, 2000)]);
    let file = path.join("outliers.jsonl.gz");
    let whole = fs::read(&file).unwrap();
    // The run was killed while the last one was written.
    fs::write(&file, &whole[..whole.len() - 9]).unwrap();
    let list = explain(&place, &[text(&path), "--list"]);
    assert_eq!(list.code(), 0, "{}", list.stderr);
    assert!(
        (5..=6).contains(&list.stdout.lines().count()),
        "{}",
        list.stdout
    );
    fs::write(&file, b"this is no such file, and never was").unwrap();
    let list = explain(&place, &[text(&path), "--list"]);
    assert_eq!(
        (list.code(), list.stderr.lines().count()),
        (1, 1),
        "{}",
        list.stderr
    );
    assert!(list.stderr.contains("outliers.jsonl.gz"), "{}", list.stderr);
}
