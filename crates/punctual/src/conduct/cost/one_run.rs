//! One run of a command, seen from punctual.

use std::ffi::OsString;
use std::fs::File;
use std::io::{self, Read};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::time::{Duration, Instant};

use punctual_stats::format::duration;
use rustix::process::{Pid, Signal, kill_process_group};

use super::error::CostError;
use super::runner::{RunAnswer, RunJob, VERB};

/// How often it is looked for signals and for wake-ups of the probe.
const LOOK: Duration = Duration::from_millis(50);
/// Bytes of an answer.
const MOST_ANSWER: u64 = 1 << 16;
/// In the environment of each process of a run: the last resort to find them.
const MARKER: &str = "PUNCTUAL_COST";

/// What all runs of a command have in common.
pub struct Running<'r> {
    /// The command with its arguments.
    pub program: &'r [OsString],
    /// What a shell does before each run.
    pub prepare: Option<&'r str>,
    /// Gets what the command prints.
    pub output: Option<File>,
    /// Time after which a run is ended.
    pub limit: Duration,
    /// Whether a signal ends everything.
    pub ends: &'r dyn Fn() -> bool,
}

/// How a run went.
pub enum Ran {
    /// It gave an answer.
    Answer(RunAnswer),
    /// A signal ended it.
    Stopped,
}

impl Running<'_> {
    /// Runs the command once; `tick` is called meanwhile, many times a second.
    ///
    /// # Errors
    /// No answer, or none in time. No process of the run is left.
    pub fn run(&self, job: &RunJob, tick: &mut dyn FnMut()) -> Result<Ran, CostError> {
        let marker = std::process::id().to_string();
        let words = serde_json::to_string(job).map_err(|error| CostError::Runner(error.into()))?;
        let mut child = Command::new("/proc/self/exe")
            .arg(VERB)
            .arg(words)
            .args(self.program)
            .env(MARKER, &marker)
            // Ctrl-C reaches punctual alone, which ends the run.
            .process_group(0)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(self.sink()?)
            .spawn()
            .map_err(CostError::Runner)?;
        let Some(mut answers) = child.stdout.take() else {
            return Err(CostError::Runner(io::ErrorKind::BrokenPipe.into()));
        };
        let (tell, told) = mpsc::channel();
        let read = move || {
            let mut text = String::new();
            let read = answers.by_ref().take(MOST_ANSWER).read_to_string(&mut text);
            let _ = tell.send(read.map(|_| text));
        };
        std::thread::Builder::new()
            .stack_size(256 << 10)
            .spawn(read)
            .map_err(CostError::Runner)?;
        let begun = Instant::now();
        let outcome = loop {
            match told.recv_timeout(LOOK) {
                Ok(Ok(text)) => break serde_json::from_str(&text).map(Ran::Answer).ok(),
                Ok(Err(_)) | Err(RecvTimeoutError::Disconnected) => break None,
                Err(RecvTimeoutError::Timeout) => {}
            }
            tick();
            if (self.ends)() {
                end(child, &marker);
                return Ok(Ran::Stopped);
            }
            if begun.elapsed() > self.limit {
                end(child, &marker);
                return Err(CostError::Limit {
                    program: self.name(),
                    limit_ns: u64::try_from(self.limit.as_nanos()).unwrap_or(u64::MAX),
                });
            }
        };
        tick();
        match outcome {
            Some(ran) => {
                // It has answered, and nothing of the run is left.
                let _ = child.wait();
                Ok(ran)
            }
            None => {
                end(child, &marker);
                Err(CostError::RunnerKilled)
            }
        }
    }

    /// The command's name.
    pub fn name(&self) -> String {
        let name = self.program.first();
        name.map_or_else(String::new, |name| name.to_string_lossy().into_owned())
    }

    fn sink(&self) -> Result<Stdio, CostError> {
        match &self.output {
            Some(file) => file.try_clone().map(Stdio::from).map_err(CostError::Runner),
            None => Ok(Stdio::null()),
        }
    }

    /// Does what goes before a run; false if a signal ended it.
    ///
    /// # Errors
    /// It failed, or did not end.
    pub fn prepare(&self) -> Result<bool, CostError> {
        let Some(line) = self.prepare else {
            return Ok(true);
        };
        let failed = |how: String| CostError::Prepare {
            line: line.to_owned(),
            how,
        };
        let mut child = Command::new("/bin/sh")
            .args(["-c", line])
            .process_group(0)
            .stdin(Stdio::null())
            .stdout(self.sink()?)
            .stderr(self.sink()?)
            .spawn()
            .map_err(|error| failed(format!("was not started: {error}")))?;
        let begun = Instant::now();
        loop {
            if let Some(status) = child.try_wait().map_err(CostError::Runner)? {
                return match (status.code(), status.signal()) {
                    (Some(0), _) => Ok(true),
                    (Some(code), _) => Err(failed(format!("ended with status {code}"))),
                    (_, signal) => Err(failed(format!(
                        "was ended by signal {}",
                        signal.unwrap_or(0)
                    ))),
                };
            }
            let is_late = begun.elapsed() > self.limit;
            if is_late || (self.ends)() {
                let group = i32::try_from(child.id()).ok().and_then(Pid::from_raw);
                if let Some(group) = group {
                    // It may have ended.
                    let _ = kill_process_group(group, Signal::KILL);
                }
                let _ = child.wait();
                let limit_ns = u64::try_from(self.limit.as_nanos()).unwrap_or(u64::MAX);
                return match is_late {
                    true => Err(failed(format!(
                        "had not ended after {}",
                        duration(limit_ns)
                    ))),
                    false => Ok(false),
                };
            }
            std::thread::sleep(Duration::from_millis(5));
        }
    }
}

/// Ends a run: the process above it ends all of it when its standard input is closed. If that one was
/// killed, its processes are found by what is in their environment.
fn end(mut child: Child, marker: &str) {
    const PATIENCE: Duration = Duration::from_secs(10);
    drop(child.stdin.take());
    let begun = Instant::now();
    while begun.elapsed() < PATIENCE {
        if !matches!(child.try_wait(), Ok(None)) {
            break;
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    let _ = child.kill();
    let _ = child.wait();
    punctual_load::kill_marked(&format!("{MARKER}={marker}"), PATIENCE);
}
