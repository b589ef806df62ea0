//! Runs that explain their late wake-ups: what is in the record and beside it, what
//! happens if the kernel doesn't allow it, and that nothing is left in the kernel.

use crate::alone::alone;
use crate::common;
use std::fs;
use std::net::UdpSocket;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use crate::common::{Place, Running, cpus, need, needs, read_json, until};
use punctual_record::explanation::{Bill, BillRow, Cause, NotSeen};
use punctual_record::{Explanation, Unavailable};
use punctual_report::facts;
use punctual_trace::attribute::event::Window;
use punctual_trace::{attribute, capture};
use serde_json::Value;

/// Measures for two seconds; every wake-up is late.
const RUN: &[&str] = &[
    "measure",
    "-q",
    "-D",
    "2",
    "--best-effort",
    "--deadline",
    "1ns",
    "--miss",
    "0.5",
];

/// Why a record says that nothing was explained.
fn why_not(record: &Value) -> Option<String> {
    let events = record["events"].as_array()?;
    let event = events
        .iter()
        .find(|event| event["kind"] == "not-explained")?;
    let why: Unavailable = serde_json::from_value(event["why"].clone()).ok()?;
    Some(facts::unavailable(&why))
}

#[test]
fn late_wake_ups_are_explained_and_their_windows_are_kept() {
    need!(needs::tracing());
    let place = Place::new();
    place.run(RUN);
    let record = place.record();
    assert_eq!(why_not(&record), None);
    let run = place.run_of();
    let explanation = run.explanation.expect("an explanation");
    assert_eq!(explanation.above_ns, Some(1));
    assert!(explanation.examined > 0);
    assert_eq!(
        explanation.outliers,
        explanation.explained + explanation.unexplained + explanation.lost,
    );
    let samples: u64 = run.threads.iter().map(|thread| thread.latency.count).sum();
    assert_eq!(
        explanation.outliers,
        samples - run.threads.iter().map(|t| t.early).sum::<u64>()
    );
    let cost = run.own_cost.tracer.expect("its cost");
    assert!(cost.events > samples, "{cost:?}");
    // At least the last stage of each wake-up is known, unless events were lost.
    let user = explanation.stages.last().expect("stages").times.count;
    assert!(user <= samples);
    if cost.lost == 0 {
        assert!(user * 100 >= samples * 95, "{user} of {samples}");
    }
    let text = fs::read_to_string(place.run_directory().join("windows.jsonl")).expect("windows");
    assert!((1..=Explanation::BILLS).contains(&text.lines().count()));
    let mut least = u64::MAX;
    for line in text.lines() {
        let window: Window = serde_json::from_str(line).expect("a window");
        let mut bill = attribute::bill(&window);
        assert!(bill.latency_ns <= least, "the worst first");
        least = bill.latency_ns;
        let rows: u64 = bill.rows.iter().map(|row| row.ns).sum();
        assert_eq!(rows, window.woken_ns - window.due_ns);
        let kept = explanation
            .bills
            .iter()
            .find(|kept| (kept.due_ns, kept.cpu) == (bill.due_ns, bill.cpu));
        let kept = kept.expect("its bill");
        bill.learn_threads(kept);
        // Within one bill a thread may be identified in only some rows.
        let bare = |bill: &Bill| -> Vec<BillRow> {
            let mut rows = bill.rows.clone();
            for by in rows.iter_mut().flat_map(|row| &mut row.by) {
                (by.pid, by.command, by.group, by.ended) = (None, None, None, false);
            }
            rows
        };
        assert_eq!(bare(kept), bare(&bill));
    }
    // All other outliers can be opened too, except those that are only counted.
    let kept = explanation.kept.expect("more outliers than bills");
    let with_bill = explanation.explained + explanation.unexplained;
    let bills = explanation.bills.len() as u64;
    assert_eq!(kept.windows + kept.dropped + bills, with_bill);
    assert!(kept.windows > 0 && kept.bytes <= kept.budget_bytes);
    let file = place.run_directory().join("outliers.jsonl.gz");
    assert_eq!(fs::metadata(file).expect("its file").len(), kept.bytes);
    let directory = place.run_directory().display().to_string();
    let list = place.run(&["explain", &directory, "--list"]);
    let lines = list.stdout.lines().count() as u64;
    let said = u64::from(kept.dropped > 0);
    assert_eq!(lines, 1 + bills + kept.windows + said, "{}", list.stderr);
    let last = (bills + kept.windows).to_string();
    let opened = place.run(&["explain", &directory, &last]);
    assert_eq!(opened.code(), 0, "{}", opened.stderr);
    assert!(opened.stdout.starts_with(&format!("Bill {last}: ")));
}

