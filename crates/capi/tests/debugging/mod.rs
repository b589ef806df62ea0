//! `PUNCTUAL_STACK_DEBUG`: detected errors and their reports.

mod debugger;
mod hostile;

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::PathBuf;
use std::process::{Command, ExitStatus};
use std::sync::OnceLock;

use crate::support::{self, Build, Linked, succeeds};

/// A C test program, compiled once with either library; without -rdynamic, because names come
/// from the files.
pub struct Program {
    source: &'static str,
    compiled: [OnceLock<PathBuf>; 2],
}

impl Program {
    pub const fn new(source: &'static str) -> Self {
        Self {
            source,
            compiled: [OnceLock::new(), OnceLock::new()],
        }
    }

    pub fn linked(&self, linked: Linked) -> PathBuf {
        let build = Build {
            more: &["-O0", "-fno-omit-frame-pointer"],
            linked,
            ..Build::PLAIN
        };
        self.compiled[usize::from(linked == Linked::Static)]
            .get_or_init(|| build.compile(self.source))
            .clone()
    }
}

static WRONG: Program = Program::new("tests/c/wrong.c");

/// How a program with a debug setting ended, and its output.
fn ran(program: &PathBuf, what: &str, debug: &str) -> (ExitStatus, String) {
    let mut command = Command::new(program);
    let output = support::ends(command.arg(what).env("PUNCTUAL_STACK_DEBUG", debug));
    let text = String::from_utf8_lossy(&output.stderr).into_owned();
    (output.status, text)
}

fn wrong(what: &str, debug: &str) -> (ExitStatus, String) {
    ran(&WRONG.linked(Linked::Static), what, debug)
}

/// The functions of each `… by thread N at` trace of a text, beginning with the innermost.
fn traces(text: &str, kind: &str) -> Vec<Vec<String>> {
    let head = format!("  {kind} by thread ");
    let mut found: Vec<Vec<String>> = Vec::new();
    let mut within = false;
    for line in text.lines() {
        if let Some(frame) = line.strip_prefix("    ") {
            if within && let Some(last) = found.last_mut() {
                let name = frame.rsplit_once('(').map_or("", |(_, name)| name);
                let name = name.split('+').next().unwrap_or_default();
                last.push(name.to_owned());
            }
            continue;
        }
        within = line.starts_with(&head);
        if within {
            found.push(Vec::new());
        }
    }
    found
}

/// Asserts the first functions of the only trace of its kind.
#[track_caller]
fn begins(text: &str, kind: &str, functions: &[&str]) {
    let traces = traces(text, kind);
    assert_eq!(traces.len(), 1, "{kind}: {text}");
    assert!(traces[0].len() >= functions.len(), "{kind}: {text}");
    assert_eq!(traces[0][..functions.len()], *functions, "{kind}: {text}");
}

#[test]
fn each_setting_detects_its_errors_and_traces_begin_at_the_caller() {
    for linked in [Linked::Static, Linked::Shared] {
        let program = &WRONG.linked(linked);
        for debug in [
            "",
            "audit",
            "guards",
            "guard",
            "noaccess",
            "leaks",
            "audit=64,guards,noaccess,leaks",
        ] {
            let (status, text) = ran(program, "nothing", debug);
            assert!(status.success() && text.is_empty(), "{debug}: {text}");
        }
        for what in ["double", "class"] {
            let (status, text) = ran(program, what, "");
            assert!(status.success() && text.is_empty(), "{what}: {text}");
            let (status, text) = ran(program, what, "audit=20");
            assert_eq!(status.signal(), Some(libc::SIGABRT), "{text}");
            begins(&text, "allocated", &["allocated_here", "main"]);
            begins(&text, "found", &["main"]);
            if what == "double" {
                begins(&text, "freed", &["freed_here", "main"]);
                assert!(text.contains("of 65536 bytes was freed twice\n"), "{text}");
            } else {
                assert!(traces(&text, "freed").is_empty(), "{text}");
            }
        }
        let (status, text) = ran(program, "leak", "leaks,audit=1");
        assert!(status.success(), "{text}");
        assert!(text.contains("of 65536 bytes is in use\n"), "{text}");
        assert_eq!(traces(&text, "allocated"), [["allocated_here"]]);
        let (status, text) = ran(program, "water", "guards");
        assert!(status.success() && text.is_empty(), "{text}");
    }
}

