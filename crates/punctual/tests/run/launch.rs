//! `punctual run`: programs of all kinds, unchanged, on the tool's stacks.

mod debugged;

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::OnceLock;

use crate::common::groups::{Group, join};
use crate::common::needs::{self, Absent};
use crate::common::{is_root, need};

fn work() -> &'static Path {
    static WORK: OnceLock<PathBuf> = OnceLock::new();
    WORK.get_or_init(|| {
        let work = Path::new(env!("CARGO_TARGET_TMPDIR")).join("launch");
        fs::create_dir_all(&work).expect("a folder for the tests");
        work
    })
}

fn compiled(compiler: &str, source: &Path, name: &str, flags: &[&str]) -> PathBuf {
    let program = work().join(name);
    let output = Command::new(compiler)
        .args(flags)
        .arg(source)
        .arg("-o")
        .arg(&program)
        .output()
        .unwrap_or_else(|error| panic!("{compiler}: {error}"));
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{compiler}: {errors}");
    program
}

fn small(name: &str, text: &str) -> PathBuf {
    let path = work().join(name);
    fs::write(&path, text).expect("written");
    path
}

/// A C program that uses threads; an argument selects its part.
fn threads() -> &'static Path {
    static PROGRAM: OnceLock<PathBuf> = OnceLock::new();
    PROGRAM.get_or_init(|| {
        let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("../preload/tests/c/threads.c");
        let flags = ["-Wall", "-Wextra", "-Werror", "-O1", "-g", "-pthread"];
        compiled("gcc", &source, "threads", &flags)
    })
}

fn exits_with_3(name: &str, flags: &[&str]) -> PathBuf {
    let source = small(&format!("{name}.c"), "int main(void) { return 3; }\n");
    compiled("gcc", &source, name, flags)
}

/// `punctual run FLAGS -- COMMAND`, for at most a minute.
fn run(flags: &[&str], command: &[&str]) -> Output {
    Command::new("timeout")
        .args(["-s", "KILL", "60", env!("CARGO_BIN_EXE_punctual"), "run"])
        .args(flags)
        .arg("--")
        .args(command)
        .output()
        .expect("timeout runs")
}

fn text(path: &Path) -> &str {
    path.to_str().expect("paths of tests are text")
}

