//! A stop of the measuring process is an event with a length, not a latency of the machine.

use std::process::{Child, Command};
use std::thread::sleep;
use std::time::{Duration, Instant};

use crate::alone::alone;
use crate::common::needs::{self, Absent};
use crate::common::stops::{FREEZERS, Freezer, trace};
use crate::common::{Place, Running, cpus, event_kinds, need, skip, until, why_invalid};
use punctual_record::explanation::{Cause, Culprit, RowNote};
use punctual_record::{Run, StopCause};
use punctual_rt::clock;
use punctual_trace::attribute::bill;
use punctual_trace::capture::{Capture, Options, RING_EVENTS, WakeUpPlace};

const MS: u64 = 1_000_000;
/// How long the tests stop a run: longer than any stall that a busy machine has on all CPUs.
const STOP: Duration = Duration::from_millis(400);

/// A running measurement of ten seconds, traced or not, with its probe threads.
fn under_way(place: &Place, flags: &[&str]) -> (Running, Vec<(i32, usize)>) {
    let all = [&["measure", "-D", "10", "-q", "-o", "run"], flags].concat();
    let mut running = place.start(&all);
    let wanted = if flags.contains(&"-a") {
        1
    } else {
        cpus().len().min(3)
    };
    let probes = running.await_probes(wanted);
    // Well after the start, which is some 50 ms in the future.
    sleep(Duration::from_millis(1500));
    (running, probes)
}

/// Properties of every run that was stopped once: the stop's length, and no late wake-up because of
/// it.
#[track_caller]
fn one_stop(run: &Run, stopped: Duration, cause: StopCause) {
    let stops = run.stops.as_ref().expect("a stop in the record");
    let stopped_ns = u64::try_from(stopped.as_nanos()).expect("a short stop");
    assert_eq!(stops.list.len() as u64, stops.count);
    let longest = stops
        .list
        .iter()
        .max_by_key(|stop| stop.length_ns)
        .expect("one");
    assert_eq!(longest.cause, cause, "{stops:?}");
    assert!(longest.length_ns + 30 * MS > stopped_ns, "{stops:?}");
    for thread in &run.threads {
        // Later than any machine that is merely busy, and shorter than the stop.
        assert!(thread.latency.max_ns < stopped_ns * 3 / 4, "{stops:?}");
    }
    let kinds: Vec<&str> = run.events.iter().map(|event| event.kind()).collect();
    assert!(kinds.contains(&"stopped"), "{kinds:?}");
}

/// The cycles of each thread sum to its schedule: counted ones, skipped ones, and
/// those within stops.
#[track_caller]
fn no_cycle_is_lost(run: &Run) {
    let stops = run.stops.as_ref().expect("a stop");
    let counted: u64 = run
        .threads
        .iter()
        .map(|t| t.latency.count + t.missed + t.lost)
        .sum();
    let due: u64 = run.threads.iter().map(|t| t.measured_ns / MS).sum();
    // The last wake-up of a thread may have skipped more, up to its latency.
    let latest = run.threads.iter().map(|t| t.latency.max_ns / MS + 2);
    let more = latest.sum::<u64>().max(50);
    let cycles = counted + stops.cycles;
    assert!(
        (due..due + more).contains(&cycles),
        "{cycles} of {due}: {stops:?}"
    );
}

#[test]
fn a_process_that_is_stopped_and_continued_is_not_late() {
    // Beside other real-time threads it may be throttled.
    let _alone = alone();
    for tracing in [&["--no-explain"][..], &[]] {
        let place = Place::new();
        let flags = [
            &["--deadline", "150ms", "--miss", "0.5", "-i", "1000"],
            tracing,
        ]
        .concat();
        let (running, _) = under_way(&place, &flags);
        running.stop();
        let begin = Instant::now();
        sleep(STOP);
        let stopped = begin.elapsed();
        running.signal(libc::SIGCONT);
        running.end();
        let run = place.run_of();
        one_stop(&run, stopped, StopCause::Signal);
        no_cycle_is_lost(&run);
        // 4 % of the run: it stands, traced or not.
        assert!(run.verdict.is_some(), "a verdict");
        let reasons = why_invalid(&run);
        assert!(!reasons.contains("stopped"), "{reasons}");
        assert!(!reasons.contains("throttled"), "{reasons}");
    }
}

#[test]
fn stops_of_more_than_5_percent_make_a_run_invalid() {
    let place = Place::new();
    let (running, _) = under_way(
        &place,
        &["--deadline", "1h", "--miss", "0.5", "--no-explain"],
    );
    for _ in 0..3 {
        running.stop();
        sleep(Duration::from_millis(400));
        running.signal(libc::SIGCONT);
        sleep(Duration::from_millis(300));
    }
    let ended = running.end().expect(4);
    assert!(
        ended
            .stdout
            .contains("the measuring process was stopped for"),
        "{}",
        ended.stdout
    );
    let run = place.run_of();
    let stops = run.stops.as_ref().expect("stops");
    assert!(stops.count >= 3 && stops.total_ns > 1_000 * MS, "{stops:?}");
    no_cycle_is_lost(&run);
}

