//! Runs with settings changed for them: what is in force meanwhile, what the record says, and that
//! every end restores it, or leaves what restores it.

use std::fs;
use std::sync::MutexGuard;

use crate::alone::alone;
use crate::common::needs::{self, Absent};
use crate::common::{Place, Running, cpus, event_kinds, need, until, why_invalid};
use punctual_record::finding::FindingId;
use punctual_record::tuning::Setting;

/// The two settings of the knob `compaction`, and the value that fixes both.
const FILES: [&str; 2] = [
    "/proc/sys/vm/compact_unevictable_allowed",
    "/proc/sys/vm/compaction_proactiveness",
];
const FIXED: [&str; 2] = ["0", "0"];

fn values() -> [String; 2] {
    FILES.map(|file| {
        let text = fs::read_to_string(file).expect("a setting");
        text.trim().to_owned()
    })
}

/// The settings with values that are to be changed; their own are put back at the end in any case.
struct Before {
    values: [String; 2],
    own: [String; 2],
    _alone: MutexGuard<'static, ()>,
}

impl Before {
    fn read() -> Result<Self, Absent> {
        // One test at a time changes them, and none while real-time threads are throttled.
        let alone = alone();
        needs::root()?;
        for file in FILES {
            needs::kernel_file(file)?;
        }
        let mut before = Self {
            values: values(),
            own: values(),
            _alone: alone,
        };
        // A machine may be tuned already.
        for (at, file) in FILES.iter().enumerate() {
            if before.own[at] == FIXED[at] {
                fs::write(file, "1").expect("root may");
            }
        }
        before.values = values();
        Ok(before)
    }
}

impl Drop for Before {
    fn drop(&mut self) {
        for (file, value) in FILES.iter().zip(&self.own) {
            let _ = fs::write(file, value);
        }
    }
}

const RUN: [&str; 9] = [
    "measure",
    "-q",
    "--load",
    "none",
    "--no-explain",
    "--state",
    "state",
    "-o",
    "run",
];

/// Starts a run of this length, and waits until its settings are in force.
fn start(place: &Place, seconds: &str) -> Running {
    let cpu = cpus()[0].to_string();
    let flags = [
        "--tuned=compaction",
        "-D",
        seconds,
        "--max",
        "2s",
        "-a",
        &cpu,
    ];
    let running = place.start(&[&RUN[..], &flags].concat());
    until("the settings are changed", || values() == FIXED);
    running
}

fn restore(place: &Place) {
    place
        .run(&["tune", "restore", "--state", "state"])
        .expect(0);
}

#[test]
fn a_run_has_its_settings_records_them_and_restores_them() {
    let before = need!(Before::read());
    let place = Place::new();
    let mut running = start(&place, "3");
    running.await_probes(1);
    assert_eq!(values(), FIXED);
    running.end().expect(0);
    assert_eq!(values(), before.values);
    let run = place.run_of_path("run");
    assert_eq!(run.tuned.len(), 2);
    for (at, tuned) in run.tuned.iter().enumerate() {
        let path = FILES[at].to_owned();
        assert_eq!(tuned.setting, Setting::File { path });
        assert_eq!(tuned.knob, FindingId::Compaction.into());
        assert_eq!(
            (&tuned.before, &*tuned.value),
            (&before.values[at], FIXED[at])
        );
    }
    let status = place.run(&["tune", "status", "--state", "state"]).expect(0);
    assert_eq!(status.stdout, "Nothing is changed.\n");
    // Everything bad, in a run that checks the machine after the change.
    let qualify = [
        "qualify",
        "--tuned",
        "-D",
        "1",
        "--load",
        "none",
        "--best-effort",
        "--state",
        "state",
        "-o",
        "all",
    ];
    place.run(&qualify);
    assert_eq!(values(), before.values);
    let run = place.run_of_path("all");
    let knobs: Vec<&str> = run.tuned.iter().map(|tuned| tuned.knob.name()).collect();
    assert!(knobs.contains(&FindingId::Compaction.name()), "{knobs:?}");
    let bad = &run.findings.as_ref().expect("qualify checks").bad;
    assert!(
        !bad.iter()
            .any(|finding| finding.id == FindingId::Compaction),
        "it was read before the change"
    );
}

#[test]
fn an_interrupted_run_restores_its_settings() {
    let before = need!(Before::read());
    let place = Place::new();
    let mut running = start(&place, "60");
    running.await_probes(1);
    running.signal(libc::SIGTERM);
    running.end();
    assert_eq!(values(), before.values);
    // Also before anything is measured.
    let place = Place::new();
    let running = start(&place, "60");
    running.signal(libc::SIGINT);
    running.end();
    assert_eq!(values(), before.values);
}

#[test]
fn what_a_killed_run_left_changed_is_restored_and_no_run_is_tuned_before() {
    let before = need!(Before::read());
    let place = Place::new();
    let mut running = start(&place, "60");
    running.await_probes(1);
    running.signal(libc::SIGKILL);
    running.end();
    assert_eq!(values(), FIXED);
    let again = ["measure", "--tuned", "-D", "1", "--state", "state"];
    let refused = place.run(&again).expect(1);
    assert_eq!(refused.stderr.lines().count(), 1, "{refused:?}");
    assert!(
        refused.stderr.contains("punctual tune restore"),
        "{refused:?}"
    );
    assert_eq!(values(), FIXED);
    restore(&place);
    assert_eq!(values(), before.values);
}

#[test]
fn a_setting_that_another_program_changes_makes_the_run_invalid_and_is_left_alone() {
    let before = need!(Before::read());
    let place = Place::new();
    let mut running = start(&place, "3");
    running.await_probes(1);
    let other = if before.values[1] == "7" { "8" } else { "7" };
    fs::write(FILES[1], other).expect("root may");
    let ended = running.end().expect(1);
    assert!(
        ended.stderr.contains("not every setting is restored"),
        "{ended:?}"
    );
    assert_eq!(values(), [before.values[0].clone(), other.to_owned()]);
    let run = place.run_of_path("run");
    assert!(why_invalid(&run).contains(FILES[1]), "{run:?}");
    let json = crate::common::read_json(&place.path().join("run/run.json"));
    assert!(event_kinds(&json).contains(&"setting-lost"));
    let force = ["tune", "restore", "--force", "--state", "state"];
    place.run(&force).expect(0);
    assert_eq!(values(), before.values);
}

#[test]
fn what_can_not_be_tuned_is_refused_before_anything_is_changed() {
    let place = Place::new();
    for (flag, wanted) in [
        (
            "--tuned=rt-kernel",
            "rt-kernel can't be changed on a running",
        ),
        ("--tuned=kms", "'ksm'"),
        ("--tuned=", "--tuned"),
        ("--tuned=ksm,", "--tuned"),
    ] {
        let refused = place.run(&[&RUN[..], &[flag, "-D", "1"]].concat());
        let refused = refused.expect(64);
        assert_eq!(refused.stderr.lines().count(), 1, "{flag}: {refused:?}");
        assert!(refused.stderr.contains(wanted), "{flag}: {refused:?}");
    }
    for flags in [&["--tuned", "--as-deployed"][..], &["--state", "state"]] {
        let refused = place.run(&[&["measure", "-D", "1"], flags].concat());
        assert_eq!(refused.expect(64).stderr.lines().count(), 1);
    }
    assert_eq!(place.entries(), [""; 0]);
}
