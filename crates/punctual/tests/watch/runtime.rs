//! `punctual watch --runtime`: the pauses of programs whose pauses are known, and the ticks that they
//! made late. The oracles are the programs' own counts, and `-Xlog:safepoint` of a real JVM.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use super::common::needs::{self, Absent};
use super::common::{Place, cpus, need, skip};
use super::known::{Known, stopping, unmarked, watch, watched};
use punctual_record::Run;
use punctual_record::explanation::Doing;
use punctual_record::watch::{Runtime, ThreadRole, TickRow, Ticks, WatchedMark, WatchedRuntime};
use punctual_rt::sched::{self, Policy};

const MS: u64 = 1_000_000;

/// These have real-time threads that take a CPU for long: one at a time.
pub fn alone() -> MutexGuard<'static, ()> {
    static HOGS: Mutex<()> = Mutex::new(());
    HOGS.lock().unwrap_or_else(PoisonError::into_inner)
}

fn mark<'r>(run: &'r Run, name: &str) -> &'r WatchedMark {
    let marks = &run.watch.as_ref().expect("a watch").marks;
    let found = marks.iter().find(|mark| mark.name == name);
    found.unwrap_or_else(|| panic!("no mark {name} among {marks:?}"))
}

fn runtime(run: &Run) -> &WatchedRuntime {
    let runtime = run.watch.as_ref().and_then(|it| it.runtime.as_ref());
    runtime.expect("a runtime")
}

/// The ticks of a thread.
fn ticks<'r>(run: &'r Run, name: &str) -> &'r Ticks {
    let mut all = runtime(run).ticks.iter();
    let found = all.find(|ticks| ticks.task.name == name);
    found.unwrap_or_else(|| panic!("no ticks of {name}: {:?}", runtime(run).ticks))
}

/// Lets a program run under a watch with these flags, and returns the record, the program's counts
/// and what was printed.
fn went(known: &mut Known, flags: &[&str]) -> (Run, BTreeMap<String, u64>, String) {
    let place = Place::new();
    let number = known.pid.to_string();
    let running = watch(&place, &[&[&*number], flags].concat());
    let did = known.go();
    running.signal(libc::SIGINT);
    let ended = running.end();
    (place.run_of(), did, ended.stdout)
}

/// How long the threads that a tick waited for in pauses were ready behind a thread of this name.
fn behind(rows: &[TickRow], name: &str) -> u64 {
    let is = |it: &&TickRow| match &it.row.doing {
        Doing::Ready { behind: Some(by) } => {
            it.paused && it.row.depth > 0 && by.name.as_deref() == Some(name)
        }
        _ => false,
    };
    rows.iter().filter(is).map(|it| it.row.ns).sum()
}

/// Every tick whose instant lay in a pause was held; one whose pause began between its instant and its
/// wake-up may have been. A wake-up that the kernel did not show is counted, and may be one of these.
fn held(run: &Run, did: &BTreeMap<String, u64>) {
    let ticks = ticks(run, "ticker");
    let mut threads = run.watch.as_ref().expect("a watch").threads.iter();
    let ticker = threads.find(|it| it.task.tid == ticks.task.tid);
    // An instant that passes before the thread sleeps, because the host took the CPU, is no wake-up.
    let passed = did["ticks"].saturating_sub(ticks.count);
    let unseen = passed + ticker.expect("its thread").unseen;
    // How many these are is the host's affair; they must not be most of what is compared.
    assert!(unseen * 2 <= did["held"], "{unseen}: {ticks:?} {did:?}");
    let (least, most) = (
        did["held"].saturating_sub(unseen),
        did["held"] + did["maybe"],
    );
    assert!((least..=most).contains(&ticks.held), "{ticks:?} {did:?}");
    assert!(least > 0, "{did:?}");
}

/// What must hold of every record.
fn sound(run: &Run) {
    for bill in &runtime(run).bills {
        assert_eq!(bill.spent.total_ns(), bill.late_ns);
        let sum: u64 = bill.rows.iter().map(|it| it.row.ns).sum();
        assert_eq!(sum, bill.late_ns, "{bill:#?}");
        let paused = bill.rows.iter().filter(|it| it.paused);
        assert_eq!(
            paused.map(|it| it.row.ns).sum::<u64>(),
            bill.spent.paused_ns
        );
    }
    let late = &runtime(run).bills;
    assert!(late.is_sorted_by(|a, b| a.late_ns >= b.late_ns));
}

