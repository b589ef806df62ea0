//! The header, and the C tests, built by both compilers, in both languages, with either library.
#![allow(unsafe_code, reason = "geteuid, and a kill of what a test started")]

#[path = "../../punctual/tests/common/needs.rs"]
mod needs;

mod cost;
mod debugging;
mod documents;
mod header;
mod linking;
mod packaging;
mod support;

use std::fs;
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use needs::Absent;
use support::{Build, C11, CXX17, Linked, runs, succeeds};

/// What a program lacks that prints on standard error what it did not test.
fn unsaid(line: &str) -> Absent {
    let about_rights = [
        "priorities",
        "policies",
        "SCHED_FIFO",
        "lock memory",
        "locked",
    ];
    match about_rights.iter().any(|word| line.contains(word)) {
        true => needs::not_permitted(line),
        false => Absent::kernel(line),
    }
}

/// A program prints on standard error what it could not test on this machine.
fn everywhere(source: &str) {
    for build in Build::all() {
        let output = runs(&mut Command::new(build.compile(source)));
        for line in String::from_utf8_lossy(&output.stderr).lines() {
            unsaid(line).report();
        }
    }
}

#[test]
fn every_function_and_each_documented_error() {
    everywhere("tests/c/basic.c");
}

#[test]
fn watchpoints_processor_sets_and_interrupts() {
    everywhere("tests/c/isolation.c");
}

#[test]
fn every_guard_page_ends_the_process() {
    everywhere("tests/c/guard.c");
}

#[test]
fn threads_are_cancelled_and_forked_while_others_allocate() {
    everywhere("tests/c/storm.c");
}

#[test]
fn threads_have_the_requested_attributes() {
    everywhere("tests/c/thread.c");
}

#[test]
fn the_stacks_of_detached_threads_are_freed() {
    everywhere("tests/c/detach.c");
}

#[test]
fn a_condition_variable_loses_no_notification() {
    everywhere("tests/c/condvar.c");
}

#[test]
fn timed_locks_end_at_their_instant_and_robust_mutexes_survive_their_holder() {
    everywhere("tests/c/mutex.c");
}

