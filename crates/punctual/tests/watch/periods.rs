//! Periods that a watched thread skips, and threads without a period: the verdict on them.

use std::time::Duration;

use punctual_record::watch::{OffCpuWhy, Timing, WatchedThread};
use punctual_record::{InvalidReason, Run, analyse_record};
use punctual_stats::verdict::Outcome;

use super::common::needs::Absent;
use super::common::{Place, said, skip};
use super::exact::{counted_but_for_unseen, thread, times};
use super::known::{Known, watch, watched};

/// A program's output, and the record of a watch of it.
fn watched_as(place: &Place, does: &[&str], asked: &[&str]) -> (Known, Run, [u64; 3]) {
    let mut known = Known::start(watched(), does);
    let number = known.pid.to_string();
    let running = watch(place, &[&[&number, "-q", "--no-explain"], asked].concat());
    let did = known.go();
    running.signal(libc::SIGINT);
    running.end();
    let did = ["skipped", "clock-skipped", "begun"].map(|name| did.get(name).copied().unwrap_or(0));
    let run = place.run_of();
    (known, run, did)
}

fn directory(place: &Place) -> String {
    place.run_directory().to_string_lossy().into_owned()
}

/// The record judged by another deadline.
fn judged_by(run: &Run, deadline_ns: u64) -> Outcome {
    let mut run = run.clone();
    for requirement in &mut run.request.requirements {
        if let punctual_stats::Requirement::MissProbability {
            deadline_ns: own, ..
        } = requirement
        {
            *own = deadline_ns;
        }
    }
    for (thread, watched) in run
        .threads
        .iter_mut()
        .zip(&run.watch.as_ref().unwrap().threads)
    {
        let (low, high) = watched.skips.later(deadline_ns);
        assert_eq!(low, high);
        thread.missed_late = Some(low);
        thread.late = thread
            .peaks
            .iter()
            .filter(|it| it.latency_ns > deadline_ns)
            .count() as u64;
    }
    analyse_record(&run).expect("an analysis").verdict.outcome
}

/// As threads of cyclictest do when their loops are over; then the watch goes on for 1,000 periods.
pub fn a_thread_that_gave_up_its_priority_is_not_missed() {
    for how in ["1", "2"] {
        let place = Place::new();
        let mut known = Known::start(watched(), &["cycles", "500", "demoted", how]);
        let number = known.pid.to_string();
        let asked = ["--deadline", "600us", "--miss", "0.5", "-q", "--no-explain"];
        let running = watch(&place, &[&[&*number], &asked[..]].concat());
        let did = known.go();
        // Many periods after its last cycle.
        std::thread::sleep(Duration::from_secs(1));
        running.signal(libc::SIGINT);
        running.end();
        let run = place.run_of();
        let (_, watched) = thread(&run, "rt-loop");
        assert_eq!(watched.period_ns, Some(1_000_000));
        // One that goes on may have lost its priority in its loop. One that ends had it until then.
        let unseen = watched.unseen;
        match did.get("ordinary") {
            None => assert!(unseen >= 500, "{unseen}"),
            Some(ordinary) => assert!(unseen <= ordinary + 100, "{unseen}: {ordinary}"),
        }
    }
}

/// A loop on a grid that works for 3.5 periods now and then: the periods in between are not
/// punctual wake-ups.
pub fn periods_that_a_thread_skips_itself_miss_the_deadline() {
    let place = Place::new();
    let asked = ["--deadline", "900us", "--miss", "0.01"];
    let does = ["cycles", "1000", "stalls", "20"];
    let (_known, run, [skipped, ..]) = watched_as(&place, &does, &asked);
    let (counted, watched) = thread(&run, "rt-loop");
    assert!(skipped >= 60);
    assert_eq!(watched.timing, Timing::Periodic);
    // A wake-up that the kernel did not show looks like a period that was skipped, and one that ends a
    // skip leaves it out.
    let off = counted.missed.abs_diff(skipped);
    assert!(
        off <= watched.unseen,
        "{} of {skipped}, {} unseen",
        counted.missed,
        watched.unseen
    );
    let skipped = counted.missed;
    assert_eq!(watched.skips.count(), skipped);
    let least = 60_u64.saturating_sub(watched.unseen);
    assert!(
        watched.skipped_itself >= least,
        "{}",
        watched.skipped_itself
    );
    // Table, bound, sentence and JUnit agree.
    assert_eq!(counted.missed_late, Some(skipped));
    let verdict = run.verdict.as_ref().expect("a verdict");
    let bound = &verdict.requirements[0].bound;
    let cycles = counted.latency.count + skipped + watched.unseen;
    assert_eq!(bound.cycles, cycles);
    assert_eq!((bound.missed, bound.late), (skipped, counted.late));
    assert_eq!(verdict.outcome, Outcome::Fail, "{}", said(&run));
    assert!(
        bound
            .bursts
            .is_some_and(|bursts| bursts + 40 <= skipped + watched.unseen + counted.late),
        "{bound:?}"
    );
    let shown = place.run(&["report", &directory(&place)]).stdout;
    assert!(
        shown.contains(&format!("{skipped} (")),
        "{skipped}: {shown}"
    );
    let words = ["export", &directory(&place), "--format", "junit"];
    let junit = place.run(&words).expect(0).stdout;
    assert!(junit.contains("type=\"FAIL\""), "{junit}");
    // A deadline of many periods was met, although the time is too short to show that it always is.
    if counted.latency.max_ns < 4_000_000 {
        assert_ne!(judged_by(&run, 30_000_000), Outcome::Fail);
    }
}

