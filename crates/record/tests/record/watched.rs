//! What a record says of a watch must agree with itself: each contradiction is refused, with its
//! place.

use std::path::Path;

use punctual_record::watch::{OffCpu, RunQueue};
use punctual_record::{Document, Evidence, Run, merge};
use punctual_stats::skips::Skip;
use punctual_stats::{Outcome, Requirement};
use serde_json::{Value, json};

use super::bills::explanation;
use super::support::{run, run_of, thread};
use super::watches;

/// The runs here begin as the clock does, and last 10 s: an hour is another run's.
const HOUR_NS: u64 = 3_600_000_000_000;

fn watched(seed: u64) -> Run {
    let mut run = run(seed);
    run.watch = Some(watches::program("controller", run.threads.len()));
    run.explanation = Some(explanation());
    run
}

fn read_back(json: &Value) -> Result<Run, String> {
    Run::parse(Path::new("run.json"), json.to_string().as_bytes()).map_err(|e| e.to_string())
}

/// What each of these is refused with, where the value at a pointer is another one.
fn refused(under: &str, cases: &[(&str, Value, &str)]) {
    let run = watched(1);
    let whole = serde_json::to_value(&run).unwrap();
    assert_eq!(read_back(&whole).unwrap(), run);
    for (pointer, value, words) in cases {
        let mut json = whole.clone();
        let at = format!("{under}{pointer}");
        *json.pointer_mut(&at).unwrap_or_else(|| panic!("{at}")) = value.clone();
        let line = read_back(&json).map(drop).expect_err(&at);
        assert!(
            line.contains(words) && !line.contains('\n'),
            "{at} = {value} gave {line:?}, not {words:?}"
        );
    }
}

/// The kernel counts each in a bucket, of 1,024 ns here; only the highest is exact.
#[test]
fn a_latency_of_a_whole_system_is_surely_late_from_its_buckets_beginning() {
    let mut run = run_of(vec![thread(0, &[99_327, 99_327, 200_000], 1)]);
    run.watch = Some(watches::system("loop"));
    let late = |run: &Run, limit_ns| Evidence::decode(run).unwrap().view(run).late(limit_ns);
    assert_eq!(late(&run, 99_000), (1, 3));
    assert_eq!(late(&run, 97_700), (3, 3));
    run.watch = Some(watches::program("controller", 1));
    assert_eq!(late(&run, 99_000), (3, 3));
}

/// 20 times, 40 ms together, 11 ms the longest.
#[test]
fn places_off_the_cpu_whose_sums_are_impossible_are_refused() {
    let run = serde_json::to_value(watched(1)).unwrap();
    let places = run.pointer("/watch/off_cpu/places").unwrap().clone();
    let twice = json!([places[0], places[0]]);
    let deep = json!(vec!["f"; OffCpu::FRAMES + 1]);
    let many = Value::Array(vec![places[0].clone(); OffCpu::MOST + 1]);
    refused(
        "/watch/off_cpu",
        &[
            ("/places/0/thread", json!(2), "places[0].thread: 2 of 2"),
            ("/places/0/count", json!(0), "places[0].count: never there"),
            ("/places/0/count", json!(3), "places[0].total_ns"),
            (
                "/places/0/longest_ns",
                json!(40_000_001),
                "places[0].total_ns",
            ),
            (
                "/places/0/longest_ns",
                json!(1_999_999),
                "places[0].total_ns",
            ),
            (
                "/places/0/total_ns",
                json!(220_000_001),
                "places[0].total_ns",
            ),
            (
                "/places/1/total_ns",
                json!(40_000_001),
                "places[1]: more time",
            ),
            (
                "/places/0/longest_at_ns",
                json!(HOUR_NS),
                "places[0].longest_at_ns",
            ),
            ("/places/0/kernel", deep.clone(), "places[0].kernel: 65"),
            ("/places/1/user", deep, "places[1].user: 65"),
            ("/places/0/why", json!("bored"), "unknown variant"),
            ("/places", twice, "places[1]: the same place twice"),
            ("/places", many, "places: 257 entries"),
            (
                "/beyond/count",
                json!(0),
                "beyond.total_ns: 7000 ns of no times",
            ),
            ("/no_room/count", json!(0), "no_room.total_ns: 3000 ns"),
        ],
    );
}

