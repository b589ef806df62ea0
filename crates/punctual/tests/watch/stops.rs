//! A stop of a watched program is an event with a length, not a late wake-up and not a skipped
//! period.

use std::collections::BTreeMap;
use std::thread::{scope, sleep};
use std::time::{Duration, Instant};

use crate::common::stops::{FREEZERS, Freezer, await_stopped, trace};
use crate::common::{Place, said, skip, why_invalid};
use crate::exact::thread;
use crate::known::{Known, watch, watched};
use punctual_record::watch::{OffCpuPlace, OffCpuWhy};
use punctual_record::{Run, Stop, StopCause, Stops};
use punctual_report::facts;
use punctual_stats::verdict::Outcome;

const MS: u64 = 1_000_000;
/// Longer than any stall that a busy machine has.
const STOP: Duration = Duration::from_millis(300);
/// Long enough for a period to be found.
const BEFORE: Duration = Duration::from_millis(500);

fn ns(length: Duration) -> u64 {
    u64::try_from(length.as_nanos()).expect("a short time")
}

fn signal(pid: u32, number: i32) {
    let pid = i32::try_from(pid).expect("a number of a process");
    // SAFETY: kill takes two integers; the process is a child that has not been reaped, so the
    // number is its own.
    assert_eq!(unsafe { libc::kill(pid, number) }, 0);
}

/// The shortest and the longest possible length of a stop.
struct Held(Duration, Duration);

/// Stops a process for a while.
fn stop(pid: u32) -> Held {
    let begun = Instant::now();
    signal(pid, libc::SIGSTOP);
    await_stopped(pid);
    let stopped = Instant::now();
    sleep(STOP);
    let least = stopped.elapsed();
    signal(pid, libc::SIGCONT);
    Held(least, begun.elapsed())
}

/// Watches a program during an action, which gets its numbers; returns the record and the
/// program's output.
fn watched_while<T: Send>(
    place: &Place,
    does: &[&str],
    asked: &[&str],
    happens: impl FnOnce(u32, u32) -> T + Send,
) -> (Run, BTreeMap<String, u64>, T) {
    let mut known = Known::start(watched(), does);
    let (pid, tid) = (known.pid, known.tid);
    let running = watch(place, &[&[&*pid.to_string(), "-q"], asked].concat());
    let (did, held) = scope(|scope| {
        let happening = scope.spawn(move || {
            sleep(BEFORE);
            happens(pid, tid)
        });
        (known.go(), happening.join().expect("it happens"))
    });
    running.signal(libc::SIGINT);
    running.end();
    (place.run_of(), did, held)
}

/// The only stop of a record that is not short: its length, and no other effect
/// of it.
#[track_caller]
fn the_stop<'r>(run: &'r Run, held: &Held) -> (&'r Stops, &'r Stop) {
    let stops = run.stops.as_ref().expect("a stop in the record");
    let long: Vec<&Stop> = stops
        .list
        .iter()
        .filter(|it| it.length_ns > 20 * MS)
        .collect();
    let &[stop] = &long[..] else {
        panic!("one stop, not {stops:?}");
    };
    // A thread that is frozen while asleep is noticed when its next period begins.
    let bounds = ns(held.0).saturating_sub(2 * MS)..=ns(held.1);
    assert!(bounds.contains(&stop.length_ns), "{bounds:?}: {stops:?}");
    let told = run.events.iter().filter(|event| event.kind() == "stopped");
    assert_eq!(told.count() as u64, stops.count);
    let (counted, watched) = thread(run, "rt-loop");
    assert_eq!(counted.lost, 0);
    assert!(
        counted.latency.max_ns < ns(STOP) / 2,
        "{}",
        counted.latency.max_ns
    );
    // Its periods are within it. Skipped ones are due to the machine itself, which may be busy, and
    // then a program that skips none is late for them.
    let periods = ns(held.0) / MS;
    let within = stops.cycles + watched.unseen;
    assert!(
        within + 5 >= periods,
        "{within} of {periods} within; {} skipped",
        counted.missed
    );
    let skipped_longest = watched.skips.iter().map(|skip| skip.most_ns).max();
    assert!(skipped_longest < Some(ns(STOP) / 2), "{:?}", watched.skips);
    assert!(watched.worst_overrun_ns < ns(STOP) / 2);
    (stops, stop)
}

/// Wake-ups, skipped periods and those within stops sum to the thread's schedule.
#[track_caller]
fn no_cycle_is_lost(run: &Run, due: u64) {
    let (counted, watched) = thread(run, "rt-loop");
    let within = run.stops.as_ref().expect("a stop").cycles;
    let found = watched.by_timer.count + counted.missed + within;
    let least = due - watched.unseen.min(due);
    assert!(
        (least..=due).contains(&found),
        "{found} of {due}, {within} within stops"
    );
}

#[test]
fn a_program_that_is_stopped_and_continued_is_not_late() {
    needed!();
    let place = Place::new();
    // 300 ms of 7 s: the record is valid.
    let (run, did, held) = watched_while(
        &place,
        &["cycles", "6500"],
        &["--deadline", "100ms", "--miss", "1e-2", "--max", "140ms"],
        |pid, _| stop(pid),
    );
    let (_, stopped) = the_stop(&run, &held);
    // Two real-time threads, one stop.
    assert_eq!((stopped.cause, stopped.tid), (StopCause::Signal, None));
    no_cycle_is_lost(&run, 6500 + did["skipped"]);
    let verdict = run.verdict.as_ref().expect("a verdict");
    let stands = matches!(verdict.outcome, Outcome::Pass | Outcome::Inconclusive);
    assert!(stands, "{}", said(&run));
}

