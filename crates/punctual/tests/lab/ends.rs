//! Abnormal ends: each is reported in one line, and no process outlives it.

use std::fs;
use std::path::Path;
use std::time::Duration;

use super::common::{Place, Running, need, program, until};
use super::{lab, machines, ready};

const SHELL: [&str; 5] = ["--kernel", "rt", "--", "sh", "-c"];

fn one_line(place: &Place, arguments: &[&str], words: &str) {
    let ended = lab(place, arguments).expect(1);
    assert_eq!(ended.stderr.lines().count(), 1, "{ended:?}");
    assert!(ended.stderr.contains(words), "{words}: {ended:?}");
    place.await_silence();
    let left = place.entries();
    assert!(left.is_empty(), "{left:?}");
}

#[test]
fn a_panic_a_hang_and_lost_time_are_distinguished() {
    need!(ready());
    let place = Place::new();
    let panics = [&SHELL[..], &["echo c >/proc/sysrq-trigger"]].concat();
    one_line(
        &place,
        &panics,
        "kernel panicked: Kernel panic - not syncing",
    );
    let sleeps = [&["--virtual-limit", "4s"], &SHELL[..], &["kill -STOP $$"]].concat();
    one_line(&place, &sleeps, "ran out of its 4 s of virtual time");
    let hangs = [&["--host-limit", "1s"], &SHELL[..], &["kill -STOP $$"]].concat();
    one_line(&place, &hangs, "stopped after 1 s of the host's time");
}

#[test]
fn a_guest_that_dies_before_it_has_a_console_is_explained() {
    need!(ready());
    let place = Place::new();
    // Too little memory for its own files: the kernel stops before it prints anything.
    let early = [
        "--kernel",
        "rt",
        "--load",
        "idle",
        "--param",
        "mem=40M",
        "--boot-limit",
        "6s",
        "--",
        "measure",
        "-l",
        "10",
    ];
    one_line(&place, &early, "kernel panicked: Kernel panic");
}

/// Folders for guests under a folder for temporary files.
fn folders(within: &Path) -> usize {
    fs::read_dir(within).expect("a folder").count()
}

#[test]
fn no_guest_outlives_the_tool() {
    need!(ready());
    for (signal, cleans) in [
        (libc::SIGINT, true),
        (libc::SIGTERM, true),
        (libc::SIGKILL, false),
    ] {
        let place = Place::new();
        let temporary = tempfile::tempdir().expect("a folder");
        let mut command = place.command(program());
        command
            .args([
                "lab", "--load", "idle", "-o", "a", "--", "measure", "-l", "100000",
            ])
            .env("TMPDIR", temporary.path());
        let running = Running::start(command);
        until("a machine", || machines(&place) > 0);
        running.signal(signal);
        if cleans {
            let ended = running.end_within(Duration::from_secs(60)).expect(1);
            assert!(ended.stderr.contains("interrupted"), "{ended:?}");
            assert_eq!(folders(temporary.path()), 0);
            assert!(place.entries().is_empty(), "{:?}", place.entries());
        }
        until("no machine", || machines(&place) == 0);
    }
}
