//! One running load, from the controller's side.

use std::collections::BTreeMap;
use std::io::{ErrorKind, Read};
use std::net::Shutdown;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::os::unix::process::ExitStatusExt;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;
use std::{fs, io, process};

use crate::board::{Board, state};
use crate::error::LoadError;
use crate::job::{COMMAND, Job, VERB};
use crate::look::{Look, Pause, Seen};
use crate::report::{LoadReport, LoadStatus, rate};
use crate::settings::LoadSettings;
use crate::{command, parameter, registry, sys, tree};
use punctual_record::LoadFailure;

/// How long a load may take to die before its processes are reported.
const PATIENCE: Duration = Duration::from_secs(10);

/// The environment variable that identifies a load's processes.
const MARKER: &str = "PUNCTUAL_LOAD";

/// A load, its supervisor and what is shared with them.
#[derive(Debug)]
pub(crate) struct Running {
    pub job: Job,
    pub board: Board,
    pub look: Look,
    control: UnixStream,
    supervisor: Option<Child>,
    marker: String,
}

impl Running {
    pub fn start(job: Job, settings: &LoadSettings) -> Result<Self, LoadError> {
        let failed = |source: io::Error| LoadError::Supervisor {
            load: job.name.clone(),
            source,
        };
        let board = Board::new().map_err(failed)?;
        board.set_seed(settings.seed);
        let (control, theirs) = UnixStream::pair().map_err(failed)?;
        let itself = || PathBuf::from("/proc/self/exe");
        let marker = unique();
        let supervisor = Command::new(settings.program.clone().unwrap_or_else(itself))
            .args([VERB, &job.to_argument()])
            .env(MARKER, &marker)
            .stdin(board.fd().try_clone_to_owned().map_err(failed)?)
            .stdout(OwnedFd::from(theirs))
            .stderr(Stdio::null())
            .spawn()
            .map_err(failed)?;
        let supervisor = Some(supervisor);
        let least_ns = (job.name == COMMAND).then_some(settings.least_cpu_ns);
        let look = Look::new(least_ns, parameter::pause_ns(&job.values));
        let marker = format!("{MARKER}={marker}");
        control.set_nonblocking(true).map_err(failed)?;
        Ok(Running {
            job,
            board,
            look,
            control,
            supervisor,
            marker,
        })
    }

