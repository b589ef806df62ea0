//! Runs the program itself: in a directory of its own, with timeouts, and
//! without leaving anything behind.

#![allow(
    unsafe_code,
    reason = "sends signals, and asks for limits and identities"
)]
#![allow(
    dead_code,
    unused_macros,
    unused_imports,
    clippy::print_stderr,
    reason = "each test binary uses a part of it; a skipped test says so"
)]

pub mod agent;
pub mod examples;
pub mod groups;
pub mod host;
pub mod hotplug;
pub mod mounts;
pub mod namespaces;
pub mod needs;
pub mod stops;
pub mod truth;

use punctual_record::{Document, Run};
use std::ffi::OsStr;
use std::fs;
use std::io::{ErrorKind, Read};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use serde_json::Value;

pub(crate) use needs::{has, is_root, need, skip};

/// The time limit for any step, on a machine that is shared.
pub const PATIENCE: Duration = Duration::from_secs(60);

/// This variable identifies every process that a test started.
const MARKER: &str = "PUNCTUAL_TEST_RUN";

/// The program; in the laboratory's guest the one that was copied into it.
pub fn program() -> &'static Path {
    if std::env::var_os("PUNCTUAL_LAB_OUT").is_some() {
        return Path::new("/bin/punctual");
    }
    Path::new(env!("CARGO_BIN_EXE_punctual"))
}

/// Whether this process has the rights that a run usually requests: priority, memory, idle states.
pub fn has_rights() -> bool {
    needs::rights().is_ok()
}

/// CPUs that this process may use.
pub fn cpus() -> Vec<usize> {
    punctual_machine::survey::allowed(&punctual_machine::Root::live())
}

