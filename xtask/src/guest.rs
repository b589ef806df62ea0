//! Our privileged tests on real kernels: the laboratory boots PREEMPT_RT and the standard kernel
//! with two processors, and the very test programs that ran here run there.

use std::path::PathBuf;
use std::process::{Command, Output, Stdio};
use std::sync::{Mutex, PoisonError};

use serde_json::Value;

use crate::tally::Tally;
use crate::{root, suite};

const KERNELS: &[&str] = &["rt", "standard"];
/// Those of the library, for arm64: stacks, guards, locks, rings and memory on a real kernel of another
/// architecture. What `make emulated` has to leave out (page faults, residency, robust lists) is there.
/// Left out are what needs a file of this machine, what compares times, and watchpoints, which QEMU 7.2
/// reports again and again.
const ARM64: &[&str] = &[
    "punctual_rt",
    "stack_guard",
    "stack_storm",
    "stack_fork",
    "inversion",
    "channel_peers",
];
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
    let mut built = match build() {
        Ok(built) => built,
        Err(error) => return tally.fail(format!("in the laboratory: {error}")),
    };
    match build_arm64() {
        Ok((guest, programs)) => {
            built.arm64 = Some(guest);
            built.programs.extend(programs);
        }
        Err(reason) => tally.skip_check("tests in guests of arm64", &reason),
    }
    let (built, tally) = (&built, &Mutex::new(tally));
    std::thread::scope(|scope| {
        for kernel in KERNELS {
            scope.spawn(move || of_kernel(kernel, built, tally));
        }
    });
}

fn of_kernel(kernel: &str, built: &Built, tally: &Mutex<&mut Tally>) {
    for program in &built.programs {
        let ended = run(built, kernel, program);
        // What one program says stays together.
        let mut tally = tally.lock().unwrap_or_else(PoisonError::into_inner);
        match ended {
            Ok(output) => say(kernel, program, &output, &mut tally),
            Err(reason) => {
                tally.skip_check(&format!("tests on {}", program.kernel(kernel)), &reason);
                return;
            }
        }
    }
}

struct Built {
    punctual: PathBuf,
    /// Its build for guests of arm64.
    arm64: Option<PathBuf>,
    programs: Vec<Program>,
}

struct Program {
    name: &'static str,
    part: &'static str,
    file: PathBuf,
    is_arm64: bool,
}

impl Program {
    fn kernel(&self, kernel: &str) -> String {
        let processor = if self.is_arm64 { " of arm64" } else { "" };
        format!("the {kernel} kernel{processor}")
    }
}

fn build() -> Result<Built, String> {
    // As the tests before were built, so that nothing is built again.
    let mut command = suite::cargo(&["test", "--locked", "--workspace", "--no-run"]);
    for (name, _) in PROGRAMS {
        command.args(["--test", name]);
    }
    let messages = messages(command)?;
    let programs = PROGRAMS
        .iter()
        .map(|(name, part)| {
            Ok(Program {
                name,
                part,
                file: file(&messages, name)?,
                is_arm64: false,
            })
        })
        .collect::<Result<_, String>>()?;
    Ok(Built {
        punctual: file(&messages, "punctual")?,
        arm64: None,
        programs,
    })
}

/// This tool and the library's tests for arm64.
///
/// # Errors
/// There is no compiler for it, or it can't be built.
fn build_arm64() -> Result<(PathBuf, Vec<Program>), String> {
    let tool = messages(for_arm64(&["build", "--package", "punctual"]))?;
    let tests = messages(for_arm64(&["test", "--no-run", "--package", "punctual-rt"]))?;
    let programs = ARM64
        .iter()
        .map(|name| {
            Ok(Program {
                name,
                part: "",
                file: file(&tests, name)?,
                is_arm64: true,
            })
        })
        .collect::<Result<_, String>>()?;
    Ok((file(&tool, "punctual")?, programs))
}

/// Builds what guests of arm64 run, where that is possible.
pub fn prepare() {
    // Why it is not is said with the tests that need it.
    let _ = build_arm64();
}

fn for_arm64(arguments: &[&str]) -> Command {
    let mut command = Command::new(root().join("scripts/cargo-for"));
    command.current_dir(root()).arg("arm64").args(arguments);
    command.arg("--locked");
    command
}

/// What cargo says of what it builds.
fn messages(mut command: Command) -> Result<String, String> {
    let output = command
        .arg("--message-format=json-render-diagnostics")
        .stderr(Stdio::inherit())
        .output()
        .map_err(|error| format!("{}: {error}", command.get_program().display()))?;
    match output.status.success() {
        true => Ok(String::from_utf8_lossy(&output.stdout).into_owned()),
        false => Err(format!("{command:?}: {}", output.status)),
    }
}

fn file(messages: &str, name: &str) -> Result<PathBuf, String> {
    executable(messages, name).ok_or_else(|| format!("no {name} was built"))
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
fn run(built: &Built, kernel: &str, program: &Program) -> Result<Output, String> {
    let punctual = &built.punctual;
    let folder = format!("punctual-guest-{}-{kernel}", std::process::id());
    let folder = std::env::temp_dir().join(folder);
    let _ = std::fs::remove_dir_all(&folder);
    let mut command = Command::new(punctual);
    command.current_dir(root()).arg("lab");
    if let (true, Some(guest)) = (program.is_arm64, &built.arm64) {
        command.args(["--arch", "arm64"]);
        command.env("PUNCTUAL_GUEST", guest);
    }
    let output = command
        .args(["--cpus", "2", "-q", "--host-limit", LIMIT])
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
    let lacks = ["is not in PATH", "package", "no static"];
    if said.is_empty() && lacks.iter().any(|word| complaints.contains(word)) {
        return Err(complaints.trim().to_owned());
    }
    Ok(output)
}

/// Counts and prints what a program said.
fn say(kernel: &str, program: &Program, output: &Output, tally: &mut Tally) {
    let said = String::from_utf8_lossy(&output.stdout);
    let name = format!("{} on {}", program.name, program.kernel(kernel));
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
