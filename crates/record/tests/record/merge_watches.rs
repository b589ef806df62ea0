//! Watches that are merged: no evidence twice, none left out unnoticed, and the limits of the first run.

use punctual_record::watch::{WatchedMark, WorstLength};
use punctual_record::*;
use punctual_stats::Outcome;
use punctual_stats::histogram::{Histogram, HistogramRecord};

use super::merge::{checked, exact};
use super::support::{latencies, run, run_of, thread};
use super::watches;

/// Its mark took longer than its limit, or wake-ups went unseen: with it that is no longer in the record.
#[test]
fn a_watch_that_is_left_out_of_a_sum_makes_it_invalid() {
    let mut watched = run(1);
    let mut watch = watches::program("controller", watched.threads.len());
    (watch.beyond, watch.marks[0].beyond) = (0, 0);
    watch.marks[0].threads.truncate(1);
    watch.marks.truncate(1);
    watched.watch = Some(watch);
    let analysis = analyse_record(&watched).unwrap();
    watched.conclude(analysis);
    assert_eq!(watched.verdict.as_ref().unwrap().outcome, Outcome::Fail);
    let mut plain = run(2);
    let third = thread(2, &latencies(3, 10_000, 90_000), 512);
    plain.threads.push(third);
    for runs in [[watched.clone(), plain.clone()], [plain, watched]] {
        let merged = exact(&runs, true);
        checked(&merged);
        assert_eq!(merged.watch, None);
        let reasons = invalid_reasons(&merged);
        let left_out = Event::invalidating(0, Happening::WatchLeftOut);
        assert_eq!(reasons, [InvalidReason::Event(left_out)]);
        assert_eq!(merged.verdict.as_ref().unwrap().outcome, Outcome::Invalid);
    }
}

/// A watch of one mark, which one thread passed.
fn marked(place: &str, limit_ns: Option<u64>, lengths: &[u64]) -> Run {
    let mut run = run_of(vec![thread(0, &latencies(1, 1_000, 90_000), 64)]);
    let mut watch = watches::program("controller", 1);
    (watch.beyond, watch.threads[0].unseen) = (0, 0);
    watch.marks.truncate(1);
    let mark = &mut watch.marks[0];
    (mark.beyond, mark.place, mark.limit_ns) = (0, place.to_owned(), limit_ns);
    mark.threads.truncate(1);
    let passed = &mut mark.threads[0];
    let mut histogram = Histogram::new();
    lengths.iter().for_each(|length| histogram.record(*length));
    passed.lengths = HistogramRecord::from(&histogram);
    let longer = |length: &&u64| limit_ns.is_some_and(|limit_ns| **length > limit_ns);
    passed.longer = lengths.iter().filter(longer).count() as u64;
    let mut longest = lengths.to_vec();
    longest.sort_unstable_by(|a, b| b.cmp(a));
    (passed.unfinished, passed.open_ns) = (0, 0);
    let worst = passed.worst[0];
    let worst = |length_ns| WorstLength { length_ns, ..worst };
    passed.worst = longest
        .into_iter()
        .take(WatchedMark::WORST)
        .map(worst)
        .collect();
    run.watch = Some(watch);
    let analysis = analyse_record(&run).unwrap();
    run.conclude(analysis);
    run
}

#[test]
fn lengths_of_a_mark_are_compared_with_the_first_limit() {
    const MS: u64 = 1_000_000;
    let outcome = |run: &Run| run.verdict.as_ref().unwrap().outcome;
    let first = marked("step()", Some(10 * MS), &[MS; 100]);
    for limit_ns in [Some(50 * MS), None] {
        let lengths = [[MS; 100].as_slice(), &[14_500_000, 10 * MS, 12 * MS]].concat();
        let second = marked("step()", limit_ns, &lengths);
        assert_eq!(
            (outcome(&first), outcome(&second)),
            (Outcome::Pass, Outcome::Pass)
        );
        let merged = exact(&[first.clone(), second.clone()], true);
        checked(&merged);
        assert_eq!(outcome(&merged), Outcome::Fail);
        let marks = &merged.watch.as_ref().unwrap().marks;
        assert_eq!(marks.len(), 1);
        assert_eq!(
            (marks[0].limit_ns, marks[0].threads[0].longer),
            (Some(10 * MS), 2)
        );
        let lengths = &merged.verdict.as_ref().unwrap().lengths;
        assert_eq!((lengths[0].count, lengths[0].longer), (203, 2));
        // The other way round nothing, or less, is required.
        let merged = exact(&[second, first.clone()], true);
        assert_eq!(merged.watch.as_ref().unwrap().marks[0].limit_ns, limit_ns);
        assert_eq!(merged.watch.as_ref().unwrap().marks[0].threads[0].longer, 0);
        assert_eq!(outcome(&merged), Outcome::Pass);
    }
    // 1 ns longer, in the bucket of the limit: at least the longest ones.
    let lengths = [[10 * MS + 1; 40].as_slice(), &[MS]].concat();
    let second = marked("step()", None, &lengths);
    let merged = exact(&[first, second], true);
    assert_eq!(outcome(&merged), Outcome::Fail);
    let longer = merged.watch.as_ref().unwrap().marks[0].threads[0].longer;
    assert_eq!(longer, WatchedMark::WORST as u64);
}

