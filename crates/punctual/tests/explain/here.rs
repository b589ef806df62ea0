//! Checks bills against the truth on this machine, whose CPUs the host and other users may take away.

use std::process::Command;

use crate::common::examples;
use crate::common::truth::{Trouble, Wanted, hold, is_seldom, lines};

/// Nine in ten of all injections here, because a hypervisor takes CPUs away and other users
/// build. A culprit measures itself what interrupted it, and how precisely it knows its start and end:
/// half of the durations must be right whatever else the machine does. In the laboratory 99
/// in 100 are required, and their durations.
pub const HERE: Wanted = Wanted {
    least: 30,
    blind: 10,
    agent: true,
    named: 80,
    timed: 60,
    off_by_ns: 5_000,
    explained: 90,
    // A hypervisor that takes the CPU for some ms during an interrupt outweighs many injections.
    residue: 25.0,
};

/// A hundred injections of each kind.
const COUNT: &str = "100";
const KINDS: usize = 21;

#[test]
fn culprits_are_named_and_quiet_wake_ups_have_all_stages() {
    let _alone = crate::tracing_alone();
    let output = Command::new("timeout")
        .args(["-s", "KILL", "400"])
        .arg(examples::build("truth"))
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
    let sum = |key: &str| -> u64 { lines.iter().filter_map(|line| line[key].as_u64()).sum() };
    assert!(sum("named") * 10 >= sum("injected") * 9, "{text}");
    let (mut wrong, mut seldom) = (Vec::new(), 0);
    for line in &lines {
        if is_seldom(line, HERE) {
            // As on a busy machine.
            seldom += 1;
            continue;
        }
        match hold(line, HERE) {
            Ok(()) => {}
            Err(Trouble::Skipped(why)) => eprintln!("SKIPPED: {why}"),
            Err(Trouble::Wrong(what)) => wrong.push(what),
        }
    }
    assert!(seldom * 2 < lines.len(), "{text}");
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
