//! However a run ends: what was measured is kept, what was started is gone, and
//! the exit status says how it ended.

use crate::common;
use std::fs;
use std::io::Read;
use std::path::Path;
use std::process::Stdio;
use std::thread::sleep;
use std::time::{Duration, Instant};

use crate::common::needs::{self, Absent};
use crate::common::{
    Ended, Place, Running, counts, cpus, event_kinds, in_force, need, read_json, skip, until,
};

/// Flags with which a valid run passes, whatever this machine does.
const PASSING: [&str; 6] = ["--deadline", "300ms", "--miss", "0.99", "-i", "10000"];

fn arguments<'a>(flags: &[&'a str]) -> Vec<&'a str> {
    [&["measure", "-q"], flags, &PASSING].concat()
}

/// The exit status must be that of the verdict in the record.
#[track_caller]
fn by_verdict(ended: &Ended, record: &serde_json::Value) {
    let code = match record["verdict"]["outcome"].as_str() {
        Some("PASS") | None => 0,
        Some("FAIL") => 2,
        Some("INCONCLUSIVE") => 3,
        Some("INVALID") => 4,
        Some(other) => panic!("{other}"),
    };
    assert_eq!(ended.code(), code, "{ended:#?}");
}

/// Waits until figures were saved: the record is saved at once, and every 5 s.
fn await_figures(run: &Path) {
    until("figures in the record", || {
        fs::read(run).is_ok_and(|text| {
            let record: serde_json::Value = serde_json::from_slice(&text).expect("whole");
            record["measured_ns"].as_u64().is_some_and(|ns| ns > 0)
        })
    });
}

#[test]
fn signals_end_a_run_cleanly() {
    for (signal, reason) in [
        (libc::SIGINT, "interrupt"),
        (libc::SIGTERM, "terminate"),
        (libc::SIGHUP, "hang-up"),
    ] {
        let place = Place::new();
        let mut running = place.start(&arguments(&["-D", "600", "--load", "fork", "-o", "run"]));
        let probes = running.await_probes(cpus().len().min(3));
        assert!(!probes.is_empty());
        await_figures(&place.path().join("run/run.json"));
        let begun = Instant::now();
        running.signal(signal);
        let ended = running.end();
        assert!(
            begun.elapsed() < Duration::from_secs(30),
            "{reason}: slow to end"
        );
        let record = read_json(&place.path().join("run/run.json"));
        assert_eq!(record["state"]["state"], "stopped");
        assert_eq!(record["state"]["reason"], reason);
        assert!(event_kinds(&record).contains(&"signal"));
        assert!(counts(&record).iter().all(|count| *count > 0), "{reason}");
        assert!(
            record["loads"][0]["work"]
                .as_u64()
                .is_some_and(|work| work > 0)
        );
        by_verdict(&ended, &record);
        assert_eq!(ended.stdout.lines().count(), 1, "{}", ended.stdout);
        place.await_silence();
        for name in [
            "report.html",
            "histogram.svg",
            "timeline.svg",
            "latency.dat",
        ] {
            assert!(place.path().join("run").join(name).is_file(), "{name}");
        }
    }
}

/// While the tracer is being set up the probe threads wait for their start.
#[test]
fn a_signal_before_the_start_ends_it_and_nothing_is_left() {
    let place = Place::new();
    for _ in 0..3 {
        let running = place.start(&arguments(&["-D", "600", "-o", "run"]));
        until("a probe", || {
            running
                .threads()
                .iter()
                .any(|(_, name)| name.starts_with("probe/"))
        });
        running.signal(libc::SIGINT);
        let ended = running.end();
        if place.path().join("run").exists() {
            // Without tracing the threads hardly wait.
            let record = read_json(&place.path().join("run/run.json"));
            assert_eq!(record["state"]["state"], "stopped");
            fs::remove_dir_all(place.path().join("run")).expect("the run goes");
        } else {
            assert_eq!(ended.code(), 1, "{ended:#?}");
            assert!(
                ended.stderr.contains("before anything was measured"),
                "{}",
                ended.stderr
            );
        }
        place.await_silence();
    }
}