fn errors(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

#[track_caller]
fn succeeds(flags: &[&str], command: &[&str]) -> (String, String) {
    let output = run(flags, command);
    let (said, complained) = (
        String::from_utf8_lossy(&output.stdout).into_owned(),
        errors(&output),
    );
    assert!(
        output.status.success(),
        "{flags:?} {command:?}: {}\n{said}{complained}",
        output.status
    );
    (said, complained)
}

#[track_caller]
fn refused(flags: &[&str], command: &[&str], status: i32, words: &str) {
    let output = run(flags, command);
    let complained = errors(&output);
    assert_eq!(
        output.status.code(),
        Some(status),
        "{command:?}: {complained}"
    );
    assert_eq!(complained.lines().count(), 1, "{complained}");
    assert!(complained.contains(words), "{complained}");
}

fn faults(text: &str) -> Vec<i64> {
    text.split_whitespace()
        .filter_map(|word| word.parse().ok())
        .collect()
}

#[test]
fn a_thread_that_touches_200_kb_takes_no_page_fault() {
    let program = text(threads());
    let plain = Command::new(program).arg("faults").output().expect("runs");
    let plain = faults(&String::from_utf8_lossy(&plain.stdout));
    assert!(plain.iter().all(|&count| count >= 40), "{plain:?}");
    for flags in [
        &["--stack", "pool"][..],
        &["--stack", "wrap"],
        &["--stack", "pool", "--lock"],
        &["--stack", "wrap", "--lock"],
        &["--stack-size", "256K"],
    ] {
        if flags.contains(&"--lock") && !is_root() {
            Absent::Root.report();
            continue;
        }
        let (said, _) = succeeds(flags, &[program, "faults"]);
        assert_eq!(faults(&said), [0, 0], "{flags:?}");
    }
}

#[test]
fn programs_use_threads_as_without_the_library() {
    for stack in ["none", "wrap", "pool"] {
        for part in ["sizes", "detach", "cancel", "storm", "c11", "attributes"] {
            succeeds(&["--stack", stack], &[text(threads()), part]);
        }
    }
}

#[test]
fn stacks_are_reused_also_those_of_detached_threads() {
    let (_, told) = succeeds(&["-v"], &[text(threads()), "detach"]);
    let numbers = faults(&told.replace(['(', ',', ':'], " "));
    let (threads, made) = (numbers[1], numbers[2]);
    assert_eq!(threads, 602, "{told}");
    assert!(made < 100, "{told}");
}

#[test]
fn threads_that_request_more_than_the_largest_class_keep_their_own_stack() {
    let (said, told) = succeeds(&["-v"], &[text(threads()), "sizes"]);
    assert!(said.contains("size 67108864 faults 0"), "{said}");
    assert!(said.contains("default size 2097152"), "{said}");
    assert!(told.contains("on their own stacks 6 prefaulted"), "{told}");
}

#[test]
fn an_overflow_ends_at_the_guard() {
    for stack in ["wrap", "pool"] {
        let output = run(&["--stack", stack], &[text(threads()), "overflow"]);
        // timeout reports a signal as shells do, or ends by it itself.
        let ended = output
            .status
            .signal()
            .or(output.status.code().map(|code| code - 128));
        assert_eq!(ended, Some(libc::SIGSEGV), "{stack}");
    }
}

#[test]
fn rust_threads_find_their_guard() {
    let source = small(
        "rust.rs",
        "fn deep(n: u64) -> u64 {
             let frame = [n; 512];
             if n == 0 { 0 } else { std::hint::black_box(&frame)[3] + deep(n - 1) }
         }
         fn main() {
             for _ in 0..20 {
                 let all: Vec<_> =
                     (0..8).map(|i| std::thread::spawn(move || i * 2)).collect();
                 let sum: i32 = all.into_iter().map(|one| one.join().unwrap()).sum();
                 assert_eq!(sum, 56);
             }
             if std::env::args().nth(1).is_some() {
                 std::thread::spawn(|| deep(1_000_000)).join().unwrap();
             }
         }",
    );
    let program = compiled("rustc", &source, "rust", &["-O"]);
    let (_, told) = succeeds(&["-v"], &[text(&program)]);
    assert!(told.contains("pool 160 "), "{told}");
    let output = run(&[], &[text(&program), "overflow"]);
    let complained = errors(&output);
    assert!(
        complained.contains("has overflowed its stack"),
        "{complained}"
    );
}

#[test]
fn interpreters_and_their_children_run_on_pooled_stacks() {
    let script = "import threading, subprocess
all = [threading.Thread(target=lambda: sum(range(1000))) for _ in range(20)]
[one.start() for one in all]
[one.join() for one in all]
child = subprocess.run(['/bin/echo', 'child'], capture_output=True)
assert child.stdout == b'child\\n' and child.stderr == b'', child";
    let python = "/usr/bin/python3";
    if Path::new(python).exists() {
        let (_, told) = succeeds(&["-v"], &[python, "-c", script]);
        assert!(told.contains("pool 20 "), "{told}");
    } else {
        Absent::program(python).report();
    }
    let script = small("script", "#!/bin/sh\nexec \"$@\"\n");
    fs::set_permissions(&script, fs::Permissions::from_mode(0o755)).expect("executable");
    let (said, _) = succeeds(&[], &[text(&script), text(threads()), "faults"]);
    assert_eq!(faults(&said), [0, 0], "through a script");
}

