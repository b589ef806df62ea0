//! What a dataset has after each thing that can happen to it.

use std::fs;
use std::path::{Path, PathBuf};

use proptest::prelude::*;
use punctual_fleet::{Added, Dataset, FleetError, Unfit, buckets};
use punctual_record::{Run, State};
use punctual_stats::histogram::{Histogram, SparseHistogram};

use crate::made::{latencies, run_of, thread};
use crate::rows;

fn run(seed: u64) -> Run {
    run_of(vec![thread(0, &latencies(seed, 2_000, 90_000), 64)])
}

fn add(folder: &Path, runs: &[Run]) -> Vec<Added> {
    let mut dataset = Dataset::open(folder).expect("a dataset");
    let added = runs
        .iter()
        .map(|run| dataset.add(rows(run).expect("rows")).expect("added"));
    let added = added.collect();
    dataset.finish().expect("written");
    added
}

/// All files, but for the lock.
fn files(folder: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).expect("a folder") {
        let path = entry.expect("an entry").path();
        match path.is_dir() {
            true => found.extend(files(&path)),
            false if path.ends_with(".lock") => {}
            false => found.push(path),
        }
    }
    found.sort();
    found
}

#[test]
fn a_run_is_added_once_however_often_it_is_given() {
    let place = tempfile::tempdir().expect("a folder");
    let folder = place.path().join("farm");
    let runs = [run(1), run(2)];
    let twice = [runs[0].clone(), runs[1].clone(), runs[0].clone()];
    assert_eq!(add(&folder, &twice), [Added::New, Added::New, Added::Known]);
    let before = files(&folder);
    assert_eq!(add(&folder, &runs), [Added::Known, Added::Known]);
    assert_eq!(files(&folder), before);
    assert_eq!(add(&folder, &[run(3)]), [Added::New]);
    assert_eq!(Dataset::open(&folder).expect("a dataset").runs(), 3);
}

#[test]
fn runs_of_several_months_are_apart() {
    let place = tempfile::tempdir().expect("a folder");
    let mut later = run(1);
    later.started = "2026-12-01T00:00:00Z".to_owned();
    add(place.path(), &[run(1), later]);
    for month in ["month=2026-11", "month=2026-12"] {
        let folder = place.path().join(month);
        assert_eq!(fs::read_dir(folder).expect(month).count(), 1);
    }
}

#[test]
fn what_a_killed_process_left_is_removed_and_a_second_one_is_refused() {
    let place = tempfile::tempdir().expect("a folder");
    let folder = place.path();
    add(folder, &[run(1)]);
    let before = files(folder);
    fs::create_dir(folder.join(".unfinished-00ff")).expect("a folder");
    fs::write(folder.join(".unfinished-00ff/runs.parquet"), "PAR1").expect("a file");
    fs::write(folder.join(".unfinished-dataset.json"), "{").expect("a file");
    let first = Dataset::open(folder).expect("a dataset");
    assert_eq!((first.runs(), files(folder)), (1, before));
    assert!(matches!(
        Dataset::open(folder),
        Err(FleetError::Busy { .. })
    ));
    drop(first);
    assert!(Dataset::open(folder).is_ok());
}

#[test]
fn other_directories_are_left_alone() {
    let place = tempfile::tempdir().expect("a folder");
    let folder = place.path();
    let line = |folder: &Path| {
        Dataset::open(folder)
            .map(drop)
            .expect_err("refused")
            .to_string()
    };
    fs::write(folder.join("letter.txt"), "Dear").expect("a file");
    assert!(line(folder).ends_with("not empty, and no dataset of punctual: name a new directory"));
    assert_eq!(files(folder).len(), 1);
    let newer = folder.join("newer");
    fs::create_dir(&newer).expect("a folder");
    let mark = r#"{"format": "punctual fleet", "version": 2}"#;
    fs::write(newer.join("dataset.json"), mark).expect("a file");
    assert!(line(&newer).contains("a dataset of version 2, this program has version 1"));
    for text in ["", "{", "[]", r#"{"format": 1}"#, "\0"] {
        fs::write(newer.join("dataset.json"), text).expect("a file");
        assert!(line(&newer).contains("no dataset of punctual"), "{text}");
    }
    assert!(line(&folder.join("letter.txt")).contains("letter.txt"));
}

