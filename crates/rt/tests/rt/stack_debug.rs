//! The reports of `PUNCTUAL_STACK_DEBUG` in Rust programs.
//!
//! Each case is a separate process: this file again, with the setting in its environment.
#![allow(unsafe_code, reason = "tests call the C library and unsafe functions")]

use std::env;
use std::hint::black_box;
use std::os::unix::process::ExitStatusExt;
use std::process::{Command, ExitStatus};

use punctual_rt::stack::{self, Class, Stack, StackError};
use punctual_rt::thread::Builder;

const SIZE: usize = 64 << 10;
const CASE: &str = "PUNCTUAL_TEST_CASE";

#[inline(never)]
fn allocated_here() -> Stack {
    let stack = Stack::new(SIZE).unwrap();
    black_box(&stack);
    stack
}

#[inline(never)]
fn dropped_here(stack: Stack) {
    drop(black_box(stack));
    black_box(());
}

#[inline(never)]
fn freed_here(address: usize) -> Result<(), StackError> {
    let class = Class::exact(SIZE).unwrap();
    // SAFETY: nothing uses the stack, if it is one.
    black_box(unsafe { stack::free(address, class) })
}

#[inline(never)]
fn touched_here(address: usize) {
    let place = black_box(address as *mut u8);
    // SAFETY: none, that is the error: the store ends the process.
    unsafe { place.write_volatile(1) };
    black_box(());
}

/// Not a test by itself: the other tests run it in a child process.
#[test]
#[ignore = "run by the others, in a process of its own"]
#[allow(clippy::print_stderr, reason = "tells the one that runs it")]
fn case() {
    let case = env::var(CASE).unwrap_or_default();
    let stack = allocated_here();
    let address = stack.base().as_ptr() as usize;
    match case.as_str() {
        "leak" => std::mem::forget(stack),
        "double" => {
            dropped_here(stack);
            let _ = freed_here(address);
        }
        "inner" => {
            assert_eq!(
                freed_here(address + 8192),
                Err(StackError::NotAStack(address + 8192))
            );
        }
        "touch" => {
            dropped_here(stack);
            touched_here(address);
        }
        // This thread never allocated a stack: for handlers it has the small one from Rust's
        // runtime.
        "elsewhere" => {
            dropped_here(stack);
            let ended = std::thread::spawn(move || touched_here(address)).join();
            ended.unwrap();
        }
        "report" => {
            assert!(stack::debug_report(address + 16, 2));
            assert_eq!(stack::debug_check(2), Ok(0));
            dropped_here(stack);
            // SAFETY: none: a free stack is written to.
            unsafe { (address as *mut u64).write_volatile(1) };
            assert_eq!(stack::debug_check(2), Ok(1));
            assert!(!stack::debug_report(16, 2));
        }
        "runs" => {
            let (sender, receiver) = std::sync::mpsc::channel();
            let started = Builder::new().start(move || {
                let local = 0_u8;
                // SAFETY: gettid has no precondition.
                let thread = unsafe { libc::gettid() };
                sender.send((thread, (&raw const local) as usize)).unwrap();
                std::thread::park();
            });
            let (thread, local) = receiver.recv().unwrap();
            // The kernel reports the stack pointer of a blocked thread.
            while stack::bounds_of(thread).is_err() {
                std::thread::yield_now();
            }
            assert!(stack::debug_report(local, 2));
            eprintln!("expected: thread {thread}");
            std::mem::forget(started.unwrap());
        }
        "unwatched" => assert_eq!(stack::debug_check(2), Err(StackError::GuardsDisabled)),
        "thread" => {
            let started = Builder::new().name("kept").start(|| {
                std::thread::park();
            });
            std::mem::forget(started.unwrap());
        }
        other => panic!("{other}"),
    }
}

fn ran(case: &str, debug: &str) -> (ExitStatus, String) {
    let output = Command::new(env::current_exe().unwrap())
        .args([
            "--exact",
            "stack_debug::case",
            "--ignored",
            "--nocapture",
            "--test-threads=1",
        ])
        .env(CASE, case)
        .env("PUNCTUAL_STACK_DEBUG", debug)
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&output.stderr).into_owned();
    let said = String::from_utf8_lossy(&output.stdout);
    // A name that is misspelt would run no test, with success.
    assert!(said.contains("running 1 test\n"), "{said}{text}");
    assert!(
        !output.status.success() || said.contains(" 1 passed;"),
        "{said}{text}"
    );
    (output.status, text)
}

