//! The real-time examples run under load without page faults.

use crate::needs::{Absent, skip};
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};

/// Runs an example for a second while other threads compute, map and fault.
fn beside_a_load(example: &str) -> Option<String> {
    // Built before the load starts.
    let built = Command::new(env!("CARGO"))
        .args(["build", "--quiet", "--package", "punctual-rt"])
        .args(["--example", example])
        .status();
    assert!(built.unwrap().success());
    let ends = AtomicBool::new(false);
    let output = std::thread::scope(|scope| {
        scope.spawn(|| {
            while !ends.load(Ordering::Relaxed) {
                let mut block = vec![0_u8; 8 << 20];
                block.iter_mut().step_by(4096).for_each(|byte| *byte = 1);
                std::hint::black_box(&mut block);
            }
        });
        let output = Command::new(env!("CARGO"))
            .args(["run", "--quiet", "--package", "punctual-rt"])
            .args(["--example", example, "--", "1"])
            .output();
        ends.store(true, Ordering::Relaxed);
        output.unwrap()
    });
    if output.status.code() == Some(77) {
        crate::needs::not_permitted(&String::from_utf8_lossy(&output.stderr)).report();
        return None;
    }
    assert!(output.status.success(), "{output:?}");
    Some(String::from_utf8_lossy(&output.stdout).into_owned())
}

#[test]
fn the_control_loop_takes_no_page_fault_under_load() {
    if let Some(text) = beside_a_load("control_loop") {
        assert!(text.starts_with("1000 cycles, "), "{text}");
        assert!(text.contains(" 0 faults, "), "{text}");
        assert!(text.contains("speed "), "{text}");
    }
}

#[test]
fn the_injection_takes_no_page_fault_under_load() {
    if let Some(text) = beside_a_load("injection") {
        let injections: u32 = text.split(' ').next().unwrap().parse().unwrap();
        // 25 revolutions a second; a stall of the machine costs some.
        assert!((5..=26).contains(&injections), "{text}");
        assert!(text.contains(" 0 faults, "), "{text}");
    }
}

#[test]
fn messages_over_tcp_take_no_page_fault_under_load() {
    if let Some(text) = beside_a_load("channel") {
        assert!(text.starts_with("1000 commands, "), "{text}");
        assert!(text.contains(" 0 refused, 1000 answers, "), "{text}");
        assert!(text.contains(" 0 faults, "), "{text}");
    }
}

#[test]
fn each_step_of_the_ladder_runs_and_the_third_ends_its_page_faults() {
    for steps in ["0", "1", "2", "3", "4"] {
        let output = Command::new(env!("CARGO"))
            .args(["run", "--quiet", "--package", "punctual-rt"])
            .args(["--example", "ladder", "--", steps, "1000"])
            .output()
            .unwrap();
        if output.status.code() == Some(77) {
            crate::needs::not_permitted(&String::from_utf8_lossy(&output.stderr)).report();
            continue;
        }
        assert!(output.status.success(), "{output:?}");
        let text = String::from_utf8_lossy(&output.stdout);
        let faults = text.strip_prefix("1000 cycles, ").expect("cycles");
        let faults: u64 = faults.split(' ').next().unwrap().parse().unwrap();
        // 1,000 lines of 64 bytes fill 15 pages and a part; the two at the ends may be present.
        match steps {
            "0" | "1" | "2" => assert!(faults >= 14, "{steps}: {text}"),
            _ => assert_eq!(faults, 0, "{steps}: {text}"),
        }
    }
}

/// With the cgroup version of this machine; in a guest the same file checks the other.
#[test]
fn the_partition_check_passes_where_it_is_possible() {
    let output = Command::new(env!("CARGO"))
        .args(["run", "--quiet", "--package", "punctual-rt"])
        .args(["--example", "partition_check"])
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stdout);
    if output.status.code() == Some(77) {
        let reason = String::from_utf8_lossy(&output.stderr);
        skip!(Absent::kernel(format!(
            "partitions of CPUs: {said}{reason}"
        )));
    }
    assert!(output.status.success(), "{output:?}");
    assert!(said.ends_with("removed: true\n"), "{said}");
}