#[test]
fn many_signals_at_once_end_a_run_once() {
    let place = Place::new();
    let mut running = place.start(&arguments(&["-D", "600", "-o", "run"]));
    running.await_probes(cpus().len().min(3));
    sleep(Duration::from_millis(200));
    for signal in [libc::SIGTERM, libc::SIGHUP, libc::SIGINT, libc::SIGTERM] {
        running.signal(signal);
    }
    let ended = running.end();
    let record = read_json(&place.path().join("run/run.json"));
    assert_eq!(record["state"]["state"], "stopped");
    by_verdict(&ended, &record);
}

#[test]
fn a_run_under_nohup_survives_the_end_of_its_terminal() {
    need!(needs::program("nohup"));
    let place = Place::new();
    let mut command = place.command("nohup");
    command
        .arg(common::program())
        .args(arguments(&["-D", "1500ms", "-o", "run"]));
    let mut running = Running::start(command);
    running.await_probes(cpus().len().min(3));
    running.signal(libc::SIGHUP);
    running.end();
    let record = read_json(&place.path().join("run/run.json"));
    assert_eq!(record["state"]["state"], "finished");
}

#[test]
fn kill_9_at_any_moment_leaves_a_record_that_is_read_and_no_load() {
    let place = Place::new();
    let scratch = place.path().join("scratch");
    fs::create_dir(&scratch).unwrap();
    let mut seen = 0;
    for moment in 0..10_u64 {
        let run = place.path().join(format!("run-{moment}"));
        let mut command = place.command(common::program());
        command.env("TMPDIR", &scratch);
        command.args([
            "measure",
            "-D",
            "600",
            "-q",
            "--samples",
            "--load",
            "files:bytes=1M,fork,timers",
        ]);
        command.arg("-o").arg(&run);
        let running = Running::start(command);
        // Any time from the first instruction to well into the measurement.
        sleep(Duration::from_millis(moment * moment * 12));
        running.signal(libc::SIGKILL);
        drop(running);
        place.await_silence();
        until("the loads' files gone", || {
            fs::read_dir(&scratch).unwrap().next().is_none()
        });
        seen += u32::from(readable(&place, &run));
    }
    assert!(seen >= 5, "only {seen} of 10 had begun");
}

/// Checks what a killed run left; returns whether there is a record.
fn readable(place: &Place, run: &Path) -> bool {
    let Ok(entries) = fs::read_dir(run) else {
        return false;
    };
    let names: Vec<String> = entries
        .map(|entry| entry.unwrap().file_name().to_string_lossy().into_owned())
        .collect();
    let strangers = names.iter().filter(|name| name.ends_with(".tmp")).count();
    // The space that is reserved for the next record, and the file that was being written.
    assert!(strangers <= 2, "{names:?}");
    if !names.iter().any(|name| name == "run.json") {
        return false;
    }
    let record = read_json(&run.join("run.json"));
    assert_eq!(record["state"]["state"], "unfinished");
    let shown = place.run(&["report", run.to_str().unwrap()]).expect(0);
    assert!(shown.stdout.contains("UNFINISHED"), "{}", shown.stdout);
    assert_eq!(shown.stderr, "");
    every_verb_reads(place, run);
    true
}

