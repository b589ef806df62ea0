//! The result of a latency above the break value, in a run and in a watch: the kernel's trace is
//! frozen and saved, the whole ring is kept, and the user's command is run.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use crate::alone::alone;
use crate::common::needs::{self, Absent};
use crate::common::{Ended, Place, Running, need, program, read_json, until};
use serde_json::Value;

const TRACING: &str = "/sys/kernel/tracing";
/// In its own mount namespace, the instance `$0` replaces tracefs.
const WITHIN: &str = "mount --bind \"$0\" /sys/kernel/tracing && exec \"$@\"";

/// A tracing instance that records switches: other tests may freeze the global
/// buffer.
struct Tracing(PathBuf);

impl Tracing {
    fn begin() -> Result<Self, Absent> {
        needs::root()?;
        needs::program("python3")?;
        needs::tracing()?;
        if !Path::new(TRACING).join("instances").exists() {
            let _ = Command::new("mount")
                .args(["-t", "tracefs", "none", TRACING])
                .status();
        }
        let name = format!("instances/punctual-{}", std::process::id());
        let tracing = Self(Path::new(TRACING).join(name));
        let place = tracing.0.display().to_string();
        let failed = |error| Absent::refused(&place, error);
        fs::create_dir(&tracing.0).map_err(failed)?;
        fs::write(tracing.0.join("set_event"), "sched:sched_switch").map_err(failed)?;
        Ok(tracing)
    }

    fn is_on(&self) -> bool {
        let text = fs::read_to_string(self.0.join("tracing_on"));
        text.expect("tracing_on").trim() == "1"
    }

    fn start(&self, place: &Place, words: &[&str]) -> Running {
        let mut command = place.command("unshare");
        command
            .args(["-m", "sh", "-c", WITHIN])
            .arg(&self.0)
            .arg(program())
            .args(words);
        Running::start(command)
    }

    fn run(&self, place: &Place, words: &[&str]) -> Ended {
        self.start(place, words).end_within(PATIENCE)
    }
}

impl Drop for Tracing {
    fn drop(&mut self) {
        let _ = fs::write(self.0.join("set_event"), "\n");
        let _ = fs::remove_dir(&self.0);
    }
}

const PATIENCE: Duration = Duration::from_secs(90);

/// Longer than any stall of a machine that is only busy, so that the breach is the scene's.
const LIMIT_NS: u64 = 300_000_000;
const LIMIT: &str = "300ms";

/// A thread with a known name runs on the probe's CPU and ends; some time later, much longer than a window
/// begins before its wake-up, a hog above the probe takes the CPU for 400 ms. Then it all begins again,
/// until the process is ended: whatever is to see it need not be ready at once.
const SCENE: &str = r"
import os, time
os.sched_setaffinity(0, {0})
while True:
    time.sleep(1)
    if os.fork() == 0:
        open('/proc/self/comm', 'w').write('known-before')
        time.sleep(0.01)
        os._exit(0)
    os.wait()
    time.sleep(0.03)
    os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(90))
    end = time.monotonic() + 0.4
    while time.monotonic() < end: pass
    os.sched_setscheduler(0, os.SCHED_OTHER, os.sched_param(0))
";

