//! All checks and tests, run and counted.

use std::path::PathBuf;
use std::process::{Command, ExitCode, Stdio};
use std::time::Instant;

use crate::files::tracked;
use crate::lanes::{NICER, Selection};
use crate::tally::Tally;
use crate::tiers::Group;
use crate::told::{Shared, locked};
use crate::{
    deps, direction, durations, guest, lanes, miri, page, prose, root, rules, skips, tiers, words,
};

/// A check of ours: what is wrong, a line each.
type Check = (&'static str, fn() -> Vec<String>);

const CHECKS: &[Check] = &[
    ("direction", || {
        let mut faults = direction::of_rooms(&tracked(root()));
        match deps::metadata(&["--no-deps"]) {
            Ok(metadata) => faults.extend(direction::of_crates(&metadata)),
            Err(error) => faults.push(error),
        }
        faults
    }),
    ("rules", || rules::faults(&tracked(root()))),
    ("words", || {
        let files = tracked(root());
        [words::faults(&files), prose::faults(&files)].concat()
    }),
    ("deps", deps::faults),
];

/// The check of that name.
pub fn named(name: &str) -> Option<Check> {
    CHECKS.iter().copied().find(|(known, _)| *known == name)
}

/// The step of that name, of those that run by themselves.
pub fn step_named(name: &str) -> Option<&'static Step> {
    const STEPS: &[(&str, Step)] = &[("licences", LICENCES), ("oldest", OLDEST), ("miri", MIRI)];
    STEPS
        .iter()
        .find(|(known, _)| *known == name)
        .map(|(_, step)| step)
}

/// That step by itself.
pub fn step_alone(one: &Step) -> ExitCode {
    let mut tally = Tally::default();
    let begin = Instant::now();
    concluded(one.0, run(one, None), begin, &mut tally);
    for skipped in &tally.skipped {
        println!("SKIPPED {}: {}", skipped.test, skipped.reason);
    }
    if tally.failed() == 0 {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    }
}

/// One check by itself.
pub fn alone((name, faults): Check) -> ExitCode {
    if name == "rules" {
        for file in rules::long(&tracked(root())) {
            println!("{file}");
        }
    }
    let faults = faults();
    for fault in &faults {
        println!("{fault}");
    }
    println!("{name}: {} faults", faults.len());
    if faults.is_empty() {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    }
}

