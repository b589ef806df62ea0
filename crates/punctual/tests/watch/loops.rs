//! Loops of many kinds that keep a log by their own clock: a watch says nothing that it disproves.

use std::collections::BTreeMap;

use punctual_record::Run;
use punctual_record::watch::Timing;
use punctual_stats::histogram::Histogram;

use super::common::Place;
use super::common::needs::Absent;
use super::exact::thread;
use super::known::{Known, loops, watch};

/// The deadline of tests/watch/loops.c, in ns.
const DEADLINE_NS: u64 = 600_000;
const INSTANTS: u64 = 2_000;

/// What a loop logged, and the watch of it; `None` where it is not possible here.
fn watch_of(kind: &str) -> Option<(BTreeMap<String, u64>, Run)> {
    let place = Place::new();
    let mut known = Known::start(loops(), &[kind, &INSTANTS.to_string()]);
    let number = known.pid.to_string();
    let words = [
        &number,
        "--deadline",
        "600us",
        "--miss",
        "0.5",
        "-q",
        "--no-explain",
    ];
    let running = watch(&place, &words);
    let did = known.go();
    running.signal(libc::SIGINT);
    running.end();
    if let Some(error) = did.get("refused") {
        let error = std::io::Error::from_raw_os_error(*error as i32);
        Absent::refused("io_uring", error).report();
        return None;
    }
    let run = place.run_of();
    Some((did, run))
}

/// A watch of a kind of loop. The program's clock is read after the kernel made the thread come back, so what is
/// late by the watch is late by the program too.
fn agrees_with_its_log(kind: &str) {
    let Some((did, run)) = watch_of(kind) else {
        return;
    };
    let (counted, watched) = thread(&run, "rt-loop");
    let skips: Vec<_> = watched.skips.iter().take(16).collect();
    let said = format!(
        "{kind}: {did:?}, {} skipped, {} unseen, {} by timer, {:?}, {skips:?}",
        counted.missed, watched.unseen, watched.by_timer.count, watched.timing
    );
    assert_eq!(counted.lost, 0, "{said}");
    let by_timer = Histogram::try_from(&watched.by_timer).expect("a histogram");
    let late = by_timer.count_surely_above(DEADLINE_NS);
    let missed = late + counted.missed;
    assert!(missed <= did["late"], "{late} late: {said}");
    if kind == "ppoll-crowded" {
        // It finds a message at each call and takes most instants without one: of these nobody knows.
        return;
    }
    let (timing, period_ns) = match kind {
        "length" | "alarm" => (Timing::Lengths, None),
        _ => (Timing::Periodic, Some(1_000_000)),
    };
    let off = |it: u64| it.abs_diff(1_000_000) < 1_000;
    let same = watched.period_ns == period_ns || watched.period_ns.is_some_and(off);
    // Beside other work its lengths may lie on a grid for a while.
    let timed = match timing {
        Timing::Lengths => matches!(watched.timing, Timing::Lengths | Timing::Lost),
        _ => watched.timing == timing,
    };
    assert!(timed && same, "{said}");
    if period_ns.is_some() {
        // The last stall may be at the end.
        assert!(
            missed + watched.unseen + 1 >= did["stalls"],
            "{late} late: {said}"
        );
    }
    let cycles = by_timer.count() + counted.missed;
    let instants = did["instants"];
    assert!(cycles <= instants + 3, "{cycles}: {said}");
    // Those that it left before it was known that there is a period are no samples.
    assert!(cycles + watched.unseen + 20 >= instants, "{cycles}: {said}");
}

macro_rules! kinds {
    ($($name:ident: $kind:literal,)*) => {$(
        #[test]
        fn $name() {
            needed!();
            agrees_with_its_log($kind);
        }
    )*};
}

kinds! {
    a_timerfd_and_messages_in_one_epoll: "epoll",
    a_timerfd_whose_work_takes_longer_than_its_period: "overloaded",
    timeouts_of_ppoll_from_the_clock: "ppoll",
    absolute_sleeps_that_signals_end: "signalled",
    absolute_sleeps_that_catch_up: "catching-up",
    relative_sleeps_that_drift: "length",
    a_posix_timer_whose_signal_is_waited_for: "timer-signal",
    a_condition_with_a_deadline: "condition",
    timeouts_of_an_io_uring: "uring",
    timeouts_of_an_io_uring_among_many_messages: "uring-crowded",
    timeouts_of_ppoll_among_many_messages: "ppoll-crowded",
    one_shot_alarms: "alarm",
    a_timerfd_that_is_read_after_the_work: "read-late",
    one_shot_timers_that_another_thread_arms: "armed-by-another",
}

/// Overloaded since before the watch: no expiry wakes it.
fn may_have_been_late(kind: &str) {
    let Some((did, run)) = watch_of(kind) else {
        return;
    };
    let (counted, watched) = thread(&run, "rt-loop");
    let said = format!(
        "{kind}: {did:?}, {} late, {} missed, {} unseen, {:?}",
        counted.late, counted.missed, watched.unseen, watched.timing
    );
    assert_eq!(counted.lost, 0, "{said}");
    assert!(counted.late + counted.missed <= did["late"], "{said}");
    let found = counted.late + counted.missed + watched.unseen;
    assert!(found >= did["stalls"], "{said}");
}

#[test]
fn a_timerfd_that_was_overloaded_before_the_watch_may_have_been_late() {
    needed!();
    may_have_been_late("overloaded-before");
    // Of a clock that wakes a suspended machine.
    may_have_been_late("overloaded-before-by-alarm");
}

#[test]
fn a_thread_that_calls_exec_ends_and_leaves_no_instants() {
    needed!();
    let Some((did, run)) = watch_of("exec") else {
        return;
    };
    let (counted, watched) = thread(&run, "rt-loop");
    let found = watched.by_timer.count + counted.missed;
    let said = format!("{did:?}, {found} found, {} unseen", watched.unseen);
    assert!(watched.ended && watched.unseen < 100, "{said}");
    assert!(found + watched.unseen >= did["instants"], "{said}");
}
