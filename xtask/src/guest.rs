//! Our privileged tests on real kernels: the laboratory boots PREEMPT_RT and the standard kernel
//! with two processors, and the very test programs that ran here run there.

use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::sync::{Mutex, PoisonError};

use serde_json::Value;

use crate::tally::Tally;
use crate::{root, suite};

const KERNELS: &[&str] = &["rt", "standard"];
/// Test programs, and a part of their tests' names: what needs the kernel's privileged side. They
/// need no other program, for the guest has none but ours.
const PROGRAMS: &[(&str, &str)] = &[
    // Isolated partitions of cgroup v2.
    ("cpuset_sets", ""),
    // The same, with a journal.
    ("partition", ""),
    // With cgroup v1.
    ("cpuset_v1", ""),
    // Every fix of a running kernel, changed and restored.
    ("knobs", ""),
    // Interrupts moved to other processors, and back.
    ("irq_steering", ""),
    // Priority inheritance.
    ("inversion", ""),
    // Hardware breakpoints.
    ("watchpoint_hits", ""),
    // The loop of every wait source: no allocation.
    ("proof", "allocates_nothing"),
];
/// The host's time that one of them may take, beside another.
const LIMIT: &str = "10m";

/// Runs them all; what they say goes to the tally as if they had run here. The kernels run in
/// parallel: a guest takes one CPU, and its time is virtual.
pub fn tests(tally: &mut Tally) {
    let built = match build() {
        Ok(built) => built,
        Err(error) => return tally.fail(format!("in the laboratory: {error}")),
    };
    let (built, tally) = (&built, &Mutex::new(tally));
    std::thread::scope(|scope| {
        for kernel in KERNELS {
            scope.spawn(move || of_kernel(kernel, built, tally));
        }
    });
}

fn of_kernel(kernel: &str, built: &Built, tally: &Mutex<&mut Tally>) {
    for program in &built.programs {
        let ended = run(&built.punctual, kernel, program);
        // What one program says stays together.
        let mut tally = tally.lock().unwrap_or_else(PoisonError::into_inner);
        match ended {
            Ok(output) => say(kernel, program, &output, &mut tally),
            Err(reason) => {
                tally.skip_check(&format!("tests on the {kernel} kernel"), &reason);
                return;
            }
        }
    }
}

struct Built {
    punctual: PathBuf,
    programs: Vec<Program>,
}

struct Program {
    name: &'static str,
    part: &'static str,
    file: PathBuf,
}

fn build() -> Result<Built, String> {
    // As the tests before were built, so that nothing is built again.
    let mut command = suite::cargo(&["test", "--locked", "--workspace", "--no-run"]);
    for (name, _) in PROGRAMS {
        command.args(["--test", name]);
    }
    command.arg("--message-format=json-render-diagnostics");
    let output = command
        .stderr(Stdio::inherit())
        .output()
        .map_err(|error| format!("cargo: {error}"))?;
    if !output.status.success() {
        return Err(format!("cargo test --no-run: {}", output.status));
    }
    let messages = String::from_utf8_lossy(&output.stdout);
    let file = |name: &str| executable(&messages, name).ok_or(format!("no {name} was built"));
    let programs = PROGRAMS
        .iter()
        .map(|(name, part)| {
            let file = file(name)?;
            Ok(Program { name, part, file })
        })
        .collect::<Result<_, String>>()?;
    Ok(Built {
        punctual: file("punctual")?,
        programs,
    })
}

/// Where cargo's messages say that a program is.
pub fn executable(messages: &str, name: &str) -> Option<PathBuf> {
    messages
        .lines()
        .filter_map(|line| serde_json::from_str::<Value>(line).ok())
        .filter(|message| message["target"]["name"] == name)
        .find_map(|message| message["executable"].as_str().map(PathBuf::from))
}

/// One program on one kernel; an error where the laboratory can't be had.
fn run(punctual: &Path, kernel: &str, program: &Program) -> Result<Output, String> {
    let folder = format!("punctual-guest-{}-{kernel}", std::process::id());
    let folder = std::env::temp_dir().join(folder);
    let _ = std::fs::remove_dir_all(&folder);
    let output = Command::new(punctual)
        .current_dir(root())
        .args(["lab", "--cpus", "2", "-q", "--host-limit", LIMIT])
        .args(["--kernel", kernel, "-o"])
        .arg(&folder)
        .arg("--")
        .arg(&program.file)
        .args([program.part, "--show-output", "--test-threads", "1"])
        .output()
        .map_err(|error| format!("{}: {error}", punctual.display()))?;
    let _ = std::fs::remove_dir_all(&folder);
    let said = String::from_utf8_lossy(&output.stdout);
    let complaints = String::from_utf8_lossy(&output.stderr);
    let lacks = ["qemu-system-x86_64 is not in PATH", "package", "no static"];
    if said.is_empty() && lacks.iter().any(|word| complaints.contains(word)) {
        return Err(complaints.trim().to_owned());
    }
    Ok(output)
}

/// Counts and prints what a program said.
fn say(kernel: &str, program: &Program, output: &Output, tally: &mut Tally) {
    let said = String::from_utf8_lossy(&output.stdout);
    let name = format!("{} on the {kernel} kernel", program.name);
    println!("     Running {name} (the laboratory)");
    tally.line(&format!("     Running {name} (the laboratory)"));
    for line in said.lines() {
        if tally.line(line) {
            println!("{line}");
        }
    }
    // A program without its result has died, and the laboratory says how.
    tally.end();
    if !output.status.success() {
        println!("{}", String::from_utf8_lossy(&output.stderr).trim());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_program_is_found_in_cargos_messages() {
        let messages = concat!(
            r#"{"reason":"compiler-artifact","target":{"name":"punctual"},"executable":null}"#,
            "\nnot json\n",
            r#"{"target":{"name":"bench_runs"},"executable":"/t/bench_runs"}"#,
            "\n",
            r#"{"target":{"name":"punctual"},"executable":"/t/punctual"}"#,
        );
        assert_eq!(
            executable(messages, "punctual"),
            Some(PathBuf::from("/t/punctual"))
        );
        assert_eq!(executable(messages, "other"), None);
    }
}
