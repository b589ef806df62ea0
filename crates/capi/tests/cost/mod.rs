//! The cost of a stack in instructions, which doesn't depend on other load of the machine.

use std::path::Path;
use std::process::{Command, Output};

use crate::needs::{self, Absent, need, skip};
use crate::support::{self, Build, Linked};

/// Instructions per allocation and free of a stack, by gcc on x86-64, including the loop.
const PAIR: f64 = 220.0;
/// The ratio by which another compiler's may differ.
const LEEWAY: f64 = 0.05;
const PAIRS: u64 = 10_000;

/// Counts by the processor's counter; `Err` is the reason when there is none.
fn counted(program: &Path, pairs: u64) -> Result<u64, String> {
    let output = support::runs(Command::new(program).arg(pairs.to_string()));
    let text = String::from_utf8_lossy(&output.stdout).trim().to_owned();
    text.parse().map_err(|_| text)
}

/// Counts by valgrind, which executes each instruction itself.
fn executed(program: &Path, pairs: u64) -> Result<u64, String> {
    let mut command = Command::new("valgrind");
    command
        .args(["--tool=callgrind", "--callgrind-out-file=/dev/null"])
        .arg(program)
        .arg(pairs.to_string());
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
fn allocating_and_freeing_a_stack_stays_within_its_instruction_budget() {
    if cfg!(not(target_arch = "x86_64")) {
        skip!(Absent::hardware("x86-64, of which the figure is"));
    }
    for linked in [Linked::Static, Linked::Shared] {
        let program = Build {
            linked,
            ..Build::PLAIN
        }
        .compile("tests/c/cost.c");
        // The difference of two runs: the rest of the program cancels out.
        let measured = |count: fn(&Path, u64) -> Result<u64, String>| {
            let (some, more) = (count(&program, PAIRS)?, count(&program, 3 * PAIRS)?);
            Ok::<f64, String>((more.saturating_sub(some)) as f64 / (2 * PAIRS) as f64)
        };
        let cost = match measured(counted) {
            Ok(cost) => cost,
            // The processor has no counter here.
            Err(_) => {
                need!(needs::program("valgrind"));
                measured(executed).expect("valgrind counts")
            }
        };
        let range = PAIR * (1.0 - 2.0 * LEEWAY)..PAIR * (1.0 + LEEWAY);
        assert!(
            range.contains(&cost),
            "{linked:?}: {cost:.1} instructions, expected {PAIR} and at most {:.0} % more",
            LEEWAY * 100.0
        );
    }
}

/// Instructions of a send beyond those of a write(2) of the same bytes, in user space, by gcc on
/// x86-64; the kernel executes some thousands for either.
const SEND: f64 = 145.0;

#[test]
fn sending_a_message_executes_few_instructions_more_than_a_write() {
    if cfg!(not(target_arch = "x86_64")) {
        skip!(Absent::hardware("x86-64, of which the figure is"));
    }
    let each = |more: &'static [&'static str]| {
        let build = Build {
            more,
            linked: Linked::Static,
            ..Build::PLAIN
        };
        let program = build.compile("tests/c/channel_cost.c");
        // The difference of two runs: the rest of the program cancels out.
        let (some, more) = (executed(&program, PAIRS)?, executed(&program, 3 * PAIRS)?);
        Ok::<f64, String>(more.saturating_sub(some) as f64 / (2 * PAIRS) as f64)
    };
    need!(needs::program("valgrind"));
    let [send, write] = [&[][..], &["-DPLAIN"]].map(|more| each(more).expect("valgrind counts"));
    let beyond = send - write;
    assert!(
        (SEND * 0.7..SEND * 1.2).contains(&beyond),
        "{send:.1} instructions, a write {write:.1}: {beyond:.1} more, expected {SEND}"
    );
}