#[test]
fn a_breach_leaves_the_trace_the_ring_and_runs_the_command() {
    let _turn = alone();
    let tracing = need!(Tracing::begin());
    let place = Place::new();
    // No breach: the trace is not frozen, nothing more is kept, no command runs.
    let quiet = [
        "measure",
        "-a",
        "0",
        "-t",
        "1",
        "-l",
        "20",
        "-b",
        "10s",
        "-o",
        "quiet",
        "--on-breach",
        "touch told",
    ];
    tracing.run(&place, &quiet).expect(0);
    assert!(tracing.is_on());
    assert!(!place.path().join("told").exists());
    assert!(!place.path().join("quiet/breach-trace.txt").exists());
    assert!(!place.path().join("quiet/breach.pftrace").exists());

    let scene = Sleeper::python(&place, SCENE);
    let command = "echo $PUNCTUAL_RUN $PUNCTUAL_CPU $PUNCTUAL_LATENCY_NS >told";
    let words = [
        "measure",
        "-a",
        "0",
        "-t",
        "1",
        "-D",
        "60",
        "-p",
        "80",
        "--stop-above",
        LIMIT,
        "-o",
        "run",
        "--on-breach",
        command,
    ];
    let ended = tracing.run(&place, &words).expect(2);
    drop(scene);
    assert!(
        ended
            .stderr
            .contains("-b: a latency above 300 ms ended the run"),
        "{ended:?}"
    );
    let record = read_json(&place.path().join("run/run.json"));
    let max = &record["threads"][0]["latency"]["max_ns"];
    let told = fs::read_to_string(place.path().join("told")).expect("what it told");
    assert_eq!(told, format!("run 0 {max}\n"));
    assert!(!tracing.is_on());
    drop(tracing);
    frozen(&place, &record, "probe/0");
    assert!(!record["explanation"].is_null(), "{}", record["events"]);
    kept(&place);
}

/// The kernel's buffer contains what happened, and records nothing more.
fn frozen(place: &Place, record: &Value, woken: &str) {
    let trace = fs::read_to_string(place.path().join("run/breach-trace.txt")).expect("a trace");
    assert!(trace.starts_with("# tracer: ") && trace.contains("next_comm="));
    // On a busy machine its beginning may already be overwritten when it is frozen.
    let counts = trace.split_once("entries-written: ").expect("its counts").1;
    let counts = counts.split_whitespace().next().expect("two numbers");
    let (kept, written) = counts.split_once('/').expect("two numbers");
    assert!(
        trace.contains(&format!("next_comm={woken}")) || kept != written,
        "{counts}"
    );
    let events = record["events"].as_array().expect("events");
    assert!(
        events.iter().any(|event| event["kind"] == "trace-frozen"),
        "{events:?}"
    );
}

/// The whole ring covers more time than the windows of the bills.
fn kept(place: &Place) {
    let holds = |name: &str, text: &str| {
        let bytes = fs::read(place.path().join("run").join(name)).expect(name);
        bytes
            .windows(text.len())
            .any(|part| part == text.as_bytes())
    };
    assert!(holds("breach.pftrace", "python3"), "the culprit");
    assert!(
        holds("breach.pftrace", "known-before"),
        "what came long before"
    );
    // The worst comes first; another late wake-up may include that thread.
    let windows = fs::read_to_string(place.path().join("run/windows.jsonl")).expect("windows");
    let breach = windows.lines().next().expect("the breach");
    assert!(!breach.contains("known-before"), "the scene is too short");
}

/// A real-time thread that a timer wakes each ms, on the CPU of the scene.
const SLEEPER: &str = "import os,time\n\
os.sched_setaffinity(0,{0})\n\
os.sched_setscheduler(0,os.SCHED_FIFO,os.sched_param(60))\n\
open('/proc/self/comm','w').write('rt-sleeper')\n\
while True: time.sleep(0.001)\n";

/// Ended with the test.
struct Sleeper(std::process::Child);

impl Sleeper {
    fn python(place: &Place, script: &str) -> Self {
        let mut command = place.command("python3");
        Self(command.args(["-c", script]).spawn().expect("a program"))
    }
}

impl Drop for Sleeper {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn a_breach_of_a_watch_leaves_the_same_as_that_of_a_run() {
    let _turn = alone();
    let tracing = need!(Tracing::begin());
    let place = Place::new();
    let sleeper = Sleeper::python(&place, SLEEPER);
    let tid = sleeper.0.id().to_string();
    let comm = format!("/proc/{tid}/comm");
    until("its name", || {
        fs::read_to_string(&comm).is_ok_and(|name| name.trim() == "rt-sleeper")
    });
    // No breach: the trace is not frozen, nothing more is kept, no command runs.
    let quiet = [
        "watch",
        &tid,
        "-D",
        "1",
        "-b",
        "10s",
        "-o",
        "quiet",
        "--on-breach",
        "touch told",
    ];
    tracing.run(&place, &quiet).expect(0);
    assert!(tracing.is_on());
    for file in ["told", "quiet/breach-trace.txt", "quiet/breach.pftrace"] {
        assert!(!place.path().join(file).exists(), "{file}");
    }
    assert!(read_json(&place.path().join("quiet/run.json"))["watch"]["breach"].is_null());

