//! `punctual watch` on programs whose behaviour is known: what it counts is held against what
//! they did, not against what the watch says itself.

mod common;
#[path = "watch/known.rs"]
#[macro_use]
mod known;

use std::fs;
use std::process::{Child, Command, Stdio};

use common::{Going, Place, has, is_root, skip, until};
use known::{Known, programs_of, watch, watched};
use punctual::record::watch::{Subject, WatchedThread};
use punctual::record::{Run, Standing, State};

fn thread<'r>(run: &'r Run, name: &str) -> (&'r punctual::record::Thread, &'r WatchedThread) {
    let threads = &run.watch.as_ref().expect("a watch").threads;
    let at = threads.iter().position(|thread| thread.task.name == name);
    let at = at.unwrap_or_else(|| panic!("no {name} among {threads:?}"));
    (&run.threads[at], &threads[at])
}

fn times(thread: &WatchedThread, call: &str) -> u64 {
    let found = thread.calls.iter().find(|known| known.name == call);
    found.map_or(0, |call| call.count)
}

#[test]
fn what_a_program_does_is_counted_exactly() {
    needed!();
    let place = Place::new();
    let mut known = Known::start(
        watched(),
        &[
            "cycles", "1000", "stalls", "10", "pages", "500", "reads", "20", "locks", "7",
        ],
    );
    let number = known.pid.to_string();
    let going = watch(
        &place,
        &[&number, "--deadline", "50ms", "--miss", "0.5", "-q"],
    );
    let before = (
        known.proc("voluntary_ctxt_switches"),
        known.proc("nonvoluntary_ctxt_switches"),
    );
    let did = known.go();
    // It is done, and sleeps for good: nothing more comes.
    let pause = || {
        let path = format!("/proc/{}/task/{}/syscall", known.pid, known.tid);
        fs::read_to_string(path)
            .is_ok_and(|text| text.starts_with(&format!("{} ", libc::SYS_pause)))
    };
    until("its pause", pause);
    let after = (
        known.proc("voluntary_ctxt_switches"),
        known.proc("nonvoluntary_ctxt_switches"),
    );
    going.signal(libc::SIGINT);
    let ended = going.end();
    let run = place.run_of();
    assert_eq!(run.state, State::Finished, "that is how a watch ends");
    let (counted, watched) = thread(&run, "rt-loop");
    assert_eq!(counted.lost, 0);
    assert_eq!((&*watched.task.policy, watched.task.priority), ("fifo", 60));
    assert_eq!(watched.period_ns, Some(1_000_000));
    assert!(did["skipped"] >= 30);
    assert_eq!(counted.missed, did["skipped"], "{did:?}");
    let faults = counted.faults.expect("faults");
    // Between what it counted itself and its last sleep it printed: that may fault too.
    assert!(
        (did["minor"]..did["minor"] + 16).contains(&faults.minor),
        "{faults:?} {did:?}"
    );
    assert_eq!(faults.major, did["major"]);
    assert_eq!(counted.preemptions, Some(after.1 - before.1));
    assert_eq!(times(watched, "clock_nanosleep") + unslept(watched), 1000);
    // The one that it was in when the watch began is none of them.
    assert_eq!(times(watched, "read"), 20);
    assert_eq!(times(watched, "futex LOCK_PI"), 7);
    // As /proc counts them, when they begin; the last goes on.
    let sleeps: u64 = watched.calls.iter().map(|call| call.count).sum();
    assert_eq!(sleeps + 1, after.0 - before.0);
    let locks = watched
        .calls
        .iter()
        .find(|call| call.name == "futex LOCK_PI")
        .expect("locks");
    let holder = locks.other.as_ref().expect("a holder");
    assert_eq!(
        (&*holder.name, &*holder.policy, holder.priority),
        ("low-holder", "fifo", 10)
    );
    assert!(locks.held);
    assert_eq!(locks.inversions, 7);
    let reads = watched
        .calls
        .iter()
        .find(|call| call.name == "read")
        .expect("reads");
    assert_eq!(
        reads.other.as_ref().map(|other| &*other.policy),
        Some("other")
    );
    // Each wake-up is a sample, of one kind or the other.
    assert_eq!(
        counted.latency.count,
        watched.by_timer.count + watched.by_others.count
    );
    assert!(ended.status.success() || run.verdict.is_some());
}

/// Waits whose timer expired before the thread had gone to sleep.
fn unslept(thread: &WatchedThread) -> u64 {
    let slept: u64 = thread.calls.iter().map(|call| call.by_timer).sum();
    thread.by_timer.count.saturating_sub(slept)
}

