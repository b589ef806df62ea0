//! Every test of the workspace, in two lanes at once. One lane is for the tests that measure or change
//! this machine: one program after the other, and they wait more than they compute. The other one is for
//! those that only compute, or whose time is that of a guest: they have what the first leaves.

use std::os::unix::process::ExitStatusExt;
use std::process::{Command, ExitStatus, Stdio};
use std::sync::Mutex;
use std::time::Instant;

use crate::programs::{self, TestProgram};
use crate::tally::Tally;
use crate::told::{Shared, Told, each_line, locked, log};
use crate::{guest, suite};

/// Packages whose tests don't depend on how fast this machine is or what else it does, and of
/// `punctual` a program.
const COMPUTE: &[&str] = &[
    "punctual-lab",
    "punctual-record",
    "punctual-report",
    "punctual-sched",
    "punctual-stats",
    "punctual-taskset",
    "xtask",
];
const GUESTS: (&str, &str) = ("punctual", "lab");
/// What computes is nicer by this than what measures: a share of a fourth beside it.
const NICER: &str = "5";

/// Builds and runs them all.
///
/// # Errors
/// They can't be built, or their log can't be written.
pub fn tests(tally: &mut Tally) -> Result<(), String> {
    // Before the tests that need it, which have limits of time.
    guest::prepare();
    let build = ["test", "--locked", "--workspace", "--no-run"];
    let messages = programs::messages(suite::cargo(&build))?;
    let (beside, alone): (Vec<_>, Vec<_>) = programs::of_tests(&messages)
        .into_iter()
        .partition(is_beside);
    let told = Mutex::new(Told::new(tally)?);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            for program in &alone {
                run(program, None, &told);
            }
        });
        scope.spawn(|| {
            for program in longest_first(&beside) {
                run(program, Some(NICER), &told);
            }
            guest::tests(&told);
            documents(&told);
        });
    });
    println!("\nall that the tests printed: {}", log().display());
    Ok(())
}

/// Those in guests by themselves.
///
/// # Errors
/// Their log can't be written.
pub fn of_guests(tally: &mut Tally) -> Result<(), String> {
    guest::tests(&Mutex::new(Told::new(tally)?));
    Ok(())
}

fn is_beside(program: &TestProgram) -> bool {
    (program.package.as_str(), program.name.as_str()) == GUESTS
        || COMPUTE.contains(&program.package.as_str())
}

/// The laboratory's tests take longest.
fn longest_first(programs: &[TestProgram]) -> impl Iterator<Item = &TestProgram> {
    let (guests, others): (Vec<_>, Vec<_>) = programs
        .iter()
        .partition(|program| program.package == GUESTS.0);
    guests.into_iter().chain(others)
}

/// The examples in the documents of crates.
fn documents(told: Shared<'_, '_>) {
    let mut command = suite::cargo(&["test", "--locked", "--workspace", "--no-fail-fast", "--doc"]);
    command.args(["--", "--show-output"]);
    let ended = output(command, "examples in documents");
    locked(told, |told| {
        let failed = told.failed();
        match ended {
            Ok((lines, status)) => {
                told.lines(lines.iter().map(Vec::as_slice));
                told.ended("cargo test --doc", status, failed);
            }
            Err(error) => told.fail(format!("cargo test --doc: {error}")),
        }
    });
}

fn run(program: &TestProgram, nicer: Option<&str>, told: Shared<'_, '_>) {
    let mut command = match nicer {
        Some(nicer) => {
            let mut command = Command::new("nice");
            command.args(["-n", nicer]).arg(&program.file);
            command
        }
        None => Command::new(&program.file),
    };
    command
        .current_dir(&program.folder)
        .env("CARGO_MANIFEST_DIR", &program.folder)
        .arg("--show-output");
    suite::hotplug(&mut command);
    let begin = Instant::now();
    let ended = output(command, &program.name);
    let took = begin.elapsed().as_secs_f64();
    locked(told, |told| {
        told.lines([program.title().as_bytes()].into_iter());
        match ended {
            Ok((lines, status)) => {
                told.lines(lines.iter().map(Vec::as_slice));
                if !status.success() {
                    told.lines([program.to_rerun().as_bytes()].into_iter());
                    if let Some(signal) = status.signal() {
                        println!("{}: ended by signal {signal}", program.name);
                    }
                }
            }
            Err(error) => println!("{}: {error}", program.file.display()),
        }
        // Without a result it counts as dead, whatever the reason.
        told.end();
        println!("{} took {took:.1} s\n", program.name);
    });
}

/// All lines that it prints; libtest's word on a test that takes long at once, too.
fn output(mut command: Command, name: &str) -> std::io::Result<(Vec<Vec<u8>>, ExitStatus)> {
    command.stdin(Stdio::null());
    let mut lines = Vec::new();
    let status = each_line(command, |line| {
        if line.ends_with(b"has been running for over 60 seconds") {
            println!("{name}: {}", String::from_utf8_lossy(line));
        }
        lines.push(line.to_vec());
    })?;
    Ok((lines, status))
}
