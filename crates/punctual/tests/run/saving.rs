//! A disk that is full, too small, read-only or gone: the verdict is printed, files that could not be
//! saved are named, the exit status is 1, and every file that exists is complete.

use crate::common;
use std::fs;
use std::path::{Path, PathBuf};

use crate::common::needs::{self, Absent};
use crate::common::{Ended, Place, Running, need, program, read_json};

/// A run that writes everything that a run can write, and passes if it is valid.
const RUN: &str = "qualify -q -a 0 --load none -i 500 --samples --explain-above 20 \
                   --deadline 500ms --miss 0.99 -o run";

/// The contents of a disk after a script has run on it.
struct Left {
    ended: Ended,
    files: PathBuf,
    _place: Place,
}

/// Runs a script in `disk`, which has a file system of its own; `$P` is the program.
///
/// # Errors
/// None can be mounted here.
fn on_disk(size: &str, script: &str) -> Result<Left, Absent> {
    needs::mounts()?;
    let place = Place::new();
    fs::create_dir(place.path().join("disk")).unwrap();
    let whole = format!(
        "mount -t tmpfs -o size={size} none disk || exit 99\n\
         (cd disk\n{script}\n); code=$?; cp -a disk kept; exit $code"
    );
    let mut command = place.command("unshare");
    command.args(["-m", "sh", "-c", &whole]);
    command.env("P", program()).env("RUN", RUN);
    let ended = Running::start(command).end();
    assert_ne!(ended.code(), 99, "the mount failed: {ended:?}");
    Ok(Left {
        ended,
        files: place.path().join("kept"),
        _place: place,
    })
}

/// Runs a script in its own place; `$P` is the program.
fn in_place(script: &str) -> Left {
    let place = Place::new();
    let mut command = place.command("sh");
    command.args(["-c", script]).env("P", program());
    Left {
        ended: Running::start(command).end(),
        files: place.path().to_owned(),
        _place: place,
    }
}

/// Every file below a directory.
fn files(directory: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in fs::read_dir(directory).into_iter().flatten() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            found.extend(files(&path));
        } else {
            found.push(path);
        }
    }
    found
}

/// Existing files are complete: no temporary file was left behind, every table can be read,
/// and so can the record.
#[track_caller]
fn whole(left: &Left) {
    for file in files(&left.files.join("run")) {
        let name = file.file_name().unwrap().to_string_lossy().into_owned();
        let bytes = fs::read(&file).unwrap();
        assert!(!name.contains(".tmp"), "{name}");
        assert!(!bytes.is_empty(), "{name}");
        if name.ends_with(".parquet") {
            assert!(
                bytes.starts_with(b"PAR1") && bytes.ends_with(b"PAR1"),
                "{name}"
            );
        }
        if name.ends_with(".html") {
            assert!(bytes.trim_ascii_end().ends_with(b"</html>"), "{name}");
        }
        if name.ends_with(".svg") {
            assert!(bytes.trim_ascii_end().ends_with(b"</svg>"), "{name}");
        }
    }
    if left.files.join("run/run.json").exists() {
        let mut command = std::process::Command::new(program());
        let read = command.arg("report").arg(left.files.join("run"));
        let read = read.output().unwrap();
        assert!(read.status.success(), "{read:?}");
    }
}

/// The verdict was printed, and the exit status says that something failed.
#[track_caller]
fn told(left: &Left, named: &[&str]) {
    let Ended { stdout, stderr, .. } = &left.ended;
    assert_eq!(left.ended.code(), 1, "{:#?}", left.ended);
    let verdict = ["PASS", "INVALID", "INCONCLUSIVE"];
    assert!(
        verdict.iter().any(|word| stdout.starts_with(word)),
        "{stdout}"
    );
    for what in named {
        assert!(stderr.contains(what), "{what}: {stderr}");
    }
    assert!(stderr.contains("not saved"), "{stderr}");
}

#[test]
fn a_disk_of_any_size_has_a_complete_record_or_an_error() {
    let mut refused = 0;
    for size in ["16k", "48k", "128k", "256k", "600k", "16m"] {
        let left = need!(on_disk(size, "$P $RUN -D 2"));
        whole(&left);
        let run = left.files.join("run");
        let state = |state: &str| {
            let record = run.join("run.json");
            record.exists() && read_json(&record)["state"]["state"] == state
        };
        if left.ended.code() == 1 {
            refused += 1;
            assert!(left.ended.stderr.contains("not saved"), "{:#?}", left.ended);
            // The record is mentioned too if it is missing or incomplete.
            let said = left.ended.stderr.contains("run.json");
            assert!(said || state("finished"), "{size}: {:#?}", left.ended);
        } else {
            assert_eq!(left.ended.stderr, "", "{size}");
            assert!(state("finished"), "{size}");
            let there = ["report.html", "histogram.svg", "latency.dat", "samples"];
            assert!(there.iter().all(|name| run.join(name).exists()), "{size}");
        }
        if size == "16m" {
            assert_ne!(left.ended.code(), 1, "{:#?}", left.ended);
        }
    }
    assert!(refused >= 2, "only {refused} disks were too small");
}