/// 300 threads of 2 MB each where there is room for less than 100: at its limit the group would kill the
/// program.
#[test]
fn a_stack_that_the_control_group_has_no_memory_for_is_refused() {
    need!(needs::root());
    need!(needs::program("python3"));
    let limit = "memory.limit_in_bytes";
    need!(needs::kernel_file(&format!(
        "/sys/fs/cgroup/memory/{limit}"
    )));
    let id = std::process::id();
    let group = Group(format!("/sys/fs/cgroup/memory/punctual-launch-{id}").into());
    fs::create_dir(&group.0).expect("a group");
    fs::write(group.0.join(limit), "200M").expect("a limit");
    let script = "import threading\nend = threading.Event()\nbegun = 0\ntry:\n    for _ in range(300):\n        \
                  threading.Thread(target=end.wait).start()\n        begun += 1\nexcept RuntimeError as \
                  error:\n    print(error)\nend.set()\nprint(begun)\n";
    let mut command = Command::new(env!("CARGO_BIN_EXE_punctual"));
    command.args(["run", "--", "python3", "-c", script]);
    join(&mut command, &group.0);
    let output = command.output().expect("it runs");
    assert!(output.status.success(), "{output:?}");
    let said = String::from_utf8_lossy(&output.stdout);
    let begun = said
        .strip_prefix("can't start new thread\n")
        .expect("refused");
    let begun: u32 = begun.trim().parse().expect("a number");
    assert!((20..100).contains(&begun), "{begun}");
}

#[test]
fn java_runs_on_pooled_stacks() {
    need!(needs::program("java"));
    let source = small(
        "Deep.java",
        "public class Deep {
             static int deep(int n) { return n == 0 ? 0 : 1 + deep(n - 1); }
             public static void main(String[] unused) throws Exception {
                 for (int round = 0; round < 5; round++) {
                     Thread[] all = new Thread[8];
                     for (int i = 0; i < all.length; i++) {
                         all[i] = new Thread(() -> {
                             try { deep(1 << 30); } catch (StackOverflowError expected) { }
                         });
                         all[i].start();
                     }
                     for (Thread one : all) one.join();
                 }
                 System.out.println(\"done\");
             }
         }",
    );
    let (said, told) = succeeds(&["-v"], &["java", text(&source)]);
    assert!(said.contains("done"), "{said}{told}");
}

#[test]
fn a_program_that_cannot_be_preloaded_is_refused() {
    let fixed = exits_with_3("static", &["-static"]);
    refused(&[], &[text(&fixed)], 126, "linked statically");
    refused(
        &["--lock", "--stack", "none"],
        &[text(&fixed)],
        126,
        "linked statically",
    );
    assert_eq!(
        run(&["--stack", "none"], &[text(&fixed)]).status.code(),
        Some(3)
    );
    let position_independent = exits_with_3("static-pie", &["-static-pie"]);
    refused(
        &[],
        &[text(&position_independent)],
        126,
        "linked statically",
    );
    let set_uid = exits_with_3("set-uid", &[]);
    assert_eq!(run(&[], &[text(&set_uid)]).status.code(), Some(3));
    fs::set_permissions(&set_uid, fs::Permissions::from_mode(0o4755)).expect("set-uid");
    refused(&[], &[text(&set_uid)], 126, "set-uid");
    // Set by hand, because cp drops the bits.
    fs::set_permissions(&set_uid, fs::Permissions::from_mode(0o2755)).expect("set-gid");
    refused(&[], &[text(&set_uid)], 126, "set-gid");
}

#[test]
fn missing_programs_have_the_shells_exit_status() {
    refused(&[], &["no-such-program"], 127, "no such program in PATH");
    refused(&[], &["./no-such-program"], 127, "no such program");
    refused(&[], &["/etc/passwd"], 126, "not executable");
    refused(&[], &["/"], 126, "a directory");
    let nothing = small("nothing", "nothing\n");
    fs::set_permissions(&nothing, fs::Permissions::from_mode(0o755)).expect("executable");
    refused(&[], &[text(&nothing)], 126, "neither an ELF program");
    let lost = small("lost", "#!/no/such/interpreter\n");
    fs::set_permissions(&lost, fs::Permissions::from_mode(0o755)).expect("executable");
    refused(&[], &[text(&lost)], 126, "/no/such/interpreter");
}

