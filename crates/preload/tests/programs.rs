//! The preloaded library in unchanged programs that are difficult for it.
#![allow(clippy::print_stdout, reason = "a skipped test says so")]

#[path = "../../punctual/tests/common/needs.rs"]
mod needs;

use needs::need;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::OnceLock;

fn work() -> PathBuf {
    let work = Path::new(env!("CARGO_TARGET_TMPDIR")).join("preload");
    fs::create_dir_all(&work).expect("a folder for the tests");
    work
}

/// Runs a command that must succeed.
#[track_caller]
fn succeeds(command: &mut Command) -> Output {
    let output = command.output();
    let output = output.unwrap_or_else(|error| panic!("{command:?}: {error}"));
    let said = String::from_utf8_lossy(&output.stdout);
    let complained = String::from_utf8_lossy(&output.stderr);
    assert!(
        output.status.success(),
        "{command:?}: {}\n{said}{complained}",
        output.status
    );
    output
}

/// The library, built once. The workspace links statically, which a shared library can't do.
fn library() -> &'static Path {
    static BUILT: OnceLock<PathBuf> = OnceLock::new();
    BUILT.get_or_init(|| {
        let triple = format!("{}-unknown-linux-gnu", std::env::consts::ARCH);
        let target = work().join("library");
        let mut cargo = Command::new(env!("CARGO"));
        cargo
            .current_dir(env!("CARGO_MANIFEST_DIR"))
            .env("RUSTFLAGS", "-C target-feature=-crt-static")
            .env_remove("CARGO_ENCODED_RUSTFLAGS")
            .args(["build", "--quiet", "--release"])
            .args(["--package", "punctual-preload", "--target", &triple])
            .arg("--target-dir")
            .arg(&target);
        succeeds(&mut cargo);
        target.join(triple).join("release/libpunctual_preload.so")
    })
}

/// A command with the library preloaded, limited to half a minute.
fn loaded(how: &str, command: &[&str]) -> Command {
    let mut timeout = Command::new("timeout");
    timeout.args(["-s", "KILL", "60"]).args(command);
    timeout
        .env("LD_PRELOAD", library())
        .env("PUNCTUAL_RUN", how);
    timeout
}

#[test]
fn a_malloc_that_starts_threads_does_not_hang() {
    let program = work().join("malloc");
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/c/malloc.c");
    succeeds(
        Command::new("gcc")
            .args(["-Wall", "-Wextra", "-Werror", "-O1", "-g", "-pthread"])
            .arg(source)
            .arg("-o")
            .arg(&program),
    );
    let program = program.to_str().expect("paths of tests are text");
    succeeds(&mut Command::new(program));
    for how in ["stack=wrap", "stack=pool"] {
        let output = succeeds(&mut loaded(how, &[program]));
        let said = String::from_utf8_lossy(&output.stdout);
        assert_eq!(said, "helpers ran\n", "{how}");
    }
}

/// V8 discards pages, which the kernel refuses where memory is locked: docs/run.md says so.
#[test]
fn node_runs_on_our_stacks_and_aborts_with_locked_memory() {
    need!(needs::root());
    need!(needs::program("node"));
    for how in ["stack=wrap", "stack=pool"] {
        let output = succeeds(&mut loaded(how, &["node", "-p", "6 * 7"]));
        assert_eq!(String::from_utf8_lossy(&output.stdout), "42\n", "{how}");
    }
    for how in ["stack=pool,lock", "stack=pool,lock=onfault"] {
        let output = loaded(how, &["node", "-p", "6 * 7"])
            .output()
            .expect("it runs");
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(said.contains("Check failed: 0 == ret"), "{how}: {said}");
    }
}

/// A Java machine adds its own guards to its threads' stacks, and glibc caches such stacks for
/// the next thread.
#[test]
fn a_java_machine_with_its_own_stack_guards_runs() {
    need!(needs::program("java"));
    let source = work().join("Many.java");
    let text = "public class Many {
        public static void main(String[] unused) throws Exception {
            for (int round = 0; round < 50; round++) {
                Thread one = new Thread(() -> { });
                one.start();
                one.join();
            }
            System.out.println(\"done\");
        }
    }";
    fs::write(&source, text).expect("written");
    let source = source.to_str().expect("paths of tests are text");
    for how in ["stack=wrap", "stack=pool"] {
        let mut java = loaded(how, &["java", source]);
        let output = succeeds(java.current_dir(work()));
        assert_eq!(String::from_utf8_lossy(&output.stdout), "done\n", "{how}");
    }
}