/// Whatever a run left: each verb shows it or says in one line why it can't.
fn every_verb_reads(place: &Place, run: &Path) {
    let run = run.to_str().unwrap();
    let formats = punctual_report::formats::Format::ALL.map(|format| format.to_string());
    let exports = formats
        .iter()
        .map(|format| vec!["export", run, "--format", format]);
    let others = [
        vec!["report", run, "--json"],
        vec!["report", run, "--html", "-"],
        vec!["compare", run, run],
        vec!["explain", run],
        vec!["explain", run, "--json"],
        vec!["explain", run, "--again"],
        vec!["explain", run, "1"],
        vec!["merge", run, "-q", "-o", "sum"],
    ];
    for verb in others.into_iter().chain(exports) {
        let ended = place.run(&verb);
        let lines = ended.stderr.lines().count();
        if ended.code() == 1 || ended.code() == 64 {
            assert_eq!(lines, 1, "{verb:?}: {ended:#?}");
        } else {
            assert!((0..=4).contains(&ended.code()), "{verb:?}: {ended:#?}");
            assert!(!ended.stdout.is_empty(), "{verb:?}");
        }
    }
    let _ = fs::remove_dir_all(place.path().join("sum"));
}

/// A file written byte by byte: the load takes many seconds to get ready.
const SLOW_LOAD: &str = "files:readers=1:bytes=64M:block=1";

#[test]
fn signals_during_the_setup_of_a_load_end_it_at_once() {
    for (signal, arguments) in [
        (libc::SIGINT, &["load", SLOW_LOAD][..]),
        (libc::SIGTERM, &["load", SLOW_LOAD]),
        (libc::SIGINT, &["measure", "-D", "9", "--load", SLOW_LOAD]),
        (
            libc::SIGTERM,
            &["measure", "-D", "9", "--samples", "--load", SLOW_LOAD],
        ),
    ] {
        let place = Place::new();
        let scratch = tempfile::tempdir().unwrap();
        let mut command = place.command(common::program());
        command.env("TMPDIR", scratch.path()).args(arguments);
        let running = Running::start(command);
        until("the load's files", || {
            fs::read_dir(scratch.path()).unwrap().next().is_some()
        });
        let begun = Instant::now();
        running.signal(signal);
        let ended = running.end().expect(1);
        // Writing the requested size takes much longer, on any file system.
        let took = begun.elapsed();
        assert!(took < Duration::from_secs(10), "{arguments:?}: {took:?}");
        assert_eq!(ended.stderr.lines().count(), 1, "{}", ended.stderr);
        assert_eq!(place.entries(), [""; 0], "{arguments:?}");
        assert_eq!(fs::read_dir(scratch.path()).unwrap().count(), 0);
        place.await_silence();
    }
}

#[test]
fn records_saved_before_kill_9_remain_readable() {
    let place = Place::new();
    let running = place.start(&[
        "measure",
        "-D",
        "600",
        "-q",
        "-o",
        "run",
        "--deadline",
        "1h",
    ]);
    let run = place.path().join("run/run.json");
    await_figures(&run);
    running.signal(libc::SIGKILL);
    drop(running);
    let before = fs::read(&run).unwrap();
    for verb in [
        &["report", "run"][..],
        &["report", "run", "--json"],
        &["report", "run", "--html", "-"],
        &["export", "run", "--format", "csv"],
        &["export", "run", "--format", "junit"],
        &["merge", "run", "-o", "sum"],
    ] {
        let ended = place.run(verb);
        assert!(verb[0] == "merge" || ended.code() == 0, "{ended:#?}");
        assert!(!ended.stdout.is_empty(), "{verb:?}");
    }
    assert_eq!(fs::read(&run).unwrap(), before, "looking changes nothing");
    let summary = place.run(&["report", "run", "--json"]).json();
    assert_eq!(summary["state"]["state"], "unfinished");
    assert!(counts(&summary).iter().all(|count| *count > 0));
}

