//! The laboratory: the same to the byte again and again, how long a virtual second takes, and how
//! long it is from the command to the table.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Instant;

use serde_json::Value;

use super::row::{Row, Spread, Standing};
use super::tools::Tools;

const RUNS: usize = 5;
/// The run that has a busy host.
const BUSY: usize = 2;
/// Loads of the subset: nothing, messages, a path that only PREEMPT_RT can leave.
const SUBSET: &str = "idle,hackbench,exit";
const ALL: &str = "idle,native,kernel-paths";
const CYCLES: &str = "1000";
/// From the command to the default table, on two idle cores.
const TABLE_S: f64 = 300.0;
/// Host seconds for a virtual one, at a moderate load.
const PACE: f64 = 3.0;

pub fn rows(tools: &Tools) -> Result<Vec<Row>, String> {
    let loads = if tools.all { ALL } else { SUBSET };
    let words = ["--load", loads, "--", "measure", "-l", CYCLES];
    let mut results: BTreeMap<String, Vec<String>> = BTreeMap::new();
    let mut paces = Vec::new();
    for run in 0..RUNS {
        let (lab, _) = on_host(run == BUSY, || made(tools, &words))?;
        for cell in cells(&lab)? {
            let laboratory = &cell["laboratory"];
            let print = &laboratory["fingerprint"]["result_sha256"];
            let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
            let name = format!("{} {}", text(&cell["kernel"]), text(&cell["load"]));
            results.entry(name).or_default().push(text(print));
            let host_s = cell["host_s"].as_f64().unwrap_or(0.0);
            let virtual_s = laboratory["virtual_ns"].as_f64().unwrap_or(0.0) / 1e9;
            if run != BUSY && virtual_s > 0.0 {
                paces.push(host_s / virtual_s);
            }
        }
    }
    let others: Vec<&str> = results
        .iter()
        .filter(|(_, sums)| sums.len() != RUNS || sums[0].is_empty() || !alike(sums))
        .map(|(name, _)| name.as_str())
        .collect();
    let same = Row {
        ours: format!(
            "{} of {} machines alike",
            results.len() - others.len(),
            results.len()
        ),
        target: if others.is_empty() {
            "all".to_owned()
        } else {
            format!("all; differ: {}", others.join(", "))
        },
        standing: Standing::of(others.is_empty() && !results.is_empty()),
        exact: true,
        ..Row::new(format!("lab: same bytes, {RUNS} runs, 1 on a busy host"))
    };
    let pace = Spread::of(paces).ok_or("no machine had a result")?;
    let pace = Row {
        ours: format!("{:.2} [{:.2}, {:.2}]", pace.middle, pace.low, pace.high),
        target: format!("at most {PACE} in the middle of the loads"),
        standing: Standing::of(pace.middle <= PACE),
        ..Row::new("lab: host seconds for a virtual one")
    };
    let (_, took) = made(tools, &[])?;
    let table = Row {
        ours: format!("{took:.0} s"),
        target: format!("at most {TABLE_S:.0} s on two idle cores"),
        standing: Standing::of(took <= TABLE_S),
        ..Row::new("lab: from the command to the default table")
    };
    Ok(vec![same, pace, table])
}

fn alike(sums: &[String]) -> bool {
    sums.windows(2).all(|pair| pair[0] == pair[1])
}

pub fn cells(lab: &Value) -> Result<&Vec<Value>, String> {
    lab["cells"]
        .as_array()
        .ok_or("lab.json has no cells".to_owned())
}

/// Makes a lab: its record, and the seconds that it took.
pub fn made(tools: &Tools, words: &[&str]) -> Result<(Value, f64), String> {
    let place = tools.place("lab");
    let mut command = Command::new(&tools.punctual);
    command.args(["lab", "-q", "-o"]).arg(&place).args(words);
    let begin = Instant::now();
    let (lab, _) = record(&mut command, &place)?;
    Ok((lab, begin.elapsed().as_secs_f64()))
}

/// Runs a command that makes a lab in a place, and reads its record. A guest that fails leaves the
/// figures of the others: then the last of the command's words say why.
pub fn record(command: &mut Command, place: &Path) -> Result<(Value, Result<(), String>), String> {
    let output = command.output().map_err(|error| error.to_string())?;
    let words = String::from_utf8_lossy(&output.stderr);
    let last = words
        .trim()
        .lines()
        .last()
        .unwrap_or("no result")
        .to_owned();
    let Ok(bytes) = std::fs::read(place.join("lab.json")) else {
        return Err(last);
    };
    let lab = serde_json::from_slice(&bytes).map_err(|error| error.to_string())?;
    // A verdict is a result; 1 and what ends a program early are none.
    let whole = match output.status.code() {
        Some(0 | 2..64) => Ok(()),
        _ => Err(format!("{last} ({})", output.status)),
    };
    Ok((lab, whole))
}

/// Does something while all of the host's processors are busy, or not.
fn on_host<T>(busy: bool, what: impl FnOnce() -> T) -> T {
    let over = AtomicBool::new(!busy);
    let processors = thread::available_parallelism().map_or(1, usize::from);
    thread::scope(|scope| {
        for _ in 0..processors {
            scope.spawn(|| {
                while !over.load(Ordering::Relaxed) {
                    std::hint::spin_loop();
                }
            });
        }
        let result = what();
        over.store(true, Ordering::Relaxed);
        result
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_other_checksum_is_seen() {
        let sums = |words: &[&str]| words.iter().map(|s| (*s).to_owned()).collect::<Vec<_>>();
        assert!(alike(&sums(&["a", "a", "a"])));
        assert!(!alike(&sums(&["a", "a", "b"])));
        assert_eq!(on_host(true, || 7), 7);
    }

    #[test]
    fn a_lab_in_which_a_guest_failed_or_that_was_interrupted_is_not_whole() {
        let place = std::env::temp_dir().join(format!("punctual-xtask-lab-{}", std::process::id()));
        std::fs::create_dir_all(&place).expect("a folder");
        std::fs::write(place.join("lab.json"), "{}").expect("a file");
        let whole = |script: &str| {
            let made = record(Command::new("sh").args(["-c", script]), &place);
            made.expect("a record").1
        };
        assert_eq!(whole("exit 0"), Ok(()));
        assert_eq!(whole("exit 3"), Ok(()), "a verdict");
        let why = whole("echo idle: no result >&2; exit 1").expect_err("a guest failed");
        assert!(why.starts_with("idle: no result"), "{why}");
        assert!(whole("exit 130").is_err() && whole("kill -9 $$").is_err());
        std::fs::remove_dir_all(&place).expect("removed");
        let none = record(
            Command::new("sh").args(["-c", "echo a; echo b >&2"]),
            &place,
        );
        assert_eq!(none, Err("b".to_owned()));
    }
}
