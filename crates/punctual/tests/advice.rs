//! What the report advises, run as it stands: each command does to the threads that it names what
//! is said.

#[path = "common/bills.rs"]
mod bills;
mod common;

use std::process::Command;
use std::sync::mpsc;

use common::{cpus, has, is_root, skip};
use punctual::record::Run;
use punctual::record::explanation::{Cause, Stage};
use punctual::report::explain::mend;
use punctual_rt::sched::{self, Policy};

/// A run of a probe of priority 30 on CPU 0 that met a cause there; CPU 1 was not probed.
fn run_that_met(cause: &Cause) -> Run {
    let text = include_str!("data/record/run-1.json");
    let mut run: Run = serde_json::from_str(text).expect("a record");
    run.watch = None;
    run.request.cpus = vec![0];
    run.request.priority = 30;
    run.system.processor.online = vec![0, 1];
    let mut explanation = bills::explanation();
    explanation.bills = vec![bills::bill_of(
        0,
        1,
        &[(Stage::Switch, cause.clone(), 5_000)],
    )];
    run.explanation = Some(explanation);
    run
}

/// The commands in an advice: what follows a colon or a semicolon and begins with a program. Those
/// with a place to fill in (an interrupt's number, a device) can't be run as they stand.
fn commands(advice: &str) -> Vec<String> {
    const PROGRAMS: &[&str] = &[
        "pgrep ",
        "echo ",
        "sysctl ",
        "taskset ",
        "chrt ",
        "cpupower ",
        "auditctl ",
    ];
    let pieces = advice.split(": ").flat_map(|it| it.split("; "));
    pieces
        .filter(|it| PROGRAMS.iter().any(|program| it.starts_with(program)))
        .filter(|it| !["/N/", "/DEV/"].iter().any(|place| it.contains(place)))
        .map(|it| it.split(" (").next().unwrap_or(it).to_owned())
        .collect()
}

fn advice(cause: &Cause) -> String {
    mend(cause, &run_that_met(cause)).expect("an advice")
}

#[test]
fn a_thread_in_the_way_is_put_below_and_elsewhere() {
    if !is_root() || !has("pgrep") || !has("xargs") || !has("chrt") || !has("taskset") {
        skip!("it takes root, pgrep, xargs, chrt and taskset");
    }
    if cpus() != [0, 1] {
        skip!("it takes CPUs 0 and 1");
    }
    // Threads, not programs, two of them, and a name that is no regular expression.
    let name = "hog.of [it]'s*";
    let (ready, is_ready) = mpsc::channel();
    let mut stops = Vec::new();
    for _ in 0..2 {
        let (stop, stopped) = mpsc::channel::<()>();
        let ready = ready.clone();
        let body = move || {
            sched::set_current(Policy::Fifo(99)).expect("as root");
            // SAFETY: the call takes nothing and returns a number.
            ready
                .send(unsafe { libc::gettid() })
                .expect("somebody waits");
            let _ = stopped.recv();
        };
        let thread = std::thread::Builder::new().name(name.to_owned());
        stops.push((stop, thread.spawn(body).expect("a thread")));
    }
    let tids: Vec<i32> = (0..2).map(|_| is_ready.recv().expect("a thread")).collect();
    let cause = Cause::Thread {
        task: name.to_owned(),
        policy: "SCHED_FIFO".to_owned(),
        priority: 99,
    };
    let advice = advice(&cause);
    let commands = commands(&advice);
    assert_eq!(commands.len(), 2, "{advice}");
    for command in &commands {
        let done = Command::new("sh")
            .args(["-c", command])
            .output()
            .expect("sh");
        let said = String::from_utf8_lossy(&done.stderr);
        assert!(done.status.success(), "{command}: {said}");
    }
    for tid in tids {
        let status = std::fs::read_to_string(format!("/proc/{tid}/status")).expect("it lives");
        assert!(status.contains("Cpus_allowed_list:\t1\n"), "{status}");
        let stat = std::fs::read_to_string(format!("/proc/{tid}/stat")).expect("it lives");
        let after = stat.rfind(") ").map_or("", |at| &stat[at + 2..]);
        // From the name on the 38th field is the real-time priority, of 41 in the manual.
        assert_eq!(
            after.split(' ').nth(37),
            Some("29"),
            "below the probe's 30: {stat}"
        );
    }
    for (stop, thread) in stops {
        drop(stop);
        thread.join().expect("it ends");
    }
}

#[test]
fn every_command_is_one_that_a_shell_reads() {
    let mut read = 0;
    for cause in bills::causes() {
        let run = run_that_met(&cause);
        let Some(advice) = mend(&cause, &run) else {
            continue;
        };
        for command in commands(&advice) {
            let done = Command::new("sh").args(["-n", "-c", &command]).output();
            assert!(done.expect("sh").status.success(), "{command}");
            read += 1;
        }
    }
    assert!(read >= 8, "{read} commands");
}

#[test]
fn advice_is_about_the_cpus_of_the_bills() {
    let cause = Cause::PreemptOff {
        task: "cc1".to_owned(),
        work: None,
    };
    let mut run = run_that_met(&cause);
    run.request.cpus = vec![0, 1];
    let text = mend(&cause, &run).expect("an advice");
    assert!(
        text.contains("off CPU 0: ") && text.contains("taskset -pc 1"),
        "{text}"
    );
    run.explanation.as_mut().expect("bills").bills[0].cpu = 1;
    let text = mend(&cause, &run).expect("an advice");
    assert!(
        text.contains("off CPU 1: ") && text.contains("taskset -pc 0"),
        "{text}"
    );
}

#[test]
fn nobody_is_put_below_a_probe_that_nothing_is_below() {
    let cause = Cause::Thread {
        task: "hog".to_owned(),
        policy: "SCHED_FIFO".to_owned(),
        priority: 50,
    };
    for (own, wanted) in [
        (0, None),
        (1, None),
        (2, Some(1)),
        (30, Some(29)),
        (99, Some(50)),
    ] {
        let mut run = run_that_met(&cause);
        run.request.priority = own;
        let text = mend(&cause, &run).expect("an advice");
        let found = text.contains("chrt -f -p").then(|| {
            let after = text.split("chrt -f -p ").nth(1).unwrap_or_default();
            after
                .split(';')
                .next()
                .and_then(|it| it.parse::<u32>().ok())
        });
        assert_eq!(found.flatten(), wanted, "{own}: {text}");
    }
}