#[test]
fn each_pause_counts_once_and_holds_the_ticks_that_wake_in_it() {
    needed!();
    need!(needs::cpus(2));
    let _alone = alone();
    let mut known = Known::start(stopping(), &["pauses", "10"]);
    let (run, did, _) = went(&mut known, &["--runtime", "jvm", "-q"]);
    sound(&run);
    let about = runtime(&run);
    assert_eq!((about.runtime, &*about.pause), (Runtime::Jvm, "safepoint"));
    for name in ["safepoint", "gc"] {
        let [thread] = &mark(&run, name).threads[..] else {
            panic!("{:?}", mark(&run, name));
        };
        assert_eq!((thread.count, thread.lengths.count), (10, 10));
        assert_eq!(
            (thread.unfinished, thread.unmatched, thread.lost),
            (0, 0, 0)
        );
        assert_eq!(thread.task.name, "VM Thread");
        // The marks are around what the program measures.
        assert!(thread.lengths.sum_ns >= u128::from(did["paused_ns"]));
    }
    let ticks = ticks(&run, "ticker");
    assert!(ticks.held <= ticks.late && ticks.late <= did["late"]);
    held(&run, &did);
    assert!(ticks.count <= did["ticks"] && ticks.count >= did["held"]);
    // The same lateness, but for the time from the switch to the program's reading of the clock.
    let (here, there) = (ticks.spent.total_ns(), did["late_ns"]);
    assert!(here <= there && here >= there / 10 * 8, "{here} of {there}");
    assert!(ticks.spent.paused_ns >= here / 2, "{ticks:?}");
    let rows = about.bills.iter().flat_map(|bill| &bill.rows);
    let of_vm = |it: &&TickRow| {
        let thread = it.row.thread.as_ref().and_then(|it| it.name.as_deref());
        it.paused && it.row.doing == Doing::Ran && thread == Some("VM Thread")
    };
    let ran: u64 = rows.filter(of_vm).map(|it| it.row.ns).sum();
    assert!(
        ran >= ticks.held * 3 * MS,
        "it works for 5 ms after each instant: {ran}"
    );
    let watch = run.watch.as_ref().expect("a watch");
    for (thread, role) in watch.threads.iter().zip(&about.roles) {
        let wanted = match &*thread.task.name {
            "VM Thread" => ThreadRole::Pauses,
            _ => ThreadRole::Program,
        };
        assert_eq!(*role, wanted, "{}", thread.task.name);
    }
    assert_eq!(watch.threads.len(), about.roles.len());
    let names = about.ticks.iter().map(|it| &*it.task.name);
    assert!(
        !names.clone().any(|name| name == "VM Thread"),
        "not the program's"
    );
}

#[test]
fn a_pause_whose_thread_has_no_cpu_is_the_schedulers_and_the_thread_in_its_place_has_a_name() {
    needed!();
    need!(needs::cpus(2));
    let _alone = alone();
    let mut known = Known::start(stopping(), &["pauses", "10", "hog", "30"]);
    let (run, did, shown) = went(&mut known, &["--runtime", "jvm"]);
    sound(&run);
    let waited = runtime(&run).pause_waited_ns.expect("the kernel counts it");
    assert!(waited >= 10 * 30 * MS, "{waited}");
    let ticks = ticks(&run, "ticker");
    held(&run, &did);
    // The hog begins with the pause, at most 5 ms before the instant.
    let spent = ticks.spent;
    assert!(spent.pause_waited_ns >= ticks.held * 20 * MS, "{ticks:?}");
    assert!(spent.pause_waited_ns * 2 >= spent.paused_ns, "{ticks:?}");
    let bills = &runtime(&run).bills;
    let by_hog = bills
        .iter()
        .filter(|bill| behind(&bill.rows, "hog") >= 20 * MS);
    assert!(by_hog.count() as u64 >= ticks.held.min(8) / 2, "{bills:#?}");
    assert!(
        shown.contains("VM Thread was ready to run, hog/"),
        "{shown}"
    );
    assert!(shown.contains("of it no CPU"), "{shown}");
}

#[test]
fn a_runtimes_marks_take_limits_and_are_named_once() {
    needed!();
    need!(needs::cpus(2));
    let _alone = alone();
    let mut known = Known::start(stopping(), &["pauses", "3"]);
    let limit = ["--runtime", "jvm", "-q", "--mark-max", "safepoint=5ms"];
    let (run, ..) = went(&mut known, &limit);
    assert_eq!(
        mark(&run, "safepoint").threads[0].longer,
        3,
        "each takes 10 ms"
    );
    let place = Place::new();
    let number = known.pid.to_string();
    let again = ["watch", &number, "--runtime", "jvm", "--mark", "gc=main"];
    let ended = place.run(&again).expect(64);
    assert!(
        ended.stderr.contains("two marks are named 'gc'"),
        "{}",
        ended.stderr
    );
    let unknown = [
        "watch",
        &number,
        "--runtime",
        "jvm",
        "--mark-max",
        "pause=1",
    ];
    let ended = place.run(&unknown).expect(64);
    assert!(
        ended.stderr.contains("expected one of safepoint, gc"),
        "{}",
        ended.stderr
    );
}

