//! `punctual watch` on programs with known behaviour: its counts are compared with what
//! they did, not with the watch's own output.

use crate::common;
use crate::crossing;
use crate::exact;
use crate::periods;
use crate::waits;
use std::fs;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use crate::common::needs::{self, Absent};
use crate::common::{Place, Running, need, said, skip, until};
use crate::exact::{counted_but_for_unseen, thread, times};
use crate::known::{Known, programs_of, watch, watched};
use punctual_record::watch::{Subject, WatchedThread};
use punctual_record::{Run, Standing, State};
use punctual_report::facts;
use punctual_rt::affinity;
use punctual_rt::sched::{Policy, set_current};
use punctual_rt::sys::task;
use punctual_stats::verdict::Outcome;

#[test]
fn what_a_program_does_is_counted_exactly() {
    needed!();
    exact::its_actions_are_counted(&[]);
}

#[test]
fn waits_that_begin_late_are_overruns_and_passed_instants_are_skipped() {
    needed!();
    exact::late_waits_and_skipped_instants_are_counted();
}

#[test]
fn a_thread_that_gave_up_its_priority_is_not_missed() {
    needed!();
    periods::a_thread_that_gave_up_its_priority_is_not_missed();
}

#[test]
fn periods_that_a_thread_skips_itself_miss_the_deadline() {
    needed!();
    periods::periods_that_a_thread_skips_itself_miss_the_deadline();
}

#[test]
fn a_thread_with_relative_sleeps_has_no_period() {
    needed!();
    periods::a_thread_with_relative_sleeps_has_no_period();
}

#[test]
fn a_thread_that_computes_its_sleeps_from_the_clock_has_a_period() {
    needed!();
    periods::a_thread_that_computes_its_sleeps_from_the_clock_has_a_period();
}

#[test]
fn a_pipe_of_three_processes_is_followed_to_its_end() {
    needed!();
    let _alone = alone();
    waits::a_pipe_of_three_processes_is_followed_to_its_end();
}

#[test]
fn a_lock_whose_holder_waits_for_another_lock_is_followed_to_the_working_thread() {
    needed!();
    let _alone = alone();
    waits::a_lock_whose_holder_waits_for_another_lock_is_followed_to_the_working_thread();
}

#[test]
fn a_helper_that_a_real_time_thread_preempts_is_ready_behind_that_thread() {
    needed!();
    let _alone = alone();
    waits::a_helper_that_a_real_time_thread_preempts_is_ready_behind_that_thread();
}

/// A crowd of real-time threads delays every other one, and so do those of a scene with waits, all of
/// which are on the last CPU: tests that they would disturb wait for them.
static CROWD: Mutex<()> = Mutex::new(());

fn alone() -> MutexGuard<'static, ()> {
    CROWD.lock().unwrap_or_else(PoisonError::into_inner)
}

#[test]
fn a_watch_of_too_many_threads_does_not_pass() {
    needed!();
    let _alone = alone();
    periods::a_watch_of_too_many_threads_does_not_pass("300", 256);
}

#[test]
fn threads_that_end_make_room_for_others() {
    needed!();
    let _alone = alone();
    periods::threads_that_end_make_room_for_others();
}

#[test]
fn a_watch_of_too_many_threads_for_the_kernel_does_not_pass() {
    needed!();
    let _alone = alone();
    periods::a_watch_of_too_many_threads_does_not_pass("4300", 256);
}

