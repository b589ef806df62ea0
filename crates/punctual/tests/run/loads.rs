//! A load that stops working is noticed and reported, and the run is not valid; and loads that do
//! little still count as working.

use std::fs;
use std::time::{Duration, Instant};

use crate::common::needs::Absent;
use crate::common::{Ended, Place, Running, skip, until};
use punctual_report::facts;
use serde_json::Value;

/// Flags of a run that only its load can make invalid or fail.
const WORDS: &[&str] = &[
    "qualify",
    "-t",
    "1",
    "--max",
    "2s",
    "--no-explain",
    "--best-effort",
    "-o",
    "r",
];

fn words<'a>(duration: &'a str, load: &[&'a str]) -> Vec<&'a str> {
    [WORDS, &["-D", duration, "--load"], load].concat()
}

/// The check of the only load in a record.
fn check(record: &Value) -> (f64, f64) {
    let check = &record["loads"][0]["check"];
    let seconds = |name: &str| {
        check[name]
            .as_f64()
            .unwrap_or_else(|| panic!("{name}: {record}"))
            / 1e9
    };
    (seconds("idle_ns"), seconds("looked_ns"))
}

fn flat(ended: &Ended) -> String {
    let text = format!("{} {}", ended.stdout, ended.stderr);
    crate::common::flat(&text)
}

#[test]
fn a_command_that_stops_working_makes_the_run_invalid() {
    let place = Place::new();
    let load = "timeout 0.5 yes >/dev/null; sleep 100";
    let ended = place.run(&words("6", &[load])).expect(4);
    let (idle, looked) = check(&place.record());
    assert!(
        looked > 2.0 && idle > looked / 3.0,
        "{idle} of {looked}: {ended:?}"
    );
    let said = flat(&ended);
    assert!(
        said.contains("INVALID: the load command did no work in "),
        "{said}"
    );
    assert!(
        said.contains("less than 1 ms of CPU time per second"),
        "{said}"
    );
    assert!(said.contains("--load-work"), "{said}");
    let events = place.record()["events"].to_string();
    assert!(events.contains("load-idle"), "{events}");
}

#[test]
fn a_command_is_not_checked_on_request() {
    let place = Place::new();
    let load = "timeout 0.2 yes >/dev/null; sleep 100";
    let ended = place
        .run(&words("4", &[load, "--load-work", "0"]))
        .expect(0);
    assert!(ended.stdout.contains("PASS"), "{ended:?}");
    let place = Place::new();
    place
        .run(&words("3", &["sleep 100", "--load-work", "0"]))
        .expect(0);
    assert_eq!(place.record()["loads"][0]["check"]["least_cpu_ns"], 0);
}

#[test]
fn a_command_that_does_little_counts_as_working() {
    let place = Place::new();
    let load = "while :; do sleep 0.02; done";
    place.run(&words("6", &[load])).expect(0);
    let (idle, looked) = check(&place.record());
    assert!(looked > 2.0, "{looked}");
    assert_eq!(idle, 0.0);
}

#[test]
fn the_required_work_of_a_command_can_be_set() {
    let place = Place::new();
    let load = "while :; do sleep 0.02; done";
    let ended = place
        .run(&words("4", &[load, "--load-work", "900ms"]))
        .expect(4);
    assert!(
        flat(&ended).contains("less than 900 ms of CPU time per second"),
        "{ended:?}"
    );
    let place = Place::new();
    let refused = place
        .run(&words("4", &["cpu", "--load-work", "1ms"]))
        .expect(64);
    assert!(
        refused.stderr.contains("--load-work needs a command"),
        "{refused:?}"
    );
}

/// The descendants of a process, from the lists of children in `/proc`.
fn below(pid: u32) -> Vec<u32> {
    let tasks = fs::read_dir(format!("/proc/{pid}/task"))
        .into_iter()
        .flatten()
        .flatten();
    let children = tasks.flat_map(|task| {
        let text = fs::read_to_string(task.path().join("children")).unwrap_or_default();
        text.split_whitespace()
            .flat_map(str::parse)
            .collect::<Vec<u32>>()
    });
    children
        .flat_map(|child| [vec![child], below(child)].concat())
        .collect()
}

fn send(pids: &[u32], signal: i32) {
    for &pid in pids {
        // SAFETY: kill takes two integers; the processes belong to our own run.
        unsafe { libc::kill(pid as i32, signal) };
    }
}

/// Stops the descendants of a run for a part of it.
fn stopped(place: &Place, load: &str) -> Ended {
    stopped_some(place, load, |pids| pids)
}

/// Stops the chosen ones.
fn stopped_some(place: &Place, load: &str, choose: fn(Vec<u32>) -> Vec<u32>) -> Ended {
    let mut run: Running = place.start(&words("10", &[load]));
    run.await_probes(1);
    let begin = Instant::now();
    until("the load", || below(run.pid()).len() > 2);
    while begin.elapsed() < Duration::from_secs(2) {
        std::thread::sleep(Duration::from_millis(50));
    }
    let load = choose(below(run.pid()));
    send(&load, libc::SIGSTOP);
    let stop = Instant::now();
    while stop.elapsed() < Duration::from_secs(5) {
        std::thread::sleep(Duration::from_millis(50));
    }
    send(&load, libc::SIGCONT);
    run.end()
}

#[test]
fn a_load_whose_processes_are_stopped_for_a_while_is_noticed() {
    for load in ["cpu", "yes >/dev/null", "exit:bytes=64M"] {
        let place = Place::new();
        let ended = stopped(&place, load).expect(4);
        let (idle, looked) = check(&place.record());
        assert!(idle > 2.0 && idle < looked, "{load}: {idle} of {looked}");
        let said = flat(&ended);
        assert!(said.contains("did no work in "), "{said}");
        let events = place.record()["events"].clone();
        let event = events.as_array().into_iter().flatten();
        let event = event.into_iter().find(|event| event["kind"] == "load-idle");
        let event = event.unwrap_or_else(|| panic!("{events}"));
        assert_eq!(event["invalidates"], false);
        assert!(event["at_ns"].as_u64().expect("a time") > 0, "{event}");
    }
}

/// Workers have no child processes.
fn first_worker(pids: Vec<u32>) -> Vec<u32> {
    let leaf = |pid: &u32| below(*pid).is_empty();
    let worker = pids.into_iter().find(leaf);
    vec![worker.expect("a worker")]
}

#[test]
fn one_stopped_worker_of_several_is_noticed() {
    for (load, said) in [
        ("cpu:workers=2", "1 of 2 processes of the load cpu"),
        (
            "yes >/dev/null & yes >/dev/null & wait",
            "1 of 2 processes of the load",
        ),
    ] {
        let place = Place::new();
        let ended = stopped_some(&place, load, first_worker).expect(4);
        let (idle, looked) = check(&place.record());
        assert!(
            idle > 1.0 && idle < looked / 2.0,
            "{load}: {idle} of {looked}"
        );
        let text = flat(&ended);
        assert!(
            text.contains("or processes of it were stopped")
                || text.contains("or some were stopped"),
            "{text}"
        );
        let run = place.run_of();
        let events = run
            .events
            .iter()
            .map(|event| facts::event(event, "punctual"));
        let events: Vec<String> = events.collect();
        assert!(
            events.iter().any(|it| it.contains(said)),
            "{said}: {events:?}"
        );
    }
}

#[test]
fn work_that_is_rarely_counted_still_counts() {
    // One unit takes longer than a second on any busy machine.
    let available = punctual_load::memory::available() >> 20;
    if available < 2048 {
        skip!(Absent::hardware(format!(
            "2 GiB of memory: {available} MiB are available"
        )));
    }
    let place = Place::new();
    place
        .run(&words("6", &["munmap:workers=1:bytes=800M"]))
        .expect(0);
    let (idle, looked) = check(&place.record());
    assert!(looked > 2.0, "{looked}");
    assert_eq!(idle, 0.0);
}

#[test]
fn timers_that_expire_every_few_seconds_count_as_working() {
    let place = Place::new();
    let timers = "timers:workers=1:timers=1:sleepers=0:period_us=2500000";
    place.run(&words("8", &[timers])).expect(0);
    let (idle, looked) = check(&place.record());
    assert!(looked >= 5.0, "{looked}");
    assert_eq!(idle, 0.0);
}
