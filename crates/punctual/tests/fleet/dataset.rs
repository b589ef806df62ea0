//! Runs of a real cluster as a dataset, and `punctual fleet report` with the real DuckDB.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use punctual_fleet::{Engine, buckets};
use punctual_record::merge;
use punctual_stats::histogram::SparseHistogram;
use serde_json::Value;

use super::cluster::{Cluster, NODES};
use super::common::needs::Absent;
use super::common::{Ended, Place, Running, need, program};
use super::tools;

fn report(place: &Place, path: impl AsRef<OsStr>, flags: &[&str]) -> Ended {
    let mut command = place.command(program());
    command.env("PATH", path);
    command.args(["fleet", "report"]).args(flags);
    Running::start(command).end()
}

fn duckdb() -> Result<PathBuf, Absent> {
    tools::find(&["duckdb"], "duckdb-cli of PyPI")
}

/// What DuckDB counts in each bucket of a dataset.
fn counted(duckdb: &Path, dataset: &Path) -> BTreeMap<u64, u64> {
    let views = Engine::DuckDb.views(dataset);
    let sql = "select bucket, cast(sum(\"count\") as bigint) as n from histograms group by bucket";
    let output = Command::new(duckdb)
        .args(["-json", "-c", &format!("{views}{sql};")])
        .output()
        .expect("duckdb runs");
    let rows: Vec<Value> = serde_json::from_slice(&output.stdout).expect("rows");
    let of = |row: &Value, key: &str| row[key].as_u64().expect("a number");
    rows.iter()
        .map(|row| (of(row, "bucket"), of(row, "n")))
        .collect()
}

#[test]
fn runs_of_a_cluster_in_a_dataset_are_those_that_merge_adds_bucket_for_bucket() {
    let duckdb = need!(duckdb());
    let cluster = need!(Cluster::start());
    let flags = "--repeat 2 -o night -- qualify -l 300 -i 1000 --deadline 1s --load=none --no-explain --best-effort";
    let flags: Vec<&str> = flags.split(' ').collect();
    let ended = cluster.run(&flags);
    // PASS, or with few samples INCONCLUSIVE.
    assert!([0, 3].contains(&ended.code()), "{ended:?}");
    let place = &cluster.place;
    let said = place
        .run(&["fleet", "ingest", "night", "-o", "farm"])
        .expect(0)
        .stdout;
    assert_eq!(said, "farm: 8 runs added\n");

    let paths = NODES
        .iter()
        .flat_map(|node| ["1", "2"].map(|it| format!("night/{node}/{it}")));
    let mut runs: Vec<_> = paths.map(|path| place.run_of_path(&path)).collect();
    // The nodes are one machine here: for runs at the same time they would measure the same.
    for (index, run) in runs.iter_mut().enumerate() {
        run.system.boot_id = Some(format!("node {}", index / 2));
    }
    let merged = merge(&runs, true, Vec::new()).expect("merged");
    let mut wanted: BTreeMap<u64, u64> = BTreeMap::new();
    for thread in &merged.threads {
        let histogram = SparseHistogram::try_from(&thread.latency).expect("decoded");
        for (low, count) in histogram.lows() {
            *wanted.entry(buckets::bucket_of(low).into()).or_default() += count;
        }
    }
    let farm = place.path().join("farm");
    assert_eq!(counted(&duckdb, &farm), wanted);
    assert!(wanted.values().sum::<u64>() >= 8 * 300);

    let shown = report(place, tools::path(), &["farm"]).expect(0).stdout;
    assert!(
        shown.starts_with("8 runs of 4 machines on 1 kernel, "),
        "{shown}"
    );
    report(place, tools::path(), &["farm", "--html", "farm.html"]).expect(0);
    let page = fs::read_to_string(place.path().join("farm.html")).expect("a page");
    for node in NODES {
        assert!(page.contains(&format!(">{node}</text>")), "{node}");
    }
    // Wide and narrow: a ridge, and a cell for each machine.
    assert_eq!(page.matches("class=\"ridge r0\"").count(), 2);
    assert_eq!(page.matches("<title>n").count(), 8);
    assert!(!page.contains("http://") && !page.contains("https://"));
}

