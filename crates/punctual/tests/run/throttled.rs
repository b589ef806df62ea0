//! Throttling is found from the kernel's accounts, traced or not; and a limit that kills is reported
//! before it does.

use crate::alone::alone;
use crate::common;
use std::fs;
use std::os::unix::process::CommandExt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{JoinHandle, sleep, spawn};
use std::time::{Duration, Instant};

use crate::common::groups::{Group, in_group, real_time_groups};
use crate::common::host::HostTime;
use crate::common::needs::{self, Absent};
use crate::common::{Ended, Place, Running, cpus, event_kinds, need, why_invalid};
use punctual_record::Run;
use punctual_rt::sched::{Policy, set_current};

/// A thread that never sleeps, on one CPU.
pub struct Hog {
    over: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Hog {
    pub fn at(priority: u32, cpu: usize) -> Self {
        Self::with(Policy::Fifo(priority), cpu)
    }

    /// The same without a real-time priority.
    pub fn ordinary(cpu: usize) -> Self {
        Self::with(Policy::Other, cpu)
    }

    fn with(policy: Policy, cpu: usize) -> Self {
        let over = Arc::new(AtomicBool::new(false));
        let ended = Arc::clone(&over);
        let work = move || {
            punctual_rt::affinity::set_current(&[cpu]).expect("a CPU");
            set_current(policy).expect("root may");
            while !ended.load(Ordering::Relaxed) {}
        };
        Self {
            over,
            thread: Some(spawn(work)),
        }
    }
}

impl Drop for Hog {
    fn drop(&mut self) {
        self.over.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

fn number(file: &str) -> Option<i64> {
    fs::read_to_string(file).ok()?.trim().parse().ok()
}

/// Whether the kernel limits real-time threads here, and there can be some.
pub fn armed() -> Result<(), Absent> {
    needs::rights()?;
    let runtime = number("/proc/sys/kernel/sched_rt_runtime_us");
    let period = number("/proc/sys/kernel/sched_rt_period_us");
    runtime
        .zip(period)
        .filter(|(runtime, period)| 0 < *runtime && runtime < period)
        .map(drop)
        .ok_or_else(|| Absent::kernel("throttling (sched_rt_runtime_us)"))
}

fn reasons(run: &Run) -> String {
    assert!(run.verdict.is_some(), "a verdict");
    why_invalid(run)
}

fn measured(flags: &[&str], tracing: &[&str]) -> (Ended, Run) {
    let place = Place::new();
    let all = [&["measure", "-q", "--load", "none"], flags, tracing].concat();
    let ended = place.run(&all);
    let run = place.run_of();
    (ended, run)
}

/// The same run, without tracing and with it.
fn both(flags: &[&str]) -> [(Ended, Run); 2] {
    [&["--no-explain"][..], &[]].map(|tracing| measured(flags, tracing))
}

/// Throttling in runs of 5 s is not found only where the host hid it. In each second the probe lacks
/// 50 ms, at least three times whenever the run begins; a wait for nothing of 10 ms is enough to find
/// it, so the host has to take the other 40 ms, each time.
#[track_caller]
pub fn hidden_by(host: &HostTime, said: &str) {
    let taken = host.taken();
    assert!(
        taken >= 3 * Duration::from_millis(40),
        "the host took {taken:?}, and no throttling was found: {said}"
    );
    println!("The host took {taken:?} of 5 s, which hides throttling.");
}

#[test]
fn a_throttled_probe_is_found_traced_or_not() {
    let _alone = alone();
    need!(armed());
    let cpu = cpus()[0];
    // Below the probe: never in its way, and yet it uses all the time that real-time threads may use.
    let _hog = Hog::at(50, cpu);
    let number = cpu.to_string();
    let flags = ["-a", &number, "-p", "80", "-D", "5", "--deadline", "10ms"];
    let wanted = format!("the kernel throttled the probe of CPU {cpu}: ");
    for tracing in [&["--no-explain"][..], &[]] {
        let host = HostTime::of(cpu);
        let (ended, run) = measured(&flags, tracing);
        let said = reasons(&run);
        if said.contains(&wanted) {
            assert_eq!(ended.code(), 4, "{said}");
        } else {
            hidden_by(&host, &said);
        }
    }
}

/// Interference is not throttling: the thread above uses less than all of the real-time runtime.
#[test]
fn a_probe_that_other_real_time_threads_delay_is_late_traced_or_not() {
    let _alone = alone();
    need!(armed());
    let cpu = cpus()[0];
    let over = Arc::new(AtomicBool::new(false));
    let ended = Arc::clone(&over);
    let thread = spawn(move || {
        punctual_rt::affinity::set_current(&[cpu]).expect("a CPU");
        set_current(Policy::Fifo(90)).expect("root may");
        while !ended.load(Ordering::Relaxed) {
            let begin = Instant::now();
            while begin.elapsed() < Duration::from_millis(30) {}
            sleep(Duration::from_millis(70));
        }
    });
    let cpu = cpu.to_string();
    let flags = ["-a", &cpu, "-p", "80", "-D", "3", "--deadline", "10ms"];
    let runs = both(&flags);
    over.store(true, Ordering::Relaxed);
    thread.join().expect("it ends");
    for (ended, run) in runs {
        let said = reasons(&run);
        assert!(!said.contains("throttled"), "{said}");
        assert_eq!(ended.code(), 2, "{said}");
        assert!(run.threads[0].late > 10);
    }
}

/// SCHED_OTHER is in force, whatever was requested: other ordinary threads have their share.
#[test]
fn a_best_effort_run_without_priority_is_not_throttled() {
    let _alone = alone();
    need!(needs::root());
    need!(needs::program("setpriv"));
    let cpu = cpus()[0].to_string();
    for tracing in [&["--no-explain"][..], &[]] {
        let place = Place::new();
        // An ordinary process that is always ready.
        let mut burn = place.command("taskset");
        burn.args(["-c", &cpu, "sh", "-c", "while :; do :; done"]);
        let burning = Running::start(burn);
        let mut command = place.command("setpriv");
        command.args(["--bounding-set", "-sys_nice", "--inh-caps", "-sys_nice"]);
        command
            .arg(common::program())
            .args(["measure", "-q", "-a", &cpu, "-p", "80"]);
        command
            .args(["-D", "3", "--deadline", "1ms", "--best-effort"])
            .args(tracing);
        let ended = Running::start(command).end();
        burning.signal(libc::SIGKILL);
        let run = place.run_of();
        let said = reasons(&run);
        assert!(!said.contains("throttled"), "{said}");
        assert_ne!(ended.code(), 4, "{said}");
        let refused = run.demands.iter().any(|it| {
            it.name() == "priority" && it.standing == punctual_record::Standing::NotInForce
        });
        assert!(refused, "{:?}", run.demands);
    }
}

#[test]
fn the_budget_of_a_control_group_throttles_traced_or_not() {
    let _alone = alone();
    // The sum of the groups' budgets must not exceed the global one.
    need!(real_time_groups());
    let group = Group::with("budget", &[("cpu.rt_runtime_us", "4000")]).expect("a group");
    let cpu = cpus()[0].to_string();
    for tracing in [&["--no-explain"][..], &[]] {
        let place = Place::new();
        let all = [
            &[
                "measure",
                "-q",
                "-a",
                &cpu,
                "-D",
                "4",
                "--deadline",
                "10ms",
                "-o",
                "run",
            ],
            tracing,
        ]
        .concat();
        let ended = in_group(&place, &group, &all).end();
        let run = place.run_of();
        let said = reasons(&run);
        assert!(said.contains("of this control group ran"), "{said}");
        assert_eq!(ended.code(), 4, "{said}");
    }
}

#[test]
fn a_quota_that_throttles_ordinary_threads_is_an_event() {
    let _alone = alone();
    let files = [
        ("cpu.cfs_quota_us", "20000"),
        ("cpu.rt_runtime_us", "100000"),
    ];
    need!(real_time_groups());
    let group = Group::with("quota", &files).expect("a group");
    let place = Place::new();
    let flags = [
        "measure",
        "-q",
        "-D",
        "4",
        "--load",
        "sh -c 'while :; do :; done'",
    ];
    let _ = in_group(
        &place,
        &group,
        &[&flags[..], &["-o", "run", "--no-explain"]].concat(),
    )
    .end();
    let record = place.record();
    let events = record["events"].as_array().expect("events");
    let quota = events.iter().find(|event| event["kind"] == "quota");
    let quota = quota.unwrap_or_else(|| panic!("{events:?}"));
    assert_eq!(quota["invalidates"], false);
    assert!(quota["throttled_ns"].as_u64() > Some(0), "{quota}");
}

/// A command under RLIMIT_RTTIME.
fn limited(place: &Place, us: u64, flags: &[&str]) -> Ended {
    let mut command = place.command(common::program());
    command.args(flags);
    let limit = move || punctual_rt::sys::task::set_rt_time_limit(Some(us), Some(us));
    // SAFETY: between fork and exec only one system call is made.
    unsafe { command.pre_exec(limit) };
    Running::start(command).end()
}

#[test]
fn a_probe_that_the_kernel_would_kill_is_not_started() {
    need!(needs::root());
    let place = Place::new();
    let flags = [
        "measure",
        "noise",
        "-q",
        "-D",
        "2",
        "--no-explain",
        "-o",
        "run",
    ];
    let ended = limited(&place, 100_000, &flags).expect(1);
    for words in [
        "RLIMIT_RTTIME is 100000 µs",
        "ulimit -R unlimited",
        "--runtime",
        "90000 µs",
    ] {
        assert!(ended.stderr.contains(words), "{}", ended.stderr);
    }
    assert_eq!(ended.stderr.trim().lines().count(), 1, "{}", ended.stderr);
    assert!(!place.path().join("run/run.json").exists());
    // At half of the limit it runs.
    let flags = [&flags[..], &["--runtime", "20000"]].concat();
    limited(&place, 100_000, &flags).expect(0);
}

#[test]
fn a_probe_that_never_sleeps_is_ended_before_the_kernel_kills_it() {
    let _alone = alone();
    need!(needs::root());
    let place = Place::new();
    let cpu = cpus()[0].to_string();
    // Each wake-up is already past when it is requested.
    let flags = [
        "measure",
        "-q",
        "-i",
        "1",
        "-a",
        &cpu,
        "-D",
        "8",
        "--no-explain",
        "-o",
        "run",
    ];
    let ended = limited(&place, 400_000, &flags);
    let record = place.record();
    // A run that finishes has slept within each 400 ms, or the kernel had killed it.
    if record["state"]["state"] != "finished" {
        assert_eq!(record["state"]["reason"], "time-limit", "{ended:?}");
        assert!(event_kinds(&record).contains(&"signal"));
    }
    let _ = ended.code();
}

/// SIGTERM keeps what was measured, whatever else is going on.
#[test]
fn a_run_of_many_threads_that_is_ended_keeps_its_figures() {
    let _alone = alone();
    need!(needs::program("timeout"));
    let place = Place::new();
    let mut command = place.command("timeout");
    command.arg("12").arg(common::program());
    command.args([
        "qualify", "-t", "99", "-D", "30", "-q", "-o", "run", "--load", "none",
    ]);
    // The figures of ninety-nine threads are written by a program that may be unoptimised.
    let ended = Running::start(command).end_within(4 * common::PATIENCE);
    assert_eq!(ended.code(), 124, "{ended:?}");
    assert_eq!(ended.stdout.lines().count(), 1, "{}", ended.stdout);
    let run = place.run_of();
    assert!(run.measured_ns > 0 && run.verdict.is_some());
    assert!(run.threads.iter().any(|thread| thread.latency.count > 0));
}