#[test]
fn an_unknown_setting_is_reported_with_the_known_ones() {
    let (status, text) = wrong("nothing", "audit,gaurds");
    assert!(status.success());
    assert_eq!(
        text,
        "punctual: PUNCTUAL_STACK_DEBUG is ignored: gaurds is not one of audit, audit=0..64, \
         guards, noaccess, leaks\n"
    );
    let (_, text) = wrong("nothing", "a\u{1b}[2J\nb");
    assert!(text.contains(" a?[2J?b is not one of"), "{text}");
    assert_eq!(text.lines().count(), 1, "{text}");
}

#[test]
fn a_write_to_a_free_stack_is_found_at_its_next_use_at_a_trim_and_at_exit() {
    for (what, ends) in [
        ("write", Some(libc::SIGABRT)),
        ("trim", Some(libc::SIGABRT)),
        ("exit", None),
    ] {
        let (status, text) = wrong(what, "guards,audit");
        assert_eq!(status.signal(), ends, "{text}");
        assert!(
            text.contains("bytes was written to after it was freed, at offset 4656\n"),
            "{text}"
        );
        assert_eq!(text.matches("punctual: ").count(), 1, "{text}");
        begins(&text, "freed", &["freed_here", "main"]);
        let (status, text) = wrong(what, "audit");
        assert!(status.success() && text.is_empty(), "{what}: {text}");
    }
}

#[test]
fn a_check_counts_the_free_stacks_that_were_written_to() {
    for debug in ["guards,audit", "guards"] {
        let (status, text) = wrong("guards", debug);
        assert!(status.success(), "{text}");
        // By two checks, and at exit.
        assert_eq!(text.matches("at offset 65528\n").count(), 3, "{text}");
        assert_eq!(text.matches("at offset 0\n").count(), 2, "{text}");
    }
    for debug in ["", "audit,noaccess"] {
        let (status, text) = wrong("unwatched", debug);
        assert!(status.success() && text.is_empty(), "{text}");
    }
}

#[test]
fn freeing_an_address_that_is_no_stack_fails_and_describes_it() {
    let (status, text) = wrong("frees", "");
    assert!(status.success() && text.is_empty(), "{text}");
    let (status, text) = wrong("frees", "audit=9");
    assert!(status.success(), "{text}");
    let heads: Vec<&str> = text
        .lines()
        .filter_map(|line| {
            line.strip_prefix("punctual: ")?
                .split_once(" was freed as ")
        })
        .map(|(_, rest)| rest)
        .collect();
    let expected = [
        (
            "a stack of 65536 bytes: it is at offset 4096 of the stack at 0x",
            "in use",
        ),
        (
            "a stack of 65536 bytes: it is in the guard below the stack at 0x",
            "in use",
        ),
        (
            "a stack of 32768 bytes: it is at offset 24 of the stack at 0x",
            "in use",
        ),
        (
            "a stack of 65536 bytes: it is no stack of this allocator: it is in /",
            "wrong",
        ),
        (
            "a stack of 65536 bytes: it is no stack of this allocator: it is on the stack that the caller",
            "on",
        ),
        (
            "a stack of 65536 bytes: it is no stack of this allocator: nothing is mapped",
            "there",
        ),
        (
            "a stack of 65536 bytes: it is no stack of this allocator: nothing is mapped",
            "there",
        ),
        (
            "a stack of 65537 bytes: it is at offset 0 of the stack at 0x",
            "in use",
        ),
        (
            "a stack of 65536 bytes: it is at offset 8192 of the stack at 0x",
            "free",
        ),
    ];
    assert_eq!(heads.len(), expected.len(), "{text}");
    for (head, (begins, has)) in heads.iter().zip(expected) {
        assert!(head.starts_with(begins) && head.contains(has), "{head}");
    }
    assert_eq!(traces(&text, "allocated").len(), 5, "{text}");
    assert_eq!(traces(&text, "freed").len(), 1, "{text}");
    assert!(
        traces(&text, "found")
            .iter()
            .all(|trace| trace[..2] == ["wrong_frees", "main"])
    );
}