/// A hog as a user starts it by hand: it has the name of the program, not of the program that
/// started it.
#[test]
fn a_program_started_by_others_has_its_own_name_in_the_bill() {
    need!(needs::tracing());
    need!(needs::root());
    need!(needs::program("chrt"));
    need!(needs::program("taskset"));
    let _alone = alone();
    let place = Place::new();
    let cpu = cpus()[0].to_string();
    let mut running = place.start(&[
        "measure",
        "-q",
        "-a",
        &cpu,
        "-p",
        "50",
        "-D",
        "3",
        "--deadline",
        "2ms",
        "--best-effort",
    ]);
    while !running.is_over() {
        let mut hog = place.command("chrt");
        hog.args(["-f", "99", "taskset", "-c", &cpu]);
        // About 20 ms on most machines.
        hog.args([
            "dd",
            "if=/dev/zero",
            "of=/dev/null",
            "bs=256k",
            "count=1200",
        ]);
        Running::start(hog).end().expect(0);
        std::thread::sleep(Duration::from_millis(200));
    }
    running.end();
    assert_eq!(why_not(&place.record()), None);
    let bills = place.run_of().explanation.expect("an explanation").bills;
    let took = |name: &str| -> u64 {
        let rows = bills.iter().flat_map(|bill| &bill.rows);
        let its = rows.filter(
            |row| matches!(&row.cause, Cause::Thread { task, priority: 99, .. } if task == name),
        );
        its.map(|row| row.ns).sum()
    };
    let [hog, before] = [took("dd"), took("taskset") + took("chrt")];
    assert!(hog > 2_000_000, "dd {hog} ns: {bills:#?}");
    // They take time, too, until the last of them executes the hog.
    assert!(before < hog / 2, "dd {hog} ns, what set it up {before} ns");
}

