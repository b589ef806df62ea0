//! The guarantee: repeated runs are identical to the byte; and a difference is detected.

use std::fs;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use serde_json::Value;

use super::common::{Place, need, read_json};
use super::{flat, lab, ready};

/// Ends what keeps a CPU of the host busy.
struct Busy<'a>(&'a AtomicBool);

impl Drop for Busy<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

fn text(value: &Value) -> &str {
    value.as_str().expect("a text")
}

#[test]
fn both_kernels_repeat_exactly_and_differ_as_expected() {
    need!(ready());
    let place = Place::new();
    let words = ["--load", "exit", "-o", "a", "--", "measure", "-l", "300"];
    let shown = lab(&place, &words).expect(0).stdout;
    for words in [
        "rt, exit",
        "standard, exit",
        "ratio",
        "one instruction is 1 ns",
    ] {
        assert!(flat(&shown).contains(words), "{words}: {shown}");
    }
    let record = read_json(&place.path().join("a/lab.json"));
    let cells = record["cells"].as_array().expect("cells");
    assert_eq!(cells.len(), 2);
    let max = |kernel: &str, load: &str| {
        let of = |cell: &&Value| text(&cell["kernel"]) == kernel && text(&cell["load"]) == load;
        let cell = cells.iter().find(of).expect("the cell");
        assert_eq!(cell["figures"]["samples"], 300);
        cell["figures"]["max_ns"].as_u64().expect("a maximum")
    };
    // In virtual time this is certain: to free a large process the standard kernel disables
    // preemption for as long as that takes, and PREEMPT_RT doesn't.
    assert!(max("standard", "exit") > 20 * max("rt", "exit"), "{shown}");
    assert!(max("rt", "exit") < 100_000, "{shown}");

    // A run of the laboratory is a normal run.
    for kernel in ["rt", "standard"] {
        let run = place.run_of_path(&format!("a/{kernel}/exit"));
        let laboratory = run.laboratory.expect("its origin");
        assert_eq!(laboratory.kernel, kernel);
        assert!(laboratory.fingerprint.result_sha256.len() == 64);
        assert_eq!(run.threads[0].latency.count, 300);
    }
    let report = place.run(&["report", "a/rt/exit"]).expect(0).stdout;
    assert!(flat(&report).contains("virtual time"), "{report}");
    place
        .run(&["compare", "a/rt/exit", "a/standard/exit"])
        .expect(0);
    place
        .run(&["export", "--format", "junit", "a/rt/exit"])
        .expect(0);

    // The same run on a busy host.
    let over = AtomicBool::new(false);
    let shown = thread::scope(|scope| {
        let _busy = Busy(&over);
        scope.spawn(|| {
            while !over.load(Ordering::Relaxed) {
                std::hint::spin_loop();
            }
        });
        lab(&place, &["verify", "a"]).expect(0).stdout
    });
    assert_eq!(shown.matches(": identical").count(), 2, "{shown}");

    // A record that differs is detected, with the place.
    let file = place.path().join("a/rt/exit/run.json");
    let mut run = read_json(&file);
    run["threads"][0]["warm_up"] = 7.into();
    fs::write(&file, run.to_string()).expect("written");
    let shown = lab(&place, &["verify", "a/rt/exit"]).expect(2).stdout;
    assert!(
        shown.contains("differs: threads[0].warm_up: 7 before"),
        "{shown}"
    );

    let shown = lab(&place, &["compare", "a", "a"]).expect(0).stdout;
    assert!(flat(&shown).contains("All cells are identical"), "{shown}");
}