/// Reports the stack and the accessing thread; then the signal takes its normal course.
#[test]
fn an_access_to_a_freed_stack_is_explained_and_ends_by_sigsegv() {
    for (what, touched) in [
        ("write", ["touched_here", "main"]),
        ("thread", ["touched_here", "touches"]),
    ] {
        let (status, text) = wrong(what, "noaccess,audit");
        assert_eq!(status.signal(), Some(libc::SIGSEGV), "{text}");
        assert!(text.contains("at offset 4660 of the stack at 0x"), "{text}");
        assert!(text.contains(", which is free\n"), "{text}");
        begins(&text, "allocated", &["allocated_here", "main"]);
        begins(&text, "freed", &["freed_here", "main"]);
        begins(&text, "touched", &touched);
    }
    let (status, text) = wrong("write", "noaccess");
    assert_eq!(status.signal(), Some(libc::SIGSEGV));
    assert_eq!(traces(&text, "touched"), [["touched_here"]], "{text}");
    assert_eq!(text.lines().count(), 3, "{text}");

    // Its own stack pointer is on the stack that it accessed.
    let (status, text) = wrong("below", "noaccess,audit");
    assert_eq!(status.signal(), Some(libc::SIGSEGV), "{text}");
    begins(&text, "freed", &["freed_here", "free_below_itself"]);
    assert_eq!(traces(&text, "touched")[0].len(), 1, "{text}");

    let (status, text) = wrong("overflow", "noaccess,audit");
    assert_eq!(status.signal(), Some(libc::SIGSEGV), "{text}");
    assert!(
        text.contains(", in the guard below the stack at 0x"),
        "{text}"
    );

    // Not an address of ours.
    for what in ["sent", "other"] {
        let (status, text) = wrong(what, "noaccess,audit");
        assert_eq!(status.signal(), Some(libc::SIGSEGV));
        assert_eq!(text, "", "{what}");
    }
}

#[test]
fn the_programs_own_handlers_of_sigsegv_are_still_called() {
    for what in ["before", "before-once", "before-jump"] {
        let (status, text) = wrong(what, "noaccess,audit");
        assert_eq!(status.code(), Some(42), "{what}: {text}");
        let touches = if what == "before-jump" { 2 } else { 1 };
        assert_eq!(traces(&text, "touched").len(), touches, "{text}");
    }
    // A handler that is installed later replaces ours, and can request a report.
    let (status, text) = wrong("after", "noaccess,audit");
    assert_eq!(status.code(), Some(42), "{text}");
    assert!(
        text.contains("is at offset 4660 of the stack at 0x"),
        "{text}"
    );
    begins(&text, "freed", &["freed_here", "main"]);
    for what in ["before-sent", "before-ignored"] {
        let (status, text) = wrong(what, "noaccess");
        assert_eq!((status.code(), text.as_str()), (Some(42), ""), "{what}");
    }
}

#[test]
fn a_report_contains_everything_known_of_an_address() {
    let (status, text) = wrong("report", "guards,audit");
    assert!(status.success(), "{text}");
    for (said, times) in [
        (" is at offset 100 of the stack at 0x", 1),
        (" is in the guard below the stack at 0x", 1),
        (" is in the guard above the stack at 0x", 1),
        (" of 65536 bytes, which is in use\n", 3),
        ("  high water: 5000 bytes since it was allocated\n", 3),
        (" of 65536 bytes, which is free\n", 1),
        ("  writes since it was freed: none\n", 1),
        ("  high water of all who freed it: 5000 bytes\n", 2),
        (
            " is no stack of this allocator: it is on the stack that the caller runs on\n",
            1,
        ),
        (
            " is no stack of this allocator: nothing is mapped there\n",
            1,
        ),
        (", which was returned to the kernel\n", 1),
    ] {
        assert_eq!(text.matches(said).count(), times, "{said}: {text}");
    }
    assert_eq!(traces(&text, "allocated").len(), 5, "{text}");
    assert_eq!(traces(&text, "freed").len(), 2, "{text}");
    let (status, text) = wrong("report", "");
    assert!(status.success(), "{text}");
    assert!(
        text.contains("high water: 5000 bytes since it was created"),
        "{text}"
    );
    assert_eq!(
        text.matches("PUNCTUAL_STACK_DEBUG=audit records it")
            .count(),
        5,
        "{text}"
    );
    assert_eq!(text.matches("not detected: ").count(), 1, "{text}");
}