/// Those of one name and limit are two where their places are.
/// A pass that is under way when a watch ends is longer than a limit that it had not.
#[test]
fn an_open_pass_is_compared_with_the_first_limit_too() {
    const MS: u64 = 1_000_000;
    for (limit_ns, open_ns, outcome) in [
        (Some(5_000 * MS), 900 * MS, Outcome::Invalid),
        (None, 900 * MS, Outcome::Invalid),
        (None, 9 * MS, Outcome::Pass),
    ] {
        let limited = marked("a", Some(10 * MS), &[MS; 50]);
        let mut open = marked("a", limit_ns, &[MS; 50]);
        open.watch.as_mut().unwrap().marks[0].threads[0].open_ns = open_ns;
        let merged = exact(&[limited, open], true);
        let verdict = merged.verdict.as_ref().unwrap();
        assert_eq!(verdict.outcome, outcome, "{limit_ns:?} {open_ns}");
    }
}

#[test]
fn a_limited_mark_without_a_place_in_the_sum_is_no_sum() {
    const LIMIT: Option<u64> = Some(10_000_000);
    let watched = |places: std::ops::Range<usize>, limited: usize, longest: u64| {
        let place = |at: usize| format!("loop.c:{at}");
        let mut run = marked(&place(places.start), LIMIT, &[longest]);
        let marks = &mut run.watch.as_mut().unwrap().marks;
        let first = marks[0].clone();
        marks.clear();
        for (index, at) in places.enumerate() {
            let mut mark = first.clone();
            (mark.name, mark.place) = (format!("m{index}"), place(at));
            mark.limit_ns = LIMIT.filter(|_| index < limited);
            marks.push(mark);
        }
        let analysis = analyse_record(&run).unwrap();
        run.conclude(analysis);
        run
    };
    let [first, late] = [watched(0..9, 9, 1), watched(9..18, 9, 11_000_000)];
    assert_eq!(late.verdict.as_ref().unwrap().outcome, Outcome::Fail);
    for (runs, force) in [([&first, &late], false), ([&late, &first], true)] {
        let refused = merge(&runs.map(Run::clone), force, Vec::new());
        assert_eq!(refused, Err(MergeError::Marks { run: 1 }));
    }
    // As many as there are places, or more of which nothing is required.
    let fits = exact(&[first.clone(), watched(9..16, 7, 11_000_000)], true);
    assert_eq!(fits.verdict.as_ref().unwrap().outcome, Outcome::Fail);
    let fits = exact(&[first, watched(9..18, 7, 11_000_000)], true);
    checked(&fits);
    assert_eq!(fits.verdict.as_ref().unwrap().outcome, Outcome::Fail);
    assert_eq!(fits.watch.unwrap().marks.len(), WatchedMark::MOST);
}

/// One wake-up of each went unseen.
#[test]
fn watches_show_more_together_than_each() {
    let watched = |seed: u64| {
        let mut run = run_of(vec![thread(0, &latencies(seed, 199, 90_000), 512)]);
        let mut watch = watches::program("controller", 1);
        (watch.beyond, watch.threads[0].unseen) = (0, 1);
        watch.marks.clear();
        run.watch = Some(watch);
        let analysis = analyse_record(&run).unwrap();
        run.conclude(analysis);
        run
    };
    let upper = |run: &Run| run.verdict.as_ref().unwrap().requirements[0].bound.upper;
    let runs = [1, 2, 3].map(watched);
    let merged = exact(&runs, false);
    checked(&merged);
    for run in &runs {
        assert!(
            upper(&merged) < upper(run),
            "{} of {}",
            upper(&merged),
            upper(run)
        );
    }
}

/// Wherever its threads ran last.
#[test]
fn the_same_time_of_a_watched_program_is_counted_once() {
    let watched = |cpu: usize| {
        let mut run = run_of(vec![thread(cpu, &latencies(1, 1_000, 90_000), 64)]);
        run.system.boot_id = Some("a".to_owned());
        run.watch = Some(watches::program("controller", 1));
        run
    };
    let refused = merge(&[watched(0), watched(3)], true, Vec::new());
    assert!(
        matches!(refused, Err(MergeError::Overlapping { run: 1, .. })),
        "{refused:?}"
    );
    let mut later = watched(3);
    later.start_ns = later.start_ns.map(|ns| ns + 2 * later.measured_ns);
    assert!(merge(&[watched(0), later], true, Vec::new()).is_ok());
}