#[test]
fn a_program_without_the_runtime_or_its_marks_is_one_line_that_says_what_to_do() {
    needed!();
    let place = Place::new();
    let refused = |program: &Path, name: &str| {
        let known = Known::start(program, &[]);
        let number = known.pid.to_string();
        let ended = place.run(&["watch", &number, "--runtime", name]).expect(64);
        assert_eq!(ended.stderr.trim().lines().count(), 1, "{}", ended.stderr);
        ended.stderr
    };
    let why = refused(watched(), "jvm");
    assert!(
        why.contains("/watched runs no libjvm.so*: give the PID of the java process"),
        "{why}"
    );
    let why = refused(watched(), "python");
    assert!(
        why.contains("runs no python3* or libpython3*: give the PID of the interp"),
        "{why}"
    );
    let why = refused(watched(), "go");
    assert!(
        why.contains("does not have runtime.stopTheWorldWithSema"),
        "{why}"
    );
    assert!(why.contains("a Go program that has its symbols"), "{why}");
    let why = refused(unmarked(), "jvm");
    assert!(
        why.contains("libjvm.so does not have usdt:hs_private:safepoint__begin"),
        "{why}"
    );
    assert!(why.contains("openjdk-17-jdk"), "{why}");
    assert!(place.entries().is_empty(), "{:?}", place.entries());
}

fn source(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("tests/watch")
        .join(name)
}

/// A JVM with `Ticks.java`, and its log of safepoints.
struct Java {
    known: Known,
    log: PathBuf,
    _directory: tempfile::TempDir,
}

impl Java {
    fn start(flags: &[&str], words: &[&str]) -> Self {
        let directory = tempfile::tempdir().expect("a directory");
        let path = directory.path().to_str().expect("UTF-8").to_owned();
        let done = Command::new("javac")
            .args(["-d", &path])
            .arg(source("Ticks.java"))
            .output()
            .expect("javac");
        assert!(
            done.status.success(),
            "{}",
            String::from_utf8_lossy(&done.stderr)
        );
        let log = directory.path().join("safepoints");
        let to_log = format!("-Xlog:safepoint:file={}", log.display());
        let flags = [flags, &["-Xmx256m", &to_log, "-cp", &path, "Ticks"], words].concat();
        Self {
            known: Known::start(Path::new("java"), &flags),
            log,
            _directory: directory,
        }
    }

    /// The lengths of the safepoints so far, in ns.
    fn logged(&self) -> Vec<u64> {
        let text = std::fs::read_to_string(&self.log).expect("the log");
        let total = |line: &str| {
            let (_, total) = line.split_once("Total:")?;
            total.split_whitespace().next()?.parse().ok()
        };
        text.lines().filter_map(total).collect()
    }
}

/// A JVM, and its compiler.
fn java() -> Result<(), Absent> {
    needs::program("java")?;
    needs::program("javac").map(drop)
}

/// Ends by itself with the last of its owner.
struct Hog {
    stop: Arc<AtomicBool>,
    thread: Option<std::thread::JoinHandle<()>>,
}

impl Hog {
    /// Takes every CPU of this process's thread for a time, again and again.
    fn start(cpu: usize, busy: Duration, idle: Duration) -> Self {
        let stop = Arc::new(AtomicBool::new(false));
        let stopped = Arc::clone(&stop);
        let thread = std::thread::Builder::new()
            .name("hog".to_owned())
            .spawn(move || {
                punctual_rt::affinity::set_current(&[cpu]).expect("affinity");
                sched::set_current(Policy::Fifo(50)).expect("priority");
                while !stopped.load(Ordering::Relaxed) {
                    std::thread::sleep(idle);
                    let from = Instant::now();
                    while from.elapsed() < busy {}
                }
            });
        Self {
            stop,
            thread: Some(thread.expect("a thread")),
        }
    }
}

impl Drop for Hog {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        let _ = self.thread.take().map(std::thread::JoinHandle::join);
    }
}