/// Without symbols the addresses are still printed, and a deleted file is still read.
#[test]
fn a_stripped_program_has_addresses_and_a_replaced_one_has_names() {
    let program = support::work().join("wrong-stripped");
    let original = WRONG.linked(Linked::Shared);
    succeeds(Command::new("strip").arg(&original).arg("-o").arg(&program));
    let (_, text) = ran(&program, "double", "audit");
    assert!(!text.contains("freed_here"), "{text}");
    let line = text.lines().find(|line| line.contains("wrong-stripped("));
    let line = line.expect("a frame of the program");
    assert!(line.contains("(+0x") && line.ends_with(']'), "{line}");
    assert_eq!(traces(&text, "freed").len(), 1, "{text}");
    // File addresses, for addr2line.
    let offset = line
        .split_once("(+")
        .and_then(|(_, rest)| rest.split_once(')'));
    let output = succeeds(
        Command::new("addr2line")
            .args(["-f", "-e"])
            .arg(&original)
            .arg(offset.expect("an offset").0),
    );
    assert!(String::from_utf8_lossy(&output.stdout).starts_with("allocated_here\n"));

    // The library's names are stripped too: none of its frames is taken for the caller's.
    let original_static = WRONG.linked(Linked::Static);
    succeeds(
        Command::new("strip")
            .arg(&original_static)
            .arg("-o")
            .arg(&program),
    );
    let (_, text) = ran(&program, "double", "audit=1");
    let offsets = text
        .lines()
        .skip_while(|line| !line.starts_with("  allocated by"))
        .skip(1)
        .map_while(|line| line.strip_prefix("    "))
        .filter_map(|line| Some(line.split_once("(+")?.1.split_once(')')?.0));
    let mut named = Command::new("addr2line");
    named.args(["-f", "-e"]).arg(&original_static).args(offsets);
    let named = String::from_utf8_lossy(&succeeds(&mut named).stdout).into_owned();
    assert!(named.contains("\nallocated_here\n"), "{named}{text}");

    let replaced = support::work().join("wrong-replaced");
    // It leaves another file in its place.
    let mut copy = Command::new("cp");
    succeeds(
        copy.arg("--remove-destination")
            .args([&original, &replaced]),
    );
    let (status, text) = ran(&replaced, "replaced", "audit=2");
    assert_eq!(status.signal(), Some(libc::SIGABRT), "{text}");
    assert!(
        text.contains("/wrong-replaced (deleted)(freed_here+0x"),
        "{text}"
    );
    begins(&text, "allocated", &["allocated_here", "main"]);
    begins(&text, "freed", &["freed_here", "main"]);
}

/// A program with more privileges than its caller ignores the environment.
#[test]
fn settings_from_a_less_privileged_user_are_ignored() {
    crate::needs::need!(crate::needs::root());
    let program = std::env::temp_dir().join(format!("punctual-set-uid-{}", std::process::id()));
    // Written by another process: a file that this process has open for writing is inherited for
    // a moment by children of other tests, and can't be executed meanwhile.
    let original = WRONG.linked(Linked::Static);
    succeeds(Command::new("cp").arg(original).arg(&program));
    let run = |mode| {
        fs::set_permissions(&program, fs::Permissions::from_mode(mode)).expect("permissions");
        let mut command = Command::new(&program);
        command
            .arg("double")
            .env("PUNCTUAL_STACK_DEBUG", "audit")
            .uid(65534)
            .gid(65534);
        support::ends(&mut command).status.success()
    };
    let (usual, set_uid) = (run(0o755), run(0o4755));
    fs::remove_file(&program).expect("removed");
    assert!(!usual, "without more rights the double free aborts");
    assert!(set_uid);
}