#[test]
fn waits_that_begin_too_late_are_overruns_and_instants_that_passed_are_missed() {
    needed!();
    let place = Place::new();
    let mut known = Known::start(
        watched(),
        &["cycles", "1000", "stalls", "5", "catch-up", "1"],
    );
    let number = known.pid.to_string();
    let going = watch(&place, &[&number, "-q", "--no-explain"]);
    let did = known.go();
    going.signal(libc::SIGINT);
    going.end();
    let run = place.run_of();
    let (counted, watched) = thread(&run, "rt-loop");
    assert_eq!(counted.lost, 0);
    assert!(did["late"] >= 15, "{did:?}");
    // Between its reading of the clock and the arming of the timer an instant may pass.
    assert!(
        (did["late"]..did["late"] + 5).contains(&watched.overruns),
        "{} of {did:?}",
        watched.overruns
    );
    assert!(watched.worst_overrun_ns >= 2_400_000);
    // A stall of 3.5 periods: the next instant is late, the two after it have passed.
    assert!(counted.missed >= 10, "{}", counted.missed);
    assert_eq!(watched.by_timer.count + counted.missed, 1000);
}

#[test]
fn a_program_that_ends_ends_the_watch_and_the_record_stays() {
    needed!();
    let place = Place::new();
    let mut known = Known::start(watched(), &["cycles", "200"]);
    let number = known.pid.to_string();
    let going = watch(&place, &[&number, "-q"]);
    known.go();
    drop(known);
    going.end();
    let run = place.run_of();
    assert_eq!(run.state, State::Finished);
    assert!(run.events.iter().any(|event| event.kind == "program-ended"));
    let subject = &run.watch.as_ref().expect("a watch").subject;
    assert!(
        matches!(subject, Subject::Program { ended: true, .. }),
        "{subject:?}"
    );
    let (counted, _) = thread(&run, "rt-loop");
    assert_eq!(
        (counted.latency.count, counted.lost),
        (201, 0),
        "its end wakes it, too"
    );
}

#[test]
fn two_watches_side_by_side_count_the_same_and_one_that_is_killed_leaves_nothing() {
    needed!();
    let (one, other, killed) = (Place::new(), Place::new(), Place::new());
    let mut known = Known::start(watched(), &["cycles", "500"]);
    let number = known.pid.to_string();
    let first = watch(&one, &[&number, "-q"]);
    let second = watch(&other, &[&number, "-q", "--no-explain"]);
    let third = watch(&killed, &[&number, "-q"]);
    assert!(programs_of(third.pid()) >= 5);
    third.signal(libc::SIGKILL);
    let pid = third.pid();
    third.end();
    // Nothing is pinned: what a process holds goes with it.
    assert_eq!(programs_of(pid), 0);
    known.go();
    for going in [first, second] {
        going.signal(libc::SIGINT);
        going.end();
    }
    let counts = [one.run_of(), other.run_of()].map(|run| {
        let (counted, watched) = thread(&run, "rt-loop");
        (
            counted.latency.count,
            counted.lost,
            times(watched, "clock_nanosleep"),
        )
    });
    assert_eq!(counts[0], counts[1]);
    assert_eq!(counts[0].1, 0);
    // The one that was killed is a record all the same.
    assert_eq!(killed.run_of().state, State::Unfinished);
}

#[test]
fn threads_of_ordinary_priority_are_watched_when_asked_for() {
    needed!();
    let place = Place::new();
    let mut known = Known::start(watched(), &["cycles", "100", "reads", "5"]);
    let number = known.pid.to_string();
    let going = watch(&place, &[&number, "--all", "-q", "--no-explain"]);
    known.go();
    going.signal(libc::SIGTERM);
    going.end();
    let run = place.run_of();
    assert_eq!(
        run.state,
        State::Stopped {
            reason: "terminate".to_owned()
        }
    );
    let (_, answer) = thread(&run, "answer");
    assert_eq!(answer.task.policy, "other");
    assert!(times(answer, "clock_nanosleep") >= 5);
    let names: Vec<&str> = run
        .watch
        .as_ref()
        .unwrap()
        .threads
        .iter()
        .map(|t| &*t.task.name)
        .collect();
    assert!(names.contains(&"rt-loop"), "{names:?}");
}