#[test]
fn a_library_that_cannot_be_loaded_is_reported() {
    let run = |library: &str| {
        Command::new(env!("CARGO_BIN_EXE_punctual"))
            .args(["run", "/bin/true"])
            .env("PUNCTUAL_PRELOAD", library)
            .output()
            .expect("runs")
    };
    let output = run("/no/such/library");
    assert_eq!(output.status.code(), Some(1), "{}", errors(&output));
    let rubbish = small("rubbish.so", "rubbish");
    let output = run(text(&rubbish));
    assert_eq!(output.status.code(), Some(126));
    assert!(errors(&output).contains("rejects"), "{}", errors(&output));
}

#[test]
fn policy_affinity_and_locked_memory_are_in_force() {
    need!(needs::root());
    let status = "cat /proc/self/status; chrt -p $$";
    let (said, _) = succeeds(&["--lock", "-p", "7", "--cpus", "0"], &["sh", "-c", status]);
    assert!(said.contains("Cpus_allowed_list:\t0\n"), "{said}");
    assert!(
        said.contains("SCHED_FIFO") && said.contains("priority: 7"),
        "{said}"
    );
    let locked = said.lines().find(|line| line.starts_with("VmLck:"));
    assert!(
        locked.is_some_and(|line| faults(line)[0] > 1000),
        "{locked:?}"
    );
    let (said, _) = succeeds(&["-p", "3", "--policy", "rr"], &["sh", "-c", "chrt -p $$"]);
    assert!(said.contains("SCHED_RR"), "{said}");
}

#[test]
fn a_user_without_rights_gets_a_fix() {
    need!(needs::root());
    // In a place that every user may read: the build's folder may be closed to other users.
    let tool = std::env::temp_dir().join(format!("punctual-run-{}", std::process::id()));
    // By another process: a file that is open for writing here can't be executed by others.
    let copied = Command::new("cp")
        .arg(env!("CARGO_BIN_EXE_punctual"))
        .arg(&tool)
        .status();
    assert!(copied.expect("cp runs").success());
    let run = |arguments: &[&str]| {
        Command::new("sh")
            .args(["-c", "ulimit -l 64; ulimit -r 0; exec \"$@\"", "sh"])
            .args([
                "setpriv",
                "--reuid=65534",
                "--regid=65534",
                "--clear-groups",
                "--",
            ])
            .arg(&tool)
            .arg("run")
            .args(arguments)
            .current_dir("/")
            .output()
            .expect("runs")
    };
    let fifo = run(&["-p", "5", "/bin/true"]);
    let lock = run(&["--lock", "/bin/true"]);
    let plain = run(&["/bin/true"]);
    fs::remove_file(&tool).expect("removed");
    assert_eq!(fifo.status.code(), Some(1));
    assert!(errors(&fifo).contains("ulimit -r"), "{}", errors(&fifo));
    assert_eq!(lock.status.code(), Some(1));
    assert!(errors(&lock).contains("memlock"), "{}", errors(&lock));
    assert!(plain.status.success(), "{}", errors(&plain));
}

