//! Our privileged tests on real kernels: the laboratory boots PREEMPT_RT and the standard kernel
//! with two processors, and the very test programs that ran here run there.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::process::{Command, Output};

use crate::programs::{executable, messages};
use crate::told::{Shared, locked};
use crate::{root, suite};

const KERNELS: &[&str] = &["rt", "standard"];
/// Those of the library, for arm64: stacks, guards, locks, rings and memory on a real kernel of another
/// architecture. What `make emulated` has to leave out (page faults, residency, robust lists) is there.
/// Left out are what needs a file of this machine, what compares times, and watchpoints, which QEMU 7.2
/// reports again and again.
const ARM64: &[(&str, &str)] = &[
    ("punctual_rt", ""),
    ("rt", "channel_peers::"),
    ("rt_alone", "inversion::"),
    ("rt_alone", "stack_storm::"),
    ("rt_forks", "stack_fork::"),
    ("rt_forks", "stack_guard::"),
];
/// Test programs, and a part of their tests' names: what needs the kernel's privileged
/// side. They need no other program, for the guest has none but ours.
const PROGRAMS: &[(&str, &str)] = &[
    // Isolated partitions of cgroup v2.
    ("rt_alone", "cpuset_sets::"),
    // The same, with a journal.
    ("tune", "partition::"),
    // With cgroup v1.
    ("tune", "cpuset_v1::"),
    // Every fix of a running kernel, changed and restored.
    ("tune", "knobs::"),
    // Interrupts moved to other processors, and back.
    ("rt", "irq_steering::"),
    // Priority inheritance.
    ("rt_alone", "inversion::"),
    // Hardware breakpoints.
    ("rt_alone", "watchpoint_hits::"),
    // The loop of every wait source: no allocation.
    ("proof", "allocates_nothing"),
];
/// The host's time that one of them may take, beside another.
const LIMIT: &str = "10m";

/// Which tests in guests.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Guests {
    /// Of this architecture, with two processors.
    Own,
    /// The library's, for arm64.
    Arm64,
}

/// Runs them all; what they say is told as if they had run here. The kernels run in
/// parallel: a guest takes one CPU, and its time is virtual.
pub fn tests(guests: Guests, told: Shared<'_, '_>) {
    let built = match (build(guests), guests) {
        (Ok(built), _) => built,
        (Err(error), Guests::Own) => {
            return locked(told, |told| {
                told.fail(format!("in the laboratory: {error}"))
            });
        }
        (Err(reason), Guests::Arm64) => {
            return locked(told, |told| {
                told.skip_check("tests in guests of arm64", &reason)
            });
        }
    };
    let built = &built;
    std::thread::scope(|scope| {
        for kernel in KERNELS {
            scope.spawn(move || of_kernel(kernel, built, told));
        }
    });
}

fn of_kernel(kernel: &str, built: &Built, told: Shared<'_, '_>) {
    for program in &built.programs {
        match run(built, kernel, program) {
            Ok(output) => say(kernel, program, &output, told),
            Err(reason) => {
                let check = format!("tests on {}", program.kernel(kernel));
                return locked(told, |told| told.skip_check(&check, &reason));
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

/// # Errors
/// There is no compiler for that architecture, or something can't be built.
fn build(guests: Guests) -> Result<Built, String> {
    let mut tool = suite::cargo(&["test", "--locked", "--workspace", "--no-run"]);
    let names: BTreeSet<_> = PROGRAMS.iter().map(|(name, _)| name).collect();
    for name in names {
        tool.args(["--test", name]);
    }
    // As the tests before were built, so that nothing is built again.
    let own = messages(tool)?;
    let (tests, arm64, list) = match guests {
        Guests::Own => (None, None, PROGRAMS.to_vec()),
        Guests::Arm64 => {
            let (tests, tool) = build_arm64()?;
            (Some(tests), Some(tool), ARM64.to_vec())
        }
    };
    let found = tests.as_ref().unwrap_or(&own);
    let programs = list
        .into_iter()
        .map(|(name, part)| {
            Ok(Program {
                name,
                part,
                file: file(found, name)?,
                is_arm64: arm64.is_some(),
            })
        })
        .collect::<Result<_, String>>()?;
    Ok(Built {
        punctual: file(&own, "punctual")?,
        arm64,
        programs,
    })
}

/// The library's tests for arm64, in cargo's messages, and this tool.
fn build_arm64() -> Result<(String, PathBuf), String> {
    let tool = messages(for_arm64(&["build", "--package", "punctual"]))?;
    let tests = messages(for_arm64(&["test", "--no-run", "--package", "punctual-rt"]))?;
    Ok((tests, file(&tool, "punctual")?))
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

fn file(messages: &str, name: &str) -> Result<PathBuf, String> {
    executable(messages, name).ok_or_else(|| format!("no {name} was built"))
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

/// Tells what a program said.
fn say(kernel: &str, program: &Program, output: &Output, told: Shared<'_, '_>) {
    // One word, as the list of what is skipped has it.
    let processor = if program.is_arm64 { "-arm64" } else { "" };
    let title = format!(
        "     Running {}@{kernel}{processor} (the laboratory)",
        program.name
    );
    locked(told, |told| {
        told.lines([title.as_bytes()].into_iter());
        told.lines(output.stdout.split(|byte| *byte == b'\n'));
        // A program without its result has died, and the laboratory says how.
        told.end();
        if !output.status.success() {
            println!("{}", String::from_utf8_lossy(&output.stderr).trim());
        }
    });
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::files::tracked;

    /// A name that is misspelt would run no test and say nothing.
    #[test]
    fn each_part_is_a_module_of_its_program_with_tests() {
        let files = tracked(root());
        for (name, part) in PROGRAMS.iter().chain(ARM64) {
            let Some(module) = part.strip_suffix("::") else {
                continue;
            };
            let end = format!("/tests/{name}/{module}.rs");
            let file = files.iter().find(|file| file.path.ends_with(&end));
            assert!(
                file.is_some_and(|file| file.text.contains("#[test]")),
                "{end}"
            );
        }
    }
}