#[test]
fn a_program_that_ends_ends_the_watch_and_the_record_stays() {
    needed!();
    let place = Place::new();
    let mut known = Known::start(watched(), &["cycles", "200"]);
    let number = known.pid.to_string();
    let asked = ["--deadline", "10s", "--miss", "0.9"];
    let running = watch(&place, &[&[&number, "-q"], &asked[..]].concat());
    known.go();
    known.kill(libc::SIGXCPU);
    running.end();
    let run = place.run_of();
    assert_eq!(run.state, State::Finished);
    assert!(
        run.events
            .iter()
            .any(|event| event.kind() == "program-ended")
    );
    let subject = &run.watch.as_ref().expect("a watch").subject;
    assert!(
        matches!(
            subject,
            Subject::Program {
                ended: true,
                killed_by: Some(libc::SIGXCPU),
                ..
            }
        ),
        "{subject:?}"
    );
    let sentence = said(&run);
    let end = format!("({number}) was ended by SIGXCPU (RLIMIT_RTTIME or RLIMIT_CPU).");
    assert!(sentence.ends_with(&end), "{sentence}");
    let (counted, watched) = thread(&run, "rt-loop");
    assert_eq!(counted.lost, 0);
    // Also the wake-up from the `read` in which the watch found it. Its end wakes it, too; and where a core is dumped,
    // that is waited for.
    let most = counted.latency.count.clamp(201, 203);
    counted_but_for_unseen(counted.latency.count, most, watched);
}

#[test]
fn two_simultaneous_watches_count_the_same_and_a_killed_one_leaves_nothing() {
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
    // Nothing is pinned: what a process holds is freed when it ends.
    assert_eq!(programs_of(pid), 0);
    known.go();
    for running in [first, second] {
        running.signal(libc::SIGINT);
        running.end();
    }
    let counts = [one.run_of(), other.run_of()].map(|run| {
        let (counted, watched) = thread(&run, "rt-loop");
        (
            counted.latency.count,
            counted.lost,
            times(watched, "clock_nanosleep"),
            watched.unseen,
        )
    });
    assert_eq!(counts[0], counts[1]);
    assert_eq!(counts[0].1, 0);
    // The watch that was killed leaves a record all the same.
    assert_eq!(killed.run_of().state, State::Unfinished);
}