    /// Whether the supervisor has closed its end: nothing is ever sent.
    pub fn is_gone(&self) -> bool {
        let read = (&self.control).read(&mut [0]);
        !read.is_err_and(|error| {
            matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted)
        })
    }

    /// Why it failed, if it did.
    pub fn failure(&self) -> Option<LoadFailure> {
        let is_gone = self.is_gone();
        let finished = self.board.state() == state::FINISHED;
        // In this order: a supervisor writes its reason before it ends.
        let error = self.board.error();
        let failure = error.map(|error| LoadFailure::Error { error });
        failure.or_else(|| (is_gone && !finished).then_some(LoadFailure::SupervisorGone))
    }

    /// The supervisor's process id, until it was waited for.
    pub fn supervisor_id(&self) -> Option<i32> {
        Some(self.supervisor.as_ref()?.id() as i32)
    }

    /// Seconds of work, until now if it is running.
    fn seconds(&self) -> f64 {
        let end = self.board.end().unwrap_or_else(sys::now);
        let begin = self.board.begin().unwrap_or(end);
        end.saturating_sub(begin) as f64 / 1e9
    }

    fn unit(&self) -> &'static str {
        match registry::find(&self.job.name) {
            Some(generator) => generator.unit,
            None => command::UNIT,
        }
    }

    fn also(&self) -> BTreeMap<String, u64> {
        let units = registry::find(&self.job.name).map_or(&[][..], |generator| generator.also);
        let count = |(at, unit): (usize, &&str)| ((*unit).to_owned(), self.board.also(at));
        units.iter().enumerate().map(count).collect()
    }

    pub fn status(&self) -> LoadStatus {
        let (work, seconds) = (self.board.work(), self.seconds());
        LoadStatus {
            name: self.job.name.clone(),
            supervisor: self.supervisor.as_ref().map_or(0, Child::id),
            expected: self.board.expected(),
            alive: self.board.alive(),
            work,
            unit: self.unit().into(),
            also: self.also(),
            seconds,
            rate: rate(work, seconds),
            check: self.look.check,
            finished: self.board.state() == state::FINISHED,
            failed: self.failure(),
        }
    }

    pub fn report(&self) -> LoadReport {
        let LoadStatus {
            name,
            expected: processes,
            work,
            unit,
            also,
            seconds,
            rate,
            check,
            failed,
            ..
        } = self.status();
        let never_ran = self.board.begin().is_none();
        let not_ready = never_ran.then_some(LoadFailure::NotStarted);
        LoadReport {
            parameters: self.parameters(),
            also,
            failed: failed.or(not_ready),
            name,
            processes,
            work,
            unit,
            seconds,
            rate,
            check: (check.looked_ns > 0 || check.is_off()).then_some(check),
        }
    }

    fn parameters(&self) -> BTreeMap<String, String> {
        let job = &self.job;
        let values = job.values.iter();
        let mut all: BTreeMap<_, _> = values
            .map(|(key, value)| (key.clone(), value.to_string()))
            .collect();
        let mut add = |key: &str, value| all.insert(key.to_owned(), value);
        add("class", job.class.to_string());
        if let Some(cpus) = &job.cpus {
            let cpus: Vec<_> = cpus.iter().map(ToString::to_string).collect();
            add("cpus", cpus.join(","));
        }
        if let Some(line) = &job.run {
            add(COMMAND, line.clone());
        }
        if let Some(parent) = job.scratch.as_ref().and_then(|path| path.parent()) {
            add("directory", parent.display().to_string());
        }
        all
    }

    /// Requests the end; returns at once.
    pub fn request_stop(&self) {
        // The supervisor sees the same as when this process is killed: every end takes that path,
        // so it is always tested.
        let _ = self.control.shutdown(Shutdown::Write);
    }

    /// Waits for the end; returns what went wrong.
    pub fn finish(&mut self) -> Option<LoadFailure> {
        let mut supervisor = self.supervisor.take()?;
        let _ = self.control.set_nonblocking(false);
        let _ = self.control.set_read_timeout(Some(PATIENCE));
        let late = (&self.control).read(&mut [0]).is_err();
        if late {
            let _ = supervisor.kill();
        }
        let clean = supervisor
            .wait()
            .is_ok_and(|status| status.signal().is_none());
        if clean {
            return None;
        }
        // The supervisor was killed: do its work.
        let gone = tree::kill_marked(&self.marker, PATIENCE);
        if let Some(scratch) = &self.job.scratch {
            let _ = fs::remove_dir_all(scratch);
        }
        let waited_ns = u64::try_from(PATIENCE.as_nanos()).unwrap_or(u64::MAX);
        Some(match (late, gone) {
            (_, false) => LoadFailure::NotKilled { waited_ns },
            (true, true) => LoadFailure::SlowToStop { waited_ns },
            (false, true) => LoadFailure::SupervisorKilled,
        })
    }
}

impl Running {
    /// Checks the load. Must be called several times per second; returns a time without work that
    /// has ended.
    pub fn look(&mut self, now_ns: u64) -> Option<Pause> {
        // For a load that is over, its end and the reason are reported.
        if self.look.check.is_off() || self.board.is_over() || self.is_gone() {
            return None;
        }
        let seen = Seen {
            name: &self.job.name,
            board: &self.board,
            supervisor: self.supervisor_id(),
        };
        self.look.at(now_ns, &seen)
    }

    /// The current time without work.
    pub fn idle_now(&mut self) -> Option<Pause> {
        self.look.last(&self.job.name)
    }
}

/// A name that no other load has.
pub(crate) fn unique() -> String {
    static COUNT: AtomicU32 = AtomicU32::new(0);
    let count = COUNT.fetch_add(1, Ordering::Relaxed);
    format!("{}-{count}-{}", process::id(), sys::now())
}
