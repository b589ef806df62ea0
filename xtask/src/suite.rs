//! All checks and tests, run and counted.

use std::path::PathBuf;
use std::process::{Command, ExitCode, Stdio};
use std::time::Instant;

use crate::files::tracked;
use crate::tally::Tally;
use crate::{again, deps, direction, guest, lanes, miri, prose, root, rules, told, words};

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

/// `cargo xtask test [MORE FOR CARGO TEST]`.
pub fn test(more: &[String]) -> ExitCode {
    let mut tally = Tally::default();
    checks(&mut tally);
    documents(&mut tally);
    licences(&mut tally);
    oldest_compiler(&mut tally);
    under_miri(&mut tally);
    if more.is_empty() {
        if let Err(error) = lanes::tests(&mut tally) {
            tally.fail(error);
        }
    } else {
        // Before the tests that need it, which have limits of time.
        guest::prepare();
        let arguments: Vec<&str> = more.iter().map(String::as_str).collect();
        tests(&arguments, &mut tally);
    }
    again::tests(&mut tally);
    conclude(&tally)
}

/// `cargo xtask guest`: that part by itself.
pub fn guest_alone() -> ExitCode {
    let mut tally = Tally::default();
    if let Err(error) = lanes::of_guests(&mut tally) {
        tally.fail(error);
    }
    conclude(&tally)
}

/// `cargo xtask check [MORE FOR CARGO TEST]`.
pub fn check(more: &[String]) -> ExitCode {
    let mut tally = Tally::default();
    checks(&mut tally);
    // `--lib` would make a static program of what `run` loads, which looks for the next
    // pthread_create of a dynamic one.
    let mut arguments = vec!["--lib", "--bins", "--exclude", "punctual-preload"];
    arguments.extend(more.iter().map(String::as_str));
    tests(&arguments, &mut tally);
    conclude(&tally)
}

fn checks(tally: &mut Tally) {
    if has("fmt", tally) {
        step("format", &mut cargo(&["fmt", "--all", "--check"]), tally);
    }
    if has("clippy", tally) {
        let lints = [
            "clippy",
            "--quiet",
            "--locked",
            "--workspace",
            "--all-targets",
            "--keep-going",
            "--",
            "-Dwarnings",
        ];
        step("lints", &mut cargo(&lints), tally);
    }
    scripts(tally);
    for (name, faults) in CHECKS {
        let begin = Instant::now();
        let faults = faults();
        for fault in &faults {
            println!("{fault}");
        }
        concluded(name, faults.is_empty(), begin, tally);
    }
}

fn scripts(tally: &mut Tally) {
    let scripts: Vec<String> = tracked(root())
        .into_iter()
        .filter(|file| file.text.starts_with("#!/usr/bin/env bash") || file.path.ends_with(".sh"))
        .map(|file| file.path)
        .collect();
    match Command::new("shellcheck").arg("--version").output() {
        Ok(_) => {
            let mut command = Command::new("shellcheck");
            command.current_dir(root()).args(scripts);
            step("scripts", &mut command, tally);
        }
        Err(error) => tally.skip_check("scripts", &format!("shellcheck: {error}")),
    }
}

fn documents(tally: &mut Tally) {
    let arguments = ["doc", "--quiet", "--locked", "--workspace", "--no-deps"];
    let mut command = cargo(&arguments);
    step(
        "documents",
        command.env("RUSTDOCFLAGS", "-Dwarnings"),
        tally,
    );
}

/// Licences, versions and sources of what we depend on: `deny.toml`.
fn licences(tally: &mut Tally) {
    match deps::deny() {
        Ok(mut command) => step("licences", &mut command, tally),
        Err(reason) => tally.skip_check("licences", &reason),
    }
}

/// `cargo xtask licences`: that check by itself.
pub fn licences_alone() -> ExitCode {
    let mut tally = Tally::default();
    licences(&mut tally);
    conclude(&tally)
}

/// What is shipped compiles with the Rust that Cargo.toml promises.
fn oldest_compiler(tally: &mut Tally) {
    let promised = env!("CARGO_PKG_RUST_VERSION");
    // rustup's name of a toolchain is what somebody installed: 1.91 or 1.91.0.
    let names = [promised.to_owned(), format!("{promised}.0")];
    let Some(name) = names.iter().find(|name| runs(cargo_of(name))) else {
        let reason = format!("rustup has no {promised} (rustup toolchain install {promised})");
        return tally.skip_check("oldest compiler", &reason);
    };
    let mut command = cargo_of(name);
    command
        .args(["check", "--quiet", "--locked", "--workspace"])
        .arg("--target-dir")
        .arg(root().join("target/oldest"));
    step("oldest compiler", &mut command, tally);
}

/// `cargo xtask oldest`: that check by itself.
pub fn oldest_alone() -> ExitCode {
    let mut tally = Tally::default();
    oldest_compiler(&mut tally);
    conclude(&tally)
}

/// `cargo xtask miri`: that check by itself.
pub fn miri_alone() -> ExitCode {
    let mut tally = Tally::default();
    under_miri(&mut tally);
    conclude(&tally)
}

fn under_miri(tally: &mut Tally) {
    match miri::command() {
        Ok(mut command) => step("miri", &mut command, tally),
        Err(reason) => tally.skip_check("miri", &reason),
    }
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

/// Whether this toolchain has a part that not all have.
fn has(part: &str, tally: &mut Tally) -> bool {
    let there = runs(cargo(&[part]));
    if !there {
        tally.skip_check(part, "this toolchain has none");
    }
    there
}

fn step(name: &str, command: &mut Command, tally: &mut Tally) {
    let begin = Instant::now();
    let well = command.status().is_ok_and(|status| status.success());
    concluded(name, well, begin, tally);
}

fn concluded(name: &str, well: bool, begin: Instant, tally: &mut Tally) {
    println!(
        "check {name} ... {} ({:.1} s)",
        if well { "ok" } else { "FAILED" },
        begin.elapsed().as_secs_f64()
    );
    if !well {
        tally.fail(format!("check: {name}"));
    }
}

/// Every test of the workspace; what they print goes whole into a file.
fn tests(more: &[&str], tally: &mut Tally) {
    let mut command = cargo(&["test", "--locked", "--workspace", "--no-fail-fast"]);
    command.args(more);
    if !more.contains(&"--") {
        command.arg("--");
    }
    command.arg("--show-output");
    hotplug(&mut command);
    if let Err(error) = told::streamed(command, "cargo test", tally) {
        tally.fail(error);
    }
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

fn is_root() -> bool {
    use std::os::unix::fs::MetadataExt;
    std::fs::metadata("/proc/self").is_ok_and(|itself| itself.uid() == 0)
}

/// Cargo's target directory.
pub fn target() -> PathBuf {
    root().join(std::env::var_os("CARGO_TARGET_DIR").unwrap_or("target".into()))
}

/// Tells what was skipped and what failed; the last line is the sum of all.
fn conclude(tally: &Tally) -> ExitCode {
    for skipped in &tally.skipped {
        println!(
            "SKIPPED {}: {}: {}",
            skipped.suite, skipped.test, skipped.reason
        );
    }
    for flaky in &tally.flaky {
        println!("FLAKY {flaky}: failed, and passed when it ran again by itself");
    }
    for failure in &tally.failures {
        println!("FAILED {failure}");
    }
    println!("{}", tally.summary());
    if tally.failed() == 0 {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    }
}