#[test]
fn a_damaged_batch_is_named_and_its_tables_are_not_read() {
    let place = tempfile::tempdir().expect("a folder");
    add(place.path(), &[run(1), run(2)]);
    let found = files(place.path());
    let named = |end: &str| found.iter().find(|file| file.ends_with(end)).expect("one");
    fs::write(named("runs.parquet"), "PAR1").expect("written");
    assert_eq!(Dataset::open(place.path()).expect("a dataset").runs(), 2);
    let list = named("ids");
    let line = || {
        let opened = Dataset::open(place.path()).map(drop);
        opened.expect_err("damaged").to_string()
    };
    for text in ["", "\n", "0123456789abcdef0123456789abcdef\n", "\0\u{e9}"] {
        fs::write(list, text).expect("written");
        let end = "its list of runs is damaged: remove the directory and ingest its runs again";
        assert!(line().ends_with(end), "{}", line());
    }
    fs::remove_file(list).expect("removed");
    assert!(line().contains("/ids: No such file"), "{}", line());
}

#[test]
fn runs_of_other_kinds_are_refused_with_the_reason() {
    let of = |change: &dyn Fn(&mut Run)| {
        let mut run = run(1);
        change(&mut run);
        rows(&run).map(drop)
    };
    assert_eq!(of(&|_| ()), Ok(()));
    assert_eq!(
        of(&|run| run.state = State::Unfinished),
        Err(Unfit::Unfinished)
    );
    assert_eq!(of(&|run| run.start_ns = None), Err(Unfit::NoBeginning));
    for started in [
        "",
        "../../../x",
        "2026-11",
        "yesterday",
        "2026-13-01T00:00:00Z",
    ] {
        let refused = of(&|run| run.started = started.to_owned());
        assert_eq!(refused, Err(Unfit::NoBeginning), "{started}");
    }
    let damaged = of(&|run| run.threads[0].latency.encoded.truncate(20));
    assert!(matches!(damaged, Err(Unfit::Damaged(_))));
    let miscounted = of(&|run| run.threads[0].latency.count += 1);
    assert!(matches!(miscounted, Err(Unfit::Damaged(_))));
}

#[test]
fn identities_depend_on_host_time_and_instant_and_nothing_else() {
    let id = |host: &str, started: &str, start_ns: u64| {
        let mut run = run(1);
        run.system.hostname = host.to_owned();
        run.started = started.to_owned();
        run.start_ns = Some(start_ns);
        rows(&run).expect("rows").run.id
    };
    let one = id("a", "2026-11-21T02:46:09Z", 5);
    assert_eq!(one, id("a", "2026-11-21T02:46:09Z", 5));
    assert_eq!(one.to_string().len(), 32);
    let others = [
        id("b", "2026-11-21T02:46:09Z", 5),
        id("a", "2026-11-21T02:46:10Z", 5),
        id("a", "2026-11-21T02:46:09Z", 6),
    ];
    assert!(others.iter().all(|other| *other != one));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// Buckets of a dataset are those of records, eight at a time: no count is lost or moved.
    #[test]
    fn a_histogram_keeps_its_counts(values in prop::collection::vec(any::<u64>().prop_map(|v| v >> (v % 64)), 1..200)) {
        let mut histogram = Histogram::new();
        for value in &values {
            histogram.record(*value);
        }
        let sparse = SparseHistogram::try_from(&(&histogram).into()).expect("decoded");
        for bucket in 0..buckets::COUNT {
            let (low, high) = (buckets::lowest_ns(bucket), buckets::highest_ns(bucket));
            let exact = values.iter().filter(|value| (low..=high).contains(value)).count();
            let lows = sparse.lows().filter(|(low, _)| buckets::bucket_of(*low) == bucket);
            prop_assert_eq!(lows.map(|it| it.1).sum::<u64>(), exact as u64);
        }
    }
}
