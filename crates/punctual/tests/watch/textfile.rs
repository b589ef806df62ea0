//! `--textfile`: metrics for node_exporter while the watch goes on, whole or not at all.

use std::fs;
use std::path::Path;

use crate::common::mounts::in_own_mounts;
use crate::common::{Place, need, until};
use crate::known::watch;
use punctual_record::{Happening, State};

/// The entries of a directory, hidden ones too.
fn entries(directory: &Path) -> Vec<String> {
    let entries = fs::read_dir(directory).expect("a directory").flatten();
    let mut names: Vec<String> = entries
        .map(|entry| entry.file_name().to_string_lossy().into_owned())
        .collect();
    names.sort();
    names
}

#[test]
fn a_file_that_the_collector_ignores_is_refused_with_one_line() {
    let place = Place::new();
    fs::create_dir(place.path().join("folder.prom")).expect("a directory");
    for (file, why) in [
        ("metrics.txt", "expected a name that ends in .prom"),
        ("metrics.prom.txt", "expected a name that ends in .prom"),
        (".prom", "expected a name that ends in .prom"),
        ("missing/metrics.prom", "No such file or directory"),
        ("folder.prom", "it is a directory"),
    ] {
        let ended = place.run(&["watch", "--system", "--textfile", file]);
        let ended = ended.expect(64);
        assert_eq!(ended.stderr.lines().count(), 1, "{}", ended.stderr);
        let named = ended.stderr.contains("--textfile") && ended.stderr.contains(file);
        assert!(named && ended.stderr.contains(why), "{}", ended.stderr);
    }
    assert_eq!(place.entries(), ["folder.prom"]);
}

#[test]
fn a_directory_that_vanishes_is_reported_once_and_written_again_when_it_is_back() {
    needed!();
    let place = Place::new();
    let folder = place.path().join("metrics");
    let file = folder.join("punctual.prom");
    fs::create_dir(&folder).expect("a directory");
    let running = watch(
        &place,
        &["--system", "-q", "--textfile", "metrics/punctual.prom"],
    );
    let failures = || {
        let run = place.run_of();
        let is_failure = |happening: &Happening| matches!(happening, Happening::SaveFailed(_));
        run.events
            .iter()
            .filter(|event| is_failure(&event.what))
            .count()
    };
    // If it is written already, the next failure is that of the end.
    let vanished = fs::remove_dir(&folder).is_ok();
    if vanished {
        until("the failure", || failures() == 1);
        fs::create_dir(&folder).expect("a directory");
    }
    until("the metrics", || file.exists());
    assert_eq!(entries(&folder), ["punctual.prom"]);
    let text = fs::read_to_string(&file).expect("the metrics");
    assert!(text.ends_with('\n'), "{text}");
    for name in [
        "punctual_latency_seconds_count{",
        "punctual_start_time_seconds{",
    ] {
        assert!(text.contains(name), "{name}: {text}");
    }
    fs::remove_file(&file).expect("the file");
    fs::remove_dir(&folder).expect("the directory");
    running.signal(libc::SIGINT);
    let ended = running.end().expect(1);
    let said = ended.stderr.matches("it is tried again").count();
    assert_eq!(said, 1 + usize::from(vanished), "{}", ended.stderr);
    assert_eq!(failures(), said);
    // The record itself is whole.
    assert_eq!(place.run_of().state, State::Finished);
}

#[test]
fn on_a_full_disk_no_half_file_appears_and_the_next_write_tries_again() {
    needed!();
    let script = "
        await() { n=0; until eval \"$1\"; do n=$((n + 1)); [ $n -lt 600 ] || exit 3; sleep 0.1; done; }
        mkdir small
        mount -t tmpfs -o size=64k none small || exit 77
        head -c 100000 /dev/zero > small/ballast 2> head.err
        $PUNCTUAL watch --system -q -o record --textfile small/punctual.prom > out 2> err &
        await 'grep -q save-failed record/run.json 2> grep.err'
        ls -A small
        rm small/ballast
        await '[ -e small/punctual.prom ]'
        kill -TERM $!
        wait $!
        tail -n 1 small/punctual.prom | cut -c 1-9
        ls -A small
        cat err";
    let place = Place::new();
    let ended = need!(in_own_mounts(&place, script));
    let said = String::from_utf8_lossy(&ended.stdout);
    let lines: Vec<&str> = said.lines().collect();
    assert_eq!(
        lines[..3],
        ["ballast", "punctual_", "punctual.prom"],
        "{ended:?}"
    );
    assert!(said.contains("No space left on device"), "{said}");
    assert_eq!(said.matches("it is tried again").count(), 1, "{said}");
}