/// Floods the loopback with datagrams that no one receives, until it is stopped: 32 in each millisecond,
/// for a fast machine that sends all it can causes more events than any ring keeps.
fn flood(over: &AtomicBool, sent: &AtomicU64) {
    let receiver = UdpSocket::bind("127.0.0.1:0").expect("a socket");
    let sender = UdpSocket::bind("127.0.0.1:0").expect("a socket");
    let to = receiver.local_addr().expect("its address");
    while !over.load(Ordering::Relaxed) {
        for _ in 0..32 {
            // Datagrams for a full receiver are dropped after their softirq.
            let _ = sender.send_to(&[0; 64], to);
        }
        sent.fetch_add(32, Ordering::Relaxed);
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// The thread that copies the events.
const THREAD: &str = "tracer";

/// The longest time in which a thread got no CPU, by the kernel's account of it, in a process that runs.
/// Its own sleep counts too.
fn longest_absence(
    running: &mut Running,
    thread: &str,
    found: impl Fn(),
    enough: impl Fn(Instant) -> bool,
) -> Duration {
    let tasks = format!("/proc/{}/task", running.pid());
    let ran_ns = |tid: &str| -> Option<u64> {
        let text = fs::read_to_string(format!("{tasks}/{tid}/schedstat")).ok()?;
        text.split(' ').next()?.parse().ok()
    };
    let mut tid = None;
    until("its thread", || {
        let entries = fs::read_dir(&tasks).into_iter().flatten().flatten();
        let mut names = entries.filter_map(|it| it.file_name().into_string().ok());
        let is_it = |tid: &String| {
            let name = fs::read_to_string(format!("{tasks}/{tid}/comm"));
            name.is_ok_and(|name| name.trim() == thread)
        };
        tid = names.find(is_it);
        tid.is_some()
    });
    let tid = tid.expect("it was found");
    found();
    let begun = Instant::now();
    let (mut seen, mut since, mut longest) = (ran_ns(&tid), Instant::now(), Duration::ZERO);
    while !running.is_over() && !enough(begun) {
        std::thread::sleep(Duration::from_millis(5));
        let now = ran_ns(&tid);
        longest = longest.max(since.elapsed());
        if now != seen {
            (seen, since) = (now, Instant::now());
        }
    }
    longest
}

/// Each datagram causes several events, and two threads on each CPU send them: the rings keep events
/// until they are copied, and copies are kept until they are examined. Events are lost only if the
/// thread that copies them got no CPU for as long as a ring lasts.
#[test]
fn a_flood_of_events_leaves_no_bill_blind() {
    const DATAGRAMS: u64 = 100_000;
    need!(needs::tracing());
    // Its softirqs delay everything.
    let _alone = alone();
    let place = Place::new();
    let (over, sent) = (AtomicBool::new(false), AtomicU64::new(0));
    let absent = std::thread::scope(|scope| {
        for _ in 0..2 * cpus().len() {
            scope.spawn(|| flood(&over, &sent));
        }
        let flags = ["measure", "-q", "-D", "60", "--best-effort"];
        let mut running = place.start(&[&flags[..], &["--explain-above", "50us"]].concat());
        // Those that were sent before were not recorded.
        let found = || sent.store(0, Ordering::Relaxed);
        let enough = |since: Instant| {
            since.elapsed() > Duration::from_secs(3) && sent.load(Ordering::Relaxed) > DATAGRAMS
        };
        let absent = longest_absence(&mut running, THREAD, found, enough);
        running.signal(libc::SIGINT);
        running.end();
        over.store(true, Ordering::Relaxed);
        absent
    });
    assert_eq!(why_not(&place.record()), None);
    let run = place.run_of();
    let cost = run.own_cost.tracer.expect("its cost");
    assert!(cost.events > DATAGRAMS, "it is a flood: {cost:?}");
    // If all came on one CPU, and at times twice as many as in the mean.
    let measured_ns = run.threads.iter().map(|it| it.measured_ns).max();
    let rate = 2.0 * (cost.events + cost.lost) as f64 / measured_ns.expect("a thread") as f64;
    let lasts_ns = capture::ring_events(cpus().len()) as f64 / rate;
    let lasts = Duration::from_nanos(lasts_ns as u64);
    println!("{cost:?}; {THREAD} was absent for {absent:?}, a ring lasts for {lasts:?}");
    let explanation = run.explanation.expect("an explanation");
    if cost.lost == 0 {
        let forgotten = |it: &NotSeen| matches!(it, NotSeen::Forgotten { .. });
        assert!(!explanation.missing.iter().any(forgotten));
        assert!(explanation.bills.iter().all(|bill| bill.lost == 0));
    } else {
        assert!(
            absent > lasts,
            "{cost:?}: absent for {absent:?} of {lasts:?}"
        );
        // What was lost is in the account of the whole, and nothing is made up for it.
        for bill in &explanation.bills {
            assert!(bill.lost <= cost.lost, "{bill:?}");
            let sum: u64 = bill.rows.iter().map(|row| row.ns).sum();
            assert_eq!(sum, bill.latency_ns, "{bill:?}");
        }
    }
}

#[test]
fn a_run_without_explanations_loads_nothing_into_the_kernel() {
    let place = Place::new();
    place.run(&[RUN, &["--no-explain"]].concat());
    let run = place.run_of();
    assert_eq!(run.explanation, None);
    assert_eq!(run.own_cost.tracer, None);
    assert!(why_not(&place.record()).is_none());
    assert!(!place.run_directory().join("windows.jsonl").exists());
}

#[test]
fn without_the_privilege_the_run_continues_and_says_what_is_missing() {
    need!(needs::root());
    need!(needs::program("setpriv"));
    let place = Place::new();
    let mut command = place.command("setpriv");
    command
        .arg("--bounding-set=-sys_admin,-bpf,-perfmon")
        .arg(common::program())
        .args(RUN);
    Running::start(command).end();
    let run = place.run_of();
    assert!(run.threads.iter().all(|thread| thread.latency.count > 0));
    assert_eq!(run.explanation, None);
    let why = why_not(&place.record()).expect("it says why");
    assert!(why.contains("CAP_BPF and CAP_PERFMON"), "{why}");
    assert_eq!(why.lines().count(), 1);
}

/// BPF programs that a process holds, by number.
fn programs_of(pid: u32) -> Vec<u32> {
    let entries = fs::read_dir(format!("/proc/{pid}/fdinfo"));
    entries
        .into_iter()
        .flatten()
        .flatten()
        .filter_map(|entry| fs::read_to_string(entry.path()).ok())
        .filter_map(|text| {
            let line = text
                .lines()
                .find_map(|line| line.strip_prefix("prog_id:"))?;
            line.trim().parse().ok()
        })
        .collect()
}

/// Whether the kernel still has a program.
fn is_there(program: u32) -> bool {
    const BPF_PROG_GET_FD_BY_ID: libc::c_int = 13;
    let mut arguments = [program, 0, 0];
    // SAFETY: the kernel reads three words, which are initialised and outlive the call.
    let fd = unsafe {
        libc::syscall(
            libc::SYS_bpf,
            BPF_PROG_GET_FD_BY_ID,
            arguments.as_mut_ptr(),
            size_of_val(&arguments),
        )
    };
    if fd >= 0 {
        // SAFETY: the descriptor is new and has no other owner.
        unsafe { libc::close(fd as i32) };
    }
    fd >= 0
}

#[test]
fn a_kill_leaves_nothing_in_the_kernel_and_simultaneous_runs_do_not_interfere() {
    need!(needs::tracing());
    let place = Place::new();
    let forever = ["measure", "-q", "--best-effort", "-i", "10ms"];
    let mut killed = place.start(&[&forever[..], &["-o", "killed"]].concat());
    let mut other = place.start(&[&forever[..], &["-D", "4", "-o", "other"]].concat());
    killed.await_probes(cpus().len());
    other.await_probes(cpus().len());
    // A record is saved some seconds after the beginning; it says what prevents tracing.
    let saved = |name: &str| read_json(&place.path().join(name).join("run.json"));
    until("both trace or say why not", || {
        (programs_of(killed.pid()).len() > 20 && programs_of(other.pid()).len() > 20)
            || why_not(&saved("killed")).is_some()
    });
    assert_eq!(why_not(&saved("killed")), None);
    let (mine, its) = (programs_of(killed.pid()), programs_of(other.pid()));
    assert!(mine.iter().all(|program| is_there(*program)));
    killed.signal(libc::SIGKILL);
    killed.end();
    until("its programs gone", || {
        !mine.iter().any(|program| is_there(*program))
    });
    assert!(
        its.iter().all(|program| is_there(*program)),
        "the other's stay"
    );
    other.end();
    until("its programs gone", || {
        !its.iter().any(|program| is_there(*program))
    });
    let run = place.run_of_path("other");
    let explanation = run.explanation.expect("the other goes on explaining");
    assert!(explanation.stages.iter().any(|stage| stage.times.count > 0));
}