#[test]
fn threads_of_ordinary_priority_are_watched_on_request() {
    needed!();
    let place = Place::new();
    // A preempted thread may find its time over before it has slept.
    let mut known = Known::start(watched(), &["cycles", "100", "reads", "25"]);
    let number = known.pid.to_string();
    let running = watch(&place, &[&number, "--all", "-q", "--no-explain"]);
    known.go();
    running.signal(libc::SIGTERM);
    running.end();
    let run = place.run_of();
    assert_eq!(
        run.state,
        State::Stopped(punctual_record::Ending::Terminate)
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
fn a_program_without_real_time_threads_gives_no_figures_and_a_reason() {
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
            .fix
            .as_ref()
            .is_some_and(|fix| facts::fix(fix).contains("--all"))
    );
}

#[test]
fn the_worst_wake_up_of_the_system_names_the_thread_in_the_way() {
    needed!();
    let _alone = alone();
    exact::the_thread_in_the_way_is_named(common::cpus()[0]);
}

#[test]
fn the_thread_in_the_way_on_a_cpu_that_was_left_is_named() {
    needed!();
    let cpus = common::cpus();
    need!(needs::cpus(2));
    let _alone = alone();
    crossing::the_thread_in_the_way_on_a_cpu_that_was_left_is_named(cpus[0], cpus[1]);
}

/// A thread that is woken while one above it keeps the CPU until the watch has ended.
#[test]
fn a_thread_that_starves_when_a_watch_of_the_system_ends_is_no_pass() {
    needed!();
    let _alone = alone();
    let cpu = common::cpus()[0];
    let place = Place::new();
    let running = watch(&place, &["--system", "-q", "--max", "100ms"]);
    let be = |priority: u32| {
        set_current(Policy::Fifo(priority)).expect("root may");
        affinity::set_current(&[cpu]).expect("a CPU of ours");
    };
    let over = AtomicBool::new(false);
    let (ready, is_ready) = std::sync::mpsc::channel();
    let (wake, woken) = std::sync::mpsc::channel();
    let victim = std::thread::scope(|scope| {
        let (told, over) = (ready.clone(), &over);
        let victim = scope.spawn(move || {
            be(20);
            let tid = task::current_tid().unsigned_abs();
            told.send(tid).expect("somebody waits");
            woken.recv().expect("it is woken");
        });
        let tid = is_ready.recv().expect("its number");
        let hog = scope.spawn(move || {
            be(97);
            ready.send(tid).expect("somebody waits");
            let begin = Instant::now();
            while !over.load(Ordering::Relaxed) && begin.elapsed() < Duration::from_secs(20) {}
        });
        is_ready.recv().expect("it spins");
        wake.send(()).expect("it sleeps");
        std::thread::sleep(Duration::from_millis(400));
        running.signal(libc::SIGINT);
        running.end();
        over.store(true, Ordering::Relaxed);
        hog.join().expect("it ends");
        victim.join().expect("it ends");
        tid
    });
    let run = place.run_of();
    let waiting = &run.watch.as_ref().expect("a watch").waiting;
    let starved = waiting.iter().find(|it| it.task.tid == victim);
    let starved = starved.unwrap_or_else(|| panic!("{waiting:?}"));
    assert!(starved.waited_ns >= 390_000_000, "{starved:?}");
    assert_eq!(starved.cpu as usize, cpu);
    assert_eq!(
        (starved.task.policy.as_str(), starved.task.priority),
        ("fifo", 20)
    );
    let outcome = run.analysis.as_ref().map(|it| it.verdict.outcome);
    assert_ne!(outcome, Some(Outcome::Pass));
}

#[test]
fn whom_an_interrupt_interrupted_wakes_nobody() {
    needed!();
    let _alone = alone();
    crossing::whom_an_interrupt_interrupted_wakes_nobody(common::cpus()[0]);
}

#[test]
fn wake_ups_that_cross_the_switch_are_seen() {
    needed!();
    need!(needs::cpus(2));
    let _alone = alone();
    crossing::wake_ups_that_cross_the_switch_are_seen([common::cpus()[0], common::cpus()[1]]);
}

#[test]
fn threads_that_come_and_go_are_each_counted() {
    needed!();
    let place = Place::new();
    let mut known = Known::start(watched(), &["cycles", "100", "threads", "12"]);
    let number = known.pid.to_string();
    let running = watch(&place, &[&number, "-q", "--no-explain"]);
    known.go();
    running.signal(libc::SIGINT);
    running.end();
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
        counted_but_for_unseen(times(thread, "clock_nanosleep"), 10, thread);
    }
    assert!(run.threads.iter().all(|thread| thread.lost == 0));
}

#[test]
fn late_jobs_of_a_deadline_thread_are_counted() {
    needed!();
    need!(exact::late_jobs_are_counted());
}

#[test]
fn the_budget_that_deadline_jobs_use_is_counted() {
    needed!();
    need!(exact::the_budget_that_jobs_use_is_counted());
}

#[test]
fn off_cpu_times_are_counted_by_stack() {
    needed!();
    exact::off_cpu_times_are_counted_by_stack();
}

#[test]
fn run_queue_latencies_are_counted_for_a_program_and_for_the_system() {
    needed!();
    let _alone = alone();
    exact::run_queue_latencies_are_counted(0, false);
    exact::run_queue_latencies_are_counted(0, true);
}

/// Programs that end between two readings of the counts, and have the same number one after the other.
#[test]
fn waits_of_threads_whose_number_is_reused_are_counted_or_reported_as_lost() {
    const LAST: &str = "/proc/sys/kernel/ns_last_pid";
    needed!();
    need!(needs::kernel_file(LAST));
    let _alone = alone();
    let place = Place::new();
    let running = watch(&place, &["--system", "-q", "--run-queue"]);
    let run = || {
        let mut child = Command::new("true").spawn().expect("true");
        child.wait().expect("it ends");
        child.id()
    };
    let (mut number, mut reused) = (run(), 0_u64);
    // Another program may take the number: then it goes on with the one that it got instead.
    for _ in 0..10_000 {
        fs::write(LAST, (number - 1).to_string()).expect("root may");
        let next = run();
        reused += u64::from(next == number);
        number = next;
        if reused == 60 {
            break;
        }
    }
    running.signal(libc::SIGINT);
    running.end();
    assert_eq!(reused, 60, "numbers that were given out again");
    let run = place.run_of();
    let queue = run.watch.as_ref().and_then(|it| it.run_queue.as_ref());
    let queue = queue.expect("run queues");
    let own = queue.threads.iter().filter(|it| it.task.name == "true");
    let kept: u64 = own.map(|it| it.woken.lengths.count).sum();
    // Each one waited for a CPU at least once, when it was created.
    assert!(
        kept + queue.lost >= reused,
        "{kept} kept, {} lost of {reused}",
        queue.lost
    );
}

