//! A heap that was made ready takes no fault.
#![cfg(target_env = "gnu")]

use std::process::Command;

/// By a program of its own: malloc is the process's, and the heap the first thread's.
#[test]
fn what_malloc_hands_out_is_present() {
    let output = Command::new(env!("CARGO"))
        .args(["run", "--quiet", "--package", "punctual-rt"])
        .args(["--example", "heap_check"])
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{output:?}");
    assert_eq!(text.trim(), "0 page faults");
}
