//! Programs that run in a guest: programs of all kinds, several CPUs, seeds.

use std::fs;
use std::process::Command;

use punctual_stats::verdict::Outcome;

use super::common::{Place, need, needs, read_json};
use super::{HANGS, flat, lab, ready};

#[test]
fn a_program_is_copied_with_its_libraries_and_its_status_is_returned() {
    need!(ready());
    let place = Place::new();
    let script = "cat /proc/sys/kernel/osrelease; cat /sys/kernel/realtime; id -u; \
                  pwd; echo \"$PUNCTUAL_LAB_SEED\"; echo left >file; echo words >&2; exit 7";
    // Only the shell is copied: what it calls must be built in.
    let script = script
        .replace(
            "cat /proc/sys/kernel/osrelease",
            "read r </proc/sys/kernel/osrelease; echo $r",
        )
        .replace(
            "cat /sys/kernel/realtime",
            "read r </sys/kernel/realtime; echo $r",
        )
        .replace("id -u; ", "");
    let words = [
        "--kernel", "rt", "--load", "cpu", "-o", "a", "--", "sh", "-c", &script,
    ];
    let ended = lab(&place, &words).expect(7);
    let lines: Vec<&str> = ended.stdout.lines().collect();
    assert!(lines[0].ends_with("-rt-amd64"), "{ended:?}");
    assert_eq!(lines[1..], ["1", "/out", "1"], "{ended:?}");
    assert_eq!(ended.stderr, "words\n");
    let left = fs::read_to_string(place.path().join("a/rt/cpu/file"));
    assert_eq!(left.expect("what it left"), "left\n");
    let record = read_json(&place.path().join("a/lab.json"));
    assert_eq!(record["cells"][0]["status"], 7);
}

#[test]
fn a_module_is_loaded_with_its_dependencies() {
    need!(ready());
    let place = Place::new();
    let words = |module: &'static str| {
        let script = "test -b /dev/nullb0 && read names </proc/modules && echo $names";
        let flags = ["--kernel", "rt", "--module", module, "-o", "a"];
        [&flags[..], &["--", "sh", "-c", script]].concat()
    };
    let ended = lab(&place, &words("no-such-module")).expect(1);
    assert!(ended.stderr.contains("no such module"), "{ended:?}");
    assert_eq!(ended.stderr.lines().count(), 1, "{ended:?}");
    assert!(!place.path().join("a").exists());
    let ended = lab(&place, &words("null-blk")).expect(0);
    assert!(ended.stdout.starts_with("null_blk "), "{ended:?}");
    let record = read_json(&place.path().join("a/lab.json"));
    assert_eq!(record["cells"][0]["laboratory"]["modules"][0], "null-blk");
}

#[test]
fn with_several_cpus_no_latency_is_reported() {
    need!(ready());
    let place = Place::new();
    let words = [
        "--kernel", "rt", "--load", "idle", "--cpus", "2", "-o", "a", "--", "measure", "-l", "100",
    ];
    let shown = lab(&place, &words).expect(4).stdout;
    assert!(flat(&shown).contains("no latency"), "{shown}");
    assert!(!shown.contains("p99"), "{shown}");
    let run = place.run_of_path("a/rt/idle");
    assert_eq!(run.threads.len(), 2);
    assert_eq!(run.verdict.expect("a verdict").outcome, Outcome::Invalid);
    let report = place.run(&["report", "a/rt/idle"]).expect(0).stdout;
    assert!(flat(&report).contains("no latencies"), "{report}");
}

#[test]
fn missing_dependencies_of_a_program_are_named() {
    need!(needs::program("gcc"));
    need!(ready());
    let place = Place::new();
    let write = |name: &str, text: &str| fs::write(place.path().join(name), text).expect("written");
    write("lost.c", "int lost(void) { return 0; }\n");
    write(
        "main.c",
        "int lost(void); int main(void) { return lost(); }\n",
    );
    for words in [
        &["-shared", "-fPIC", "-o", "liblost.so", "lost.c"][..],
        &["-o", "main", "main.c", "-L.", "-llost"],
    ] {
        let mut gcc = Command::new("gcc");
        let done = gcc.current_dir(place.path()).args(words).status();
        assert!(done.expect("gcc").success());
    }
    let ended = lab(&place, &["--kernel", "rt", "-o", "a", "--", "./main"]).expect(1);
    assert!(ended.stderr.contains("its library liblost.so"), "{ended:?}");
    assert_eq!(ended.stderr.lines().count(), 1);
    assert!(!place.path().join("a").exists());
    // If it is named, it is copied too.
    let mut command = place.command(super::common::program());
    command
        .args(["lab", "--kernel", "rt", "-o", "a", "--", "./main"])
        .env("LD_LIBRARY_PATH", place.path());
    super::common::Running::start(command)
        .end_within(HANGS)
        .expect(0);
}
