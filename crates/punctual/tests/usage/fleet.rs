//! `fleet ingest` and `fleet sql` as a user runs them.

use std::fs;
use std::os::unix::fs::symlink;
use std::process::Command;

use crate::common::{Place, need, needs, program};

/// A tree of results: two runs of a node, one of another, and what is none.
fn results(place: &Place) {
    for run in ["results/n1/1", "results/n1/2", "results/n2/1"] {
        let (folder, _) = run.rsplit_once('/').expect("a folder");
        fs::create_dir_all(place.path().join(folder)).expect("a folder");
        let flags = [
            "measure",
            "-q",
            "-l",
            "20",
            "-a",
            "0",
            "--best-effort",
            "-o",
            run,
        ];
        place.run(&flags).expect(0);
    }
}

#[test]
fn runs_below_a_directory_are_added_once_and_the_others_refused_by_name() {
    let place = Place::new();
    results(&place);
    let at = |path: &str| place.path().join(path);
    let ingest = ["fleet", "ingest", "results", "-o", "farm"];
    let said = place.run(&ingest).expect(0).stdout;
    assert_eq!(said, "farm: 3 runs added\n");
    // An attempt that was repeated.
    fs::create_dir_all(at("results/.slurm/attempts/0.0")).expect("a folder");
    fs::write(at("results/.slurm/attempts/0.0/run.json"), "cut").expect("a file");
    // The same run by another path, and a link that leads back.
    symlink("..", at("results/n2/back")).expect("a link");
    let again = [
        "fleet",
        "ingest",
        "results/n1/1/run.json",
        "results/n2",
        "-o",
        "farm",
    ];
    let said = place.run(&again).expect(0).stdout;
    assert_eq!(said, "farm: 0 runs added, 2 known before\n");

    let record = fs::read_to_string(at("results/n1/1/run.json")).expect("a record");
    for (name, text) in [
        ("cut", &record[..record.len() / 2]),
        ("empty", ""),
        ("none", "[]"),
        (
            "unfinished",
            &record.replacen("\"finished\"", "\"unfinished\"", 1),
        ),
    ] {
        fs::create_dir(at("results").join(name)).expect("a folder");
        fs::write(at("results").join(name).join("run.json"), text).expect("a record");
    }
    let ended = place.run(&ingest).expect(1);
    assert_eq!(
        ended.stdout,
        "farm: 0 runs added, 3 known before, 4 refused\n"
    );
    let lines: Vec<&str> = ended.stderr.lines().collect();
    assert_eq!(lines.len(), 4, "{lines:?}");
    let begins = |line: &&str| line.starts_with("punctual: refused: results/");
    assert!(lines.iter().all(begins), "{lines:?}");
    assert!(
        ended
            .stderr
            .contains("unfinished/run.json: the run was not finished"),
        "{lines:?}"
    );
    let quiet = place
        .run(&["fleet", "ingest", "results/n1", "-o", "farm", "-q"])
        .expect(0);
    assert_eq!((&*quiet.stdout, &*quiet.stderr), ("", ""));
    fs::create_dir(at("nothing")).expect("a folder");
    let none = place
        .run(&["fleet", "ingest", "nothing", "-o", "farm"])
        .expect(0);
    assert!(
        none.stderr
            .contains("nothing: no run in it, and none below"),
        "{}",
        none.stderr
    );
    place
        .run(&["fleet", "ingest", "gone", "-o", "farm"])
        .expect(1);
    place
        .run(&["fleet", "ingest", "results", "-o", "results"])
        .expect(1);
}

#[test]
fn queries_are_listed_and_printed_for_each_engine() {
    let place = Place::new();
    results(&place);
    place
        .run(&["fleet", "ingest", "results", "-o", "farm"])
        .expect(0);
    let list = place.run(&["fleet", "sql", "farm"]).expect(0).stdout;
    for line in list.lines() {
        let name = line.split_whitespace().next().expect("a name");
        for engine in ["duckdb", "spark"] {
            let sql = place
                .run(&["fleet", "sql", "farm", name, "--engine", engine])
                .expect(0)
                .stdout;
            let farm = place.path().join("farm").canonicalize().expect("a path");
            assert!(sql.contains(&*farm.to_string_lossy()), "{sql}");
            assert!(sql.ends_with(";\n"), "{sql}");
        }
    }
    assert_eq!(list.lines().count(), 7);
    let wrong = place.run(&["fleet", "sql", "farm", "median"]).expect(64);
    assert!(
        wrong
            .stderr
            .contains("median: no such query: expected percentiles, "),
        "{}",
        wrong.stderr
    );
    let none = place.run(&["fleet", "sql", "results", "worst"]).expect(1);
    assert!(
        none.stderr
            .contains("results: no dataset: `punctual fleet ingest DIR -o results`")
    );
}

#[test]
fn on_a_full_disk_no_part_of_a_batch_is_visible() {
    need!(needs::mounts());
    let place = Place::new();
    results(&place);
    let script = r#"
mount -t tmpfs -o size=24k none "$PWD/small" || exit 77
"$PUNCTUAL" fleet ingest results -o small/farm; echo "status $?"
find small/farm -name '*.parquet' -path '*batch=*'; ls -A small/farm | grep unfinished
mount -o remount,size=4m "$PWD/small"
"$PUNCTUAL" fleet ingest results -o small/farm; echo "status $?"
find small/farm -name 'runs.parquet'
"#;
    fs::create_dir(place.path().join("small")).expect("a folder");
    let output = Command::new("unshare")
        .args(["-m", "sh", "-c", script])
        .env("PUNCTUAL", program())
        .current_dir(place.path())
        .output()
        .expect("unshare runs");
    let said = String::from_utf8_lossy(&output.stdout);
    let errors = String::from_utf8_lossy(&output.stderr);
    let lines: Vec<&str> = said.lines().collect();
    assert_eq!(lines.first(), Some(&"status 1"), "{said}{errors}");
    assert!(errors.contains("No space left on device"), "{errors}");
    assert_eq!(
        lines[1..3],
        ["small/farm: 3 runs added", "status 0"],
        "{said}{errors}"
    );
    assert!(lines[3].starts_with("small/farm/month="), "{said}");
    assert_eq!(lines.len(), 4, "{said}");
}
