//! Tests that failed run once more, by themselves.
//!
//! Our tests measure time beside each other, on machines that others share: one of 1,400 may meet a
//! stall of its host. What passes by itself is flaky, and is told as such. Several at once are no
//! accident, and none of them gets a second try.

use std::process::Output;

use crate::suite;
use crate::tally::{Repeatable, Tally};

/// More than these are no accident.
const MOST: usize = 3;

pub fn tests(tally: &mut Tally) {
    if tally.failed() > MOST {
        return;
    }
    for failed in std::mem::take(&mut tally.repeatable) {
        println!("\n     Again {}", failed.failure);
        let Some(arguments) = arguments(&failed) else {
            println!("it can't run by itself: {}", failed.program);
            continue;
        };
        let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
        let mut command = suite::cargo(&arguments);
        suite::hotplug(&mut command);
        match command.output() {
            Ok(output) => {
                print!("{}", String::from_utf8_lossy(&output.stdout));
                if passed(&output) {
                    tally.passed_again(&failed.failure);
                } else {
                    print!("{}", String::from_utf8_lossy(&output.stderr));
                }
            }
            Err(error) => println!("cargo: {error}"),
        }
    }
}

/// What cargo is to run; none for the examples in documents, which are no program.
fn arguments(failed: &Repeatable) -> Option<Vec<String>> {
    let mut words = vec!["test", "--locked"];
    let program: Vec<&str> = failed.program.split_whitespace().collect();
    match program.as_slice() {
        // As it was built, with the features of the whole workspace: nothing is built again.
        ["-p", _, "--test", name] => words.extend(["--workspace", "--test", name]),
        ["-p", _, "--lib" | "--bin", ..] => words.extend(&program),
        _ => return None,
    }
    words.extend(["--", "--exact", &failed.test]);
    Some(words.into_iter().map(str::to_owned).collect())
}

/// One test ran, and passed.
fn passed(output: &Output) -> bool {
    let said = String::from_utf8_lossy(&output.stdout);
    let ran = said
        .lines()
        .any(|line| line.starts_with("test result: ok. 1 passed;"));
    output.status.success() && ran
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(program: &str) -> Option<String> {
        let failed = Repeatable {
            failure: "tests/lab.rs: one::two".to_owned(),
            test: "one::two".to_owned(),
            program: program.to_owned(),
        };
        Some(arguments(&failed)?.join(" "))
    }

    #[test]
    fn one_test_of_one_program_runs_again() {
        let words = |program| words(program).unwrap_or_default();
        assert_eq!(
            words("-p punctual --test lab"),
            "test --locked --workspace --test lab -- --exact one::two"
        );
        assert_eq!(
            words("-p punctual-rt --lib"),
            "test --locked -p punctual-rt --lib -- --exact one::two"
        );
        assert_eq!(words("-p punctual-rt --doc"), "");
        assert_eq!(words(""), "");
    }

    #[test]
    fn only_a_test_that_ran_has_passed() {
        use std::os::unix::process::ExitStatusExt;
        let output = |status, said: &str| Output {
            status: std::process::ExitStatus::from_raw(status),
            stdout: said.as_bytes().to_vec(),
            stderr: Vec::new(),
        };
        assert!(passed(&output(0, "test result: ok. 1 passed; 0 failed")));
        assert!(!passed(&output(0, "test result: ok. 0 passed; 0 failed")));
        assert!(!passed(&output(
            1 << 8,
            "test result: ok. 1 passed; 0 failed"
        )));
    }
}
