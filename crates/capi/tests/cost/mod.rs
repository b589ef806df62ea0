//! What a stack costs, in instructions: a figure that no other load of the machine changes.

use std::path::Path;
use std::process::{Command, Output};

use crate::support::{self, Build, Linked};

/// Instructions of a stack allocated and freed, by gcc on x86-64, the loop around it included.
const PAIR: f64 = 220.0;
/// The share by which another compiler's may differ.
const LEEWAY: f64 = 0.05;
const PAIRS: u64 = 10_000;

/// By the processor's counter; `None`, and why, where there is none.
fn counted(program: &Path, pairs: u64) -> Result<u64, String> {
    let output = support::runs(Command::new(program).arg(pairs.to_string()));
    let text = String::from_utf8_lossy(&output.stdout).trim().to_owned();
    text.parse().map_err(|_| text)
}

/// By valgrind, which executes each instruction itself.
fn executed(program: &Path, pairs: u64) -> Result<u64, String> {
    let mut command = Command::new("valgrind");
    command
        .args(["--tool=callgrind", "--callgrind-out-file=/dev/null"])
        .arg(program)
        .arg(pairs.to_string());
    if Command::new("valgrind").arg("--version").output().is_err() {
        return Err("no valgrind".to_owned());
    }
    let Output { status, stderr, .. } = support::ends(&mut command);
    let text = String::from_utf8_lossy(&stderr).into_owned();
    let found = text
        .lines()
        .find_map(|line| line.split_once("Collected : "));
    found
        .and_then(|(_, count)| count.trim().parse().ok())
        .ok_or_else(|| format!("callgrind: {status}: {text}"))
}

#[test]
#[allow(clippy::print_stderr, reason = "says what was not tried")]
fn a_stack_allocated_and_freed_costs_no_more_instructions_than_it_did() {
    if cfg!(not(target_arch = "x86_64")) {
        eprintln!("SKIPPED: the figure is of x86-64");
        return;
    }
    for linked in [Linked::Static, Linked::Shared] {
        let program = Build {
            linked,
            ..Build::PLAIN
        }
        .compile("tests/c/cost.c");
        // The same twice: what the program does besides drops out.
        let measured = |count: fn(&Path, u64) -> Result<u64, String>| {
            let (some, more) = (count(&program, PAIRS)?, count(&program, 3 * PAIRS)?);
            Ok::<f64, String>((more.saturating_sub(some)) as f64 / (2 * PAIRS) as f64)
        };
        let cost = match measured(counted) {
            Ok(cost) => cost,
            Err(no_counter) => match measured(executed) {
                Ok(cost) => cost,
                Err(reason) => {
                    eprintln!("SKIPPED: {no_counter}; {reason}");
                    return;
                }
            },
        };
        let range = PAIR * (1.0 - 2.0 * LEEWAY)..PAIR * (1.0 + LEEWAY);
        assert!(
            range.contains(&cost),
            "{linked:?}: {cost:.1} instructions, expected {PAIR} and at most {:.0} % more",
            LEEWAY * 100.0
        );
    }
}
