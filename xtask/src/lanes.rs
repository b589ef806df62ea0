//! Tests of the workspace, in two lanes at once. One lane is for the tests that measure or change this
//! machine: one program after the other, and they wait more than they compute. The other one is for
//! those that only compute, or whose time is that of a guest: they have what the first leaves.

use std::os::unix::process::ExitStatusExt;
use std::path::PathBuf;
use std::process::{Command, ExitStatus, Stdio};
use std::sync::Mutex;
use std::time::Instant;

use crate::programs::{self, TestProgram};
use crate::tally::Tally;
use crate::told::{Shared, Told, each_line, locked, log};
use crate::{deps, suite, tiers};

/// Packages whose tests don't depend on how fast this machine is or what else it does, and of
/// `punctual` programs.
const COMPUTE: &[&str] = &[
    "punctual-lab",
    "punctual-record",
    "punctual-report",
    "punctual-sched",
    "punctual-stats",
    "punctual-taskset",
    "xtask",
];
const GUESTS: &str = "punctual/lab";
const KILLS: &str = "PUNCTUAL_TEST_KILLS";
/// What computes is nicer by this than what measures: a share of a fourth beside it.
pub const NICER: &str = "5";

/// Which tests run.
pub struct Selection<'a> {
    /// Whether a program (its id) has some of them.
    pub programs: &'a dyn Fn(&str) -> bool,
    /// Whether a test of a program is one of them.
    pub takes: &'a dyn Fn(&str, &str) -> bool,
    /// How often tests kill what they test, at random instants.
    pub kills: u32,
}

/// What runs in the second lane besides tests.
pub type Beside<'a> = &'a (dyn Fn(Shared<'_, '_>) + Sync);

/// Builds and runs them: what computes in the second lane, `first` before its tests and `last` after them.
///
/// # Errors
/// They can't be built, or their log can't be written.
pub fn tests(
    selection: &Selection<'_>,
    first: Beside<'_>,
    last: Beside<'_>,
    tally: &mut Tally,
) -> Result<(), String> {
    let begin = Instant::now();
    let built = built(selection.programs)?;
    tally.took("compilation of the tests", begin);
    let mut chosen = Vec::new();
    for program in built.programs {
        let tests = program.tests()?;
        let id = program.id();
        for fault in tiers::unused(&id, &tests) {
            tally.fail(fault);
        }
        let all = tests.len();
        let taken = tests
            .into_iter()
            .filter(|test| (selection.takes)(&id, test));
        let tests: Vec<String> = taken.collect();
        if !tests.is_empty() {
            chosen.push(Chosen {
                whole: tests.len() == all,
                program,
                tests,
            });
        }
    }
    let (beside, alone): (Vec<_>, Vec<_>) = chosen.into_iter().partition(Chosen::is_beside);
    let told = Mutex::new(Told::new(tally)?);
    let environment = Environment {
        kills: selection.kills,
        examples: built.examples,
    };
    let environment = &environment;
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let begin = Instant::now();
            for chosen in &alone {
                run(chosen, None, environment, &told);
            }
            locked(&told, |told| told.took("lane of what measures", begin));
        });
        scope.spawn(|| {
            let begin = Instant::now();
            first(&told);
            for chosen in longest_first(&beside) {
                run(chosen, Some(NICER), environment, &told);
            }
            last(&told);
            locked(&told, |told| told.took("lane of what computes", begin));
        });
    });
    println!("\nall that the tests printed: {}", log().display());
    Ok(())
}

/// Builds programs of tests: as for the whole workspace, so that no crate is compiled twice.
fn built(wanted: &dyn Fn(&str) -> bool) -> Result<Built, String> {
    let known = programs::known(&deps::metadata(&["--no-deps"])?);
    if let Some(unknown) = tiers::programs().find(|program| !known.iter().any(|id| id == program)) {
        return Err(format!(
            "xtask/src/tiers.rs: there is no program of tests {unknown}"
        ));
    }
    let (units, others): (Vec<&String>, Vec<&String>) = known
        .iter()
        .filter(|id| wanted(id))
        .partition(|id| id.ends_with("/lib") || id.ends_with("/bin"));
    let mut messages = String::new();
    let mut examples = None;
    if !others.is_empty() {
        let mut build = suite::cargo(BUILD);
        for id in others {
            build.args(["--test", id.rsplit('/').next().unwrap_or_default()]);
        }
        messages += &programs::messages(build)?;
        // With `cargo test` an example would be a program of tests.
        let mut build = suite::cargo(&["build", "--locked", "--workspace"]);
        for example in EXAMPLES {
            build.args(["--example", example]);
        }
        examples = programs::executable(&programs::messages(build)?, EXAMPLES[0])
            .and_then(|example| Some(example.parent()?.to_owned()));
    }
    if !units.is_empty() {
        let mut build = suite::cargo(BUILD);
        // `--lib` would make a static program of what `run` loads, which looks for the next
        // pthread_create of a dynamic one.
        build.args(["--lib", "--bins", "--exclude", "punctual-preload"]);
        messages += &programs::messages(build)?;
    }
    let mut programs = programs::of_tests(&messages);
    programs.retain(|program| wanted(&program.id()));
    Ok(Built { programs, examples })
}

