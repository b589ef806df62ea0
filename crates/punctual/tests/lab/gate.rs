//! A gate for CI: what was measured before may not grow, and what grew has a function's name.

use std::fs;
use std::path::Path;

use serde_json::Value;

use super::common::needs::Absent;
use super::common::{Place, need, read_json, skip};
use super::{flat, lab, ready};

fn baseline(place: &Place, load: &str) {
    let words = [
        "--kernel", "rt", "--load", load, "-o", "a", "--", "measure", "-l", "300",
    ];
    lab(place, &words).expect(0);
}

/// Writes a baseline whose first cell was better by so much.
fn better(place: &Place, to: &str, by_ns: u64) {
    let mut record = read_json(&place.path().join("a/lab.json"));
    let figures = &mut record["cells"][0]["figures"];
    let max_ns = figures["max_ns"].as_u64().expect("a number");
    figures["max_ns"] = Value::from(max_ns - by_ns);
    let folder = place.path().join(to);
    fs::create_dir(&folder).expect("a folder");
    fs::write(folder.join("lab.json"), record.to_string()).expect("written");
}

#[test]
fn what_grew_by_more_than_is_allowed_fails_and_nothing_else_does() {
    need!(ready());
    let place = Place::new();
    baseline(&place, "idle");
    let shown = lab(&place, &["gate", "a", "-o", "b"]).expect(0).stdout;
    let pass = "PASS: no figure of 1 cell grew by more than is allowed.";
    assert!(shown.contains(pass), "{shown}");
    assert!(!shown.contains("Not the same machine"), "{shown}");
    // The new record is a baseline, too; and lab.json is sufficient.
    let sum = |lab: &str| {
        let record = read_json(&place.path().join(lab).join("lab.json"));
        record["cells"][0]["laboratory"]["fingerprint"].clone()
    };
    assert_eq!(sum("a"), sum("b"));

    better(&place, "c", 300);
    let words = ["gate", "c", "-o", "d", "--junit", "junit.xml"];
    let shown = flat(&lab(&place, &words).expect(2).stdout);
    for words in [
        "FAIL: 1 of 1 cell is worse than the baseline allows.",
        "+300 0 FAIL",
        "(+300, allowed +0)",
    ] {
        assert!(shown.contains(words), "{words}: {shown}");
    }
    let suite = fs::read_to_string(place.path().join("junit.xml")).expect("a suite");
    assert!(suite.contains("failures=\"1\"") && suite.contains("type=\"GROWTH\""));
    for (allow, status) in [("299ns", 2), ("idle=300ns", 0)] {
        let to = format!("of-{status}");
        let words = ["gate", "c", "--allow", allow, "-o", &to, "--no-explain"];
        lab(&place, &words).expect(status);
    }
    let words = ["gate", "c", "--figure", "median", "-o", "e", "--no-explain"];
    lab(&place, &words).expect(0);
}

#[test]
fn another_kernel_that_is_worse_fails_by_the_function_that_holds_off_preemption() {
    need!(ready());
    let place = Place::new();
    baseline(&place, "exit");
    let words = [
        "gate", "a", "--kernel", "standard", "-o", "b", "--junit", "j.xml",
    ];
    let shown = flat(&lab(&place, &words).expect(2).stdout);
    let named = "in the worst wake-up most of it in __free_one_page";
    assert!(shown.contains(named), "{shown}");
    let suite = fs::read_to_string(place.path().join("j.xml")).expect("a suite");
    assert!(suite.contains("__free_one_page"), "{suite}");
}

#[test]
fn a_gate_without_a_baseline_that_fits_is_refused_in_one_line() {
    let place = Place::new();
    let made = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/data/gate/lab.json");
    let record: Value = serde_json::from_slice(&fs::read(made).expect("a lab")).expect("JSON");
    let write = |name: &str, edit: &dyn Fn(&mut Value)| {
        let mut record = record.clone();
        edit(&mut record);
        fs::write(place.path().join(name), record.to_string()).expect("written");
        let folder = place.path().join(name.trim_end_matches(".json"));
        fs::create_dir(&folder).expect("a folder");
        fs::rename(place.path().join(name), folder.join("lab.json")).expect("moved");
    };
    write("whole.json", &|_| {});
    write("empty.json", &|it| it["cells"] = Value::Array(Vec::new()));
    write("two.json", &|it| {
        let mut other = it["cells"][0].clone();
        other["kernel"] = "standard".into();
        it["cells"].as_array_mut().expect("cells").push(other);
    });
    write("smp.json", &|it| {
        it["cells"][0]["laboratory"]["time"] = "host".into();
    });
    for (words, expected) in [
        (&["absent"][..], "No such file"),
        (&["empty"], "no cell has a result"),
        (&["smp"], "at the host's pace"),
        (&["two", "--kernel", "rt"], "has several kernels"),
        (
            &["whole", "--allow", "x=1us"],
            "no load or operation of this name, but idle",
        ),
        (&["whole", "--allow", "soon"], "expected TIME or LOAD=TIME"),
        (&["whole", "--allow", "=1us"], "expected TIME or LOAD=TIME"),
        (&["whole", "--figure", "mean"], "median, worst"),
    ] {
        let ended = place.run(&[&["lab", "gate"], words].concat());
        let line = ended.stderr.trim_end();
        assert!(line.contains(expected), "{words:?}: {line}");
        assert_eq!(line.lines().count(), 1, "{words:?}: {line}");
        assert!(matches!(ended.code(), 1 | 64), "{words:?}: {ended:?}");
    }
}

/// The way of our own probe's wake-up may not grow unnoticed. The baseline is made again by
/// `punctual lab --kernel rt --load idle -o DIR -- measure nanosleep -l 500`, with the program that the
/// tests use; its `lab.json` is kept.
#[test]
fn the_wake_up_of_our_own_probe_is_no_longer_than_before() {
    need!(ready());
    let place = Place::new();
    let kept = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/gate");
    let before = read_json(&kept.join("lab.json"));
    let kept = kept.display().to_string();
    let words = [
        "gate", &kept, "--figure", "median", "--allow", "50ns", "-o", "now",
    ];
    let ended = lab(&place, &words);
    let now = read_json(&place.path().join("now/lab.json"));
    for part in ["kernel_sha256", "emulator_sha256"] {
        let of = |lab: &Value| lab["cells"][0]["laboratory"]["fingerprint"][part].clone();
        if of(&before) != of(&now) {
            skip!(Absent::kernel(format!(
                "the {part} of the baseline: make it again"
            )));
        }
    }
    ended.expect(0);
}