#[test]
fn a_program_that_catches_up_after_a_stop_skips_nothing_of_it() {
    needed!();
    let place = Place::new();
    let (run, _, held) = watched_while(
        &place,
        &["cycles", "3000", "catch-up", "1"],
        &["--deadline", "100ms", "--miss", "1e-2"],
        |pid, _| stop(pid),
    );
    the_stop(&run, &held);
    no_cycle_is_lost(&run, 3000);
    // 300 ms of 3 s are too much, and a stop is not a missed deadline.
    let verdict = run.verdict.as_ref().expect("a verdict");
    assert_eq!(verdict.outcome, Outcome::Invalid, "{}", said(&run));
    let reasons = why_invalid(&run);
    assert!(
        reasons.contains("threads of the watched program were stopped for 0.3"),
        "{reasons}"
    );
}

#[test]
fn a_thread_that_a_debugger_stops_is_not_late() {
    needed!();
    let place = Place::new();
    let (run, did, held) = watched_while(
        &place,
        &["cycles", "2000"],
        &["--deadline", "100ms", "--miss", "1e-2"],
        |_, tid| {
            let begun = Instant::now();
            let tid = i32::try_from(tid).expect("a number of a thread");
            trace(tid, STOP).then(|| (tid, Held(STOP, begun.elapsed())))
        },
    );
    let Some((tid, held)) = held else {
        skip!("no thread may be traced here");
    };
    let (_, stopped) = the_stop(&run, &held);
    assert_eq!(stopped.cause, StopCause::Debugger);
    assert_eq!(stopped.tid, Some(tid.unsigned_abs()));
    let told = run.events.iter().find(|event| event.kind() == "stopped");
    let told = facts::event(told.expect("an event"), "");
    assert!(told.contains(&format!("rt-loop/{tid}")), "{told}");
    no_cycle_is_lost(&run, 2000 + did["skipped"]);
}

#[test]
fn a_program_whose_control_group_is_frozen_is_not_late() {
    needed!();
    let mut frozen = 0;
    for group in FREEZERS.iter().filter_map(Freezer::group) {
        let place = Place::new();
        let (run, did, held) = watched_while(
            &place,
            &["cycles", "2000"],
            &["--deadline", "100ms", "--miss", "1e-2", "--off-cpu"],
            |pid, _| {
                group.add(pid);
                let begun = Instant::now();
                group.freeze();
                group.await_frozen();
                let all = Instant::now();
                sleep(STOP);
                let least = all.elapsed();
                group.thaw();
                Held(least, begun.elapsed())
            },
        );
        let (_, stopped) = the_stop(&run, &held);
        assert_eq!(stopped.cause, StopCause::Freezer);
        // It was off the CPU frozen for this long, and asleep until then.
        let watch = run.watch.as_ref().expect("a watch");
        let places = &watch.off_cpu.as_ref().expect("places").places;
        let of_loop = |why: OffCpuWhy| {
            let named = |at: u32| &*watch.threads[at as usize].task.name == "rt-loop";
            let own = |it: &&OffCpuPlace| named(it.thread);
            let own = places.iter().filter(own).filter(move |it| it.why == why);
            own.map(|it| it.longest_ns).max().unwrap_or(0)
        };
        let (frozen_ns, asleep_ns) = (of_loop(OffCpuWhy::Stopped), of_loop(OffCpuWhy::Asleep));
        assert!(frozen_ns >= ns(held.0).saturating_sub(2 * MS), "{places:?}");
        assert!(asleep_ns < ns(STOP) / 2, "{places:?}");
        no_cycle_is_lost(&run, 2000 + did["skipped"]);
        frozen += 1;
    }
    if frozen == 0 {
        skip!("no freezer");
    }
}

/// A stop that had begun before the watch, and one that continues when it ends.
#[test]
fn a_stop_across_the_bounds_of_a_watch_is_clipped_to_them() {
    needed!();
    let place = Place::new();
    let mut known = Known::start(watched(), &["cycles", "3000", "catch-up", "1"]);
    let pid = known.pid;
    let (before, after) = scope(|scope| {
        let done = scope.spawn(|| known.go());
        sleep(BEFORE);
        signal(pid, libc::SIGSTOP);
        await_stopped(pid);
        let running = watch(&place, &[&*pid.to_string(), "-q"]);
        let watched = Instant::now();
        sleep(STOP);
        let before = watched.elapsed();
        signal(pid, libc::SIGCONT);
        sleep(BEFORE);
        signal(pid, libc::SIGSTOP);
        await_stopped(pid);
        let stopped = Instant::now();
        sleep(STOP);
        let after = stopped.elapsed();
        running.signal(libc::SIGINT);
        running.end();
        signal(pid, libc::SIGCONT);
        done.join().expect("it ends");
        (before, after)
    });
    let run = place.run_of();
    let stops = run.stops.as_ref().expect("two stops");
    let [first, second] = &stops.list[..] else {
        panic!("two stops, not {stops:?}");
    };
    // The watch begins shortly before it is seen to be active.
    assert_eq!(first.at_ns, 0);
    assert!(
        first.length_ns >= ns(before) && second.length_ns >= ns(after),
        "{stops:?}"
    );
    let (counted, _) = thread(&run, "rt-loop");
    assert!(counted.missed < ns(STOP) / MS / 2, "{}", counted.missed);
    assert!(counted.latency.max_ns < ns(STOP) / 2);
}