/// 2,000 wake-ups of 12 us, and 5 preemptions of 4 ms.
#[test]
fn run_queues_whose_sums_are_impossible_are_refused() {
    let run = serde_json::to_value(watched(1)).unwrap();
    let thread = run.pointer("/watch/run_queue/threads/0").unwrap().clone();
    let many = Value::Array(vec![thread.clone(); RunQueue::MOST + 1]);
    let mut shorter = thread.clone();
    shorter["preempted"] = shorter["woken"].clone();
    refused(
        "/watch/run_queue/threads",
        &[
            (
                "/0/woken/total_ns",
                json!(24_000_001),
                "woken.total_ns: 24000001",
            ),
            (
                "/0/woken/total_ns",
                json!(22_000_000),
                "woken.total_ns: 22000000",
            ),
            ("/0/woken/total_ns", json!(0), "woken.total_ns"),
            (
                "/0/preempted/total_ns",
                json!(u64::MAX),
                "preempted.total_ns",
            ),
            ("/0/woken/lengths/count", json!(1), "woken.lengths"),
            ("/0/woken/lengths/max_ns", json!(9), "woken.lengths"),
            (
                "/0/preempted/longest_at_ns",
                json!(HOUR_NS),
                "preempted.longest_at_ns",
            ),
            ("/0/threads", json!(0), "threads[0].threads: no thread"),
            (
                "/0/threads",
                json!(2),
                "task.tid: the number of one of 2 threads",
            ),
            ("", json!([shorter, thread]), "threads[1]: a longer time"),
            ("", many, "threads: 257 entries"),
        ],
    );
}

/// 25 jobs, 20 of 1 ms and 5 of 12 ms, of 5 ms in each 20 ms; in windows of 10, 0 and 15.
#[test]
fn budgets_that_contradict_their_jobs_are_refused() {
    let run = serde_json::to_value(watched(1)).unwrap();
    let budgets = run.pointer("/watch/threads/0/budgets").unwrap().clone();
    let twice = json!([budgets[0], budgets[0]]);
    let many = Value::Array(vec![budgets[0].clone(); 5]);
    let windows = Value::Array(vec![budgets[0]["windows"][0].clone(); 129]);
    refused(
        "/watch/threads/0/budgets",
        &[
            ("/0/over", json!(26), "over: 26 of 25 jobs"),
            ("/0/over", json!(0), "over: 0 of 25 jobs"),
            ("/0/runtime_ns", json!(0), "runtime_ns: a budget of nothing"),
            ("/0/runtime_ns", json!(6_000_001), "not ascending"),
            ("/0/deadline_ns", json!(20_000_001), "not ascending"),
            ("/0/used/count", json!(24), "used: the histogram"),
            ("/0/worst_at_ns", json!(HOUR_NS), "worst_at_ns"),
            (
                "/0/window_ns",
                json!(0),
                "window_ns: windows without a length",
            ),
            (
                "/0/throttled",
                json!(4),
                "windows: their throttled sum to 5",
            ),
            (
                "/0/windows/0/jobs",
                json!(11),
                "windows: their jobs sum to 26",
            ),
            (
                "/0/windows/0/used_ns",
                json!(9_999_999),
                "their used_ns sum",
            ),
            (
                "/0/windows/0/used_ns",
                json!(10_000_001),
                "windows[0]: its sum",
            ),
            ("/0/windows/2/over", json!(16), "windows[2]: more jobs over"),
            ("/0/windows/2/over", json!(0), "windows[2]: its maximum"),
            (
                "/0/windows/2/over",
                json!(4),
                "windows: their over sum to 4",
            ),
            (
                "/0/windows/2/max_ns",
                json!(13_000_000),
                "windows: their maximum",
            ),
            (
                "/0/windows/1",
                json!({"jobs": 0, "used_ns": 0, "max_ns": 0, "throttled": 1}),
                "windows[1]: figures without jobs",
            ),
            ("/0/windows", windows, "windows: 129 entries"),
            ("", twice, "budgets[1]: the same budget twice"),
            ("", many, "budgets: 5 entries"),
        ],
    );
}

