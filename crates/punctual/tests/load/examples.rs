//! The library's real-time examples, in C, C++ and Rust, under the standard load that
//! `qualify` and `measure` use: no page fault in their real-time section.

use std::path::PathBuf;
use std::process::{Command, Output};
use std::time::Duration;

use crate::needs::{self, skip};
use crate::support::{Build, CXX17, Linked};
use punctual_load::{LoadSet, LoadSettings, LoadSpec};

const PATIENCE: Duration = Duration::from_secs(120);

/// An example of `punctual-rt`, built before the load begins.
fn of_rust(example: &str) -> PathBuf {
    crate::build::build(example)
}

/// For two seconds; at most for a minute.
fn run(program: &PathBuf) -> Output {
    Command::new("timeout")
        .args(["-s", "KILL", "60"])
        .arg(program)
        .arg("2")
        .output()
        .expect("timeout runs")
}

#[test]
fn examples_take_no_page_fault_under_the_standard_load() {
    let c = Build {
        linked: Linked::Static,
        ..Build::PLAIN
    };
    let cpp = Build {
        language: CXX17,
        ..c
    };
    let programs = [
        c.compile("examples/control_loop.c"),
        cpp.compile("examples/control_loop.cpp"),
        of_rust("control_loop"),
        c.compile("examples/injection.c"),
        of_rust("injection"),
    ];
    let scratch = tempfile::tempdir().expect("a directory");
    let settings = LoadSettings {
        program: Some(env!("CARGO_BIN_EXE_punctual").into()),
        scratch_dir: Some(scratch.path().into()),
        ..LoadSettings::default()
    };
    let standard = LoadSpec::parse("standard").expect("the standard load");
    let load = LoadSet::start(&standard, &settings).expect("loads that start");
    load.wait_ready(PATIENCE).expect("loads that run");
    let work = || -> Vec<u64> { load.status().iter().map(|one| one.work).collect() };
    let before = work();
    for program in &programs {
        let output = run(program);
        if output.status.code() == Some(77) {
            skip!(needs::not_permitted(&String::from_utf8_lossy(
                &output.stderr
            )));
        }
        assert!(output.status.success(), "{program:?}: {output:?}");
        let text = String::from_utf8_lossy(&output.stdout);
        assert!(text.contains(" 0 faults, "), "{program:?}: {text}");
        let count: u64 = text.split(' ').next().unwrap_or("").parse().expect(&text);
        if text.contains(" cycles, ") {
            // At 1 kHz, including missed periods.
            assert_eq!(count, 2000, "{program:?}: {text}");
        } else {
            // 25 turns a second; a stall of the machine costs some.
            assert!((5..=51).contains(&count), "{program:?}: {text}");
        }
    }
    // Every part of the load worked meanwhile.
    for (before, (after, part)) in before.iter().zip(work().iter().zip(load.status())) {
        assert!(after > before, "{part:?}");
    }
}
