//! Where `unsafe` may stand, how long a file may be, and who may print.

use crate::source::{Tracked, tokens};

/// Where raw system calls and the C interface live.
const UNSAFE_FOLDERS: &[&str] = &[
    "crates/rt/src/sys/",
    "crates/capi/src/",
    "crates/preload/src/",
];

/// The other files with `unsafe`, and why it can't be elsewhere. A new one is discussed, and
/// one that needs it no more is taken out.
const UNSAFE_FILES: &[(&str, &str)] = &[
    ("crates/rt/src/ring.rs", "slots shared by two threads"),
    (
        "crates/rt/src/records.rs",
        "the ring of bytes behind C's records",
    ),
    (
        "crates/rt/src/records/copy.rs",
        "its records, copied word by word",
    ),
    (
        "crates/rt/src/advice.rs",
        "getrlimit, for what mends a refusal",
    ),
    (
        "crates/rt/src/heap.rs",
        "mallopt, and a heap that is touched",
    ),
    (
        "crates/rt/src/watchpoint.rs",
        "the handler of a signal that a breakpoint raises",
    ),
    (
        "crates/punctual/src/probe/rseq.rs",
        "a thread leaves what the C library registered it for",
    ),
    (
        "crates/punctual/src/conduct/signals.rs",
        "a handler that ends the probes before the kernel kills them",
    ),
    (
        "crates/punctual/src/launch/library.rs",
        "a file in memory that a program can load",
    ),
    (
        "crates/lab/src/sys.rs",
        "what a guest's first process asks of its kernel, its ports, and QEMU's leash",
    ),
    ("crates/punctual/src/launch/mod.rs", "getrlimit and execve"),
    (
        "crates/punctual/src/launch/program.rs",
        "access, as the kernel answers it",
    ),
    (
        "crates/rt/src/sync/condvar.rs",
        "a mutex of the C library, given up for the wait",
    ),
    (
        "crates/rt/src/sync/robust.rs",
        "a mutex of the C library, after its holder ended",
    ),
    (
        "crates/rt/src/sync.rs",
        "pthread's mutex and condition variable",
    ),
    (
        "crates/rt/src/thread/joinable.rs",
        "whose join it is, and the list of detached threads",
    ),
    (
        "crates/rt/src/thread/launch.rs",
        "pthread_create on a stack of ours",
    ),
    (
        "crates/rt/src/thread/mod.rs",
        "what passes through pthread_create, and the join",
    ),
    (
        "crates/rt/src/stack/aside.rs",
        "a function on another stack, by the C library's contexts",
    ),
    (
        "crates/rt/src/stack/cache.rs",
        "each thread's magazines, by pthread's keys",
    ),
    (
        "crates/rt/src/stack/debug.rs",
        "fills and watches free stacks",
    ),
    (
        "crates/rt/src/stack/fault.rs",
        "a handler of SIGSEGV, and stacks for it",
    ),
    ("crates/rt/src/stack/fork.rs", "pthread_atfork"),
    (
        "crates/rt/src/stack/bounds.rs",
        "asks pthread where stacks lie",
    ),
    (
        "crates/rt/src/stack/inspect.rs",
        "makes pages present, and reads stacks that others use",
    ),
    (
        "crates/rt/src/stack/lock.rs",
        "pthread's mutex, also across a fork",
    ),
    (
        "crates/rt/src/stack/magazine.rs",
        "lists that run through the headers",
    ),
    (
        "crates/rt/src/stack/mod.rs",
        "a free by address, as C has it",
    ),
    (
        "crates/rt/src/stack/names.rs",
        "memory that is mapped for a report",
    ),
    (
        "crates/rt/src/stack/options.rs",
        "getenv, before anything may allocate",
    ),
    ("crates/rt/src/stack/pool.rs", "opens and closes stacks"),
    ("crates/rt/src/stack/region.rs", "guard pages"),
    (
        "crates/rt/src/stack/report.rs",
        "write, from wherever an error is found",
    ),
    (
        "crates/rt/src/stack/setup.rs",
        "what is made once for a process",
    ),
    (
        "crates/rt/src/stack/table.rs",
        "headers in mappings of their own",
    ),
    ("crates/rt/src/stack/trace.rs", "backtrace"),
    ("crates/rt/src/stack/usage.rs", "reads and fills stacks"),
    (
        "crates/rt/src/stack/view.rs",
        "addresses of statics, for debuggers",
    ),
    (
        "crates/load/src/board.rs",
        "memory shared by the processes of a load",
    ),
    (
        "crates/load/src/area.rs",
        "maps, touches and unmaps: that is what loads do",
    ),
    (
        "crates/load/src/sys.rs",
        "system calls of the loads that rustix lacks",
    ),
    ("crates/punctual/src/system/clock.rs", "clock_getres"),
    (
        "crates/trace/src/capture/shared.rs",
        "memory shared with the kernel, and the bpf call that no crate offers",
    ),
    ("crates/punctual/src/system/kernel.rs", "uname"),
    ("crates/punctual/src/system/processor.rs", "sysconf"),
    ("crates/punctual/src/system/stolen.rs", "sysconf"),
    (
        "crates/punctual/src/system/monitor/snapshot.rs",
        "two clocks read together",
    ),
    (
        "crates/punctual/src/system/thread.rs",
        "what the kernel says of a thread",
    ),
    (
        "crates/punctual/src/system/virtualisation.rs",
        "the cpuid instruction",
    ),
];

