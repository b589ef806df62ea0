//! Bills against the truth on this machine, whose processors others may take away.

use std::process::Command;

use super::examples;
use super::truth::{Trouble, Wanted, hold, lines};

/// Nine in ten here, where a hypervisor takes processors away and others build; the laboratory
/// wants 99 in 100, and that all durations be right.
const HERE: Wanted = Wanted {
    least: 30,
    named: 90,
    timed: 60,
    residue: 5.0,
};

/// A hundred of each.
const COUNT: &str = "100";
const KINDS: usize = 14;

#[test]
fn culprits_are_named_and_the_quiet_have_all_stages() {
    let output = Command::new("timeout")
        .args(["-s", "KILL", "200"])
        .arg(examples::build("punctual", "truth"))
        .args(["--count", COUNT])
        .output()
        .expect("timeout runs");
    let text = String::from_utf8_lossy(&output.stdout);
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(
        output.status.success(),
        "{:?}: {said}\n{text}",
        output.status
    );
    let lines = lines(&text);
    assert!(lines.len() >= KINDS, "{text}");
    let mut wrong = Vec::new();
    for line in &lines {
        match hold(line, HERE) {
            Ok(()) => {}
            Err(Trouble::Skipped(why)) => eprintln!("SKIPPED: {why}"),
            Err(Trouble::Wrong(what)) => wrong.push(what),
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