/// A dataset of one run, and a folder whose `duckdb` is a script.
fn with_duckdb(script: &str) -> Place {
    let place = Place::new();
    let flags = "measure -q -l 20 -a 0 --best-effort -o run";
    let flags: Vec<&str> = flags.split(' ').collect();
    place.run(&flags).expect(0);
    place
        .run(&["fleet", "ingest", "run", "-o", "farm"])
        .expect(0);
    let file = place.path().join("bin/duckdb");
    fs::create_dir(place.path().join("bin")).expect("a folder");
    fs::write(&file, format!("#!/bin/sh\n{script}\n")).expect("a file");
    fs::set_permissions(&file, fs::Permissions::from_mode(0o755)).expect("a mode");
    place
}

#[test]
fn what_duckdb_lacks_or_says_is_told_in_a_line() {
    let version = "[ $1 != --version ] || exec echo v9";
    for (script, said) in [
        (
            "cat >/dev/null; echo 'Binder Error: no such table' >&2; exit 1",
            "duckdb, query overview: Binder Error: no such table",
        ),
        ("exit 3", "duckdb, query overview: exit status: 3"),
        (
            "cat >/dev/null; echo '┌──┐'",
            "duckdb, query overview: its answer can't be read (",
        ),
        (
            "cat >/dev/null; echo '[{\"runs\": -1}]'",
            "duckdb, query overview: its answer can't be read (",
        ),
    ] {
        let place = with_duckdb(&format!("{version}\n{script}"));
        let path = format!("{}:/usr/bin:/bin", place.path().join("bin").display());
        let ended = report(&place, path, &["farm", "--html", "page.html"]).expect(1);
        assert!(ended.stderr.contains(said), "{script}: {}", ended.stderr);
        assert_eq!(ended.stderr.lines().count(), 1, "{}", ended.stderr);
        assert!(!place.path().join("page.html").exists());
    }
    let place = with_duckdb("");
    let ended = report(&place, "/nonexistent", &["farm"]).expect(1);
    assert!(
        ended
            .stderr
            .contains("there is no duckdb in the path: install DuckDB's command line"),
        "{}",
        ended.stderr
    );
    let ended = report(&place, "/nonexistent", &["run"]).expect(1);
    assert!(
        ended.stderr.contains("run: no dataset: "),
        "{}",
        ended.stderr
    );
    fs::create_dir(place.path().join("nothing")).expect("a folder");
    place
        .run(&["fleet", "ingest", "nothing", "-o", "empty"])
        .expect(0);
    let ended = report(&place, "/nonexistent", &["empty"]).expect(1);
    assert!(
        ended.stderr.contains("empty: no run in it: "),
        "{}",
        ended.stderr
    );
}

#[test]
fn a_batch_without_its_table_is_no_smaller_fleet() {
    need!(duckdb());
    let place = with_duckdb("");
    let more = [
        "measure",
        "-q",
        "-l",
        "20",
        "-a",
        "0",
        "--best-effort",
        "-o",
        "more",
    ];
    place.run(&more).expect(0);
    let ingest = ["fleet", "ingest", "more", "-o", "farm"];
    place.run(&ingest).expect(0);
    let whole = report(&place, tools::path(), &["farm"]).expect(0).stdout;
    assert!(whole.starts_with("2 runs of 1 machine "), "{whole}");
    let month = fs::read_dir(place.path().join("farm"))
        .expect("a folder")
        .flatten();
    let month = month
        .map(|it| it.path())
        .find(|it| it.is_dir())
        .expect("a month");
    let batch = fs::read_dir(month)
        .expect("a folder")
        .flatten()
        .next()
        .expect("a batch");
    let table = batch.path().join("runs.parquet");
    fs::copy(batch.path().join("invalid.parquet"), &table).expect("changed");
    let ended = report(&place, tools::path(), &["farm"]).expect(1);
    let said = "farm: its tables have 1 of 2 runs: one of them was changed: ";
    assert!(ended.stderr.contains(said), "{}", ended.stderr);
    fs::remove_file(table).expect("removed");
    let ended = report(&place, tools::path(), &["farm"]).expect(1);
    let said = "runs.parquet: missing: remove the batch's directory";
    assert!(ended.stderr.contains(said), "{}", ended.stderr);
}

#[test]
fn an_answer_without_end_is_cut() {
    let place = with_duckdb("[ $1 != --version ] || exec echo v9\ncat >/dev/null\nexec yes");
    let path = format!("{}:/usr/bin:/bin", place.path().join("bin").display());
    let ended = report(&place, path, &["farm"]).expect(1);
    let said = "query overview: its answer can't be read (more than 256 MB)";
    assert!(ended.stderr.contains(said), "{}", ended.stderr);
}