/// Files that may print though they aren't the command line's, and why.
const PRINTING: &[(&str, &str)] = &[
    ("crates/capi/build.rs", "how a build script talks to cargo"),
    (
        "crates/preload/build.rs",
        "how a build script talks to cargo",
    ),
    ("crates/lab/build.rs", "how a build script talks to cargo"),
    (
        "crates/punctual/build.rs",
        "how a build script talks to cargo",
    ),
    (
        "crates/trace/build/clang.rs",
        "how a build script talks to cargo",
    ),
    (
        "crates/rt/src/thread/mod.rs",
        "a test that says why it was skipped",
    ),
];

/// Lines of a source file.
const LONG: usize = 400;
const TOO_LONG: usize = 600;

/// What breaks a rule, a line each.
pub fn faults(files: &[Tracked]) -> Vec<String> {
    let mut faults = Vec::new();
    for file in files.iter().filter(|file| is_source(&file.path)) {
        let lines = file.text.lines().count();
        if lines > TOO_LONG {
            let path = &file.path;
            faults.push(format!("{path}: {lines} lines; the limit is {TOO_LONG}"));
        }
        if is_shipped(&file.path) {
            faults.extend(unsafe_fault(file));
            faults.extend(printing_fault(file));
        }
    }
    for (path, _) in UNSAFE_FILES.iter().chain(PRINTING) {
        if files.iter().all(|file| file.path != *path) {
            faults.push(format!("{path}: is listed in xtask/src/rules.rs and gone"));
        }
    }
    faults
}

/// Files that are longer than most should be.
pub fn long(files: &[Tracked]) -> Vec<String> {
    let mut long: Vec<(usize, &str)> = files
        .iter()
        .filter(|file| is_source(&file.path))
        .map(|file| (file.text.lines().count(), file.path.as_str()))
        .filter(|(lines, _)| *lines > LONG)
        .collect();
    long.sort_unstable_by(|a, b| b.cmp(a));
    long.into_iter()
        .map(|(lines, path)| format!("{path}: {lines} lines"))
        .collect()
}

fn is_source(path: &str) -> bool {
    let written = [".rs", ".c", ".h", ".sh", ".md"]
        .iter()
        .any(|end| path.ends_with(end));
    // The header is generated.
    let generated = path == "crates/capi/include/punctual.h";
    (written || path.starts_with("scripts/")) && !path.contains("/data/") && !generated
}

/// Not tests and examples, which may do as they like.
fn is_shipped(path: &str) -> bool {
    path.ends_with(".rs")
        && path
            .strip_prefix("crates/")
            .and_then(|path| path.split('/').nth(1))
            .is_some_and(|second| second == "src" || second == "build.rs")
}