/// A process that sends SIGCONT all the time excuses nothing: the run was never stopped.
#[test]
fn a_stall_of_the_machine_counts_as_late_whatever_signals_come() {
    need!(needs::root());
    let place = Place::new();
    let cpu = cpus()[0];
    let flags = ["-a", &cpu.to_string(), "--deadline", "20ms", "--no-explain"];
    let (running, _) = under_way(&place, &flags);
    let stalled = std::thread::spawn(move || {
        punctual_rt::affinity::set_current(&[cpu]).expect("a CPU");
        punctual_rt::sched::set_current(punctual_rt::sched::Policy::Fifo(99)).expect("root may");
        let begin = Instant::now();
        while begin.elapsed() < Duration::from_millis(80) {}
    });
    while !stalled.is_finished() {
        running.signal(libc::SIGCONT);
        sleep(Duration::from_millis(1));
    }
    stalled.join().expect("a stall");
    running.end();
    let run = place.run_of();
    assert_eq!(run.stops, None);
    assert!(run.threads[0].late >= 1);
    assert!(run.threads[0].latency.max_ns >= 75 * MS);
}

#[test]
fn a_frozen_container_is_not_late() {
    need!(needs::root());
    let mut frozen = 0;
    for group in FREEZERS.iter().filter_map(Freezer::group) {
        let place = Place::new();
        let (running, _) = under_way(&place, &["--deadline", "150ms", "--no-explain"]);
        group.add(running.pid());
        sleep(Duration::from_millis(200));
        group.freeze();
        group.await_frozen();
        let begin = Instant::now();
        sleep(STOP);
        let stopped = begin.elapsed();
        group.thaw();
        running.end();
        let run = place.run_of();
        one_stop(&run, stopped, StopCause::Unknown);
        no_cycle_is_lost(&run);
        frozen += 1;
    }
    if frozen == 0 {
        skip!(Absent::kernel("a freezer, mounted"));
    }
}

#[test]
fn a_probe_that_a_debugger_stops_is_not_late() {
    let place = Place::new();
    let (running, probes) = under_way(&place, &["--deadline", "1h", "--no-explain"]);
    let (tid, cpu) = probes[0];
    let length = Duration::from_millis(900);
    if !trace(tid, length) {
        skip!(Absent::refused("ptrace", std::io::Error::last_os_error()));
    }
    running.end();
    let run = place.run_of();
    let stops = run.stops.as_ref().expect("a stop");
    assert_eq!(stops.list[0].cause, StopCause::Debugger);
    assert_eq!(stops.list[0].cpu, Some(cpu));
    assert!(stops.list[0].length_ns >= 890 * MS, "{stops:?}");
    assert!(run.threads.iter().all(|t| t.latency.max_ns < 700 * MS));
    no_cycle_is_lost(&run);
}

#[test]
fn threads_that_a_debugger_stops_are_not_late() {
    need!(needs::program("gdb"));
    let place = Place::new();
    let (running, _) = under_way(&place, &["--deadline", "1h", "--no-explain"]);
    let pid = running.pid().to_string();
    let mut gdb = place.command("gdb");
    gdb.args([
        "-batch",
        "-p",
        &pid,
        "-ex",
        "shell sleep 0.4",
        "-ex",
        "detach",
    ]);
    let ended = Running::start(gdb).end();
    if !ended.stdout.contains("detached") {
        skip!(Absent::refused("gdb", ended.stderr));
    }
    running.end();
    let run = place.run_of();
    let stops = run.stops.as_ref().expect("a stop");
    assert!(stops.longest_ns >= 390 * MS, "{stops:?}");
    assert!(
        run.threads.iter().all(|t| t.latency.max_ns < 300 * MS),
        "{stops:?}"
    );
    no_cycle_is_lost(&run);
}

/// A polling thread finds its own stop as a gap: no time was watched meanwhile.
#[test]
fn a_stop_is_neither_noise_nor_watched_time() {
    let place = Place::new();
    let all = [
        "measure",
        "noise",
        "-D",
        "10",
        "-q",
        "-o",
        "run",
        "--no-explain",
    ];
    let mut running = place.start(&all);
    running.await_probes(cpus().len().min(3));
    sleep(Duration::from_millis(1500));
    running.stop();
    sleep(STOP);
    running.signal(libc::SIGCONT);
    running.end();
    let run = place.run_of();
    assert!(
        run.stops
            .as_ref()
            .is_some_and(|stops| stops.longest_ns > 350 * MS)
    );
    let gaps = run.gaps.as_ref().expect("gaps");
    for (thread, watched) in run.threads.iter().zip(&gaps.threads) {
        assert!(
            thread.latency.max_ns < 300 * MS,
            "{}",
            thread.latency.max_ns
        );
        assert_eq!(
            watched.polled_ns + watched.gap_ns + watched.unwatched_ns,
            watched.span_ns
        );
    }
}

