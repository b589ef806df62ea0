//! However a run ends, no process or file of a load remains.

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, ChildStdout, Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use punctual_load::{LoadSet, LoadSettings, LoadSpec};
use punctual_record::LoadFailure;

const PATIENCE: Duration = Duration::from_secs(60);
const SPEC: &str = "LOAD_TEST_SPEC";
const SCRATCH: &str = "LOAD_TEST_SCRATCH";

fn start(spec: &str, scratch: &Path) -> LoadSet {
    let settings = LoadSettings {
        program: Some(env!("CARGO_BIN_EXE_punctual").into()),
        scratch_dir: Some(scratch.into()),
        ..LoadSettings::default()
    };
    let spec = LoadSpec::parse(spec).expect("a good specification");
    LoadSet::start(&spec, &settings).expect("loads that start")
}

/// Run by its name in a process of its own, it is the controller of the
/// loads in its environment, for ever; run as a test, it drops such loads.
#[test]
fn controller() {
    let Ok(spec) = std::env::var(SPEC) else {
        let scratch = tempfile::tempdir().expect("a directory");
        let set = start("cpu:bytes=1M,files:bytes=1M,fork", scratch.path());
        set.wait_ready(PATIENCE).expect("loads that run");
        let supervisors: Vec<_> = set.status().iter().map(|load| load.supervisor).collect();
        drop(set);
        for supervisor in supervisors {
            assert!(!fs::exists(format!("/proc/{supervisor}")).expect("/proc"));
        }
        assert_eq!(entries(scratch.path()), 0);
        return;
    };
    let scratch = std::env::var(SCRATCH).expect("both are set");
    let set = start(&spec, Path::new(&scratch));
    say("started");
    set.wait_ready(PATIENCE).expect("loads that run");
    say("ready");
    loop {
        sleep(PATIENCE);
    }
}

/// Writes around the test harness, which would capture it.
fn say(word: &str) {
    let mut out = std::io::stdout();
    writeln!(out, "{word}")
        .and_then(|()| out.flush())
        .expect("an open pipe");
}

fn entries(directory: &Path) -> usize {
    fs::read_dir(directory).map_or(0, Iterator::count)
}

/// A controller in its own process, and its loads.
struct Controller {
    process: Child,
    scratch: tempfile::TempDir,
    /// Kept open: a controller without a reader would end by itself.
    _output: BufReader<ChildStdout>,
}

impl Controller {
    /// Starts it and waits until it has printed `word`.
    fn start(spec: &str, word: &str) -> Self {
        let scratch = tempfile::tempdir().expect("a directory");
        let mut process = Command::new(std::env::current_exe().expect("this test"))
            .args(["--exact", "cleanup::controller", "--nocapture"])
            .env(SPEC, spec)
            .env(SCRATCH, scratch.path())
            .stdout(Stdio::piped())
            .spawn()
            .expect("a controller");
        let mut output = BufReader::new(process.stdout.take().expect("its output"));
        // The test harness writes the test's name on the same line.
        let said = (&mut output)
            .lines()
            .map_while(Result::ok)
            .any(|line| line.ends_with(word));
        assert!(said, "the controller of {spec} never was {word}");
        Controller {
            process,
            scratch,
            _output: output,
        }
    }

    /// Its loads' processes, without the controller.
    fn processes(&self) -> Vec<u32> {
        let scratch = self.scratch.path().to_str().expect("text");
        let marker = format!("{SCRATCH}={scratch}");
        let own = self.process.id();
        let entries = fs::read_dir("/proc").expect("/proc").flatten();
        let pids = entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
        let is_marked = |pid: &u32| {
            let environ = fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
            *pid != own && environ.split(|&b| b == 0).any(|v| v == marker.as_bytes())
        };
        pids.filter(is_marked).collect()
    }

    fn await_processes(&self, is_good: impl Fn(usize) -> bool, what: &str) {
        let deadline = Instant::now() + PATIENCE;
        loop {
            let processes = self.processes();
            if is_good(processes.len()) {
                return;
            }
            assert!(
                Instant::now() < deadline,
                "{what}: {} processes",
                processes.len()
            );
            sleep(Duration::from_millis(10));
        }
    }

    /// Kills the controller and waits until nothing is left.
    fn kill(mut self) {
        self.process.kill().expect("kill -9");
        self.process.wait().expect("its end");
        self.await_processes(|count| count == 0, "after the controller was killed");
        assert_eq!(entries(self.scratch.path()), 0, "files left");
    }
}

