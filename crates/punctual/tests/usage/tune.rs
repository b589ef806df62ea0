//! `tune` as a user runs it: a plan, a change, a restore, and what is refused.

use std::fs;

use crate::common::{Place, is_root, skip};
use crate::turn::turn;

pub const KNOB: &str = "/proc/sys/vm/stat_interval";

#[test]
fn a_knob_is_changed_and_restored() {
    if !is_root() {
        skip!("only root may change a setting");
    }
    let _turn = turn();
    let place = Place::new();
    let before = fs::read_to_string(KNOB).expect("a setting");
    if before
        .trim()
        .parse::<u32>()
        .is_ok_and(|seconds| seconds >= 10)
    {
        skip!("{KNOB} is good already: {before}");
    }
    let tune = |words: &[&str]| place.run(&[&["tune"], words, &["--state", "state"]].concat());
    let planned = tune(&["plan", "vmstat-interval"]).expect(0).stdout;
    assert!(planned.contains(&format!("echo 10 > {KNOB}")), "{planned}");
    assert_eq!(fs::read_to_string(KNOB).expect("it"), before);
    assert!(
        !place.path().join("state").exists(),
        "a plan writes nothing"
    );
    let changed = tune(&["apply", "vmstat-interval"]).expect(0).stdout;
    assert!(changed.contains("Changed 1 settings"), "{changed}");
    assert_eq!(fs::read_to_string(KNOB).expect("it"), "10\n");
    let again = tune(&["apply", "vmstat-interval"]).expect(0).stdout;
    assert!(again.contains("Nothing was changed"), "{again}");
    let status = tune(&["status"]).expect(0).stdout;
    assert!(
        status.contains(&format!("10 (was {})", before.trim())),
        "{status}"
    );
    tune(&["restore", "--dry-run"]).expect(0);
    assert_eq!(fs::read_to_string(KNOB).expect("it"), "10\n");
    let nothing = tune(&["restore", "ksm"]).expect(0).stdout;
    assert_eq!(nothing, "Nothing to restore.\n");
    assert_eq!(fs::read_to_string(KNOB).expect("it"), "10\n");
    tune(&["restore", "vmstat-interval"]).expect(0);
    assert_eq!(fs::read_to_string(KNOB).expect("it"), before);
    let nothing = tune(&["restore"]).expect(0).stdout;
    assert_eq!(nothing, "Nothing to restore.\n");
}

#[test]
fn what_cannot_be_changed_is_refused_in_one_line() {
    let place = Place::new();
    for (words, wanted) in [
        (&["apply", "-a", "all"][..], "leave one for everything else"),
        (&["apply", "vmstat-intervall"], "vmstat-interval"),
        (
            &["apply", "rt-kernel", "-a", "999"],
            "CPU 999 is not online",
        ),
        (&["restore", "vmstat-intervall"], "vmstat-interval"),
    ] {
        let all = [&["tune"], words, &["--state", "state"]].concat();
        let refused = place.run(&all).expect(64);
        assert_eq!(refused.stderr.lines().count(), 1, "{refused:?}");
        assert!(refused.stderr.contains(wanted), "{refused:?}");
    }
    assert!(!place.path().join("state").exists());
    let here = place.run(&["tune", "status", "--state", "state"]).expect(0);
    assert_eq!(here.stdout, "Nothing is changed.\n");
}

#[test]
fn a_verb_that_measures_names_what_a_killed_punctual_left_changed() {
    if !is_root() {
        skip!("only root may mount a file system");
    }
    let place = Place::new();
    let knob = place.path().join("knob");
    fs::write(&knob, "10\n").expect("a file");
    let boot = fs::read_to_string("/proc/sys/kernel/random/boot_id").expect("a boot");
    // The largest number of a process is 2^22.
    let line = format!(
        "{{\"boot\":\"{}\",\"knob\":\"ksm\",\"setting\":{{\"file\":{{\"path\":\"{}\"}}}},\
         \"original\":\"1\",\"value\":\"10\",\"holder\":{{\"pid\":4194305,\"start\":7}}}}\n",
        boot.trim(),
        knob.display()
    );
    fs::write(place.path().join("journal.jsonl"), line).expect("a journal");
    let script = "mount -t tmpfs none /var/lib || exit 77
        mkdir /var/lib/punctual && cp journal.jsonl /var/lib/punctual/ || exit 77
        \"$PUNCTUAL\" check > /dev/null; \"$PUNCTUAL\" --version > /dev/null
        \"$PUNCTUAL\" tune restore && \"$PUNCTUAL\" check > /dev/null; true";
    let ended = std::process::Command::new("unshare")
        .args(["-m", "sh", "-c", script])
        .env("PUNCTUAL", crate::common::program())
        .current_dir(place.path())
        .output();
    let ended = match ended {
        Ok(ended) if ended.status.code() != Some(77) => ended,
        other => skip!("no file system can be mounted here: {other:?}"),
    };
    let stderr = String::from_utf8_lossy(&ended.stderr);
    assert_eq!(
        stderr,
        format!(
            "punctual: warning: a punctual that was killed left {} changed (it was 1); run \
             punctual tune restore\n",
            knob.display()
        ),
        "{ended:?}"
    );
    assert_eq!(fs::read_to_string(&knob).expect("it").trim(), "1");
}
