//! `check` as a user runs it: states and exit codes, formats, machines that are compared, a user
//! without rights.

use std::fs;
use std::os::unix::process::CommandExt;

use punctual_record::finding::{Check, FindingId, StateKind};

use crate::common::{Place, Running, need, needs, program};

const HUGE: &str = "sys/kernel/mm/transparent_hugepage/enabled";

/// A recorded machine with some files.
fn machine(place: &Place, name: &str, files: &[(&str, &str)]) {
    let folder = place.path().join(name);
    for (path, text) in files {
        let path = folder.join(path);
        fs::create_dir_all(path.parent().expect("a folder")).expect("a directory");
        fs::write(path, text).expect("a file");
    }
}

const SMALL: &[(&str, &str)] = &[
    ("proc/sys/kernel/osrelease", "6.8.0\n"),
    ("proc/sys/kernel/hostname", "made-up\n"),
    ("sys/devices/system/cpu/online", "0-3\n"),
    (HUGE, "always [madvise] never\n"),
];

#[test]
fn the_live_machine_is_checked_in_every_format() {
    let place = Place::new();
    let json = place.run(&["check", "--json"]);
    let check: Check = serde_json::from_str(&json.stdout).expect("the types");
    assert_eq!(check.findings.len(), FindingId::ALL.len());
    let is_bad = check.count(StateKind::Bad) > 0;
    let is_unknown = check.count(StateKind::Unknown) > 0;
    let status = match (is_bad, is_unknown) {
        (true, _) => 2,
        (false, true) => 3,
        (false, false) => 0,
    };
    assert_eq!(json.code(), status);
    // Every other field is one of the types, of which the schema is made.
    let mut typed = serde_json::to_value(&check).expect("JSON");
    typed["format"] = "punctual-check".into();
    assert_eq!(json.json(), typed);

    place
        .run(&["check", "--junit", "a.xml", "--html", "a.html"])
        .expect(status);
    let xml = fs::read_to_string(place.path().join("a.xml")).expect("a.xml");
    assert_eq!(xml.matches("<testcase ").count(), FindingId::ALL.len());
    let page = fs::read_to_string(place.path().join("a.html")).expect("a.html");
    assert!(page.contains("transparent-hugepages"));
    let all = place.run(&["check", "-v"]).expect(status).stdout;
    for id in FindingId::ALL {
        assert!(all.contains(id.name()), "{id}: {all}");
    }
}

#[test]
fn a_recorded_machine_is_checked_explained_and_compared() {
    let place = Place::new();
    machine(&place, "good", SMALL);
    machine(&place, "other", SMALL);
    machine(&place, "other", &[(HUGE, "[always] madvise never\n")]);
    let why = place.run(&["check", "other", "--explain", "transparent-hugepages"]);
    assert!(why.stdout.contains("bad: "), "{why:?}");
    let fix = "echo madvise > /sys/kernel/mm/transparent_hugepage/enabled";
    assert!(why.stdout.contains(fix), "{why:?}");
    let differ = place.run(&["check", "good", "other"]).expect(0).stdout;
    let expected = "transparent-hugepages: /sys/kernel/mm/transparent_hugepage/enabled\n  \
                    first   always [madvise] never\n  second  [always] madvise never\n";
    assert_eq!(differ, expected);
    let same = place.run(&["check", "good", "good"]).expect(0).stdout;
    assert_eq!(same, "No setting that a finding reads differs.\n");
}

#[test]
fn the_exit_status_is_that_of_the_worst_finding() {
    let place = Place::new();
    machine(&place, "unknown", SMALL);
    place.run(&["check", "unknown"]).expect(3);
    machine(&place, "bad", SMALL);
    machine(&place, "bad", &[(HUGE, "[always] madvise never\n")]);
    place.run(&["check", "bad"]).expect(2);
}

#[test]
fn a_snapshot_is_checked_elsewhere_and_differs_from_itself_in_nothing() {
    let place = Place::new();
    place.run(&["check", "--snapshot", "here.json"]);
    let first = place.run(&["check", "here.json", "--json"]);
    let again = place.run(&["check", "here.json", "--json"]);
    assert_eq!(first.stdout, again.stdout);
    let same = place
        .run(&["check", "here.json", "here.json"])
        .expect(0)
        .stdout;
    assert_eq!(same, "No setting that a finding reads differs.\n");
    let text = fs::read_to_string(place.path().join("here.json")).expect("here.json");
    fs::write(place.path().join("cut.json"), &text[..text.len() / 2]).expect("cut.json");
    let refused = place.run(&["check", "cut.json"]).expect(1);
    assert_eq!(refused.stderr.lines().count(), 1, "{refused:?}");
    assert!(refused.stderr.contains("not a snapshot"), "{refused:?}");
}

#[test]
fn a_snapshot_keeps_what_was_counted() {
    let place = Place::new();
    let flags = ["--sample", "50ms", "--snapshot", "here.json"];
    place.run(&[&["check"], &flags[..]].concat());
    let text = fs::read_to_string(place.path().join("here.json")).expect("here.json");
    assert!(text.contains("ms 50\\n"), "{text}");
    let without = place.run(&["check", "--json"]).stdout;
    assert!(!without.contains("in 50 ms"), "{without}");
}

#[test]
fn the_rights_of_another_process_are_read() {
    let place = Place::new();
    let own = std::process::id().to_string();
    let json = place.run(&["check", "--pid", &own, "--json"]);
    let check: Check = serde_json::from_str(&json.stdout).expect("the types");
    let limit = check.finding(FindingId::RtprioLimit).expect("each");
    let source = format!("/proc/{own}/limits").into();
    assert_eq!(limit.readings[0].source, source);
}

#[test]
fn a_user_without_rights_gets_findings_and_no_error() {
    need!(needs::root());
    let place = Place::new();
    // The build's directory may be closed to other users.
    let copy = place.path().join("punctual");
    // By another process: a file that is open for writing here can't be executed by others.
    let mut command = place.command("cp");
    command.arg(program()).arg(&copy);
    Running::start(command).end().expect(0);
    let mut command = place.command(copy);
    command.args(["check", "--json"]).uid(65_534).gid(65_534);
    let ended = Running::start(command).end();
    let check: Check = serde_json::from_str(&ended.stdout).expect("the types");
    let rights = check.finding(FindingId::Capabilities).expect("each");
    assert_eq!(rights.state.kind(), StateKind::Information);
    let latency = check.finding(FindingId::DmaLatencyAccess).expect("each");
    assert_ne!(latency.state.kind(), StateKind::Ok);
}

#[test]
fn in_another_pid_namespace_what_threads_show_is_unknown() {
    need!(needs::root());
    let place = Place::new();
    let mut command = place.command("unshare");
    command
        .args(["-f", "-p", "-m", "--mount-proc"])
        .arg(program());
    command.args(["check", "--json"]);
    let ended = Running::start(command).end();
    let check: Check = serde_json::from_str(&ended.stdout).expect("the types");
    for id in [
        FindingId::OtherTuners,
        FindingId::RcuNocbs,
        FindingId::PerfSampling,
    ] {
        let kind = check.finding(id).expect("each").state.kind();
        assert!(
            matches!(kind, StateKind::Unknown | StateKind::NotApplicable),
            "{id}"
        );
    }
    let tuners = check.finding(FindingId::OtherTuners).expect("each");
    assert_eq!(tuners.state.kind(), StateKind::Unknown);
}