#[test]
fn a_full_disk_loses_the_record_and_is_reported_with_the_verdict() {
    need!(needs::mounts());
    let place = Place::new();
    fs::create_dir(place.path().join("disk")).unwrap();
    let script = "mount -t tmpfs -o size=32k none disk || exit 99; \
                  \"$0\" \"$@\"; code=$?; ls disk/run >names; cp disk/run/run.json kept; exit $code";
    let mut command = place.command("unshare");
    command
        .args(["-m", "sh", "-c", script])
        .arg(common::program());
    command.args(["measure", "-D", "6", "-o", "disk/run", "--json", "-t", "8"]);
    command.args(PASSING);
    let ended = Running::start(command).end();
    assert_ne!(ended.code(), 99, "the mount failed: {ended:?}");
    let summary = ended.json();
    let failed: Vec<&serde_json::Value> = summary["events"]
        .as_array()
        .unwrap()
        .iter()
        .filter(|event| event["kind"] == "save-failed")
        .collect();
    assert!(!failed.is_empty(), "{}", summary["events"]);
    assert!(
        failed[0]["text"]
            .as_str()
            .unwrap()
            .contains("No space left"),
        "{failed:?}"
    );
    assert_eq!(ended.code(), 1, "{ended:#?}");
    assert!(ended.stderr.contains("not saved"), "{ended:#?}");
    assert!(summary["verdict"]["outcome"].is_string());
    assert_eq!(summary["state"]["state"], "finished");
    // What fitted is complete.
    let kept = read_json(&place.path().join("kept"));
    let told = ended.stderr.contains("run.json");
    assert!(told || kept["state"]["state"] == "finished", "{ended:#?}");
    let names = fs::read_to_string(place.path().join("names")).unwrap();
    assert!(!names.contains(".tmp"), "{names}");
}

#[test]
fn a_run_continues_when_its_reader_goes_away() {
    let place = Place::new();
    let mut command = place.command(common::program());
    command.args([
        "measure",
        "-D",
        "1",
        "--deadline",
        "300ms",
        "--miss",
        "0.99",
        "-i",
        "10000",
        "-o",
        "run",
    ]);
    let mut child = command.spawn().unwrap();
    drop(child.stdout.take());
    let status = child.wait().unwrap();
    let mut stderr = String::new();
    child
        .stderr
        .take()
        .unwrap()
        .read_to_string(&mut stderr)
        .unwrap();
    assert_eq!(stderr, "");
    let record = read_json(&place.path().join("run/run.json"));
    assert_eq!(record["state"]["state"], "finished");
    let passed = record["verdict"]["outcome"] == "PASS";
    assert_eq!(status.code(), Some(if passed { 0 } else { 4 }));
}

#[test]
fn a_full_standard_output_is_reported() {
    let place = Place::new();
    let full = || Stdio::from(fs::File::options().write(true).open("/dev/full").unwrap());
    let mut command = place.command(common::program());
    command
        .args(arguments(&["-D", "1", "-o", "run"]))
        .stdout(full());
    let ended = Running::start(command).end();
    // The verdict is only in the record: that is not a success.
    assert_eq!(ended.code(), 1, "{ended:#?}");
    assert!(
        ended.stderr.contains("standard output: No space left"),
        "{}",
        ended.stderr
    );
    let record = read_json(&place.path().join("run/run.json"));
    assert_eq!(record["state"]["state"], "finished");
    for verb in [
        &["export", "run", "--format", "csv"][..],
        &["report", "run"],
        &["compare", "run"],
        &["completions", "bash"],
        &["--help"],
    ] {
        let mut command = place.command(common::program());
        command.args(verb).stdout(full());
        let ended = Running::start(command).end().expect(1);
        assert!(
            ended.stderr.contains("standard output: No space left"),
            "{verb:?}"
        );
    }
}

#[test]
fn closed_descriptors_cause_no_failure() {
    let place = Place::new();
    let mut command = place.command("sh");
    command
        .args(["-c", "exec \"$0\" \"$@\" <&- >&- 2>&-"])
        .arg(common::program());
    command.args(arguments(&["-D", "1", "-o", "run"]));
    let ended = Running::start(command).end();
    let record = read_json(&place.path().join("run/run.json"));
    assert_eq!(record["state"]["state"], "finished");
    by_verdict(&ended, &record);
}

