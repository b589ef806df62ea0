//! The shipped queries in Spark: the same answers as those of DuckDB.

use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use punctual_fleet::{Dataset, Engine, QUERIES};
use serde_json::Value;

use crate::duckdb::answer;
use crate::engine;
use crate::needs::{Absent, skip};
use crate::sample::{Random, anywhere, run};

const RUNS: u64 = 10_000;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// Python with pyspark: the machine's, or the one that `make test` has unpacked.
fn python() -> Option<Command> {
    let unpacked = root().join("target/tools/pyspark");
    let mut command = Command::new("python3");
    if unpacked.is_dir() {
        command.env("PYTHONPATH", unpacked);
    }
    let mut found = Command::new("python3");
    found.args(["-c", "import pyspark"]).stderr(Stdio::null());
    for (name, value) in command.get_envs() {
        found.env(name, value.unwrap_or_default());
    }
    let is_found = found.status().is_ok_and(|status| status.success());
    let mut java = Command::new("java");
    java.arg("-version").stderr(Stdio::null());
    let has_java = java.status().is_ok_and(|status| status.success());
    (is_found && has_java).then_some(command)
}

/// Each row that Spark prints, after the name of its query.
fn spark(mut python: Command, dataset: &Path) -> Vec<(String, Value)> {
    let mut script = Engine::Spark.views(dataset);
    for query in QUERIES {
        let marked = format!(
            "select '{}' as asked;\n{};\n",
            query.name,
            query.sql.trim_end()
        );
        script.push_str(&marked);
    }
    let mut child = python
        .arg(root().join("integrations/spark/query.py"))
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("python runs");
    let mut stdin = child.stdin.take().expect("a pipe");
    let writer = std::thread::spawn(move || stdin.write_all(script.as_bytes()));
    let output = child.wait_with_output().expect("it ends");
    writer.join().expect("a thread").expect("written");
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{said}");
    let text = String::from_utf8(output.stdout).expect("text");
    let (mut rows, mut asked) = (Vec::new(), String::new());
    for line in text.lines() {
        let row: Value = serde_json::from_str(line).expect("a row");
        match row["asked"].as_str() {
            Some(name) => name.clone_into(&mut asked),
            None => rows.push((asked.clone(), row)),
        }
    }
    rows
}

/// The same, fractions but for their last digits.
fn same(one: &Value, other: &Value) -> bool {
    match (one, other) {
        (Value::Object(one), Value::Object(other)) => {
            one.len() == other.len()
                && one
                    .iter()
                    .all(|(key, value)| other.get(key).is_some_and(|it| same(value, it)))
        }
        (Value::Number(one), Value::Number(other)) => match (one.as_i64(), other.as_i64()) {
            (Some(one), Some(other)) => one == other,
            _ => {
                let (one, other) = (one.as_f64(), other.as_f64());
                let (one, other) = (one.unwrap_or(f64::NAN), other.unwrap_or(f64::NAN));
                (one - other).abs() <= 1e-9 * one.abs().max(other.abs())
            }
        },
        (one, other) => one == other,
    }
}

#[test]
fn spark_and_duckdb_answer_each_query_alike() {
    let Some(engine) = engine() else { return };
    let Some(python) = python() else {
        skip!(Absent::program("pyspark (make test unpacks it), or java"));
    };
    let place = tempfile::tempdir().expect("a folder");
    // No sign in the name of a folder means a pattern.
    let farm = place.path().join("it's [a] {b} *?");
    let mut dataset = Dataset::open(&farm).expect("a dataset");
    let mut random = Random(3);
    for number in 0..RUNS {
        let kind = anywhere(number, &mut random);
        dataset.add(run(number, kind, &mut random)).expect("added");
    }
    dataset.finish().expect("written");
    let all = spark(python, &farm);
    for query in QUERIES {
        let ours = answer(&engine, &farm, query.sql);
        let theirs: Vec<&Value> = all
            .iter()
            .filter(|(name, _)| name == query.name)
            .map(|(_, row)| row)
            .collect();
        assert_eq!(ours.len(), theirs.len(), "{}", query.name);
        for (one, other) in ours.iter().zip(theirs) {
            assert!(same(one, other), "{}: {one} is not {other}", query.name);
        }
    }
    assert!(all.len() > 5_000, "{}", all.len());
}
