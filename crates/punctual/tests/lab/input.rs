//! Input that is refused before anything boots: in one line, and nothing is left behind.

use std::fs;
use std::os::unix::fs::PermissionsExt;

use punctual_record::laboratory::Architecture;

use super::common::{Place, Running, need, program};

pub fn refused(
    place: &Place,
    environment: &[(&str, &str)],
    arguments: &[&str],
    code: i32,
    words: &str,
) {
    let before = place.entries();
    let mut command = place.command(program());
    command.arg("lab").args(arguments);
    for (name, value) in environment {
        command.env(name, value);
    }
    let ended = Running::start(command).end().expect(code);
    assert_eq!(ended.stderr.lines().count(), 1, "{ended:?}");
    assert!(ended.stderr.contains(words), "{words}: {ended:?}");
    assert_eq!(place.entries(), before);
}

#[test]
fn unknown_words_are_wrong_usage() {
    let place = Place::new();
    for (arguments, words) in [
        (&["--load", "nte"][..], "unknown load 'nte'"),
        (&["--load", "make -j8"], "no shell"),
        (&["--cpus", "0"], "from 1 to 64"),
        (&["--cpus", "x"], "from 1 to 64"),
        (&["--mem", "1"], "256M to 64G"),
        (&["--seeds", "-1"], "from 1 to 1000"),
        (&["--param", "a b"], "one word"),
        (
            &["--param", "init=/bin/sh"],
            "the laboratory sets init itself",
        ),
        (&["--virtual-limit", "0"], "a time above 0"),
        (&["--json", "-q"], "--quiet"),
        (&["--nonsense"], "unknown flag '--nonsense'"),
        (&["--", "measure", "-p", "100"], "1 to 99"),
        (&["--", "measure", "-o", "x"], "the guest has no disk"),
        (&["compare", "a"], "missing"),
    ] {
        refused(&place, &[], arguments, 64, words);
    }
    refused(
        &place,
        &[],
        &["--", "no-such-program"],
        127,
        "no such program",
    );
    refused(&place, &[], &["--", "/etc/passwd"], 126, "not executable");
    refused(&place, &[], &["verify", "nowhere"], 1, "nowhere");
}

#[test]
fn without_an_emulator_the_error_names_the_required_one() {
    let place = Place::new();
    refused(
        &place,
        &[("PATH", "/nowhere")],
        &[],
        1,
        "apt install qemu-system-x86",
    );
    let folder = tempfile::tempdir().expect("a folder");
    let fake = |said: &str| {
        let path = folder.path().join("qemu");
        fs::write(&path, format!("#!/bin/sh\necho '{said}'\n")).expect("written");
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).expect("its mode");
        path.to_str().expect("a path").to_owned()
    };
    let old = fake("QEMU emulator version 5.2.0");
    refused(
        &place,
        &[("PUNCTUAL_QEMU", &old)],
        &[],
        1,
        "QEMU 5.2.0 is too old: the laboratory needs 7.2 or later",
    );
    let other = fake("something else");
    refused(
        &place,
        &[("PUNCTUAL_QEMU", &other)],
        &[],
        1,
        "is it qemu-system-x86_64?",
    );
    let lost = [("PUNCTUAL_QEMU", "/nowhere/qemu")];
    refused(&place, &lost, &[], 1, "/nowhere/qemu");
}

#[test]
fn a_file_that_is_no_kernel_is_refused() {
    let place = Place::new();
    let qemu = [("PUNCTUAL_QEMU", "")];
    if punctual_lab::Qemu::find(Architecture::OWN).is_err() {
        super::common::skip!(super::common::needs::Absent::program("qemu-system-*"));
    }
    refused(
        &place,
        &qemu,
        &["--kernel", "/etc/passwd"],
        1,
        "/etc/passwd",
    );
    refused(&place, &qemu, &["--kernel", "/bin/sh"], 1, "/bin/sh");
    refused(&place, &qemu, &["--kernel", "./nowhere"], 1, "nowhere");
}

#[test]
fn a_file_that_cannot_be_copied_into_the_guest_is_named() {
    need!(super::ready());
    let place = Place::new();
    for (files, words) in [
        (&["--bring", "/nowhere/a"][..], "/nowhere/a"),
        (
            &["--bring", "/etc/hosts=/proc/x"],
            "reserved for the laboratory",
        ),
        (&["--bring", "/dev/null"], "neither a file nor a directory"),
        (
            &["--bring", "/etc/hosts", "--bring", "/etc/hosts"],
            "already used by another file",
        ),
    ] {
        let words_of = [files, &["--kernel", "rt", "--", "sh"]].concat();
        refused(&place, &[], &words_of, 1, words);
    }
}