/// A loop of sleep and work has no period, however regular it is; a loop that computes its
/// sleeps from the clock has one.
pub fn a_thread_with_relative_sleeps_has_no_period() {
    let place = Place::new();
    let asked = ["--deadline", "500ms", "--miss", "0.05"];
    let does = ["cycles", "100", "lengths", "600"];
    let (_known, run, _) = watched_as(&place, &does, &asked);
    let (counted, lengths) = thread(&run, "rt-lengths");
    assert_eq!((lengths.timing, lengths.period_ns), (Timing::Lengths, None));
    assert_eq!((counted.missed, lengths.skips.is_empty()), (0, true));
    let unslept_too = lengths.by_timer.count;
    assert_eq!(counted.latency.count, unslept_too);
    counted_but_for_unseen(unslept_too, 600, lengths);
    assert_eq!(thread(&run, "rt-loop").1.timing, Timing::Periodic);
    let shown = place.run(&["report", &directory(&place)]).stdout;
    for wanted in ["1 of them has no period", "none (sleeps)"] {
        let unfolded = shown.split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(unfolded.contains(wanted), "{wanted}: {shown}");
    }
}

pub fn a_thread_that_computes_its_sleeps_from_the_clock_has_a_period() {
    let place = Place::new();
    let asked = ["--deadline", "900us", "--miss", "0.01"];
    let does = ["cycles", "100", "clock", "1000"];
    let (_known, run, [_, skipped, _]) = watched_as(&place, &does, &asked);
    let (counted, watched) = thread(&run, "rt-clock");
    assert_eq!(watched.timing, Timing::Periodic, "{:?}", watched.period_ns);
    let period = watched.period_ns.expect("a period");
    assert!(period.abs_diff(1_000_000) < 20_000, "{period}");
    // It skips 5 periods 20 times: it may have served each of them as well, one just after the other, since it makes
    // no call for what has passed. A sleep that it was too late for is not a wake-up here, and not a skipped period
    // there.
    assert!(skipped >= 100);
    let all = counted.missed + watched.unseen;
    assert!(all >= 90, "{all} of {skipped}");
    let verdict = run.verdict.as_ref().expect("a verdict");
    assert_ne!(verdict.outcome, Outcome::Pass, "{}", said(&run));
}

/// More threads than fit: what the others met is not what the program met.
pub fn a_watch_of_too_many_threads_does_not_pass(many: &str, followed: usize) {
    let place = Place::new();
    let asked = ["--deadline", "30s", "--miss", "0.5"];
    let does = ["cycles", "100", "many", many];
    let (_known, run, [.., begun]) = watched_as(&place, &does, &asked);
    let watch = run.watch.as_ref().expect("a watch");
    if begun <= followed as u64 {
        skip!(Absent::right(format!(
            "{many} threads: {begun} could be made"
        )));
    }
    assert_eq!(watch.threads.len(), followed);
    let verdict = run.verdict.as_ref().expect("a verdict");
    assert_eq!(verdict.outcome, Outcome::Invalid, "{}", said(&run));
    let reasons = punctual_record::invalid_reasons(&run);
    let unfollowed = InvalidReason::ThreadsNotFollowed {
        beyond: watch.beyond,
        at_least: watch.unfollowed > 0,
        room: followed as u64,
    };
    assert!(reasons.contains(&unfollowed), "{reasons:?}");
}

/// Threads that come and go, more than fit: none is left out, and each wake-up is in a row of its name.
pub fn threads_that_end_make_room_for_others() {
    let place = Place::new();
    let asked = ["--deadline", "100ms", "--miss", "0.5", "--off-cpu"];
    let (_known, run, _) = watched_as(&place, &["cycles", "100", "passing", "600"], &asked);
    let watch = run.watch.as_ref().expect("a watch");
    assert_eq!((watch.beyond, watch.unfollowed), (0, 0));
    assert!(watch.threads.len() <= 256, "{}", watch.threads.len());
    let passing = || {
        let both = run.threads.iter().zip(&watch.threads);
        both.filter(|(_, it)| it.task.name.starts_with("rt-passing-"))
    };
    let rows = passing().count() as u64;
    let others: u64 = passing().map(|(_, it)| it.others).sum();
    assert_eq!(rows + others, 600, "{rows} rows");
    let unseen: u64 = passing().map(|(_, it)| it.unseen).sum();
    let woken: u64 = passing().map(|(thread, _)| thread.latency.count).sum();
    assert!(
        (3_000 - unseen..=3_000).contains(&woken),
        "{woken}, {unseen} unseen"
    );
    let slept = |it: &WatchedThread| times(it, "clock_nanosleep");
    let slept: u64 = passing().map(|(_, it)| slept(it)).sum();
    assert!((3_000 - unseen..=3_000).contains(&slept), "{slept}");
    let places = &watch.off_cpu.as_ref().expect("asked for").places;
    let asleep = places.iter().filter(|it| {
        let name = &watch.threads[it.thread as usize].task.name;
        it.why == OffCpuWhy::Asleep && name.starts_with("rt-passing-")
    });
    let asleep: u64 = asleep.map(|it| it.count).sum();
    let most = 3_000 + watch.off_cpu.as_ref().map_or(0, |it| it.beyond.count);
    assert!(
        (1_500..=most).contains(&asleep),
        "{asleep} of 3000 off the CPU"
    );
    let verdict = run.verdict.as_ref().expect("a verdict");
    assert_ne!(verdict.outcome, Outcome::Invalid, "{}", said(&run));
}