#[test]
fn a_program_without_real_time_threads_gives_no_figures_and_says_so() {
    needed!();
    let place = Place::new();
    let mut sleeper = Command::new("sleep").arg("60").spawn().expect("sleep");
    let number = sleeper.id().to_string();
    let ended = place.run(&["watch", &number, "-D", "500ms", "--deadline", "1ms"]);
    let _ = sleeper.kill();
    let _ = sleeper.wait();
    assert_eq!(ended.status.code(), Some(4), "{}", ended.stdout);
    let run = place.run_of();
    assert_eq!(run.demands[0].standing, Standing::NotInForce);
    assert!(
        run.demands[0]
            .mend
            .as_ref()
            .is_some_and(|mend| mend.contains("--all"))
    );
}

#[test]
fn the_worst_wake_up_of_the_system_names_who_was_in_the_way() {
    needed!();
    let place = Place::new();
    let going = watch(&place, &["--system", "-q"]);
    let cpu = common::cpus()[0].to_string();
    // One that wakes up each ms, and one above it that keeps the CPU for 40 ms at a time.
    let victim = "import time\nwhile True: time.sleep(0.001)";
    let hog = "import time\nend=time.time()+2\nwhile time.time()<end:\n t=time.time()+0.04\n while time.time()<t: pass\n time.sleep(0.05)";
    if !has("python3") || !has("chrt") || !has("taskset") {
        skip!("it takes python3, chrt and taskset");
    }
    let start = |priority: &str, script: &str| {
        Command::new("taskset")
            .args(["-c", &cpu, "chrt", "-f", priority, "python3", "-c", script])
            .spawn()
            .expect("a program")
    };
    let mut victim = start("20", victim);
    let mut hog = start("97", hog);
    let (victim_tid, hog_tid) = (victim.id(), hog.id());
    let _ = hog.wait();
    let _ = victim.kill();
    let _ = victim.wait();
    going.signal(libc::SIGINT);
    going.end();
    let run = place.run_of();
    let watch = run.watch.as_ref().expect("a watch");
    assert_eq!(watch.subject, Subject::System);
    let named = watch.worst.iter().filter(|worst| {
        worst.task.tid == victim_tid
            && worst
                .before
                .as_ref()
                .is_some_and(|task| task.tid == hog_tid)
    });
    let named: Vec<_> = named.collect();
    assert!(named.len() >= 3, "{:?}", watch.worst);
    for worst in named {
        assert!(worst.by_timer);
        assert!(worst.latency_ns > 10_000_000, "{worst:?}");
        assert_eq!(worst.before.as_ref().map(|task| task.priority), Some(97));
    }
    let cost = watch.cost.expect("its cost");
    assert!(cost.calls > 0 && cost.spent_ns > 0 && cost.measured_ns > 0);
    for thread in &run.threads {
        assert!(
            thread
                .peaks
                .iter()
                .all(|peak| peak.latency_ns <= thread.latency.max_ns)
        );
    }
}

#[test]
fn threads_that_come_and_go_are_each_counted() {
    needed!();
    let place = Place::new();
    let mut known = Known::start(watched(), &["cycles", "100", "threads", "12"]);
    let number = known.pid.to_string();
    let going = watch(&place, &[&number, "-q", "--no-explain"]);
    known.go();
    going.signal(libc::SIGINT);
    going.end();
    let run = place.run_of();
    let watch = run.watch.as_ref().expect("a watch");
    let brief: Vec<&WatchedThread> = watch
        .threads
        .iter()
        .filter(|thread| thread.task.name == "rt-brief")
        .collect();
    assert_eq!(brief.len(), 12);
    for thread in brief {
        assert!(thread.ended);
        assert_eq!(times(thread, "clock_nanosleep"), 10, "{thread:?}");
    }
    assert!(run.threads.iter().all(|thread| thread.lost == 0));
}

#[test]
fn late_jobs_of_a_deadline_thread_are_counted() {
    needed!();
    let place = Place::new();
    let mut known = Known::start(watched(), &["cycles", "100", "jobs", "25"]);
    let number = known.pid.to_string();
    let going = watch(&place, &[&number, "-q", "--no-explain"]);
    let did = known.go();
    going.signal(libc::SIGINT);
    going.end();
    if let Some(error) = did.get("refused") {
        skip!("SCHED_DEADLINE is refused here: errno {error}");
    }
    let run = place.run_of();
    let (_, watched) = thread(&run, "dl-loop");
    assert_eq!(watched.task.policy, "deadline");
    let jobs = watched.jobs.expect("jobs");
    // The first yield ends one too, before its jobs begin.
    assert!((25..=27).contains(&jobs.count), "{jobs:?} {did:?}");
    assert!(
        jobs.late >= 5 && jobs.late <= did["late-jobs"] + 2,
        "{jobs:?} {did:?}"
    );
    assert!(jobs.worst_ns >= 1_500_000, "{jobs:?}");
    // 8 ms of work do not fit into a runtime of 5.
    assert!(jobs.postponed >= 5, "{jobs:?}");
}