/// A text as a single line.
pub fn flat(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// Waits until a condition holds.
pub fn until(what: &str, mut is_so: impl FnMut() -> bool) {
    let deadline = Instant::now() + PATIENCE;
    while !is_so() {
        assert!(Instant::now() < deadline, "waited in vain: {what}");
        thread::sleep(Duration::from_millis(5));
    }
}

/// An empty working directory and every process that is started in it.
pub struct Place {
    directory: tempfile::TempDir,
    marker: String,
}

impl Place {
    pub fn new() -> Self {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let directory = tempfile::tempdir().expect("a directory");
        // Other users must be able to enter and write.
        fs::set_permissions(directory.path(), fs::Permissions::from_mode(0o777)).expect("its mode");
        let number = COUNT.fetch_add(1, Ordering::Relaxed);
        Self {
            marker: format!("{}-{number}", std::process::id()),
            directory,
        }
    }

    pub fn path(&self) -> &Path {
        self.directory.path()
    }

    /// The names of its entries.
    pub fn entries(&self) -> Vec<String> {
        let entries = fs::read_dir(self.path()).expect("the directory");
        let mut names: Vec<String> = entries
            .map(|entry| {
                entry
                    .expect("an entry")
                    .file_name()
                    .to_string_lossy()
                    .into()
            })
            .collect();
        names.sort();
        names
    }

    /// A command in this place.
    pub fn command(&self, program: impl AsRef<OsStr>) -> Command {
        let mut command = Command::new(program);
        command
            .current_dir(self.path())
            .env(MARKER, &self.marker)
            .env_remove("NO_COLOR")
            .env("LC_ALL", "C.UTF-8")
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        command
    }

    /// Starts the program. If this user lacks the rights that a run requests, it measures without
    /// them.
    pub fn start(&self, arguments: &[&str]) -> Running {
        let mut command = self.command(program());
        command.args(arguments);
        let measures = matches!(arguments.first(), Some(&("measure" | "qualify" | "prove")));
        if measures && !arguments.contains(&"--best-effort") && !has_rights() {
            command.arg("--best-effort");
        }
        Running::start(command)
    }

    /// Runs the program until it ends.
    pub fn run(&self, arguments: &[&str]) -> Ended {
        self.start(arguments).end()
    }

    /// The only run directory in this place.
    pub fn run_directory(&self) -> PathBuf {
        let entries = fs::read_dir(self.path()).expect("the directory");
        let runs: Vec<PathBuf> = entries
            .map(|entry| entry.expect("an entry").path())
            .filter(|path| path.join("run.json").is_file())
            .collect();
        assert_eq!(runs.len(), 1, "run directories in {:?}", self.entries());
        runs.into_iter().next().expect("one")
    }

    /// The record of the only run in this place.
    pub fn record(&self) -> Value {
        read_json(&self.run_directory().join("run.json"))
    }

    /// The record of the only run in this place, as the library reads it.
    pub fn run_of(&self) -> Run {
        Run::read(&self.run_directory()).expect("a record")
    }

    /// The record of a run directory in this place, as the library reads it.
    pub fn run_of_path(&self, name: &str) -> Run {
        Run::read(&self.path().join(name)).expect("a record")
    }

    /// Running processes that were started in this place.
    pub fn processes(&self) -> Vec<u32> {
        let wanted = format!("{MARKER}={}", self.marker);
        let entries = fs::read_dir("/proc").expect("/proc").flatten();
        entries
            .filter_map(|entry| entry.file_name().to_str()?.parse().ok())
            .filter(|pid: &u32| {
                let environ = fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
                environ.split(|&b| b == 0).any(|v| v == wanted.as_bytes())
            })
            .collect()
    }

    /// Waits until no process that was started in this place runs.
    pub fn await_silence(&self) {
        until("every process gone", || self.processes().is_empty());
    }
}

/// Reads a JSON file.
pub fn read_json(path: &Path) -> Value {
    let text = fs::read(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    serde_json::from_slice(&text).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// The verdict on a run in words.
pub fn said(run: &Run) -> String {
    punctual_report::statements::headline(run).sentence
}

/// Why a run is not valid, in words; empty where it is.
pub fn why_invalid(run: &Run) -> String {
    let reasons = punctual_record::invalid_reasons(run);
    let words: Vec<String> = reasons
        .iter()
        .map(punctual_report::verdict::reason)
        .collect();
    words.join("; ")
}

/// A process that runs; killed when dropped.
pub struct Running {
    child: Child,
    words: String,
    stdout: Option<JoinHandle<Vec<u8>>>,
    stderr: Option<JoinHandle<Vec<u8>>>,
}

impl Running {
    pub fn start(mut command: Command) -> Self {
        let words = format!("{command:?}");
        // If the tests were started by nohup, all processes ignore the signal.
        let hear = || {
            // SAFETY: between fork and exec only one system call is made.
            unsafe { libc::signal(libc::SIGHUP, libc::SIG_DFL) };
            Ok(())
        };
        // SAFETY: the closure makes one system call and allocates nothing.
        unsafe { command.pre_exec(hear) };
        let begin = Instant::now();
        let mut child = loop {
            match command.spawn() {
                Ok(child) => break child,
                // Another test forked while this program was being copied, and keeps it
                // open for writing until it executes its own program.
                Err(error)
                    if error.kind() == ErrorKind::ExecutableFileBusy
                        && begin.elapsed() < Duration::from_secs(10) =>
                {
                    thread::sleep(Duration::from_millis(5));
                }
                Err(error) => panic!("{words}: {error}"),
            }
        };
        let stdout = child.stdout.take().map(read_all);
        let stderr = child.stderr.take().map(read_all);
        Self {
            child,
            words,
            stdout,
            stderr,
        }
    }

    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Sends a signal.
    pub fn signal(&self, signal: i32) {
        // SAFETY: kill takes two integers; the child is not waited for yet, so the
        // number is still its own.
        let sent = unsafe { libc::kill(self.child.id() as i32, signal) };
        assert_eq!(sent, 0, "{}", std::io::Error::last_os_error());
    }

    /// Stops it, and waits until every thread of it is stopped.
    pub fn stop(&self) {
        self.signal(libc::SIGSTOP);
        stops::await_stopped(self.pid());
    }

    /// Waits until all probe threads are about to measure (the collector is created last,
    /// after tracing is set up), and returns their ids and CPUs.
    pub fn await_probes(&mut self, count: usize) -> Vec<(i32, usize)> {
        let mut found = Vec::new();
        until("the probes", || {
            assert!(
                self.child.try_wait().expect("a child").is_none(),
                "{} ended before it measured",
                self.words
            );
            let threads = self.threads();
            if !threads.iter().any(|(_, name)| name == "collector") {
                return false;
            }
            found = threads
                .into_iter()
                .filter_map(|(tid, name)| Some((tid, name.strip_prefix("probe/")?.parse().ok()?)))
                .collect();
            found.len() == count
        });
        found
    }

    /// Its threads and their names.
    pub fn threads(&self) -> Vec<(i32, String)> {
        let Ok(tasks) = fs::read_dir(format!("/proc/{}/task", self.pid())) else {
            return Vec::new();
        };
        tasks
            .flatten()
            .filter_map(|task| {
                let name = fs::read_to_string(task.path().join("comm")).ok()?;
                let tid = task.file_name().to_str()?.parse().ok()?;
                Some((tid, name.trim().to_owned()))
            })
            .collect()
    }

    pub fn is_over(&mut self) -> bool {
        self.child.try_wait().expect("a child").is_some()
    }

    /// Waits for its end.
    pub fn end(self) -> Ended {
        self.end_within(PATIENCE)
    }

    /// Waits for the end of a process that takes longer; one that hangs is ended, and what it
    /// has printed is shown.
    pub fn end_within(mut self, patience: Duration) -> Ended {
        let deadline = Instant::now() + patience;
        let (status, hangs) = loop {
            if let Some(status) = self.child.try_wait().expect("a child") {
                break (status, false);
            }
            if Instant::now() > deadline {
                self.signal(libc::SIGKILL);
                break (self.child.wait().expect("a child"), true);
            }
            thread::sleep(Duration::from_millis(5));
        };
        let text = |reader: Option<JoinHandle<Vec<u8>>>| {
            // What it started may hold the pipe.
            let late = Instant::now() + Duration::from_secs(5);
            while hangs && reader.as_ref().is_some_and(|it| !it.is_finished()) {
                assert!(Instant::now() < late, "hung, as what it started");
                thread::sleep(Duration::from_millis(5));
            }
            let bytes = reader.map(|reader| reader.join().expect("a reader"));
            String::from_utf8(bytes.unwrap_or_default()).expect("UTF-8")
        };
        let ended = Ended {
            words: std::mem::take(&mut self.words),
            status,
            stdout: text(self.stdout.take()),
            stderr: text(self.stderr.take()),
        };
        assert!(!hangs, "hung, ended after {patience:?}: {ended:#?}");
        ended
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn read_all(mut from: impl Read + Send + 'static) -> JoinHandle<Vec<u8>> {
    thread::spawn(move || {
        let mut bytes = Vec::new();
        let _ = from.read_to_end(&mut bytes);
        bytes
    })
}

/// A process that has ended.
#[derive(Debug)]
pub struct Ended {
    pub words: String,
    pub status: ExitStatus,
    pub stdout: String,
    pub stderr: String,
}

impl Ended {
    /// Its exit status; a death by a signal fails the test.
    pub fn code(&self) -> i32 {
        self.status
            .code()
            .unwrap_or_else(|| panic!("signal {:?}: {self:?}", self.status.signal()))
    }

    /// Checks the exit status.
    #[track_caller]
    pub fn expect(self, code: i32) -> Self {
        assert_eq!(self.code(), code, "{self:#?}");
        self
    }

    /// Standard output as JSON.
    pub fn json(&self) -> Value {
        serde_json::from_str(&self.stdout).unwrap_or_else(|error| panic!("{error}: {self:?}"))
    }
}

/// Whether a demand was met in a record.
pub fn in_force(record: &Value, name: &str) -> bool {
    let demands = record["demands"].as_array().expect("demands");
    demands
        .iter()
        .any(|demand| demand["name"] == name && demand["standing"] == "in-force")
}

/// The kinds of the events of a record.
pub fn event_kinds(record: &Value) -> Vec<&str> {
    let events = record["events"].as_array().expect("events");
    events
        .iter()
        .filter_map(|event| event["kind"].as_str())
        .collect()
}

/// Samples of each thread of a record.
pub fn counts(record: &Value) -> Vec<u64> {
    let threads = record["threads"].as_array().expect("threads");
    threads
        .iter()
        .map(|thread| thread["latency"]["count"].as_u64().expect("a count"))
        .collect()
}

/// A number of each thread of a record.
pub fn each(record: &Value, field: &str) -> Vec<u64> {
    let threads = record["threads"].as_array().expect("threads");
    threads
        .iter()
        .map(|thread| thread[field].as_u64().expect("a number"))
        .collect()
}

/// Copies a program that is to be run, in a process of its own: a child that another test has just forked holds every
/// descriptor of ours until it runs its program, and what is open for writing is not executed (ETXTBSY).
pub fn copy_program(from: &Path, to: &Path) {
    let copied = Command::new("cp").arg("-p").arg(from).arg(to).status();
    // A guest of the laboratory has no such program, and one test at a time.
    let copied = match copied {
        Err(error) if error.kind() == ErrorKind::NotFound => fs::copy(from, to).is_ok(),
        copied => copied.expect("cp").success(),
    };
    assert!(copied, "{} to {}", from.display(), to.display());
}