#[test]
fn a_program_that_cannot_be_watched_is_reported_in_one_line() {
    let place = Place::new();
    let cases: [(&[&str], &str); 9] = [
        (&["4194304"], "no program has the number 4194304"),
        (
            &["no-such-program"],
            "no program is named 'no-such-program'",
        ),
        (&[], "PID|NAME"),
        (&["1", "--system"], "--system"),
        (&["--system", "--all"], "--all"),
        (&["--system", "--off-cpu"], "--off-cpu"),
        (&["1", "--stop-above", "0"], "a bare number is in us"),
        (&["1", "--on-breach", "true"], "--breaktrace"),
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
fn without_the_privilege_nothing_is_watched_or_left_behind() {
    need!(needs::root());
    need!(needs::program("setpriv"));
    for what in [&["1"][..], &["--system"]] {
        let place = Place::new();
        let mut command = place.command("setpriv");
        command
            .arg("--bounding-set=-sys_admin,-bpf,-perfmon")
            .arg(common::program())
            .arg("watch")
            .args(what);
        let ended = Running::start(command).end();
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
    for name in ["one", "two"] {
        let mut known = Known::start(watched(), &["cycles", "300", "reads", "3"]);
        let number = known.pid.to_string();
        let running = watch(&place, &[&number, "-q", "-o", name]);
        known.go();
        running.signal(libc::SIGINT);
        running.end();
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
    counted_but_for_unseen(reads(&one), 3, thread(&one, "rt-loop").1);
    let page = fs::read_to_string(place.path().join("one/report.html")).expect("a page");
    assert!(page.contains("What was watched"));
}

/// Runs without a sleep on CPU `{1}` until the file `{2}` is there, and then sleeps for good.
const FALLS_ASLEEP: &str = "import os,sys,time\n\
os.sched_setaffinity(0,{int(sys.argv[1])})\n\
os.sched_setscheduler(0,os.SCHED_FIFO,os.sched_param(50))\n\
while not os.path.exists(sys.argv[2]): pass\n\
time.sleep(60)\n";

#[test]
fn a_thread_seen_only_to_sleep_is_on_the_cpu_that_it_left() {
    needed!();
    let cpus = common::cpus();
    let [_, .., last] = cpus[..] else {
        skip!(Absent::cpus(2));
    };
    need!(needs::program("python3"));
    let _alone = alone();
    let place = Place::new();
    let go = place.path().join("go");
    let mut program = Command::new("python3")
        .args(["-c", FALLS_ASLEEP, &last.to_string()])
        .arg(&go)
        .spawn()
        .expect("python3");
    let number = program.id().to_string();
    // SAFETY: takes a number, and touches no memory.
    let policy = || unsafe { libc::sched_getscheduler(program.id() as i32) };
    until("its policy", || policy() == libc::SCHED_FIFO);
    let running = watch(&place, &[&number, "-q", "--no-explain"]);
    fs::write(&go, "").expect("a file");
    let stat = format!("/proc/{number}/stat");
    let sleeps = || fs::read_to_string(&stat).is_ok_and(|line| line.contains(") S "));
    until("it sleeps", sleeps);
    running.signal(libc::SIGINT);
    running.end();
    let _ = program.kill();
    let _ = program.wait();
    let run = place.run_of();
    let cpus: Vec<usize> = run.threads.iter().filter_map(|thread| thread.cpu).collect();
    assert_eq!(cpus, [last]);
}