#[test]
fn what_can_not_be_watched_is_said_in_one_line() {
    let place = Place::new();
    let cases: [(&[&str], &str); 6] = [
        (&["4194304"], "no program has the number 4194304"),
        (
            &["no-such-program"],
            "no program is named 'no-such-program'",
        ),
        (&[], "PID|NAME"),
        (&["1", "--system"], "--system"),
        (&["--system", "--all"], "--all"),
        (&["1", "--deadline", "soon"], "--deadline"),
    ];
    for (arguments, wanted) in cases {
        let ended = place.run(&[&["watch"], arguments].concat());
        assert_eq!(ended.status.code(), Some(64), "{arguments:?}");
        assert!(ended.stderr.contains(wanted), "{}", ended.stderr);
        assert_eq!(ended.stderr.lines().count(), 1, "{}", ended.stderr);
    }
    assert!(place.entries().is_empty());
    let mut sleepers: Vec<Child> = (0..2)
        .map(|_| {
            let mut command = place.command(watched());
            command.stdin(Stdio::piped());
            command.spawn().expect("a program")
        })
        .collect();
    let named = || {
        let ended = place.run(&["watch", "watched"]);
        ended.stderr.contains("programs are named 'watched'") && ended.status.code() == Some(64)
    };
    until("several of a name", named);
    for sleeper in &mut sleepers {
        let _ = sleeper.kill();
        let _ = sleeper.wait();
    }
}

#[test]
fn without_the_privilege_nothing_is_watched_and_nothing_left_behind() {
    if !is_root() || !has("setpriv") {
        skip!("it takes root and setpriv to give privileges up");
    }
    for what in [&["1"][..], &["--system"]] {
        let place = Place::new();
        let mut command = place.command("setpriv");
        command
            .arg("--bounding-set=-sys_admin,-bpf,-perfmon")
            .arg(common::program())
            .arg("watch")
            .args(what);
        let ended = Going::start(command).end();
        assert_eq!(ended.status.code(), Some(1));
        assert_eq!(ended.stderr.lines().count(), 1, "{}", ended.stderr);
        assert!(
            ended.stderr.contains("CAP_BPF and CAP_PERFMON"),
            "{}",
            ended.stderr
        );
        assert!(place.entries().is_empty(), "{:?}", place.entries());
    }
}

#[test]
fn every_other_verb_reads_a_watch() {
    needed!();
    let place = Place::new();
    let mut known = Known::start(watched(), &["cycles", "300", "reads", "3"]);
    let number = known.pid.to_string();
    let watches = ["one", "two"].map(|name| watch(&place, &[&number, "-q", "-o", name]));
    known.go();
    for going in watches {
        going.signal(libc::SIGINT);
        going.end();
    }
    let shown = place.run(&["report", "one"]).expect(0).stdout;
    for wanted in ["rt-loop", "clock_nanosleep", "What they slept in"] {
        assert!(shown.contains(wanted), "{wanted}: {shown}");
    }
    assert!(
        shown.lines().all(|line| line.chars().count() <= 80),
        "{shown}"
    );
    place.run(&["compare", "one", "two"]).expect(0);
    place.run(&["explain", "one"]).expect(0);
    for format in ["csv", "openmetrics", "junit", "cyclictest"] {
        place.run(&["export", "one", "--format", format]).expect(0);
    }
    place
        .run(&["merge", "one", "two", "-o", "both", "-q"])
        .expect(0);
    let [one, two, both] = ["one", "two", "both"].map(|name| place.run_of_path(name));
    let count = |run: &Run| thread(run, "rt-loop").0.latency.count;
    assert_eq!(count(&one) + count(&two), count(&both));
    let reads = |run: &Run| times(thread(run, "rt-loop").1, "read");
    assert_eq!(reads(&one) + reads(&two), reads(&both));
    assert_eq!(reads(&one), 3);
    let page = fs::read_to_string(place.path().join("one/report.html")).expect("a page");
    assert!(page.contains("What was watched"));
}