fn unsafe_fault(file: &Tracked) -> Option<String> {
    let path = &file.path;
    if UNSAFE_FOLDERS.iter().any(|folder| path.starts_with(folder)) {
        return None;
    }
    let found = tokens(&file.text)
        .into_iter()
        .find(|token| token.text == "unsafe");
    let listed = UNSAFE_FILES.iter().any(|(known, _)| known == path);
    match found {
        Some(token) if !listed => Some(format!(
            "{path}:{}: unsafe belongs into crates/rt/src/sys, or into the list of \
             xtask/src/rules.rs with its reason",
            token.line
        )),
        None if listed => Some(format!(
            "{path}: has no unsafe any more: take it from the list of xtask/src/rules.rs"
        )),
        _ => None,
    }
}

fn printing_fault(file: &Tracked) -> Option<String> {
    let path = &file.path;
    if path.starts_with("crates/punctual/src/cli/")
        || PRINTING.iter().any(|(known, _)| known == path)
    {
        return None;
    }
    let tokens = tokens(&file.text);
    let found = tokens.windows(2).find(|pair| {
        let prints = ["print", "println", "eprint", "eprintln", "dbg"];
        pair[1].text == "!" && prints.contains(&pair[0].text)
    })?;
    Some(format!(
        "{path}:{}: only the command line prints ({}!)",
        found[0].line, found[0].text
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Faults of one file, without those of the lists.
    fn faults_of(path: &str, text: &str) -> Vec<String> {
        let file = Tracked {
            path: path.to_owned(),
            text: text.to_owned(),
        };
        let mut faults = faults(&[file]);
        faults.retain(|fault| !fault.ends_with("and gone"));
        faults
    }

    #[test]
    fn unsafe_in_a_new_place_is_found() {
        let code = "// unsafe\nfn f() { unsafe { g() } }\n";
        let [fault] = &faults_of("crates/report/src/svg.rs", code)[..] else {
            panic!("one fault");
        };
        assert!(fault.starts_with("crates/report/src/svg.rs:2: unsafe"));
        for path in [
            "crates/rt/src/sys/map.rs",
            "crates/capi/src/stack.rs",
            "crates/rt/src/ring.rs",
            "crates/rt/tests/stack_fork.rs",
            "crates/rt/examples/stack_check.rs",
        ] {
            assert_eq!(faults_of(path, code), [""; 0], "{path}");
        }
        let safe = "#![forbid(unsafe_code)] // unsafe\nconst A: &str = \"unsafe\";\n";
        assert_eq!(faults_of("crates/stats/src/lib.rs", safe), [""; 0]);
    }

    #[test]
    fn a_list_does_not_outlive_its_reasons() {
        let faults = faults_of("crates/rt/src/ring.rs", "fn f() {}\n");
        assert!(faults[0].contains("has no unsafe any more"), "{faults:?}");
        let gone = super::faults(&[]);
        assert_eq!(gone.len(), UNSAFE_FILES.len() + PRINTING.len());
    }

    #[test]
    fn printing_is_found() {
        let code = "fn f() {\n    eprintln!(\"a\");\n}\n";
        assert_eq!(
            faults_of("crates/load/src/set.rs", code),
            ["crates/load/src/set.rs:2: only the command line prints (eprintln!)"]
        );
        assert_eq!(faults_of("crates/punctual/src/cli/out.rs", code), [""; 0]);
        let own = "fn println() {} fn f() { println(); writeln!(out, \"print!\"); }";
        assert_eq!(faults_of("crates/load/src/set.rs", own), [""; 0]);
    }

    #[test]
    fn length_is_limited() {
        let code = "//\n".repeat(TOO_LONG + 1);
        assert_eq!(
            faults_of("crates/rt/tests/stack_storm.rs", &code),
            ["crates/rt/tests/stack_storm.rs: 601 lines; the limit is 600"]
        );
        assert_eq!(faults_of("crates/punctual/tests/data/a.rs", &code), [""; 0]);
    }
}