#[test]
fn the_safepoints_of_a_jvm_are_those_of_its_log_whatever_collects() {
    needed!();
    need!(java());
    let _alone = alone();
    for collector in ["-XX:+UseSerialGC", "-XX:+UseG1GC", "-XX:+UseZGC"] {
        // The log and the watch begin in a JVM that does nothing.
        let quiet = [
            "-XX:+UnlockDiagnosticVMOptions",
            "-XX:GuaranteedSafepointInterval=0",
        ];
        let flags = [&quiet[..], &[collector]].concat();
        let mut java = Java::start(&flags, &["10000", "80", "64", "9"]);
        let place = Place::new();
        let number = java.known.pid.to_string();
        let running = watch(&place, &[&number, "-q", "--runtime", "jvm"]);
        let before = java.logged().len();
        java.known.go();
        running.signal(libc::SIGINT);
        running.end();
        let run = place.run_of();
        sound(&run);
        let logged = &java.logged()[before..];
        let safepoints = mark(&run, "safepoint");
        assert!(logged.len() >= 9, "{logged:?}");
        assert_eq!(
            safepoints.sum(|it| it.count),
            logged.len() as u64,
            "{collector}"
        );
        assert_eq!(safepoints.sum(|it| it.lost), 0);
        let total: u128 = safepoints.threads.iter().map(|it| it.lengths.sum_ns).sum();
        let expected: u64 = logged.iter().sum();
        // The marks are around the log's readings of the clock, and each takes a microsecond; the
        // VM Thread may lose its CPU in between.
        let slack = expected / 4 + logged.len() as u64 * MS;
        let total = u64::try_from(total).expect("a time");
        assert!(
            total + MS >= expected && total <= expected + slack,
            "{total} of {expected}"
        );
        let names = safepoints.threads.iter().map(|it| &*it.task.name);
        assert_eq!(names.collect::<Vec<_>>(), ["VM Thread"]);
    }
}

#[test]
fn a_jvm_that_a_real_time_thread_stops_in_a_safepoint_has_that_thread_in_its_bill() {
    needed!();
    need!(java());
    let _alone = alone();
    let cpu = cpus()[0];
    let mut java = Java::start(&["-XX:+UseSerialGC"], &["10000", "300", "64"]);
    let number = java.known.pid.to_string();
    let pinned = Command::new("taskset")
        .args(["-apc", &cpu.to_string(), &number])
        .output();
    assert!(pinned.expect("taskset").status.success());
    let hog = Hog::start(cpu, Duration::from_millis(150), Duration::from_millis(350));
    let (run, ..) = went(&mut java.known, &["--runtime", "jvm", "-q"]);
    drop(hog);
    sound(&run);
    // Most of its time is in safepoints, so that most strikes hit one.
    let worst = mark(&run, "safepoint").threads[0].worst[0];
    assert!(worst.waited_ns.expect("counted") >= 100 * MS, "{worst:?}");
    let bills = &runtime(&run).bills;
    // Whichever was ready while the hog had the CPU: the VM Thread, or the tick's own thread.
    let behind_hog = |rows: &[TickRow]| -> u64 {
        let is = |it: &&TickRow| match &it.row.doing {
            Doing::Ready { behind: Some(by) } => it.paused && by.name.as_deref() == Some("hog"),
            _ => false,
        };
        rows.iter().filter(is).map(|it| it.row.ns).sum()
    };
    let most = bills.iter().map(|bill| behind_hog(&bill.rows)).max();
    assert!(most.expect("late ticks") >= 100 * MS, "{bills:#?}");
    let ticks = ticks(&run, "ticker");
    assert!(ticks.spent.pause_waited_ns >= 100 * MS, "{ticks:?}");
}

#[test]
fn each_collection_of_python_counts_once() {
    needed!();
    let python = Path::new("/usr/bin/python3");
    if !python.exists() {
        skip!(Absent::program("/usr/bin/python3"));
    }
    let script = source("collect.py");
    let mut known = Known::start(python, &[script.to_str().expect("UTF-8"), "50"]);
    let (run, _, shown) = went(&mut known, &["--runtime", "python"]);
    let [thread] = &mark(&run, "collection").threads[..] else {
        panic!("{:?}", mark(&run, "collection"));
    };
    assert_eq!(
        (thread.count, thread.unfinished, thread.unmatched),
        (50, 0, 0)
    );
    assert_eq!(runtime(&run).late_above_ns, None);
    assert!(runtime(&run).ticks.is_empty() && runtime(&run).bills.is_empty());
    assert!(shown.contains("Pauses of the runtime"), "{shown}");
}

#[test]
fn each_stop_of_the_world_of_go_counts_once() {
    needed!();
    need!(needs::program("go"));
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().join("stops");
    let built = Command::new("go")
        .args(["build", "-o"])
        .arg(&path)
        .arg(source("stops.go"))
        .env("GOCACHE", directory.path().join("cache"))
        .env("GOFLAGS", "-buildvcs=false")
        .output()
        .expect("go");
    assert!(
        built.status.success(),
        "{}",
        String::from_utf8_lossy(&built.stderr)
    );
    let mut known = Known::start(&path, &["20"]);
    let (run, ..) = went(&mut known, &["--runtime", "go", "-q"]);
    let stops = mark(&run, "stop-the-world");
    // One to begin to mark, one to end it.
    assert_eq!(stops.sum(|it| it.count), 40, "{stops:?}");
    assert_eq!(stops.sum(|it| it.unfinished + it.unmatched + it.lost), 0);
}
