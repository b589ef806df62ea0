//! A stop of a watched program is an event with a length, not a late wake-up and not a skipped
//! period.

use std::collections::BTreeMap;
use std::thread::{scope, sleep};
use std::time::{Duration, Instant};

use crate::common::needs::Absent;
use crate::common::stops::{FREEZERS, Freezer, await_stopped, trace};
use crate::common::{Place, said, skip, why_invalid};
use crate::exact::thread;
use crate::known::{Known, watch, watched};
use punctual_record::watch::{OffCpuPlace, OffCpuWhy, WatchedThread};
use punctual_record::{Run, Stop, StopCause, Stops, Thread};
use punctual_report::facts;
use punctual_stats::verdict::Outcome;

const MS: u64 = 1_000_000;
/// Long enough for hundreds of periods.
const STOP: Duration = Duration::from_millis(300);
/// As long as threads may take to run again after a stop, in ms.
const RESUME_MS: u64 = 10;
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
fn stop(pid: u32, length: Duration) -> Held {
    let begun = Instant::now();
    signal(pid, libc::SIGSTOP);
    await_stopped(pid);
    let stopped = Instant::now();
    sleep(length);
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
    // Its periods are within it, and no others but those that passed while the threads resumed.
    let periods = ns(held.0) / MS;
    let within = stops.cycles + watched.unseen;
    assert!(
        within + 5 >= periods,
        "{within} of {periods} within; {} skipped",
        counted.missed
    );
    let most = stops.total_ns / MS + stops.count * (RESUME_MS + 2);
    assert!(stops.cycles <= most, "{} within {stops:?}", stops.cycles);
    nothing_lies_over(stop, counted, watched);
    (stops, stop)
}

/// Neither a wake-up nor a skipped period of a thread lies over a stop. How late others are, and how many
/// periods are skipped, is the machine's part: a thread that catches up arms a timer for each of 300
/// instants, and as long as that takes, more of them pass.
#[track_caller]
fn nothing_lies_over(stop: &Stop, counted: &Thread, watched: &WatchedThread) {
    const NEAR_NS: u64 = 2 * MS;
    let (from_ns, to_ns) = (stop.at_ns, stop.at_ns + stop.length_ns);
    let overlap_ns =
        |begin_ns: u64, end_ns: u64| end_ns.min(to_ns).saturating_sub(begin_ns.max(from_ns));
    let longest = counted.peaks.iter().map(|peak| peak.latency_ns).max();
    assert_eq!(longest, Some(counted.latency.max_ns));
    for peak in &counted.peaks {
        let over_ns = overlap_ns(peak.asked_ns, peak.asked_ns + peak.latency_ns);
        assert!(over_ns < NEAR_NS, "{peak:?} {stop:?}");
    }
    for skip in watched.skips.iter() {
        // Those before the stop are late until it begins, those after it from their own instants on.
        let last_ns = skip.at_ns + (skip.count - 1) * skip.period_ns;
        let end_ns = last_ns + skip.least_ns;
        let over_ns = overlap_ns(skip.at_ns, last_ns).max(overlap_ns(last_ns, end_ns));
        assert!(over_ns < NEAR_NS, "{skip:?} {stop:?}");
    }
    // The waits after it begin late because of the stop, and not by the thread's own work.
    let overran_ns = watched.worst_overrun_ns;
    assert!(
        overran_ns + NEAR_NS < stop.length_ns,
        "{overran_ns} {stop:?}"
    );
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
    // 150 ms of 7 s: the record is valid, also if a busy machine continues it only after 300.
    let (run, did, held) = watched_while(
        &place,
        &["cycles", "6500"],
        &["--deadline", "100ms", "--miss", "1e-2", "--max", "140ms"],
        |pid, _| stop(pid, STOP / 2),
    );
    let (_, stopped) = the_stop(&run, &held);
    // Two real-time threads, one stop.
    assert_eq!((stopped.cause, stopped.tid), (StopCause::Signal, None));
    no_cycle_is_lost(&run, 6500 + did["skipped"]);
    let verdict = run.verdict.as_ref().expect("a verdict");
    // Of the stop nothing is late; what this machine does besides may be.
    let is_late = thread(&run, "rt-loop").0.latency.max_ns > 140 * MS;
    match verdict.outcome {
        Outcome::Pass | Outcome::Inconclusive => assert!(!is_late, "{}", said(&run)),
        Outcome::Fail => assert!(is_late, "{}", said(&run)),
        Outcome::Invalid => panic!("{}", said(&run)),
    }
}

#[test]
fn a_program_that_catches_up_after_a_stop_skips_nothing_of_it() {
    needed!();
    let place = Place::new();
    let (run, _, held) = watched_while(
        &place,
        &["cycles", "3000", "catch-up", "1"],
        &["--deadline", "100ms", "--miss", "1e-2"],
        |pid, _| stop(pid, STOP),
    );
    let (stops, _) = the_stop(&run, &held);
    no_cycle_is_lost(&run, 3000);
    // 300 ms of 3 s are too much, and a stop is not a missed deadline.
    let verdict = run.verdict.as_ref().expect("a verdict");
    assert_eq!(verdict.outcome, Outcome::Invalid, "{}", said(&run));
    let reasons = why_invalid(&run);
    let told = "threads of the watched program were stopped for ";
    let told = reasons.split_once(told).map(|(_, rest)| rest);
    let told = told.and_then(|rest| rest.split(' ').next()?.parse::<f64>().ok());
    let total = stops.total_ns as f64 / 1e9;
    assert!(
        told.is_some_and(|told| (told - total).abs() < 0.1),
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
        skip!(Absent::right("to trace a thread"));
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
        let not_frozen_ns = ns(held.0).saturating_sub(2 * MS);
        assert!(asleep_ns < not_frozen_ns, "{places:?}");
        no_cycle_is_lost(&run, 2000 + did["skipped"]);
        frozen += 1;
    }
    if frozen == 0 {
        skip!(Absent::kernel("the freezer of control groups"));
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
    let (counted, watched) = thread(&run, "rt-loop");
    nothing_lies_over(first, counted, watched);
    nothing_lies_over(second, counted, watched);
}
