//! The stack tables, read by gdb from core files and from running programs.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::Program;
use crate::needs::{Absent, skip};
use crate::support::{Linked, here, succeeds, work};

static LEAK: Program = Program::new("tests/c/leak.c");

/// The output of gdb for some commands; `None`, with the reason, where gdb is not available.
fn gdb(arguments: &[&str], files: &[&Path]) -> Option<String> {
    let mut command = Command::new("timeout");
    command.args(["-s", "KILL", "120", "gdb", "-nx", "-batch"]);
    command.args(["-ex", "set debuginfod enabled off"]);
    command.env("PUNCTUAL_STACK_DEBUG", "audit");
    command.current_dir(work());
    let output = command.args(arguments).args(files).output();
    let output = output.expect("timeout runs");
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let errors = String::from_utf8_lossy(&output.stderr).into_owned();
    if errors.contains("ptrace: Operation not permitted") {
        Absent::right("ptrace").report();
        return None;
    }
    assert!(!errors.contains("Python Exception"), "{text}{errors}");
    Some(text + &errors)
}

fn there_is() -> bool {
    let asked = Command::new("gdb")
        .args(["-nx", "-batch", "-ex", "python print(6 * 7)"])
        .output();
    let there = asked.is_ok_and(|it| String::from_utf8_lossy(&it.stdout).contains("42"));
    if !there {
        Absent::program("gdb with Python").report();
    }
    there
}

fn script() -> PathBuf {
    here().join("gdb/punctual-stacks.py")
}

fn core_of(program: &Path) -> Option<PathBuf> {
    let core = program.with_extension("core");
    let _ = fs::remove_file(&core);
    let generate = format!("generate-core-file {}", core.display());
    gdb(&["-ex", "run", "-ex", &generate, "-ex", "kill"], &[program])?;
    assert!(core.is_file(), "{}", core.display());
    Some(core)
}

/// The sizes of the stacks of a listing, and its last line.
fn listed(text: &str, last: &str) -> (Vec<usize>, String) {
    let end = text.lines().position(|line| line.starts_with(last));
    let end = end.unwrap_or_else(|| panic!("no {last}: {text}"));
    let lines: Vec<&str> = text.lines().take(end + 1).collect();
    let sizes = lines.iter().filter_map(|line| {
        let (_, rest) = line.strip_prefix("0x")?.split_once(": ")?;
        rest.split_once(" bytes, ")?.0.parse().ok()
    });
    let mut sizes: Vec<usize> = sizes.collect();
    sizes.sort_unstable();
    (sizes, (*lines.last().expect("a line")).to_owned())
}

const KB: usize = 1024;
const IN_USE: [usize; 8] = [
    32 * KB,
    32 * KB,
    32 * KB,
    32 * KB,
    64 * KB,
    64 * KB,
    128 * KB,
    256 * KB,
];
/// One lost stack without a pointer to it, and two that point only to each other.
const LOST: [usize; 3] = [64 * KB, 64 * KB, 128 * KB];

#[track_caller]
fn finds_the_lost_ones(text: &str) {
    let (sizes, last) = listed(text, "leaked stacks: ");
    assert_eq!(sizes, LOST, "{text}");
    assert!(last.starts_with("leaked stacks: 3 of 8 in use; "), "{text}");
}

#[test]
fn gdb_lists_the_stacks_of_a_core_file_and_finds_the_lost_ones() {
    if !there_is() {
        return;
    }
    for linked in [Linked::Shared, Linked::Static] {
        let program = LEAK.linked(linked);
        let Some(core) = core_of(&program) else {
            return;
        };
        let script = script();
        let script = script.to_str().expect("a path");
        let asked = |program: &Path, command: &str| {
            gdb(&["-x", script, "-ex", command], &[program, &core]).expect("reads files alone")
        };
        let text = asked(&program, "punctual-stacks");
        let (sizes, last) = listed(&text, "stacks in use: ");
        assert_eq!(sizes, IN_USE, "{text}");
        assert_eq!(last, "stacks in use: 8");
        assert_eq!(
            text.matches("262144 bytes, in use as a thread's\n").count(),
            1
        );
        assert_eq!(text.matches(" runs on it\n").count(), 1, "{text}");
        assert!(!text.contains("punctual_"), "{text}");
        let text = asked(&program, "punctual-stacks -a");
        let (sizes, _) = listed(&text, "stacks: 9");
        assert_eq!(sizes.len(), 9, "{text}");
        // Only the freed stack has both traces.
        assert_eq!(text.matches("  freed by thread ").count(), 1, "{text}");
        let text = asked(&program, "punctual-findleaks");
        finds_the_lost_ones(&text);
        for (function, times) in [(" lose (", 1), (" lose_two (", 2), (" keep", 0)] {
            assert_eq!(text.matches(function).count(), times, "{text}");
        }
        assert!(asked(&program, "punctual-stacks all").contains("expected nothing, or -a"));

        // The tables are found without symbols.
        let stripped = work().join("leak-stripped");
        succeeds(Command::new("strip").arg(&program).arg("-o").arg(&stripped));
        finds_the_lost_ones(&asked(&stripped, "punctual-findleaks"));
    }
}

/// A core file of the kernel, complete and truncated, as on a full disk.
#[test]
fn a_core_file_of_the_kernel_is_read_and_a_truncated_one_is_reported() {
    if !there_is() {
        return;
    }
    let folder = work().join("kernel's core");
    let _ = fs::remove_dir_all(&folder);
    fs::create_dir_all(&folder).expect("a folder");
    let program = LEAK.linked(Linked::Shared);
    let mut shell = Command::new("sh");
    shell
        .args(["-c", "ulimit -c unlimited && exec \"$0\""])
        .arg(&program);
    shell.env("PUNCTUAL_STACK_DEBUG", "audit");
    let ended = shell.current_dir(&folder).status().expect("sh runs");
    assert!(!ended.success());
    let found = fs::read_dir(&folder).expect("a folder").next();
    let Some(Ok(core)) = found else {
        skip!(Absent::kernel(
            "core files in the program's folder (core_pattern)"
        ));
    };
    let script = script();
    let asked = |core: &Path| {
        let script = script.to_str().expect("a path");
        let arguments = ["-x", script, "-ex", "punctual-findleaks"];
        gdb(&arguments, &[&program, core]).expect("reads files alone")
    };
    let text = asked(&core.path());
    finds_the_lost_ones(&text);
    assert!(!text.contains("is cut"), "{text}");
    let whole = fs::read(core.path()).expect("the core file");
    let short = folder.join("short");
    // The primary thread's stack is at the end.
    fs::write(&short, &whole[..whole.len() - 6000]).expect("written");
    let text = asked(&short);
    assert!(
        text.contains("not searched, for the core file is cut: 0x"),
        "{text}"
    );
}

#[test]
fn gdb_lists_the_same_stacks_in_a_running_program() {
    if !there_is() {
        return;
    }
    let program = LEAK.linked(Linked::Shared);
    let script = script();
    let script = script.to_str().expect("a path");
    let find = ["-x", script, "-ex", "run", "-ex", "punctual-findleaks"];
    let Some(text) = gdb(&[&find[..], &["-ex", "kill"]].concat(), &[&program]) else {
        return;
    };
    finds_the_lost_ones(&text);
    // A program without the library has no tables.
    let text = gdb(
        &["-x", script, "-ex", "punctual-stacks"],
        &[Path::new("/bin/true")],
    );
    let text = text.expect("reads a file alone");
    assert!(text.contains("no section punctual_stacks"), "{text}");
}
