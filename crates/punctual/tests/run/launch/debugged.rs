//! `--stack-debug`: uses of the stacks of ended threads.

use super::*;

/// A program that was not written with the library.
fn stacks() -> &'static Path {
    static PROGRAM: OnceLock<PathBuf> = OnceLock::new();
    PROGRAM.get_or_init(|| {
        let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("../preload/tests/c/stacks.c");
        let flags = ["-Wall", "-Wextra", "-Werror", "-O0", "-g", "-pthread"];
        compiled("gcc", &source, "stacks", &flags)
    })
}

/// Runs a part of it, and returns its output and the signal that ended it.
fn debugged(flag: &str, part: &str) -> (Option<i32>, String) {
    let output = run(&[flag], &[text(stacks()), part]);
    let code = output.status.code();
    let by = output.status.signal();
    // timeout reports a signal as shells do, or ends by it itself.
    let by = by.or(code.filter(|code| *code > 128).map(|code| code - 128));
    (by, errors(&output))
}

/// The function in the first frame of a trace.
fn first_of<'a>(text: &'a str, kind: &str) -> Option<&'a str> {
    let head = format!("  {kind} by thread ");
    let mut lines = text.lines().skip_while(|line| !line.starts_with(&head));
    let frame = lines.nth(1)?.strip_prefix("    ")?;
    frame.split_once('(')?.1.split('+').next()
}

#[test]
fn stack_debug_finds_uses_of_stacks_of_ended_threads() {
    for part in ["joined", "detached"] {
        assert_eq!(
            debugged("--stack-debug", part),
            (None, String::new()),
            "{part}"
        );
    }
    let (by, said) = debugged("--stack-debug", "late");
    assert_eq!(by, Some(libc::SIGSEGV), "{said}");
    assert!(said.contains(" bytes, which is free\n"), "{said}");
    assert_eq!(first_of(&said, "allocated"), Some("start"), "{said}");
    assert_eq!(first_of(&said, "freed"), Some("join"), "{said}");
    assert_eq!(first_of(&said, "touched"), Some("write_late"), "{said}");

    let (by, said) = debugged("--stack-debug", "overflow");
    assert_eq!(by, Some(libc::SIGSEGV), "{said}");
    assert!(
        said.contains("\n  the thread runs on that stack: a stack overflow\n"),
        "{said}"
    );
    assert_eq!(first_of(&said, "allocated"), Some("start"), "{said}");
    assert_eq!(first_of(&said, "touched"), Some("overflows_here"), "{said}");

    let (by, said) = debugged("--stack-debug=audit,guards", "late");
    assert_eq!(by, None, "{said}");
    assert_eq!(
        said.matches("was written to after it was freed").count(),
        1,
        "{said}"
    );
    assert_eq!(first_of(&said, "freed"), Some("join"), "{said}");

    let (by, said) = debugged("--stack-debug", "leak");
    assert_eq!(by, None, "{said}");
    assert_eq!(
        said.matches(" is in use as a thread's\n").count(),
        1,
        "{said}"
    );
    assert_eq!(first_of(&said, "allocated"), Some("start"), "{said}");
    assert_eq!(
        debugged("--stack-debug=audit", "leak"),
        (None, String::new())
    );
}

#[test]
fn threads_work_as_before_while_their_stacks_are_watched() {
    for part in ["sizes", "detach", "cancel", "storm", "c11", "attributes"] {
        let (_, said) = succeeds(&["--stack-debug"], &[text(threads()), part]);
        assert_eq!(said, "", "{part}");
    }
}