#[test]
fn waits_that_contradict_themselves_are_refused() {
    let run = serde_json::to_value(watched(1)).unwrap();
    let rows = run.pointer("/explanation/waits/0/rows").unwrap().clone();
    let wait_ns = run["explanation"]["waits"][0]["wait_ns"].as_u64().unwrap();
    let late = json!(u64::MAX - wait_ns + 1);
    refused(
        "/explanation/waits/0",
        &[
            ("/rows/0/ns", json!(1), "rows: sum to"),
            (
                "/rows/1/thread",
                Value::Null,
                "rows[1]: a thread and what it did",
            ),
            (
                "/rows/1/doing",
                json!({"kind": "other"}),
                "rows[1]: a thread",
            ),
            (
                "/rows/1/thread/ns",
                json!(200_001),
                "rows[1]: its thread took more",
            ),
            (
                "/rows/4/doing",
                json!({"kind": "ran"}),
                "rows[4]: the same thread",
            ),
            (
                "/rows/9/doing",
                rows[1]["doing"].clone(),
                "rows[9]: a thread",
            ),
            ("/count", json!(0), "count: no wait"),
            ("/count", json!(1), "total_ns"),
            (
                "/total_ns",
                json!(wait_ns - 1),
                "total_ns: less than the longest",
            ),
            ("/from_ns", late, "wait_ns: ends after the end of time"),
            (
                "/from_ns",
                json!(HOUR_NS),
                "from_ns: 3600000000000 ns is not an instant",
            ),
        ],
    );
}

/// A sum of runs has no clock of its own: the instants in it are those of its parts.
#[test]
fn instants_of_a_run_whose_beginning_is_unknown_are_taken_as_they_are() {
    let mut run = watched(1);
    run.start_ns = None;
    let mut json = serde_json::to_value(&run).unwrap();
    json["explanation"]["waits"][0]["from_ns"] = json!(HOUR_NS);
    json["watch"]["off_cpu"]["places"][0]["longest_at_ns"] = json!(7);
    assert!(read_back(&json).is_ok());
}

#[test]
fn parts_that_a_sum_does_not_have_are_refused() {
    let with = |run: &Run, pointer: &str, key: &str, value: u64| {
        let mut json = serde_json::to_value(run).unwrap();
        json.pointer_mut(pointer).unwrap()[key] = json!(value);
        read_back(&json).map(drop)
    };
    let single = watched(1);
    let sum = merge(&[watched(2), watched(3)], false, Vec::new()).unwrap();
    for (pointer, key) in [
        ("/explanation/waits/0", "run"),
        ("/watch/off_cpu", "runs"),
        ("/watch/run_queue", "runs"),
    ] {
        let line = with(&single, pointer, key, 1).unwrap_err();
        assert!(
            line.contains("this record is not a merge of runs"),
            "{line}"
        );
        let line = with(&sum, pointer, key, 3).unwrap_err();
        assert!(line.contains(&format!("{key}: 3 of 2 runs")), "{line}");
        assert_eq!(with(&sum, pointer, key, 2), Ok(()));
    }
    let line = with(&sum, "/explanation/waits/0", "run", 0).unwrap_err();
    assert!(line.contains("runs count from 1"), "{line}");
}

/// 590 ms of a pause, 2 ms without a CPU, 1 µs of the rest.
#[test]
fn late_ticks_whose_parts_are_impossible_are_refused() {
    let run = serde_json::to_value(watched(1)).unwrap();
    let runtime = run.pointer("/watch/runtime").unwrap().clone();
    let of = |field: &str, count: usize| Value::Array(vec![runtime[field][0].clone(); count]);
    let parents =
        json!([{"name": "a"}, {"name": "b"}, {"name": "c"}, {"name": "d"}, {"name": "e"}]);
    let mut descendant = runtime["bills"][0]["rows"][1]["row"]["thread"].clone();
    descendant["parents"] = parents;
    refused(
        "/watch/runtime",
        &[
            (
                "/bills/0/rows/1/row/thread",
                descendant,
                "bills[0]: parents: 5 entries",
            ),
            ("/ticks/0/held", json!(47), "ticks[0]: more held"),
            ("/ticks/0/late", json!(3_001), "ticks[0]: more held"),
            (
                "/ticks/0/spent/pause_waited_ns",
                json!(590_000_001),
                "ticks[0].spent",
            ),
            ("/bills/0/late_ns", json!(592_001_001), "bills[0].spent"),
            ("/bills/0/spent/rest_ns", json!(1_001), "bills[0].spent"),
            (
                "/bills/0/rows/1/row/ns",
                json!(5_000_001),
                "bills[0].rows: they don't sum",
            ),
            (
                "/bills/0/spent/pause_waited_ns",
                json!(u64::MAX),
                "bills[0].spent",
            ),
            ("/roles", of("roles", 1_000), "roles: 1000 entries"),
            ("/ticks", of("ticks", 257), "ticks: 257 entries"),
            ("/bills", of("bills", 17), "bills: 17 entries"),
        ],
    );
}