#[test]
fn a_probe_that_loses_its_priority_makes_the_run_invalid() {
    need!(needs::rights());
    let place = Place::new();
    let mut running = place.start(&arguments(&["-D", "3", "-o", "run"]));
    let probes = running.await_probes(cpus().len().min(3));
    sleep(Duration::from_millis(300));
    let priority = libc::sched_param { sched_priority: 0 };
    // SAFETY: the parameter is valid and outlives the call.
    let lowered =
        unsafe { libc::sched_setscheduler(probes[0].0, libc::SCHED_OTHER, &raw const priority) };
    assert_eq!(lowered, 0);
    let ended = running.end();
    let record = read_json(&place.path().join("run/run.json"));
    assert!(in_force(&record, "priority"), "{}", record["demands"]);
    assert!(
        event_kinds(&record).contains(&"priority"),
        "{}",
        record["events"]
    );
    assert_eq!(record["verdict"]["outcome"], "INVALID");
    let ended = ended.expect(4);
    assert!(
        ended.stdout.contains("went from fifo 80 to other"),
        "{}",
        ended.stdout
    );
}

#[test]
fn a_load_that_is_killed_makes_the_run_invalid() {
    let place = Place::new();
    let mut running = place.start(&arguments(&[
        "-D",
        "2",
        "--load",
        "cpu:bytes=1M",
        "-o",
        "run",
    ]));
    running.await_probes(cpus().len().min(3));
    sleep(Duration::from_millis(300));
    let own = running.pid();
    let mut victims: Vec<u32> = place.processes();
    victims.retain(|pid| *pid != own);
    assert!(!victims.is_empty());
    for pid in victims {
        // SAFETY: kill takes two integers and no pointer.
        unsafe { libc::kill(pid as i32, libc::SIGKILL) };
    }
    let ended = running.end().expect(4);
    let record = read_json(&place.path().join("run/run.json"));
    assert!(
        event_kinds(&record).contains(&"load-failed"),
        "{}",
        record["events"]
    );
    assert!(
        ended.stdout.contains("load cpu failed: "),
        "{}",
        ended.stdout
    );
    place.await_silence();
}

#[test]
fn a_clock_that_is_set_back_is_recorded_and_changes_no_figure() {
    need!(needs::consent(
        "PUNCTUAL_TEST_CLOCK",
        "it sets the wall clock of the whole machine back for a moment: \
         set PUNCTUAL_TEST_CLOCK=1 on a machine that you may do that to"
    ));
    let shift = |seconds: i64| {
        let mut now = libc::timespec {
            tv_sec: 0,
            tv_nsec: 0,
        };
        // SAFETY: the timespec is valid and outlives the call.
        unsafe { libc::clock_gettime(libc::CLOCK_REALTIME, &raw mut now) };
        now.tv_sec += seconds;
        // SAFETY: `now` is a valid timespec that outlives the call.
        unsafe { libc::clock_settime(libc::CLOCK_REALTIME, &raw const now) == 0 }
    };
    let place = Place::new();
    let mut running = place.start(&arguments(&["-D", "4", "-o", "run"]));
    running.await_probes(cpus().len().min(3));
    sleep(Duration::from_millis(300));
    if !shift(-1) {
        let error = std::io::Error::last_os_error();
        skip!(Absent::refused("CLOCK_REALTIME", error));
    }
    sleep(Duration::from_millis(1500));
    shift(1);
    let ended = running.end();
    let record = read_json(&place.path().join("run/run.json"));
    assert!(
        event_kinds(&record).contains(&"clock-set"),
        "{}",
        record["events"]
    );
    by_verdict(&ended, &record);
    let measured = record["measured_ns"].as_u64().unwrap();
    assert!(
        measured > 3_900_000_000 && measured <= 4_000_000_000,
        "{measured}"
    );
}