/// A check that is a command; or why it can't run here.
pub type Step = (&'static str, fn() -> Result<Command, String>);

const LINTS: Step = ("lints", || {
    part(
        "clippy",
        &[
            "--quiet",
            "--locked",
            "--workspace",
            "--all-targets",
            "--keep-going",
            "--",
            "-Dwarnings",
        ],
    )
});
const FORMAT: Step = ("format", || part("fmt", &["--all", "--check"]));
const SCRIPTS: Step = ("scripts", scripts);
pub const DOCUMENTS: Step = ("documents", || {
    let mut command = cargo(&["doc", "--quiet", "--locked", "--workspace", "--no-deps"]);
    command.env("RUSTDOCFLAGS", "-Dwarnings");
    Ok(command)
});
/// Licences, versions and sources of what we depend on: `deny.toml`.
pub const LICENCES: Step = ("licences", deps::deny);
/// What is shipped compiles with the Rust that Cargo.toml promises.
pub const OLDEST: Step = ("oldest compiler", oldest_compiler);
pub const MIRI: Step = ("miri", miri::command);
/// The manifests on a Kubernetes of four nodes.
pub const KUBERNETES: Step = ("kubernetes", || {
    let mut command = Command::new("make");
    command.current_dir(root()).arg("test-kubernetes");
    Ok(command)
});

/// `cargo xtask test`: the gate.
pub fn gate() -> ExitCode {
    let begin = Instant::now();
    let mut tally = Tally::default();
    quick_checks(&mut tally);
    let selection = Selection {
        programs: &tiers::gate_has,
        takes: &|program, test| tiers::group_of(program, test).is_none(),
        kills: 20,
    };
    // The lints compile beside tests that wait.
    let lints = |told: Shared<'_, '_>| step(&LINTS, Some(NICER), told);
    if let Err(error) = lanes::tests(&selection, &lints, &lanes::documents, &mut tally) {
        tally.fail(error);
    }
    conclude(&mut tally, begin)
}

/// `cargo xtask test-all [GROUP ...]`.
pub fn all(names: &[String]) -> ExitCode {
    let known = names.iter().map(|name| tiers::named(name).ok_or(name));
    let groups: Vec<&Group> = match known.collect() {
        Ok(groups) => groups,
        Err(unknown) => {
            eprintln!("make test-all ARGS={unknown}: expected some of these groups");
            for group in tiers::GROUPS {
                eprintln!("  {:12} {}", group.name, group.about);
            }
            return ExitCode::from(64);
        }
    };
    let whole = groups.is_empty();
    let groups = if whole {
        tiers::GROUPS.iter().collect()
    } else {
        groups
    };
    let begin = Instant::now();
    let commit = page::Commit::now();
    let mut tally = Tally::default();
    if groups.iter().any(|group| group.name == "arm64") {
        // Before the tests that need it, which have limits of time.
        guest::prepare();
    }
    let selection = Selection {
        programs: &|program| groups.iter().any(|group| group.has(program)),
        takes: &|program, test| groups.iter().any(|group| group.takes(program, test)),
        kills: 1_000,
    };
    let last = |told: Shared<'_, '_>| {
        for group in &groups {
            for one in group.steps {
                step(one, Some(NICER), told);
            }
            for guests in group.guests {
                guest::tests(*guests, told);
            }
        }
    };
    if let Err(error) = lanes::tests(&selection, &|_| (), &last, &mut tally) {
        tally.fail(error);
    }
    let status = conclude(&mut tally, begin);
    if whole && let Err(error) = page::write(&commit, &tally, begin.elapsed()) {
        eprintln!("docs/results/test-all.md: {error}");
        return ExitCode::FAILURE;
    }
    status
}

/// `cargo xtask check`.
pub fn check() -> ExitCode {
    let begin = Instant::now();
    let mut tally = Tally::default();
    quick_checks(&mut tally);
    let selection = Selection {
        programs: &|program| program.ends_with("/lib"),
        takes: &|program, test| tiers::group_of(program, test).is_none(),
        kills: 20,
    };
    let lints = |told: Shared<'_, '_>| step(&LINTS, None, told);
    if let Err(error) = lanes::tests(&selection, &lints, &|_| (), &mut tally) {
        tally.fail(error);
    }
    conclude(&mut tally, begin)
}

/// Those that take seconds.
fn quick_checks(tally: &mut Tally) {
    for one in [FORMAT, SCRIPTS] {
        let began = Instant::now();
        let ended = run(&one, None);
        concluded(one.0, ended, began, tally);
    }
    for (name, faults) in CHECKS {
        let begin = Instant::now();
        let faults = faults();
        for fault in &faults {
            println!("{fault}");
        }
        concluded(name, Ok(faults.is_empty()), begin, tally);
    }
}

fn scripts() -> Result<Command, String> {
    let mut command = Command::new("shellcheck");
    if let Err(error) = Command::new("shellcheck").arg("--version").output() {
        return Err(format!("shellcheck: {error}"));
    }
    let scripts = tracked(root())
        .into_iter()
        .filter(|file| file.text.starts_with("#!/usr/bin/env bash") || file.path.ends_with(".sh"))
        .map(|file| file.path);
    command.current_dir(root()).args(scripts);
    Ok(command)
}

fn oldest_compiler() -> Result<Command, String> {
    let promised = env!("CARGO_PKG_RUST_VERSION");
    // rustup's name of a toolchain is what somebody installed: 1.91 or 1.91.0.
    let names = [promised.to_owned(), format!("{promised}.0")];
    let name = names
        .iter()
        .find(|name| runs(cargo_of(name)))
        .ok_or(format!(
            "rustup has no {promised} (rustup toolchain install {promised})"
        ))?;
    let mut command = cargo_of(name);
    command
        .args(["check", "--quiet", "--locked", "--workspace"])
        .arg("--target-dir")
        .arg(root().join("target/oldest"));
    Ok(command)
}

/// Runs a check beside others.
fn step(one: &Step, nicer: Option<&str>, told: Shared<'_, '_>) {
    let begin = Instant::now();
    let ended = run(one, nicer);
    locked(told, |told| {
        told.with(|tally| concluded(one.0, ended, begin, tally))
    });
}

fn run((_, command): &Step, nicer: Option<&str>) -> Result<bool, String> {
    let status = lanes::niced(nicer, command()?)
        .stdin(Stdio::null())
        .status();
    Ok(status.is_ok_and(|status| status.success()))
}

fn concluded(name: &str, ended: Result<bool, String>, begin: Instant, tally: &mut Tally) {
    let seconds = begin.elapsed().as_secs_f64();
    match ended {
        Ok(true) => println!("check {name} ... ok ({seconds:.1} s)"),
        Ok(false) => {
            println!("check {name} ... FAILED ({seconds:.1} s)");
            tally.fail(format!("check: {name}"));
        }
        Err(reason) => tally.skip_check(name, &reason),
    }
    tally.took(&format!("check {name}"), begin);
}

/// A part of cargo's that not all toolchains have.
fn part(name: &str, arguments: &[&str]) -> Result<Command, String> {
    if !runs(cargo(&[name])) {
        return Err("this toolchain has none".to_owned());
    }
    let mut command = cargo(&[name]);
    command.args(arguments);
    Ok(command)
}

/// The cargo that runs us.
pub fn cargo(arguments: &[&str]) -> Command {
    let mut command = Command::new(std::env::var_os("CARGO").unwrap_or("cargo".into()));
    command.current_dir(root()).args(arguments);
    command
}

/// That of another toolchain of rustup's.
pub fn cargo_of(toolchain: &str) -> Command {
    let mut command = Command::new("rustup");
    command
        .current_dir(root())
        .args(["run", toolchain, "cargo"]);
    // They name the toolchain that runs us.
    for variable in ["CARGO", "RUSTC", "RUSTDOC", "RUSTUP_TOOLCHAIN"] {
        command.env_remove(variable);
    }
    command
}

/// Whether a cargo, or a part of it, is there.
pub fn runs(mut command: Command) -> bool {
    let output = command.arg("--version").stdin(Stdio::null()).output();
    output.is_ok_and(|output| output.status.success())
}

/// What a command prints.
///
/// # Errors
/// What it says on standard error, where it fails.
pub fn stdout(command: &mut Command) -> Result<String, String> {
    let output = command.output().map_err(|error| error.to_string())?;
    if !output.status.success() {
        return Err(String::from_utf8_lossy(&output.stderr).into_owned());
    }
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

/// Taking a CPU offline is felt by the whole machine: a test that root may run, and that
/// PUNCTUAL_TEST_HOTPLUG=0 spares a machine with other users.
pub fn hotplug(command: &mut Command) {
    const NAME: &str = "PUNCTUAL_TEST_HOTPLUG";
    match std::env::var(NAME) {
        Ok(value) if value == "0" => command.env_remove(NAME),
        Err(_) if is_root() => command.env(NAME, "1"),
        _ => command,
    };
}

pub fn is_root() -> bool {
    use std::os::unix::fs::MetadataExt;
    std::fs::metadata("/proc/self").is_ok_and(|itself| itself.uid() == 0)
}

/// Cargo's target directory.
pub fn target() -> PathBuf {
    root().join(std::env::var_os("CARGO_TARGET_DIR").unwrap_or("target".into()))
}

/// Tells what was skipped, what took long and what failed; the last line is the sum of all.
fn conclude(tally: &mut Tally, begin: Instant) -> ExitCode {
    let blesses = std::env::var_os("PUNCTUAL_BLESS").is_some();
    if blesses {
        let written = durations::bless(&tally.durations).and_then(|()| skips::bless(tally));
        if let Err(error) = written {
            tally.fail(format!("docs/results: {error}"));
        }
    } else if skips::is_here() {
        skips::compare(tally);
    }
    for skipped in &tally.skipped {
        println!(
            "SKIPPED {}: {}: {}",
            skipped.suite, skipped.test, skipped.reason
        );
    }
    println!("{}", durations::table(&tally.durations));
    for (part, seconds) in &tally.parts {
        println!("{seconds:8.1}  {part}");
    }
    println!("{:8.1}  in all\n", begin.elapsed().as_secs_f64());
    for failure in &tally.failures {
        let note = if tally.flaky.contains(failure) {
            " (flaky: it passed when it ran again by itself)"
        } else {
            ""
        };
        println!("FAILED {failure}{note}");
    }
    println!("{}", tally.summary());
    if tally.failed() == 0 {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    }
}
