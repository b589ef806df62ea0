//! Reports under adverse conditions.

use std::os::unix::process::ExitStatusExt;
use std::process::{Command, ExitStatus};

use super::{Program, begins, ran, traces};
use crate::needs::{Absent, skip};
use crate::support::{self, Build, CXX17, Linked};

static HOSTILE: Program = Program::new("tests/c/hostile.c");

fn hostile(part: &str, debug: &str) -> (ExitStatus, String) {
    ran(&HOSTILE.linked(Linked::Static), part, debug)
}

#[test]
fn an_overflow_of_a_thread_that_allocates_nothing_is_explained() {
    for linked in [Linked::Static, Linked::Shared] {
        let (status, text) = ran(&HOSTILE.linked(linked), "overflow", "noaccess,audit");
        assert_eq!(status.signal(), Some(libc::SIGSEGV), "{text}");
        let guard = ", in the guard below the stack at 0x";
        assert!(text.contains(guard), "{text}");
        let said =
            ", which is in use as a thread's\n  the thread runs on that stack: a stack overflow\n";
        assert!(text.contains(said), "{text}");
        begins(&text, "touched", &["overflows_here", "overflows_here"]);
        assert!(
            traces(&text, "touched")[0].contains(&"overflows".to_owned()),
            "{text}"
        );
    }
}

#[test]
fn the_report_comes_before_the_unwinder_which_may_fault() {
    let (status, text) = hostile("frame", "noaccess,audit");
    assert_eq!(status.signal(), Some(libc::SIGSEGV), "{text}");
    begins(&text, "freed", &["touch_without_a_frame", "main"]);
    begins(&text, "touched", &["touch_without_a_frame"]);
}

#[test]
fn a_closed_pipe_changes_neither_the_end_nor_the_signals_of_a_program() {
    for (part, signal) in [
        ("nobody", None),
        ("nobody-exit", None),
        ("nobody-touch", Some(libc::SIGSEGV)),
    ] {
        let (status, _) = hostile(part, "audit,guards,noaccess,leaks");
        assert_eq!(status.signal(), signal, "{part}");
        assert!(
            signal.is_some() || status.code() == Some(0),
            "{part}: {status}"
        );
    }
}

#[test]
fn a_full_non_blocking_pipe_loses_no_line() {
    let (status, text) = hostile("full", "audit");
    assert!(status.success(), "{text}");
    let reports: Vec<&str> = text.split_inclusive("punctual: ").skip(1).collect();
    assert_eq!(reports.len(), 40, "{text}");
    assert_eq!(traces(&text, "allocated").len(), 40, "{text}");
    assert!(text.len() > 2 * 4096, "{text}");
    let last = reports[39];
    let all = reports[..39]
        .iter()
        .map(|it| it.trim_end_matches("punctual: "));
    assert!(all.into_iter().all(|report| report == last), "{text}");
}

#[test]
fn a_report_says_what_it_could_not_read_and_does_not_guess() {
    let (status, text) = hostile("descriptor", "audit");
    assert!(status.success(), "{text}");
    let reason = "could not read /proc/self/maps: no file descriptor is left (RLIMIT_NOFILE)\n";
    let said = format!("it is no stack of this allocator: its mapping is unknown: {reason}");
    assert!(text.contains(&said), "{text}");
    assert_eq!(
        text.matches("without names of functions: ").count(),
        1,
        "{text}"
    );
    assert_eq!(text.matches(reason).count(), 2, "{text}");
    assert!(!text.contains("nothing is mapped"), "{text}");
}

#[test]
fn under_seccomp_the_fault_still_ends_the_program_by_its_signal() {
    let (status, text) = hostile("sandbox", "noaccess,audit");
    assert_eq!(status.signal(), Some(libc::SIGSEGV), "{text}");
    assert_eq!(text.matches(", which is free\n").count(), 1, "{text}");
}

#[test]
fn the_lines_of_simultaneous_reports_do_not_mix() {
    let (status, text) = hostile("at-once", "audit");
    assert!(status.success(), "{text}");
    let reports = text.split("punctual: ").skip(1);
    let mut count = 0;
    for report in reports {
        count += 1;
        for (line, times) in [
            ("was freed as a stack of", 1),
            ("  allocated by thread", 1),
            ("  found by thread", 1),
            ("(frees_wrongly+", 1),
            ("(main+", 1),
        ] {
            assert_eq!(report.matches(line).count(), times, "{line}: {report}");
        }
    }
    assert_eq!(count, 8 * 3, "{text}");
}

/// Otherwise a report of thousands of stacks takes minutes.
#[test]
fn each_address_of_a_report_is_looked_up_once() {
    let mut command = Command::new(HOSTILE.linked(Linked::Shared));
    command.arg("many").env("PUNCTUAL_STACK_DEBUG", "audit");
    let output = support::runs(&mut command);
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    let reads: i64 = said.trim().parse().expect("a number");
    if reads < 0 {
        skip!(Absent::kernel(
            "counts of what a process reads (/proc/self/io)"
        ));
    }
    // Some 40 addresses, each with a list of a thousand mappings, read 40 lines at a time, and
    // symbols: 2000.
    assert!(reads < 4000, "{reads} for 1025 stacks");
}

#[test]
fn a_child_of_a_fork_reports_its_own_leaks_and_not_its_parents_stacks() {
    for (part, leaks) in [("child", 0), ("child-leaks", 1)] {
        let (status, text) = hostile(part, "leaks,audit");
        assert!(status.success(), "{text}");
        assert_eq!(text.matches(" is in use").count(), leaks, "{part}: {text}");
        assert_eq!(
            text.matches("of 32768 bytes").count(),
            leaks,
            "{part}: {text}"
        );
    }
}

#[test]
fn a_stack_freed_by_a_global_object_is_no_leak_and_cxx_names_are_complete() {
    for linked in [Linked::Static, Linked::Shared] {
        let build = Build {
            language: CXX17,
            linked,
            more: &["-O0"],
            ..Build::PLAIN
        };
        let program = build.compile("tests/c/globals.cpp");
        let mut command = Command::new(program);
        let output = support::ends(command.env("PUNCTUAL_STACK_DEBUG", "leaks,audit=64"));
        let text = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(output.status.success(), "{text}");
        let found = traces(&text, "allocated");
        assert_eq!(found.len(), 1, "{linked:?}: {text}");
        assert_eq!(found[0][0], "_ZN4core4makeEv", "{text}");
        let long = &found[0][1];
        assert!(long.len() > 256 && long.ends_with("3getEv"), "{text}");
        assert_eq!(found[0][2], "main", "{text}");
    }
}
