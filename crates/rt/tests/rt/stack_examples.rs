//! The stack example finds what it documents.

use std::process::Command;

#[test]
fn stack_check_finds_its_own_stack_present() {
    let output = Command::new(env!("CARGO"))
        .args([
            "run",
            "--quiet",
            "--package",
            "punctual-rt",
            "--example",
            "stack_check",
        ])
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    let ours = text.lines().last().unwrap();
    assert!(ours.ends_with("64 pages, 64 resident, 0 not"), "{text}");
    assert!(text.lines().nth(1).unwrap().ends_with(" 0 not"), "{text}");
}