#[test]
fn ticks_of_several_runs_add_up_by_the_names_of_their_threads() {
    let (one, two) = (watched(1), watched(2));
    let sum = merge(&[one.clone(), two], false, Vec::new()).unwrap();
    let runtime = |run: &Run| run.watch.clone().unwrap().runtime;
    let (before, after) = (runtime(&one).unwrap(), runtime(&sum).unwrap());
    assert_eq!(after.ticks[0].count, 2 * before.ticks[0].count);
    assert_eq!(after.ticks[0].held, 2 * before.ticks[0].held);
    assert_eq!(after.ticks[0].worst_ns, before.ticks[0].worst_ns);
    let total_ns = before.ticks[0].spent.total_ns();
    assert_eq!(after.ticks[0].spent.total_ns(), 2 * total_ns);
    assert_eq!(
        after.pause_waited_ns,
        before.pause_waited_ns.map(|ns| 2 * ns)
    );
    assert_eq!(
        (after.beyond, after.bills.len(), after.roles.len()),
        (4, 0, 0)
    );
    // Of different limits there is no sum.
    let mut other = watched(3);
    other
        .watch
        .as_mut()
        .unwrap()
        .runtime
        .as_mut()
        .unwrap()
        .late_above_ns = Some(7);
    assert_eq!(
        runtime(&merge(&[one, other], false, Vec::new()).unwrap()),
        None
    );
}

/// A watch of threads with periods in ms, of which nothing else is wanted.
fn periodic(deadline_ns: u64, periods: &[Option<u64>]) -> Run {
    let threads = (0..periods.len()).map(|at| thread(at, &[5_000; 1_000], 64));
    let mut run = run_of(threads.collect());
    run.request.requirements = vec![Requirement::MissProbability {
        deadline_ns,
        allowed: 0.0,
    }];
    let mut watch = watches::program("controller", periods.len());
    (watch.beyond, watch.off_cpu, watch.runtime) = (0, None, None);
    watch.marks.clear();
    for (thread, period) in watch.threads.iter_mut().zip(periods) {
        thread.period_ns = period.map(|ms| ms * 1_000_000);
        thread.unseen = 0;
    }
    run.watch = Some(watch);
    run
}

#[test]
fn threads_of_one_name_are_merged_by_their_periods() {
    let periods = |runs: &[&[Option<u64>]]| {
        let runs: Vec<Run> = runs.iter().map(|it| periodic(10_000_000, it)).collect();
        let merged = merge(&runs, false, Vec::new()).unwrap();
        let threads = merged.watch.unwrap().threads;
        let counts = threads.iter().map(|it| it.by_timer.count / 100);
        let periods = threads
            .iter()
            .map(|it| it.period_ns.map(|ns| ns / 1_000_000));
        counts.zip(periods).collect::<Vec<_>>()
    };
    // A record has them in any order.
    let both = periods(&[&[Some(1), Some(10)], &[Some(10), Some(1)]]);
    assert_eq!(both, [(2, Some(1)), (2, Some(10))]);
    let three = periods(&[&[Some(1)], &[None, Some(10), Some(1)]]);
    assert_eq!(three, [(2, Some(1)), (1, None), (1, Some(10))]);
    // Where only the name is one, a burst that is not seen weighs as much as in each run.
    assert_eq!(periods(&[&[Some(10)], &[Some(1)]]), [(2, Some(1))]);
    assert_eq!(periods(&[&[Some(1)], &[None]]), [(2, Some(1))]);
}

#[test]
fn skipped_periods_of_a_watch_are_counted_anew_for_another_deadline() {
    // 2.2 ms, 1.2 ms and 0.2 ms late.
    let skips = [Skip {
        at_ns: 500_000_000,
        count: 3,
        most_ns: 2_200_000,
        least_ns: 200_000,
        period_ns: 1_000_000,
        longest_period_ns: 0,
        joined: false,
    }];
    for (deadline_ns, wanted) in [(10_000_000, 0), (1_500_000, 1), (1_000_000, 3)] {
        let mut other = periodic(100_000, &[Some(1)]);
        other.watch.as_mut().unwrap().threads[0].skips = skips.into_iter().collect();
        let thread = &mut other.threads[0];
        (thread.missed, thread.missed_late) = (3, Some(3));
        let merged = merge(
            &[periodic(deadline_ns, &[Some(1)]), other],
            true,
            Vec::new(),
        );
        let merged = merged.unwrap();
        assert_eq!(merged.threads[0].missed_late, Some(wanted), "{deadline_ns}");
        let verdict = merged.verdict.unwrap();
        let fails = verdict.outcome == Outcome::Fail;
        assert_eq!(fails, wanted > 0, "{deadline_ns}: {verdict:?}");
    }
}