#[test]
fn a_killed_controller_leaves_nothing() {
    let controller = Controller::start("cpu:bytes=1M,fork,hackbench,files:bytes=1M,net", "ready");
    assert!(controller.processes().len() > 40);
    assert_eq!(entries(controller.scratch.path()), 1);
    controller.kill();
}

#[test]
fn a_killed_controller_of_thousands_leaves_nothing() {
    let spec = "kill,poll:descriptors=500,exit:bytes=16M,truncate:bytes=16M,proc,vmread:bytes=1M";
    let controller = Controller::start(spec, "ready");
    assert!(controller.processes().len() > 2000);
    assert_eq!(entries(controller.scratch.path()), 0, "no files at all");
    controller.kill();
}

#[test]
fn a_controller_killed_while_loads_start_leaves_nothing() {
    for delay in [0, 1, 3, 10, 30] {
        let controller = Controller::start("hackbench:threads,files:bytes=1M,fork", "started");
        sleep(Duration::from_millis(delay));
        controller.kill();
    }
}

#[test]
fn the_tree_of_a_command_is_killed() {
    // Two children, one of them in its own session, and a daemon whose
    // parent has ended and which closed everything that it could.
    let command = "sleep 1000 & setsid sleep 1000 & \
                   (setsid sh -c 'sleep 1000 & exec sleep 1000' </dev/null >/dev/null 2>&1 &) ; \
                   wait";
    let controller = Controller::start(command, "ready");
    // The supervisor, the shell and the four.
    controller.await_processes(|count| count == 6, "before the kill");
    controller.kill();
}

/// Waits until a `sleep` with exactly this argument exists, or does not: identified by
/// its command line, because an environment can be cleared.
fn await_sleep(seconds: &str, there: bool) {
    let wanted = format!("sleep\0{seconds}\0");
    let find = || {
        let entries = fs::read_dir("/proc").expect("/proc").flatten();
        entries
            .filter_map(|entry| fs::read(entry.path().join("cmdline")).ok())
            .any(|line| line == wanted.as_bytes())
    };
    let deadline = Instant::now() + PATIENCE;
    while find() != there {
        assert!(Instant::now() < deadline, "sleep {seconds} there: {there}");
        sleep(Duration::from_millis(10));
    }
}

#[test]
fn a_descendant_without_its_environment_is_killed() {
    let seconds = format!("{}.5", 100_000 + std::process::id());
    let command = format!("(setsid env -i sleep {seconds} &) ; exec sleep 1000");
    let controller = Controller::start(&command, "ready");
    await_sleep(&seconds, true);
    controller.kill();
    await_sleep(&seconds, false);
}

#[test]
fn a_killed_worker_is_a_failed_load() {
    let scratch = tempfile::tempdir().expect("a directory");
    let set = start("cpu:bytes=1M", scratch.path());
    set.wait_ready(PATIENCE).expect("it runs");
    let supervisor = set.status()[0].supervisor;
    let children = format!("/proc/{supervisor}/task/{supervisor}/children");
    let children = fs::read_to_string(children).expect("the supervisor's children");
    kill(children.trim().parse().expect("one child"));
    let deadline = Instant::now() + PATIENCE;
    while !set.is_over() && Instant::now() < deadline {
        sleep(Duration::from_millis(5));
    }
    let status = &set.status()[0];
    assert!(
        matches!(&status.failed, Some(LoadFailure::Error { error }) if error.contains("SIGKILL")),
        "{status:?}"
    );
    let reports = set.stop();
    assert!(reports[0].failed.is_some());
}

#[test]
fn a_killed_supervisor_is_a_failed_load_and_leaves_nothing() {
    let scratch = tempfile::tempdir().expect("a directory");
    let seconds = format!("{}.25", 100_000 + std::process::id());
    let command = format!("setsid sleep {seconds} & wait");
    for spec in ["files:bytes=1M", &command] {
        let set = start(spec, scratch.path());
        set.wait_ready(PATIENCE).expect("it runs");
        if spec == command {
            await_sleep(&seconds, true);
        }
        kill(set.status()[0].supervisor);
        let deadline = Instant::now() + PATIENCE;
        while !set.is_over() && Instant::now() < deadline {
            sleep(Duration::from_millis(5));
        }
        assert!(set.status()[0].failed.is_some());
        let reports = set.stop();
        assert!(reports[0].failed.is_some());
        assert_eq!(entries(scratch.path()), 0);
        await_sleep(&seconds, false);
    }
}

fn kill(pid: u32) {
    // SAFETY: kill takes two integers and no pointer.
    unsafe { libc::kill(pid as i32, libc::SIGKILL) };
}
