//! `punctual fleet slurm` on a real Slurm of four nodes.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::Duration;

use super::cluster::{Cluster, NODES, kill};
use super::common::{Running, need, read_json, until};

/// Flags of a short run that misses its deadline wherever it is made.
const FAILS: [&str; 10] = [
    "qualify",
    "-l",
    "20",
    "-i",
    "10000",
    "--deadline",
    "1ns",
    "--load=none",
    "--no-explain",
    "--best-effort",
];

/// One that takes seconds.
fn long(seconds: &'static str) -> Vec<&'static str> {
    vec![
        "qualify",
        "-D",
        seconds,
        "--deadline",
        "1ns",
        "--load=none",
        "--no-explain",
        "--best-effort",
    ]
}

fn with<'a>(before: &[&'a str], command: &[&'a str]) -> Vec<&'a str> {
    [before, &["--"], command].concat()
}

/// `key` of a run's `slurm.txt`.
fn value(run: &Path, key: &str) -> String {
    let text = fs::read_to_string(run.join("slurm.txt")).expect("slurm.txt");
    let line = text
        .lines()
        .find_map(|line| line.strip_prefix(key)?.strip_prefix('='));
    line.expect("a value").to_owned()
}

/// Every record below a directory.
fn records(directory: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    let mut open = vec![directory.to_owned()];
    while let Some(folder) = open.pop() {
        for entry in fs::read_dir(folder).expect("a folder").flatten() {
            match entry.path() {
                path if path.is_dir() => open.push(path),
                path if path.ends_with("run.json") => found.push(path),
                _ => {}
            }
        }
    }
    found
}

/// Checks that each node has its runs, each once, and returns them.
fn each_once(directory: &Path, repeat: usize) -> Vec<PathBuf> {
    let mut ids = BTreeSet::new();
    let mut runs = Vec::new();
    for node in NODES {
        for repetition in 1..=repeat {
            let run = directory.join(node).join(repetition.to_string());
            assert_eq!(value(&run, "node"), node);
            assert_eq!(value(&run, "repetition"), repetition.to_string());
            assert!(ids.insert((value(&run, "job"), value(&run, "index"))));
            let record = read_json(&run.join("run.json"));
            assert_eq!(record["state"]["state"], "finished", "{}", run.display());
            runs.push(run);
        }
        let entries = fs::read_dir(directory.join(node))
            .expect("a folder")
            .count();
        assert_eq!(entries, repeat, "{node}");
    }
    runs
}

#[test]
fn each_node_has_its_runs_and_the_most_severe_verdict_counts() {
    let cluster = need!(Cluster::start());
    let ended = cluster
        .run(&with(&["--repeat", "2", "-o", "night"], &FAILS))
        .expect(2);
    let night = cluster.at("night");
    let runs = each_once(&night, 2);
    assert_eq!(records(&night).len(), runs.len());
    let rows: Vec<&str> = ended
        .stdout
        .lines()
        .filter(|line| line.contains("2 FAIL"))
        .collect();
    assert_eq!(rows.len(), 4, "{}", ended.stdout);
    for (row, node) in rows.iter().zip(NODES) {
        assert!(row.starts_with(node) && row.contains("FAIL"), "{row}");
    }
    assert!(ended.stderr.contains("8 of 8 done"), "{}", ended.stderr);
    // The status of each run is that of its task.
    let job = value(&runs[0], "job");
    let tasks = cluster.ask(
        "squeue",
        &[
            "-h",
            "-r",
            "-t",
            "all",
            "-j",
            &job,
            "-O",
            "State:,exit_code:",
        ],
    );
    assert_eq!(tasks.matches("FAILED").count(), 8, "{tasks}");
    // What the page says next: two runs of a node. Those of two nodes, which are one machine here, may have
    // measured at the same time.
    let merged = cluster
        .place
        .run(&["merge", "--force", "-q", "night/n1/1", "night/n1/2"]);
    assert_eq!(merged.code(), 2, "{merged:?}");

    // The same script without punctual on the login node.
    let mut command = cluster
        .command(Path::new(env!("CARGO_MANIFEST_DIR")).join("../../integrations/slurm/submit.sh"));
    command
        .args(["plain", "n[1-4]", "1"])
        .arg(super::common::program());
    command.args(["--partition=rt", "--"]).args(&FAILS[1..]);
    let plain = Running::start(command).end();
    assert_eq!(plain.code(), 2, "{plain:?}");
    for (index, node) in NODES.iter().enumerate() {
        let run = cluster
            .at("plain/.slurm/attempts")
            .join(format!("{index}.0"));
        assert_eq!(value(&run, "node"), **node);
        assert!(run.join("run.json").is_file());
    }

    // A verdict of INVALID without a record, and one that is only known to sbatch.
    let list = ["--nodes", "n[2-3],n2", "-q", "-o", "refused"];
    let flags = [
        "qualify",
        "-l",
        "5",
        "-p",
        "99",
        "--load",
        "sleep 60",
        "-D",
        "3",
        "--no-explain",
    ];
    let ended = cluster.run(&with(&list, &flags)).expect(4);
    assert!(ended.stderr.is_empty(), "{}", ended.stderr);
    assert_eq!(
        ended.stdout.matches("1 INVALID").count(),
        2,
        "{}",
        ended.stdout
    );
}

/// n2 crashes, on n3 the daemon alone dies and its run goes on, and the controller is killed.
fn with_deaths(seconds: &'static str, before: Duration, check: impl Fn(&[PathBuf])) {
    let mut cluster = need!(Cluster::start());
    let running = cluster.begin(&with(&["--repeat", "2", "-o", "night"], &long(seconds)));
    until("a run on each node", || {
        let runs = |node: &&str| !cluster.job_processes(node, "qualify").is_empty();
        NODES.iter().all(runs)
    });
    thread::sleep(before);
    cluster.crash_node(1);
    cluster.stop_node(2);
    cluster.stop_controller();
    thread::sleep(Duration::from_secs(2));
    cluster.start_controller();
    until("two nodes down", || {
        let states = cluster.ask("sinfo", &["-h", "-n", "n2,n3", "-N", "-o", "%T"]);
        states
            .lines()
            .filter(|state| state.starts_with("down"))
            .count()
            == 2
    });
    cluster.start_node(1);
    cluster.start_node(2);
    let ended = running.end_within(Duration::from_secs(150)).expect(2);
    check(&each_once(&cluster.at("night"), 2));
    let rows = ended.stdout.matches("2 FAIL").count();
    assert_eq!(rows, 4, "{}", ended.stdout);
}

#[test]
fn no_run_is_lost_or_counted_twice_when_daemons_die() {
    // The controller saves what it knows every five seconds.
    with_deaths("12", Duration::from_secs(7), |runs| {
        let again = runs.iter().filter(|run| value(run, "restarts") != "0");
        let again: BTreeSet<String> = again.map(|run| value(run, "node")).collect();
        assert!(again.contains("n2"), "{again:?}");
    });
}

#[test]
fn a_run_that_is_killed_is_started_again_and_one_with_a_verdict_is_not() {
    let cluster = need!(Cluster::start());
    let running = cluster.begin(&with(&["--nodes", "n[1-2]", "-o", "night"], &long("4")));
    let mut found = Vec::new();
    until("a run on two nodes", || {
        found = ["n1", "n2"]
            .map(|node| cluster.job_processes(node, "qualify"))
            .concat();
        ["n1", "n2"]
            .iter()
            .all(|node| cluster.job_processes(node, "--no-explain").len() >= 2)
    });
    // On n1 the program dies; on n2 the script, and the program with it.
    for pid in cluster.job_processes("n1", "qualify") {
        kill(pid);
    }
    for pid in cluster.job_processes("n2", "--no-explain") {
        kill(pid);
    }
    let ended = running.end_within(Duration::from_secs(120)).expect(2);
    for node in ["n1", "n2"] {
        let run = cluster.at("night").join(node).join("1");
        assert_eq!(value(&run, "restarts"), "1", "{}", ended.stderr);
        assert!(run.join("run.json").is_file());
    }
}

#[test]
fn interrupted_or_cancelled_it_keeps_what_is_complete() {
    let cluster = need!(Cluster::start());
    let list = ["--nodes", "n1", "--repeat", "2"];
    let begin = |name| {
        let running = cluster.begin(&with(&[&list[..], &["-o", name]].concat(), &long("3")));
        let first = cluster.at(name).join(".slurm/attempts/0.0");
        let second = cluster.at(name).join(".slurm/attempts/1.0");
        until("the first run", || first.exists() || second.exists());
        until("the second run", || {
            !cluster.job_processes("n1", "qualify").is_empty()
        });
        running
    };
    let running = begin("interrupted");
    running.signal(libc::SIGINT);
    let ended = running.end().expect(1);
    assert!(ended.stderr.contains("interrupted: job") && ended.stderr.contains("is cancelled"));
    assert!(
        ended.stdout.contains("1 FAIL, 1 without"),
        "{}",
        ended.stdout
    );
    assert!(ended.stdout.contains("cancelled"), "{}", ended.stdout);
    assert_eq!(cluster.ask("squeue", &["-h"]), "");

    let running = begin("outside");
    let job = fs::read_to_string(cluster.at("outside/.slurm/job")).expect("a job");
    cluster.ask("scancel", &[job.trim()]);
    let ended = running.end().expect(1);
    assert!(
        ended.stdout.contains("1 FAIL, 1 without"),
        "{}",
        ended.stdout
    );
    assert!(ended.stdout.contains("cancelled"), "{}", ended.stdout);
}

#[test]
fn errors_name_what_to_do() {
    let mut cluster = need!(Cluster::start());
    for (flags, status, words) in [
        (vec!["--partition", "nope"], 64, "no such partition"),
        (vec!["--nodes", "n[1-9]"], 64, "no node named n5"),
        (vec!["--nodes", "n[1-2"], 64, "no node named"),
        (vec!["--sbatch=--nonsense"], 1, "unrecognized option"),
        (vec!["--sbatch=--time=never"], 1, "sbatch: "),
        (
            vec!["--sbatch=--array=1-3"],
            64,
            "punctual sets this itself",
        ),
        (vec!["--sbatch=30"], 64, "expected a flag of sbatch"),
        (
            vec!["--repeat", "1000"],
            1,
            "Invalid job array specification",
        ),
        (vec!["-o", "slurm.conf"], 64, "-o: "),
    ] {
        let ended = cluster.run(&with(&flags, &FAILS)).expect(status);
        assert!(ended.stderr.contains(words), "{flags:?}: {}", ended.stderr);
        assert_eq!(ended.stderr.lines().count(), 1, "{}", ended.stderr);
        assert!(
            !cluster
                .place
                .entries()
                .iter()
                .any(|name| name.starts_with("punctual-"))
        );
    }
    let hidden = cluster.at("hidden");
    fs::create_dir(&hidden).expect("a folder");
    cluster.stop_node(3);
    cluster.start_node_without(3, &hidden);
    let ended = cluster
        .run(&with(&["--nodes", "n[3-4]", "-o", "hidden/x"], &FAILS))
        .expect(1);
    let why = "n4, run 1: the directory is not there on this node";
    assert!(ended.stdout.contains(why), "{}", ended.stdout);
    assert!(hidden.join("x/n3/1/run.json").is_file());

    // The node is left out of the partition, and refused if it is named.
    cluster.ask(
        "scontrol",
        &["update", "NodeName=n4", "State=DRAIN", "Reason=test"],
    );
    let ended = cluster
        .run(&with(&["--partition", "rt", "-o", "three"], &FAILS))
        .expect(2);
    assert!(
        ended.stderr.contains("n4: left out: its state is drain"),
        "{}",
        ended.stderr
    );
    let ended = cluster.run(&with(&["--nodes", "n4"], &FAILS)).expect(1);
    assert!(
        ended.stderr.contains("n4 takes no jobs"),
        "{}",
        ended.stderr
    );
}