struct Built {
    programs: Vec<TestProgram>,
    /// The folder of the examples that tests run.
    examples: Option<PathBuf>,
}

/// Examples that tests run as programs.
const EXAMPLES: &[&str] = &["truth", "control_loop", "injection"];

const BUILD: &[&str] = &["test", "--locked", "--workspace", "--no-run"];

/// Tests of a program.
struct Chosen {
    program: TestProgram,
    tests: Vec<String>,
    /// All that it has.
    whole: bool,
}

impl Chosen {
    fn is_beside(&self) -> bool {
        self.program.id() == GUESTS || COMPUTE.contains(&self.program.package.as_str())
    }
}

/// The laboratory's tests take longest.
fn longest_first(chosen: &[Chosen]) -> impl Iterator<Item = &Chosen> {
    let (guests, others): (Vec<_>, Vec<_>) = chosen
        .iter()
        .partition(|chosen| chosen.program.id() == GUESTS);
    guests.into_iter().chain(others)
}

/// The examples in the documents of crates.
pub fn documents(told: Shared<'_, '_>) {
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

/// A command with this niceness.
pub fn niced(nicer: Option<&str>, command: Command) -> Command {
    let Some(nicer) = nicer else {
        return command;
    };
    let mut niced = Command::new("nice");
    niced.args(["-n", nicer]).arg(command.get_program());
    niced.args(command.get_args());
    for (name, value) in command.get_envs() {
        match value {
            Some(value) => niced.env(name, value),
            None => niced.env_remove(name),
        };
    }
    if let Some(folder) = command.get_current_dir() {
        niced.current_dir(folder);
    }
    niced
}

/// What tests are told.
struct Environment {
    kills: u32,
    examples: Option<PathBuf>,
}

impl Environment {
    fn give(&self, command: &mut Command) {
        if std::env::var_os(KILLS).is_none() {
            command.env(KILLS, self.kills.to_string());
        }
        // It is for our lists; in a test it rewrites what is expected.
        command.env_remove("PUNCTUAL_BLESS");
        if let Some(folder) = &self.examples {
            command.env("PUNCTUAL_TEST_EXAMPLES", folder);
        }
    }
}

fn run(chosen: &Chosen, nicer: Option<&str>, environment: &Environment, told: Shared<'_, '_>) {
    let program = &chosen.program;
    let mut command = niced(nicer, program.command());
    // libtest reports times only where unstable options are allowed. This value allows them to it, and to
    // no compiler that a test starts: `-1` makes rustc behave as a stable one.
    command.env("RUSTC_BOOTSTRAP", "-1").args([
        "--show-output",
        "-Zunstable-options",
        "--report-time",
    ]);
    environment.give(&mut command);
    if !chosen.whole {
        command.arg("--exact").args(&chosen.tests);
    }
    suite::hotplug(&mut command);
    let begin = Instant::now();
    let ended = output(command, &program.name);
    let took = begin.elapsed().as_secs_f64();
    let id = program.id();
    let failed = locked(told, |told| {
        told.lines([program.title().as_bytes()].into_iter());
        match ended {
            Ok((lines, status)) => {
                told.lines(lines.iter().map(Vec::as_slice));
                if let Some(signal) = status.signal() {
                    println!("{id}: ended by signal {signal}");
                }
            }
            Err(error) => println!("{}: {error}", program.file.display()),
        }
        // Without a result it counts as dead, whatever the reason.
        told.end();
        println!("{id} took {took:.1} s\n");
        told.failed_in(&id)
    });
    for test in again(&failed) {
        let passed = repeated(program, test, nicer, environment);
        let word = if passed { "passes" } else { "fails" };
        locked(told, |told| {
            println!("{id}: {test} {word} when it runs again by itself");
            if passed {
                told.passed_again(&id, test);
            }
        });
    }
}

/// More than these are no accident, and need no hint.
const MOST_AGAIN: usize = 3;

/// Tests that failed run once more by themselves: that they pass then hints at their neighbours as the cause.
/// They have failed all the same.
fn again(failed: &[String]) -> &[String] {
    if failed.len() > MOST_AGAIN {
        &[]
    } else {
        failed
    }
}

fn repeated(
    program: &TestProgram,
    test: &str,
    nicer: Option<&str>,
    environment: &Environment,
) -> bool {
    let mut command = niced(nicer, program.command());
    command.args(["--exact", test]);
    environment.give(&mut command);
    suite::hotplug(&mut command);
    let output = command.output();
    output.is_ok_and(|output| {
        let said = String::from_utf8_lossy(&output.stdout);
        output.status.success() && said.contains("test result: ok. 1 passed;")
    })
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
