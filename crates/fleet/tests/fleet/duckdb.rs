//! The shipped queries in DuckDB, compared with what this program computes itself.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;

use punctual_fleet::{Dataset, Engine, QUERIES, buckets};
use punctual_record::{Run, merge};
use punctual_stats::histogram::SparseHistogram;
use serde_json::Value;

use crate::made::{latencies, run_of, thread};
use crate::{engine, rows};

/// The answer of DuckDB to a query on a dataset.
pub fn answer(engine: &Path, dataset: &Path, sql: &str) -> Vec<Value> {
    let text = format!("{}\n{sql};\n", Engine::DuckDb.views(dataset));
    let output = Command::new(engine)
        .args(["-json", "-c", &text])
        .output()
        .expect("duckdb runs");
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{said}");
    // Without a row it prints nothing, or an empty list.
    serde_json::from_slice(&output.stdout).unwrap_or_default()
}

pub fn query(name: &str) -> &'static str {
    let query = QUERIES.iter().find(|it| it.name == name);
    query.expect("a query").sql
}

pub fn saved(runs: &[Run]) -> tempfile::TempDir {
    let place = tempfile::tempdir().expect("a folder");
    let mut dataset = Dataset::open(place.path()).expect("a dataset");
    for run in runs {
        dataset.add(rows(run).expect("rows")).expect("added");
    }
    dataset.finish().expect("written");
    place
}

/// Four machines with two runs of two threads each.
fn farm() -> Vec<Run> {
    let mut runs = Vec::new();
    for machine in 1..=4 {
        for repetition in 0..2 {
            let seed = machine * 10 + repetition;
            let threads = (0..2).map(|cpu| {
                thread(
                    cpu,
                    &latencies(seed + cpu as u64 * 100, 5_000, 900_000),
                    512,
                )
            });
            let mut run = run_of(threads.collect());
            run.system.hostname = format!("node{machine}");
            runs.push(run);
        }
    }
    runs
}

#[test]
fn the_sum_in_duckdb_is_that_of_merge_bucket_for_bucket() {
    let Some(engine) = engine() else { return };
    let runs = farm();
    let place = saved(&runs);
    // What `merge` makes of the same runs.
    let merged = merge(&runs, true, Vec::new()).expect("merged");
    let mut wanted: BTreeMap<u64, u64> = BTreeMap::new();
    for thread in &merged.threads {
        let histogram = SparseHistogram::try_from(&thread.latency).expect("decoded");
        for (low, count) in histogram.lows() {
            *wanted.entry(buckets::bucket_of(low).into()).or_default() += count;
        }
    }
    let sql = "select bucket, cast(sum(\"count\") as bigint) as n from histograms group by bucket";
    let found: BTreeMap<u64, u64> = answer(&engine, place.path(), sql)
        .iter()
        .map(|row| {
            (
                row["bucket"].as_u64().expect("a bucket"),
                row["n"].as_u64().expect("a count"),
            )
        })
        .collect();
    assert_eq!(found, wanted);

    let percentiles = answer(&engine, place.path(), query("percentiles"));
    let [row] = &percentiles[..] else {
        panic!("{percentiles:?}")
    };
    let whole = merged
        .threads
        .iter()
        .map(|it| it.latency.count)
        .sum::<u64>();
    let most = merged.threads.iter().map(|it| it.latency.max_ns).max();
    assert_eq!(row["samples"].as_u64(), Some(whole));
    assert_eq!(row["maximum_ns"].as_u64(), most);
    assert_eq!(
        (row["machines"].as_u64(), row["runs"].as_u64()),
        (Some(4), Some(8))
    );
    // By rank, from the same buckets.
    for (name, share) in [("p50_ns", 0.5), ("p99_ns", 0.99), ("p999_ns", 0.999)] {
        let mut upto = 0;
        let bucket = wanted.iter().find_map(|(bucket, count)| {
            upto += count;
            (upto as f64 >= whole as f64 * share).then_some(*bucket)
        });
        let high = buckets::highest_ns(bucket.expect("a bucket") as u32);
        assert_eq!(
            row[name].as_u64(),
            most.map(|most| high.min(most)),
            "{name}"
        );
    }
    // 80,000 samples: eight lie beyond.
    assert_eq!(row["p9999_ns"], Value::Null);

    let exceedance = answer(&engine, place.path(), query("exceedance"));
    for row in &exceedance {
        let limit = row["limit_ns"].as_u64();
        let verdict = merged.verdict.as_ref().expect("a verdict");
        let results = verdict.requirements.iter();
        let mut of_limit = results.filter(|it| Some(it.requirement.limit_ns()) == limit);
        let result = of_limit.next().expect("the same limit");
        assert_eq!(
            row["misses"].as_u64(),
            Some(result.bound.misses),
            "{limit:?}"
        );
        assert_eq!(
            row["cycles"].as_u64(),
            Some(result.bound.cycles),
            "{limit:?}"
        );
    }
    assert_eq!(exceedance.len(), 2);
}

#[test]
fn every_query_answers_also_where_there_is_nothing() {
    let Some(engine) = engine() else { return };
    let empty = saved(&farm()[..1]);
    for name in QUERIES.iter().map(|it| it.name) {
        let rows = answer(&engine, empty.path(), query(name));
        let compares = ["outliers", "changes", "causes"].contains(&name);
        assert_eq!(rows.is_empty(), compares, "{name}: {rows:?}");
    }
    // The same from a folder whose name has quotes and signs of patterns.
    let odd = empty.path().join("it's [a] {b} *?");
    std::fs::create_dir(&odd).expect("a folder");
    let mut dataset = Dataset::open(&odd).expect("a dataset");
    dataset.add(rows(&farm()[1]).expect("rows")).expect("added");
    dataset.finish().expect("written");
    assert_eq!(answer(&engine, &odd, query("worst")).len(), 1);
}
