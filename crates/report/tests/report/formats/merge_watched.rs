//! A sum of watches: what is of one kind is one, what is of some runs alone says so, and an instant
//! of another run's clock is shown nowhere.

use std::path::Path;

use punctual_record::explanation::{Culprit, Doing, Explanation, NotSeen, Wait, WaitRow};
use punctual_record::{Document, Run, merge};
use punctual_report::explain::section;
use punctual_report::style::Style;
use punctual_report::terminal::summary;

use crate::support::run;
use crate::watches;

fn wait(name: &str, tid: u32, wait_ns: u64, count: u64) -> Wait {
    let thread = Culprit {
        ns: wait_ns,
        tid,
        name: Some(name.to_owned()),
        policy: "SCHED_FIFO".to_owned(),
        ..Culprit::default()
    };
    Wait {
        thread: thread.clone(),
        call: "futex".into(),
        ended_by: "server".to_owned(),
        from_ns: 5_000_000_000,
        run: None,
        wait_ns,
        count,
        total_ns: count * wait_ns,
        rows: vec![WaitRow {
            ns: wait_ns,
            depth: 1,
            thread: Some(thread),
            doing: Doing::Ran,
        }],
    }
}

fn waiting(seed: u64, waits: Vec<Wait>) -> Run {
    let mut run = run(seed);
    run.watch = Some(watches::program("controller", run.threads.len()));
    run.explanation = Some(Explanation {
        waits,
        ..Explanation::default()
    });
    run
}

/// A sum that its own reader takes.
fn sum(runs: &[Run]) -> Run {
    let sum = merge(runs, true, Vec::new()).unwrap_or_else(|e| panic!("{e}"));
    let text = serde_json::to_vec(&sum).unwrap();
    assert_eq!(Run::parse(Path::new("sum"), &text).unwrap(), sum);
    sum
}

fn text(run: &Run) -> String {
    let plain = Style::plain().verbose(true);
    [summary(run, &plain), section(run, &plain, None).join("\n")].concat()
}

/// Thread, of which run, how long, how often, how long together.
fn figures(run: &Run) -> Vec<(u32, Option<u64>, u64, u64, u64)> {
    let waits = run.explanation.iter().flat_map(|it| &it.waits);
    waits
        .map(|it| (it.thread.tid, it.run, it.wait_ns, it.count, it.total_ns))
        .collect()
}

#[test]
fn waits_of_one_kind_are_one_with_the_longest_and_the_run_that_it_was_in() {
    let first = waiting(
        1,
        vec![wait("control", 11, 100, 3), wait("control", 12, 40, 1)],
    );
    let second = waiting(
        2,
        vec![wait("control", 21, 700, 2), wait("store", 29, 50, 4)],
    );
    let third = waiting(
        3,
        vec![wait("control", 31, 90, 5), wait("control", 32, 60, 6)],
    );
    let both = sum(&[first, second]);
    let of_both = [
        (21, Some(2), 700, 5, 1_700),
        (29, Some(2), 50, 4, 200),
        (12, Some(1), 40, 1, 40),
    ];
    assert_eq!(figures(&both), of_both);
    // A sum in a sum: the runs keep their numbers.
    let all = sum(&[both, third]);
    let of_all = [
        (21, Some(2), 700, 10, 2_150),
        (32, Some(3), 60, 7, 400),
        (29, Some(2), 50, 4, 200),
    ];
    assert_eq!(figures(&all), of_all);
    let text = text(&all);
    assert!(text.contains("control/21 in futex of run 2: "), "{text}");
    assert!(text.contains("10 such waits"), "{text}");
}

#[test]
fn kinds_of_waits_beyond_what_is_kept_are_said() {
    let many = |seed: u64, from: u32| {
        let waits = (from..from + 64).map(|n| wait(&format!("t{n}"), n, u64::from(n) + 1, 1));
        waiting(seed, waits.collect())
    };
    let four = [many(1, 0), many(2, 64), many(3, 128), many(4, 192)];
    let lacks = |run: &Run| {
        let missing = &run.explanation.as_ref().unwrap().missing;
        missing.contains(&NotSeen::MergedWaits)
    };
    assert!(!lacks(&sum(&four)));
    let five = [&four[..], &[many(5, 256)]].concat();
    let sum = sum(&five);
    assert!(lacks(&sum));
    assert_eq!(figures(&sum).len(), Explanation::WAITS);
}

#[test]
fn what_some_runs_did_not_record_is_kept_and_said_of_how_many_runs_it_is() {
    let with = |seed| waiting(seed, Vec::new());
    let without = |seed| {
        let mut run = with(seed);
        let watch = run.watch.as_mut().unwrap();
        (watch.off_cpu, watch.run_queue) = (None, None);
        run
    };
    let said = [
        "the off-CPU times are those of 2 of the 3 runs",
        "the run-queue latencies are those of 2 of the 3 runs",
    ];
    for runs in [
        [with(1), without(2), with(3)],
        [without(4), with(5), with(6)],
        [with(7), with(8), without(9)],
    ] {
        let one = runs
            .iter()
            .find_map(|run| run.watch.as_ref()?.off_cpu.clone());
        let one = one.unwrap().places[0].clone();
        let sum = sum(&runs);
        let watch = sum.watch.as_ref().unwrap();
        let (off_cpu, queue) = (
            watch.off_cpu.as_ref().unwrap(),
            watch.run_queue.as_ref().unwrap(),
        );
        assert_eq!((off_cpu.runs, queue.runs), (2, 2));
        let place = &off_cpu.places[0];
        assert_eq!(
            (place.count, place.total_ns, place.longest_ns),
            (2 * one.count, 2 * one.total_ns, one.longest_ns)
        );
        assert_eq!(queue.threads[0].woken.lengths.count, 4_000);
        let text = text(&sum).split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(said.iter().all(|said| text.contains(said)), "{text}");
    }
    let whole = sum(&[with(1), with(2)]);
    assert!(!text(&whole).contains("runs: the others"));
    let neither = sum(&[without(1), without(2)]).watch.unwrap();
    assert_eq!((neither.off_cpu, neither.run_queue), (None, None));
}

#[test]
fn instants_of_the_parts_are_not_shown_as_instants_of_the_sum() {
    let mut one = waiting(1, vec![wait("control", 11, 100, 3)]);
    let mut other = waiting(2, vec![wait("control", 11, 90, 3)]);
    // Events have the sum's own time.
    (one.events, other.events) = (Vec::new(), Vec::new());
    one.start_ns = Some(4_000_000_000);
    assert!(text(&one).contains("0:01.000"), "{}", text(&one));
    other.start_ns = Some(3_000_000_000);
    let sum = text(&sum(&[one, other]));
    for instant in ["0:01.000", "0:02.000", "0:05.000"] {
        assert!(!sum.contains(instant), "{instant}: {sum}");
    }
}

#[test]
fn a_watch_that_is_left_out_of_a_sum_is_said() {
    let left_out = |run: &Run| run.events.iter().any(|it| it.kind() == "watch-left-out");
    let mut other = run(2);
    other.threads[0].cpu = Some(7);
    let mixed = sum(&[waiting(1, Vec::new()), other]);
    assert_eq!(mixed.watch, None);
    assert!(left_out(&mixed));
    assert!(!left_out(&sum(&[
        waiting(1, Vec::new()),
        waiting(2, Vec::new())
    ])));
}