/// The functions of the first trace of this kind, beginning with the innermost.
#[track_caller]
fn trace<'a>(text: &'a str, kind: &str) -> Vec<&'a str> {
    let head = format!("  {kind} by thread ");
    let mut lines = text.lines().skip_while(|line| !line.starts_with(&head));
    assert!(lines.next().is_some(), "no {kind}: {text}");
    let frames = lines.map_while(|line| line.strip_prefix("    "));
    frames
        .map(|frame| frame.split_once('(').map_or("", |(_, name)| name))
        .collect()
}

#[track_caller]
fn begins(text: &str, kind: &str, functions: &[&str]) {
    let trace = trace(text, kind);
    for (found, wanted) in trace.iter().zip(functions) {
        assert!(found.contains(wanted), "{kind}: {found}: {text}");
    }
    assert!(trace.len() >= functions.len(), "{kind}: {text}");
}

#[test]
fn a_trace_begins_at_the_caller_despite_inlining() {
    let (status, text) = ran("leak", "audit,leaks");
    assert!(status.success(), "{text}");
    begins(&text, "allocated", &["allocated_here", "case"]);
    let (status, text) = ran("double", "audit");
    assert_eq!(status.signal(), Some(libc::SIGABRT), "{text}");
    assert!(text.contains(" was freed twice\n"), "{text}");
    begins(&text, "freed", &["dropped_here", "case"]);
    begins(&text, "found", &["freed_here", "case"]);
}

#[test]
fn a_free_in_the_middle_of_a_stack_is_reported_and_refused() {
    let (status, text) = ran("inner", "audit=3");
    assert!(status.success(), "{text}");
    assert!(
        text.contains(": it is at offset 8192 of the stack at 0x"),
        "{text}"
    );
    begins(&text, "found", &["freed_here", "case"]);
    assert_eq!(trace(&text, "allocated").len(), 3, "{text}");
}

/// Rust's runtime has installed its own handler of SIGSEGV, and the test threads have its small
/// stacks for handlers.
#[test]
fn an_access_to_a_free_stack_is_explained_before_rusts_own_handler_runs() {
    let (status, text) = ran("touch", "audit,noaccess");
    assert_eq!(status.signal(), Some(libc::SIGSEGV), "{text}");
    begins(&text, "allocated", &["allocated_here", "case"]);
    begins(&text, "freed", &["dropped_here", "case"]);
    begins(&text, "touched", &["touched_here", "case"]);
    let (status, text) = ran("elsewhere", "audit,noaccess");
    assert_eq!(status.signal(), Some(libc::SIGSEGV), "{text}");
    begins(&text, "freed", &["dropped_here", "case"]);
    begins(&text, "touched", &["touched_here"]);
}

#[test]
fn reports_and_checks_work_from_rust() {
    let (status, text) = ran("report", "audit,guards");
    assert!(status.success(), "{text}");
    assert!(
        text.contains(" is at offset 16 of the stack at 0x"),
        "{text}"
    );
    assert!(
        text.contains("0x10 is no stack of this allocator: nothing is mapped"),
        "{text}"
    );
    // Once by the check, and once at exit.
    assert_eq!(
        text.matches("after it was freed, at offset 0\n").count(),
        2,
        "{text}"
    );
    let (status, text) = ran("unwatched", "audit");
    assert!(status.success(), "{text}");
}

#[test]
fn a_report_contains_the_thread_that_runs_on_the_stack() {
    let (status, text) = ran("runs", "audit");
    assert!(status.success(), "{text}");
    let expected = text
        .lines()
        .find_map(|line| line.strip_prefix("expected: "));
    let line = format!("\n  {} runs on it\n", expected.expect("a line"));
    assert_eq!(text.matches(&line).count(), 1, "{text}");
    assert!(text.contains(", which is in use as a thread's\n"), "{text}");
    begins(&text, "allocated", &["case"]);
}

#[test]
fn the_allocation_of_a_threads_stack_is_traced_to_its_creator() {
    let (status, text) = ran("thread", "audit,leaks");
    assert!(status.success(), "{text}");
    begins(&text, "allocated", &["case"]);
}