#[test]
fn a_full_disk_is_refused_before_the_measurement() {
    let left = need!(on_disk(
        "256k",
        "cat /dev/zero >ballast 2>/dev/null; $P $RUN -D 600"
    ));
    assert!(matches!(left.ended.code(), 1 | 64), "{:#?}", left.ended);
    assert!(
        left.ended.stderr.contains("No space left"),
        "{:#?}",
        left.ended
    );
    assert!(!left.files.join("run").exists(), "something is left behind");
}

#[test]
fn a_disk_that_fills_up_loses_the_samples_but_not_the_record() {
    // The samples are opened after the record has reserved its space.
    let script = "(while [ ! -d run/samples ]; do sleep 0.02; done; \
                  cat /dev/zero >ballast 2>/dev/null) & $P $RUN -D 3";
    let left = need!(on_disk("1m", script));
    told(&left, &["samples", "No space left"]);
    whole(&left);
    let record = read_json(&left.files.join("run/run.json"));
    assert_eq!(record["state"]["state"], "finished");
    assert!(record["verdict"]["outcome"].is_string(), "{record}");
    assert!(common::event_kinds(&record).contains(&"samples"));
}

#[test]
fn a_limit_on_the_file_size_is_an_error_and_no_signal_ends_the_run() {
    for trap in ["", "trap '' XFSZ; "] {
        // In units of 512 bytes, according to POSIX.
        let script = format!("{trap}ulimit -f 40; exec \"$P\" {RUN} -D 1 --best-effort");
        let left = in_place(&script);
        told(&left, &["report.html", "File too large"]);
        whole(&left);
    }
}

#[test]
fn a_file_system_that_becomes_read_only_keeps_what_was_saved() {
    // Samples would keep a file open, so that the file system could not be made read-only.
    let script = "(while [ ! -f run/run.json ]; do sleep 0.02; done; \
                  until mount -o remount,ro . 2>/dev/null; do sleep 0.02; done) & \
                  $P qualify -q -a 0 --load none --deadline 500ms --miss 0.99 -o run -D 3";
    let left = need!(on_disk("4m", script));
    told(&left, &["run.json", "Read-only file system"]);
    let record = read_json(&left.files.join("run/run.json"));
    assert_eq!(record["state"]["state"], "unfinished");
}

#[test]
fn a_removed_directory_is_reported() {
    let script = format!(
        "(while [ ! -d run/samples ]; do sleep 0.02; done; \
         until rm -rf run && [ ! -e run ]; do :; done) & \"$P\" {RUN} -D 3 --best-effort"
    );
    let left = in_place(&script);
    told(&left, &["run.json", "the directory was removed"]);
    assert!(!left.files.join("run").exists());
}

#[test]
fn files_of_other_verbs_are_complete_or_reported() {
    let place = Place::new();
    for name in ["made", "other"] {
        place.run(&["measure", "-q", "-D", "1", "-o", name, "--best-effort"]);
    }
    let made = place.path().join("made");
    let other = place.path().join("other");
    let (made, other) = (made.display(), other.display());
    // A few KB are left: some files fit, and none is truncated.
    let script = format!(
        "head -c 244k /dev/zero >ballast; notes=$(mktemp -d); \
         try() {{ \"$@\" 2>>$notes/err; echo $? >>$notes/codes; }}; \
         try $P export --format csv -o rows.csv {made}; \
         try $P report --html page.html {made}; \
         try $P report --svg pictures {made}; \
         try $P report --gnuplot data {made}; \
         try $P merge -q -o sum {made} {other}; \
         rm ballast; cp $notes/* .; rm -r $notes"
    );
    let left = need!(on_disk("256k", &script));
    let read = |name: &str| fs::read_to_string(left.files.join(name)).unwrap();
    let codes: Vec<String> = read("codes").lines().map(str::to_owned).collect();
    assert_eq!(codes.len(), 5);
    let expected: [&[&str]; 5] = [
        &["rows.csv"],
        &["page.html"],
        &["pictures/histogram.svg", "pictures/timeline.svg"],
        &[
            "data/latency.dat",
            "data/timeline.dat",
            "data/latency.gnuplot",
        ],
        &["sum/run.json", "sum/latency.dat", "sum/report.html"],
    ];
    let lacks = expected.map(|names| !names.iter().all(|name| left.files.join(name).exists()));
    for (code, lacks) in codes.iter().zip(lacks) {
        assert_eq!(lacks, code != "0", "{codes:?} {lacks:?} {}", read("err"));
    }
    assert!(lacks[1] && lacks[4], "the pages had room");
    assert_eq!(codes[1], "1");
    assert!(read("err").contains("No space left"), "{}", read("err"));
    for file in files(&left.files) {
        let name = file.file_name().unwrap().to_string_lossy().into_owned();
        assert!(!name.contains(".tmp"), "{name}");
    }
}