/// A program that never ends is a failure that shows its name and output.
#[test]
fn a_program_that_hangs_is_killed_and_reported() {
    let source = support::work().join("hangs.c");
    let text = "#include <stdio.h>
        #include <unistd.h>
        int main(void)
        {
            printf(\"as far as here\\n\");
            fflush(stdout);
            if (fork() == 0) pause();
            for (;;) pause();
        }";
    fs::write(&source, text).expect("written");
    let program = support::work().join("hangs");
    let mut compiler = Command::new("gcc");
    succeeds(compiler.arg(&source).arg("-o").arg(&program));
    let limit = Duration::from_secs(5);
    let hung = support::ends_within(&mut Command::new(&program), limit).expect_err("it hangs");
    assert!(hung.contains("hangs\" did not end within 5 s"), "{hung}");
    assert!(hung.contains("as far as here"), "{hung}");
    // A program that ends is waited for, whatever its exit status.
    let quick = support::ends_within(&mut Command::new("false"), Duration::from_secs(60));
    assert_eq!(quick.expect("it ends").status.code(), Some(1));
}

#[test]
fn a_cancelled_thread_completes_its_call_of_the_library() {
    everywhere("tests/c/cancel.c");
}

#[test]
fn memory_clocks_and_loops() {
    everywhere("tests/c/loop.c");
}

#[test]
fn rings_and_logs() {
    everywhere("tests/c/ring.c");
}

#[test]
fn channels_carry_messages_and_fail_as_documented() {
    everywhere("tests/c/channel.c");
}

#[test]
fn threads_start_at_their_own_priority_and_take_no_signals() {
    everywhere("tests/c/start.c");
}

#[test]
fn every_failure_sets_errno_and_its_own_text() {
    everywhere("tests/c/words.c");
}

#[test]
fn a_child_of_a_fork_does_not_wait_for_its_parents_threads() {
    everywhere("tests/c/inherited.c");
}

#[test]
fn the_bounds_of_a_coroutine_are_its_own_stack() {
    everywhere("tests/c/coroutine.c");
}

#[test]
fn after_a_fork_the_parent_takes_no_faults_on_its_stacks() {
    everywhere("tests/c/fork.c");
}

/// The functions that the header declares.
fn declared() -> Vec<String> {
    let header = fs::read_to_string(support::here().join("include/punctual.h"))
        .expect("the header is there");
    let code = header
        .lines()
        .filter(|line| !line.starts_with([' ', '/', '#', '*', '}']))
        .filter(|line| !line.starts_with("typedef"));
    let mut names: Vec<String> = code
        .filter_map(|line| {
            line.split_once('(')?
                .0
                .rsplit([' ', '*'])
                .next()
                .map(String::from)
        })
        .collect();
    names.sort();
    names
}

#[test]
fn the_shared_library_exports_what_the_header_declares() {
    let symbols = packaging::symbols("libpunctual.so", &["-D"]);
    let exported: Vec<&str> = symbols.iter().map(|(name, _)| name.as_str()).collect();
    assert_eq!(exported, declared());
    assert!(exported.contains(&"punctual_stack_sizes"));
}

/// Opened late, closed early: a thread that has used the library ends after dlclose().
#[test]
fn the_library_may_be_opened_and_closed_at_run_time() {
    let program = Build::PLAIN.compile("tests/c/late.c");
    let names = ["punctual_stack_alloc", "punctual_stack_free"];
    let library = support::libraries().join("libpunctual.so");
    runs(Command::new(program).arg(library).args(names));
}

/// The linker doesn't know that the library must stay loaded, and the C library calls it all the
/// same.
#[test]
fn a_plugin_with_the_static_library_may_be_closed_while_its_threads_live() {
    let program = Build::PLAIN.compile("tests/c/late.c");
    for compiler in ["gcc", "clang"] {
        let plugin = support::work().join(format!("plugin-{compiler}.so"));
        let mut command = Command::new(compiler);
        command.args([
            "-std=c11", "-Wall", "-Werror", "-O1", "-g", "-fPIC", "-shared",
        ]);
        command.arg("-I").arg(support::here().join("include"));
        command.arg(support::here().join("tests/c/plugin.c"));
        command.arg(support::libraries().join("libpunctual.a"));
        command.args(["-lpthread", "-lrt", "-lm", "-ldl", "-o"]);
        succeeds(command.arg(&plugin));
        for debug in ["", "audit,guards,noaccess,leaks"] {
            let mut run = Command::new(&program);
            run.arg(&plugin).args(["plugin_alloc", "plugin_free"]);
            let output = runs(run.env("PUNCTUAL_STACK_DEBUG", debug));
            assert!(output.stderr.is_empty(), "{output:?}");
        }
    }
}

#[test]
fn exhausted_limits_give_enomem_and_eagain() {
    // The kernel enforces the limits, so one build is sufficient.
    runs(&mut Command::new(Build::PLAIN.compile("tests/c/limits.c")));
}

#[test]
fn out_of_memory_is_returned_as_enomem() {
    everywhere("tests/c/memory.c");
}

#[test]
fn the_stack_example_runs() {
    for build in Build::all() {
        let output = runs(&mut Command::new(build.compile("examples/check_stack.c")));
        let text = String::from_utf8_lossy(&output.stdout);
        assert!(text.contains("stack of the library"), "{text}");
        let ours = text.lines().last().expect("a line");
        assert!(ours.ends_with("64 pages, 64 resident, 0 not"), "{text}");
    }
}

/// The faults that the example counts in 1,000 cycles with so many steps; `None` where a step isn't
/// permitted.
#[allow(clippy::print_stderr, reason = "says what was not tried")]
fn faults_of_the_ladder(program: &std::path::Path, steps: &str) -> Option<u64> {
    let output = support::ends(Command::new(program).args([steps, "1000"]));
    if output.status.code() == Some(77) {
        needs::not_permitted(&String::from_utf8_lossy(&output.stderr)).report();
        return None;
    }
    assert!(output.status.success(), "{output:?}");
    let text = String::from_utf8_lossy(&output.stdout);
    let faults = text.strip_prefix("1000 cycles, ").expect("cycles");
    let faults = faults.split(' ').next().expect("faults");
    Some(faults.parse().expect("a number"))
}

#[test]
fn each_step_of_the_ladder_example_runs_and_the_third_ends_its_page_faults() {
    for compiler in ["gcc", "clang"] {
        let program = Build {
            compiler,
            ..Build::PLAIN
        }
        .compile("examples/ladder.c");
        // 1,000 lines of 64 bytes fill 15 pages and a part; the two at the ends may be present.
        for steps in ["0", "1", "2"] {
            let faults = faults_of_the_ladder(&program, steps);
            assert!(faults.is_none_or(|it| it >= 14), "{steps}: {faults:?}");
        }
        for steps in ["3", "4"] {
            let faults = faults_of_the_ladder(&program, steps);
            assert!(faults.is_none_or(|it| it == 0), "{steps}: {faults:?}");
        }
    }
}

/// Runs a real-time example for a second under load; returns its output, or `None` if it isn't
/// permitted.
#[allow(clippy::print_stderr, reason = "says what was not tried")]
fn real_time(build: Build, source: &str) -> Option<String> {
    let mut program = Command::new(build.compile(source));
    let ends = AtomicBool::new(false);
    let output = std::thread::scope(|scope| {
        // The load: memory that is mapped and unmapped.
        scope.spawn(|| {
            while !ends.load(Ordering::Relaxed) {
                let mut block = vec![0_u8; 8 << 20];
                block.iter_mut().step_by(4096).for_each(|byte| *byte = 1);
                std::hint::black_box(&mut block);
            }
        });
        let output = support::ends(program.arg("1"));
        ends.store(true, Ordering::Relaxed);
        output
    });
    if output.status.code() == Some(77) {
        needs::not_permitted(&String::from_utf8_lossy(&output.stderr)).report();
        return None;
    }
    assert!(output.status.success(), "{source}: {output:?}");
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(text.contains(" 0 faults, "), "{text}");
    Some(text)
}

#[test]
fn real_time_examples_take_no_page_fault_under_load() {
    for compiler in ["gcc", "clang"] {
        for language in [C11, CXX17] {
            let build = Build {
                compiler,
                language,
                ..Build::PLAIN
            };
            let source = match language {
                C11 => "examples/control_loop.c",
                _ => "examples/control_loop.cpp",
            };
            if let Some(text) = real_time(build, source) {
                assert!(text.starts_with("1000 cycles, "), "{text}");
            }
        }
        for (language, source) in [(C11, "examples/channel.c"), (CXX17, "examples/channel.cpp")] {
            let build = Build {
                compiler,
                language,
                ..Build::PLAIN
            };
            if let Some(text) = real_time(build, source) {
                assert!(text.starts_with("1000 commands, "), "{text}");
                assert!(text.contains(" 0 refused, 1000 answers, "), "{text}");
            }
        }
        let build = Build {
            compiler,
            linked: Linked::Static,
            ..Build::PLAIN
        };
        if let Some(text) = real_time(build, "examples/injection.c") {
            assert!(text.contains(" injections, "), "{text}");
        }
    }
}

/// The sanitizer causes page faults itself, and uses the address space below the primary stack.
const NO_FAULTS: &str = "-DCHECK_NO_FAULTS_COUNTED";

#[test]
fn address_sanitizer_finds_nothing() {
    // Fake frames would give a stack pointer outside of the stack.
    let more = &[
        "-fsanitize=address",
        "-fsanitize-address-use-after-return=never",
        NO_FAULTS,
    ];
    let clang = Build {
        compiler: "clang",
        more,
        ..Build::PLAIN
    };
    for source in ["basic", "thread", "loop", "ring", "channel"] {
        runs(&mut Command::new(
            clang.compile(&format!("tests/c/{source}.c")),
        ));
    }
    let gcc = Build {
        more: &["-fsanitize=address", NO_FAULTS],
        ..Build::PLAIN
    };
    runs(&mut Command::new(gcc.compile("tests/c/storm.c")));
}

#[test]
fn undefined_behaviour_sanitizer_finds_nothing() {
    let more = &["-fsanitize=undefined", "-fno-sanitize-recover=all"];
    for language in [Build::PLAIN.language, CXX17] {
        let build = Build {
            language,
            more,
            ..Build::PLAIN
        };
        for source in ["basic", "storm", "thread", "loop", "ring", "channel"] {
            runs(&mut Command::new(
                build.compile(&format!("tests/c/{source}.c")),
            ));
        }
    }
}

/// Without a suppression: the library reports happens-before relations to the sanitizer. gcc's
/// needs a larger stack than the small ones of the other tests.
#[test]
fn thread_sanitizer_finds_only_the_programs_own_race() {
    let more = &[
        "-fsanitize=thread",
        NO_FAULTS,
        "-DCHECK_NO_PREFAULT",
        "-DCHECK_NO_THREADS_AFTER_FORK",
        "-DCHECK_NO_WRONG_UNLOCK",
        "-Wno-unused-function",
    ];
    let usual = [
        "loop",
        "ring",
        "channel",
        "start",
        "coroutine",
        "race",
        "detach",
        "condvar",
        "mutex",
    ];
    for (compiler, others) in [("gcc", &[][..]), ("clang", &["basic", "thread"])] {
        for linked in [Linked::Shared, Linked::Static] {
            let build = Build {
                compiler,
                more,
                linked,
                ..Build::PLAIN
            };
            for source in usual.iter().chain(others) {
                let program = build.compile(&format!("tests/c/{source}.c"));
                let mut command = Command::new(&program);
                runs(command.env_remove("TSAN_OPTIONS"));
                if *source == "race" {
                    // Silence alone could also mean that the sanitizer isn't active.
                    let found = support::ends(command.arg("race"));
                    let said = String::from_utf8_lossy(&found.stderr);
                    assert!(said.contains("data race"), "{found:?}");
                }
            }
        }
    }
}