/// Whether a page of a new mapping is present before its first use, and whether it is locked after it.
const LOCKED: &str = "#define _GNU_SOURCE
#include <errno.h>
#include <stdio.h>
#include <sys/mman.h>
int main(void) {
    unsigned char present = 0;
    char *page = mmap(NULL, 1 << 20, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    mincore(page, 1, &present);
    page[0] = 1;
    int refused = madvise(page, 4096, MADV_DONTNEED) != 0 && errno == EINVAL;
    printf(\"%d %d\\n\", present & 1, refused);
}
";

#[test]
fn memory_is_locked_at_once_or_from_its_first_use_on() {
    need!(needs::root());
    let source = small("locked.c", LOCKED);
    let program = compiled("gcc", &source, "locked", &["-O1"]);
    for (flags, found) in [
        (&[][..], "0 0\n"),
        (&["--lock"], "1 1\n"),
        (&["--lock=all"], "1 1\n"),
        (&["--lock=onfault"], "0 1\n"),
    ] {
        assert_eq!(succeeds(flags, &[text(&program)]).0, found, "{flags:?}");
    }
}

#[test]
fn the_memory_that_a_lock_needs_is_stated_before_the_program_runs() {
    need!(needs::root());
    for (flag, how) in [("--lock", "at least "), ("--lock=onfault", "up to ")] {
        let flags = ["-v", "--stack-size", "256K", flag];
        let (_, told) = succeeds(&flags, &["sh", "-c", "echo begun >&2"]);
        let lines: Vec<&str> = told.lines().collect();
        let (need, rest) = lines.split_first().expect("a line");
        assert_eq!(rest.first(), Some(&"begun"), "{told}");
        let (_, need) = need.split_once(how).expect(how);
        let (bytes, threads) = need.split_once(" KB are locked, ").expect("a number");
        assert!(bytes.parse::<u64>().expect("a number") > 1000, "{told}");
        assert_eq!(
            threads,
            "and up to 256 KB for each thread that requests no stack size"
        );
    }
}

/// musl's loader would end a program with a library of glibc.
#[test]
fn a_child_of_another_c_library_runs_without_ours_and_a_line_says_so() {
    need!(needs::program("musl-gcc"));
    let source = small("of-musl.c", "int main(void) { return 3; }\n");
    let program = compiled("musl-gcc", &source, "of-musl", &[]);
    let name = text(&program);
    // By the shell's execve, and by glibc's own.
    for (script, lines) in [("$0; echo $?", 1), ("env $0; echo $?", 0)] {
        let (said, told) = succeeds(&[], &["sh", "-c", script, name]);
        assert_eq!(said, "3\n", "{told}");
        assert_eq!(told.lines().count(), lines, "{told}");
        let line = format!("punctual run: {name} is linked against musl: ");
        assert!(told.is_empty() || told.starts_with(&line), "{told}");
    }
}

/// Root's capabilities in a user namespace do not allow locking memory.
#[test]
fn root_of_a_user_namespace_cannot_lock_and_learns_why() {
    need!(needs::namespaces(&["-r"]));
    let output = Command::new("sh")
        .args(["-c", "ulimit -l 64; exec unshare -r \"$@\"", "sh"])
        .args([env!("CARGO_BIN_EXE_punctual"), "run", "--lock", "true"])
        .output()
        .expect("runs");
    assert_eq!(output.status.code(), Some(1), "{}", errors(&output));
    assert!(
        errors(&output).contains("locked memory is 64 KB"),
        "{}",
        errors(&output)
    );
}

#[test]
fn wrong_usage_is_refused_in_one_line() {
    refused(&["-p", "100"], &["true"], 64, "1 to 99");
    refused(&["--stack-size", "4M"], &["true"], 64, "32K to 2M");
    refused(&["--stack", "heap"], &["true"], 64, "pool");
    let words = "expected words of audit, audit=0..64, guards, noaccess, leaks";
    for nonsense in ["gaurds", "", ",", "audit=65", "audit=0", "guards,all"] {
        let flag = format!("--stack-debug={nonsense}");
        refused(&[&flag], &["true"], 64, words);
    }
    refused(&["--stack-debug=a,b"], &["true"], 64, "not 'a'");
    for stack in ["wrap", "none"] {
        let flags = ["--stack-debug", "--stack", stack];
        refused(&flags, &["true"], 64, "needs --stack pool");
    }
    refused(&["--cpus", "4096"], &["true"], 64, "not online");
    refused(&[], &[], 64, "PROGRAM");
}

#[test]
fn signals_and_the_process_id_belong_to_the_program() {
    let mut child = Command::new(env!("CARGO_BIN_EXE_punctual"))
        .args(["run", "sleep", "60"])
        .process_group(0)
        .spawn()
        .expect("runs");
    let name = format!("/proc/{}/comm", child.id());
    let begun = std::time::Instant::now();
    while fs::read_to_string(&name).is_ok_and(|name| name.trim() != "sleep") {
        assert!(
            begun.elapsed().as_secs() < 30,
            "it never became the program"
        );
        std::thread::sleep(std::time::Duration::from_millis(5));
    }
    child.kill().expect("killed");
    assert_eq!(child.wait().expect("waited").signal(), Some(libc::SIGKILL));
}
