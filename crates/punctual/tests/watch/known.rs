//! Programs with known behaviour, and watches of them.

use std::collections::BTreeMap;
use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::OnceLock;

use super::common::needs::{self, Absent};
use super::common::{Place, Running, until};

/// What it takes to watch another program.
#[allow(dead_code, reason = "not every test may be skipped")]
pub fn watching() -> Result<(), Absent> {
    needs::root()?;
    needs::tracing()
}

#[allow(unused_macros, reason = "not every test may be skipped")]
macro_rules! needed {
    () => {
        if let Err(absent) = crate::known::watching() {
            absent.report();
            return;
        }
    };
}

type Built = OnceLock<(Option<tempfile::TempDir>, PathBuf)>;

/// A program of `tests/watch`, compiled once.
fn built(name: &str, once: &'static Built) -> &'static PathBuf {
    built_as(name, name, once)
}

/// The same in a file of another name.
fn built_as(name: &str, file: &str, once: &'static Built) -> &'static PathBuf {
    let (_, path) = once.get_or_init(|| {
        // The laboratory copies it into the guest, which has no compiler.
        if std::env::var_os("PUNCTUAL_LAB_OUT").is_some() {
            return (None, Path::new("/lab/bin").join(file));
        }
        let directory = tempfile::tempdir().expect("a directory");
        let path = directory.path().join(file);
        let source = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/watch");
        let done = Command::new("cc")
            .args(["-O1", "-Wall", "-Wextra", "-Werror", "-pthread"])
            .args(["-fno-omit-frame-pointer", "-o"])
            .arg(&path)
            .arg(source.join(format!("{name}.c")))
            .output()
            .expect("a C compiler: the tool is built with it too");
        let errors = String::from_utf8_lossy(&done.stderr);
        assert!(done.status.success(), "{errors}");
        (Some(directory), path)
    });
    path
}

/// The program with known wake-ups.
#[allow(dead_code, reason = "not every test wants this one")]
pub fn watched() -> &'static PathBuf {
    static BUILT: Built = OnceLock::new();
    built("watched", &BUILT)
}

/// The loops of many kinds.
#[allow(dead_code, reason = "not every test wants this one")]
pub fn loops() -> &'static PathBuf {
    static BUILT: Built = OnceLock::new();
    built("loops", &BUILT)
}

/// The programs that are each other's children.
#[allow(dead_code, reason = "not every test wants this one")]
pub fn family() -> &'static PathBuf {
    static BUILT: Built = OnceLock::new();
    built("family", &BUILT)
}

/// The program with a thread that waits for others.
#[allow(dead_code, reason = "not every test wants this one")]
pub fn chains() -> &'static PathBuf {
    static BUILT: Built = OnceLock::new();
    built("chains", &BUILT)
}

/// The program with known passes of its marks.
#[allow(dead_code, reason = "not every test wants this one")]
pub fn marked() -> &'static PathBuf {
    static BUILT: Built = OnceLock::new();
    built("marked", &BUILT)
}

/// The program whose runtime stops its threads, in a file whose name is that of a JVM's library.
#[allow(dead_code, reason = "not every test wants this one")]
pub fn stopping() -> &'static PathBuf {
    static BUILT: Built = OnceLock::new();
    built_as("runtime", "libjvm.so", &BUILT)
}

/// A program without marks in such a file.
#[allow(dead_code, reason = "not every test wants this one")]
pub fn unmarked() -> &'static PathBuf {
    static BUILT: Built = OnceLock::new();
    built_as("watched", "libjvm.so", &BUILT)
}

/// The running program; killed when dropped.
pub struct Known {
    child: Child,
    input: ChildStdin,
    output: BufReader<ChildStdout>,
    pub pid: u32,
    pub tid: u32,
}

impl Known {
    pub fn start(program: &Path, what: &[&str]) -> Self {
        let mut child = Command::new(program)
            .args(what)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("the program");
        let input = child.stdin.take().expect("its input");
        let mut output = BufReader::new(child.stdout.take().expect("its output"));
        let mut line = String::new();
        output.read_line(&mut line).expect("a line");
        let mut words = line.split_whitespace();
        assert_eq!(words.next(), Some("READY"), "{line}");
        let mut number = || {
            words
                .next()
                .and_then(|word| word.parse().ok())
                .expect("a number")
        };
        let (pid, tid) = (number(), number());
        Self {
            child,
            input,
            output,
            pid,
            tid,
        }
    }

    /// Ends it by a signal.
    #[allow(dead_code, reason = "not every test wants this one")]
    pub fn kill(mut self, signal: i32) {
        // SAFETY: `kill` accesses no memory. The child was not waited for: its ID is still its own.
        assert_eq!(unsafe { libc::kill(self.pid as i32, signal) }, 0);
        self.child.wait().expect("it ended");
    }

    /// Lets it run, and waits until it is done; returns its counts by name.
    pub fn go(&mut self) -> BTreeMap<String, u64> {
        self.input.write_all(b"go\n").expect("it listens");
        let mut done = BTreeMap::new();
        loop {
            let mut line = String::new();
            assert!(
                self.output.read_line(&mut line).expect("a line") > 0,
                "it ended"
            );
            match line.trim().split_once(' ') {
                None => return done,
                Some((name, value)) => {
                    done.insert(name.to_owned(), value.parse().expect("a number"))
                }
            };
        }
    }

    /// The state of its periodic thread in /proc.
    #[allow(dead_code, reason = "not every test asks")]
    pub fn proc(&self, key: &str) -> u64 {
        let path = format!("/proc/{}/task/{}/status", self.pid, self.tid);
        let status = fs::read_to_string(path).expect("its status");
        let line = status
            .lines()
            .find_map(|line| line.strip_prefix(key)?.strip_prefix(':'));
        line.and_then(|value| value.trim().parse().ok())
            .expect("a number")
    }
}

impl Drop for Known {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Starts a watch, and waits until it is active.
pub fn watch(place: &Place, arguments: &[&str]) -> Running {
    let running = place.start(&[&["watch", "-v"], arguments].concat());
    await_watch(&running);
    running
}

fn await_watch(running: &Running) {
    let begun = |pid: u32| programs_of(pid) > 0 && nice_of(pid) == Some(-10);
    until("the watch", || begun(running.pid()));
}

/// The nice value of a process: setting it is the last step before the watch.
fn nice_of(pid: u32) -> Option<i32> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    let words: Vec<&str> = stat
        .get(stat.rfind(')')? + 1..)?
        .split_whitespace()
        .collect();
    words.get(16)?.parse().ok()
}

/// The number of BPF programs that a process holds.
pub fn programs_of(pid: u32) -> usize {
    let entries = fs::read_dir(format!("/proc/{pid}/fdinfo"));
    let texts = entries.into_iter().flatten().flatten();
    texts
        .filter_map(|entry| fs::read_to_string(entry.path()).ok())
        .filter(|text| text.contains("prog_id:"))
        .count()
}
