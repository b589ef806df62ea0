//! A prepared heap takes no page fault.
#![cfg(target_env = "gnu")]

use std::process::Command;

/// In a separate program: malloc is global, and the heap belongs to the first thread.
#[test]
fn memory_from_a_kept_heap_is_present() {
    let output = Command::new(env!("CARGO"))
        .args(["run", "--quiet", "--package", "punctual-rt"])
        .args(["--example", "heap_check"])
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{output:?}");
    assert_eq!(text.trim(), "0 page faults");
}