    let command = "echo $PUNCTUAL_RUN $PUNCTUAL_CPU $PUNCTUAL_TID $PUNCTUAL_LATENCY_NS >told";
    let words = [
        "watch",
        &tid,
        "-D",
        "60",
        "--stop-above",
        LIMIT,
        "-o",
        "run",
        "--on-breach",
        command,
    ];
    let watch = tracing.start(&place, &words);
    until("the watch", || place.path().join("run/run.json").exists());
    let scene = Sleeper::python(&place, SCENE);
    let ended = watch.end_within(PATIENCE).expect(2);
    drop(scene);
    assert!(
        ended
            .stderr
            .contains("-b: a latency above 300 ms ended the run"),
        "{ended:?}"
    );
    let record = read_json(&place.path().join("run/run.json"));
    assert_eq!(record["state"]["reason"], "break-value");
    assert_eq!(record["request"]["break_ns"], LIMIT_NS);
    let breach = &record["watch"]["breach"];
    let latency_ns = breach["latency_ns"].as_u64().expect("a latency");
    assert!(latency_ns > LIMIT_NS, "{breach}");
    assert_eq!(breach["task"]["name"], "rt-sleeper");
    let told = fs::read_to_string(place.path().join("told")).expect("what it told");
    assert_eq!(told, format!("run 0 {tid} {latency_ns}\n"));
    let events = record["events"].as_array().expect("events");
    let says = |event: &&Value| event["kind"] == "breach";
    let event = events.iter().find(says).expect("the breach");
    assert_eq!(event["task"], "rt-sleeper");
    assert_eq!(event["tid"].to_string(), tid.to_string());
    assert_eq!(event["cpu"], 0);
    assert!(!tracing.is_on());
    drop(tracing);
    frozen(&place, &record, "rt-sleeper");
    kept(&place);
}

#[test]
fn a_breach_ends_a_watch_of_the_system_and_names_the_late_thread() {
    need!(needs::root());
    need!(needs::program("python3"));
    let _turn = alone();
    let place = Place::new();
    let _sleeper = Sleeper::python(&place, SLEEPER);
    // Any wake-up takes longer than that.
    let words = ["watch", "--system", "-D", "60", "-b", "1ns", "-o", "run"];
    let ended = place.start(&words).end_within(PATIENCE).expect(2);
    assert!(
        ended.stderr.contains("-b: a latency above 1 ns"),
        "{ended:?}"
    );
    let run = place.run_of_path("run");
    let breach = run.watch.expect("a watch").breach.expect("a breach");
    assert!(
        breach.latency_ns > 1 && !breach.task.name.is_empty(),
        "{breach:?}"
    );
    assert!(run.measured_ns < 50_000_000_000);
}

#[test]
fn a_command_without_a_limit_is_wrong_usage_and_a_failing_one_is_reported() {
    let place = Place::new();
    let ended = place
        .run(&["measure", "-l", "1", "--on-breach", "true"])
        .expect(64);
    assert_eq!(ended.stderr.lines().count(), 1, "{ended:?}");
    let words = [
        "measure",
        "-l",
        "5000",
        "-b",
        "1ns",
        "-o",
        "run",
        "--best-effort",
        "--on-breach",
        "exit 3",
    ];
    let ended = place.run(&words).expect(1);
    assert!(
        ended.stderr.contains("--on-breach 'exit 3' failed"),
        "{ended:?}"
    );
}
