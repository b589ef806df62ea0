//! The C tests, compiled by both compilers as both languages with either library.

mod cost;
mod debugging;
mod documents;
mod linking;
mod packaging;
mod support;

use std::fs;
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use support::{Build, C11, CXX17, Linked, runs, succeeds};

/// What a program says on standard error is what it could not try here.
#[allow(clippy::print_stderr, reason = "says what was not tried")]
fn everywhere(source: &str) {
    for build in Build::all() {
        let output = runs(&mut Command::new(build.compile(source)));
        for line in String::from_utf8_lossy(&output.stderr).lines() {
            eprintln!("SKIPPED: {line}");
        }
    }
}

#[test]
fn basic() {
    everywhere("tests/c/basic.c");
}

#[test]
fn isolation() {
    everywhere("tests/c/isolation.c");
}

#[test]
fn guards() {
    everywhere("tests/c/guard.c");
}

#[test]
fn storms() {
    everywhere("tests/c/storm.c");
}

#[test]
fn threads() {
    everywhere("tests/c/thread.c");
}

#[test]
fn detached_threads_give_their_stacks_back() {
    everywhere("tests/c/detach.c");
}

#[test]
fn a_condition_variable_loses_no_notification() {
    everywhere("tests/c/condvar.c");
}

#[test]
fn mutexes_are_locked_until_an_instant_and_outlive_their_holder() {
    everywhere("tests/c/mutex.c");
}

/// A program that never ends is a failure with its name and what it said.
#[test]
fn a_program_that_hangs_is_ended_and_told_of() {
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
    // One that ends is waited for, whatever it answers.
    let quick = support::ends_within(&mut Command::new("false"), Duration::from_secs(60));
    assert_eq!(quick.expect("it ends").status.code(), Some(1));
}

#[test]
fn a_cancelled_thread_finishes_the_call_that_it_is_in() {
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
fn threads_start_at_their_own_priority_and_take_no_signals() {
    everywhere("tests/c/start.c");
}

#[test]
fn every_failure_has_its_words() {
    everywhere("tests/c/words.c");
}

#[test]
fn a_child_of_a_fork_does_not_wait_for_what_is_its_parents() {
    everywhere("tests/c/inherited.c");
}

#[test]
fn coroutines_stand_on_their_own_stacks() {
    everywhere("tests/c/coroutine.c");
}

#[test]
fn a_fork_leaves_the_parent_its_stacks() {
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

/// Opened late, closed early: a thread that has used the library ends after that.
#[test]
fn opened_at_run_time() {
    let program = Build::PLAIN.compile("tests/c/late.c");
    let names = ["punctual_stack_alloc", "punctual_stack_free"];
    let library = support::libraries().join("libpunctual.so");
    runs(Command::new(program).arg(library).args(names));
}

/// Nobody told the linker that the library is to stay, and the C library calls it all the same.
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
fn limits() {
    // The limits are the kernel's: one build tells what all would.
    runs(&mut Command::new(Build::PLAIN.compile("tests/c/limits.c")));
}

#[test]
fn out_of_memory_is_an_answer() {
    everywhere("tests/c/memory.c");
}

#[test]
fn examples() {
    for build in Build::all() {
        let output = runs(&mut Command::new(build.compile("examples/check_stack.c")));
        let text = String::from_utf8_lossy(&output.stdout);
        assert!(text.contains("stack of the library"), "{text}");
        let ours = text.lines().last().expect("a line");
        assert!(ours.ends_with("64 pages, 64 resident, 0 not"), "{text}");
    }
}

/// Runs a real-time example for a second beside a load; what it printed, unless it may not run here.
#[allow(clippy::print_stderr, reason = "says what was not tried")]
fn real_time(build: Build, source: &str) -> Option<String> {
    let mut program = Command::new(build.compile(source));
    let ends = AtomicBool::new(false);
    let output = std::thread::scope(|scope| {
        // A load beside it: memory that comes and goes.
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
        let reason = String::from_utf8_lossy(&output.stderr).replace('\n', " ");
        eprintln!("SKIPPED: {source}: {reason}");
        return None;
    }
    assert!(output.status.success(), "{source}: {output:?}");
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(text.contains(" 0 faults, "), "{text}");
    Some(text)
}

#[test]
fn real_time_examples_take_no_fault() {
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

/// Page faults are the sanitizer's too, and address space below the primary stack is taken.
const NO_FAULTS: &str = "-DCHECK_NO_FAULTS_COUNTED";

#[test]
fn address_sanitizer() {
    // Fake frames would make a thread seem to stand elsewhere.
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
    for source in ["basic", "thread", "loop", "ring"] {
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
fn undefined_behaviour_sanitizer() {
    let more = &["-fsanitize=undefined", "-fno-sanitize-recover=all"];
    for language in [Build::PLAIN.language, CXX17] {
        let build = Build {
            language,
            more,
            ..Build::PLAIN
        };
        for source in ["basic", "storm", "thread", "loop", "ring"] {
            runs(&mut Command::new(
                build.compile(&format!("tests/c/{source}.c")),
            ));
        }
    }
}

/// Without a suppression: the library tells the sanitizer what happens before what. gcc's wants
/// more of a thread's stack than the small ones that the others ask for.
#[test]
fn thread_sanitizer() {
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
                    // It isn't quiet for being asleep.
                    let found = support::ends(command.arg("race"));
                    let said = String::from_utf8_lossy(&found.stderr);
                    assert!(said.contains("data race"), "{found:?}");
                }
            }
        }
    }
}