/// A stop is not a latency above the break value; the probe could not know.
#[test]
fn a_run_that_ends_because_of_a_stop_says_so() {
    let place = Place::new();
    let (running, _) = under_way(&place, &["-b", "300000", "--no-explain"]);
    running.stop();
    sleep(STOP);
    running.signal(libc::SIGCONT);
    running.end();
    let record = place.record();
    assert_eq!(
        record["state"]["reason"], "process-stopped",
        "{}",
        record["state"]
    );
}

/// Samples on disk are the counted ones.
#[test]
fn samples_within_a_stop_are_in_no_file() {
    let place = Place::new();
    let (running, _) = under_way(&place, &["--samples", "--no-explain"]);
    running.stop();
    sleep(STOP);
    running.signal(libc::SIGCONT);
    // A busy machine makes the stop longer than the 5 % that are allowed.
    let code = running.end().code();
    assert!([0, 4].contains(&code), "{code}");
    let record = place.record();
    assert!(
        !event_kinds(&record).contains(&"samples"),
        "{}",
        record["events"]
    );
    assert!(record["stops"]["count"].as_u64() >= Some(1));
}

/// A stop during its end, and one before its start, leave a complete record.
#[test]
fn stops_at_any_moment_leave_a_readable_record() {
    for moment in [0, 20, 60, 150, 400, 1400] {
        let place = Place::new();
        let running = place.start(&["measure", "-D", "1", "-q", "-o", "run", "--no-explain"]);
        sleep(Duration::from_millis(moment));
        running.signal(libc::SIGSTOP);
        sleep(Duration::from_millis(120));
        running.signal(libc::SIGCONT);
        let ended = running.end();
        assert!([0, 4].contains(&ended.code()), "{ended:?}");
        let run = place.run_of();
        if run.stops.is_some() {
            no_cycle_is_lost(&run);
        }
    }
}

/// Whoever stopped a thread according to the bill of a wake-up that was due meanwhile.
fn stopped_by(thread: &Child, state: &str, stop: impl FnOnce(i32)) -> (Option<i32>, Culprit) {
    let (tid, cpu) = (thread.id(), cpus()[0] as u32);
    let mut capture = Capture::start(&Options {
        targets: vec![(tid, cpu)],
        roaming: Vec::new(),
        all_wakings: false,
        interrupt_above_ns: 0,
        cpus: vec![cpu],
        ring_events: RING_EVENTS,
    })
    .expect("this machine traces");
    let asleep = || {
        let stat = std::fs::read_to_string(format!("/proc/{tid}/stat"));
        stat.expect("it lives").contains(") S ")
    };
    until("it sleeps", asleep);
    let due_ns = clock::now_ns() + 10 * MS;
    stop(i32::try_from(tid).expect("a number of a process"));
    until("it sleeps again", asleep);
    capture.drain();
    let at = WakeUpPlace::on_cpu(cpu);
    let bill = bill(&capture.window_at(tid, at, due_ns, clock::now_ns()));
    let is_stop = |cause: &Cause| matches!(cause, Cause::Blocked { state: of } if of == state);
    let row = bill.rows.iter().find(|row| is_stop(&row.cause));
    let row = row.unwrap_or_else(|| panic!("no stop: {bill:?}"));
    assert!(row.ns > 20 * MS, "{row:?}");
    match &row.notes[..] {
        [
            RowNote::StoppedBy {
                signal,
                thread: Some(thread),
            },
        ] => (*signal, (**thread).clone()),
        notes => panic!("{notes:?}"),
    }
}

/// The sender has ended by the time that anyone looks.
#[test]
fn a_bill_names_who_stopped_a_thread() {
    need!(needs::root());
    need!(needs::tracing());
    let mut sleeper = Command::new("taskset");
    sleeper.args(["-c", &cpus()[0].to_string(), "sleep", "100"]);
    let mut sleeper = sleeper.spawn().expect("taskset");
    // SAFETY: gettid takes no argument and never fails.
    let own = unsafe { libc::gettid() }.unsigned_abs();
    let (signal, by) = stopped_by(&sleeper, "stopped", |tid| {
        let mut shell = Command::new("sh");
        shell.args(["-c", &format!("kill -STOP {tid}; true")]);
        assert!(shell.status().expect("sh").success());
        let stat = || std::fs::read_to_string(format!("/proc/{tid}/stat"));
        until("it stops", || stat().expect("it lives").contains(") T "));
        sleep(Duration::from_millis(60));
        // SAFETY: the process is a child that has not been reaped, so the number is its own.
        assert_eq!(unsafe { libc::kill(tid, libc::SIGCONT) }, 0);
    });
    assert_eq!(
        (signal, by.name.as_deref()),
        (Some(libc::SIGSTOP), Some("sh"))
    );
    assert_eq!(by.parents[0].tid, Some(own), "{by:?}");
    let (signal, by) = stopped_by(&sleeper, "traced", |tid| {
        assert!(trace(tid, Duration::from_millis(60)), "root may");
    });
    assert_eq!((signal, by.tid), (None, own), "{by:?}");
    sleeper.kill().expect("it lives");
    sleeper.wait().expect("it ends");
}
