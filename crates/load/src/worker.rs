//! The inside of a load's processes: the hidden verb `__load`, and what a
//! generator is given to work with.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::thread;

use super::board::{Board, Slot};
use super::generator::Values;
use super::set::LoadClass;
use super::{supervisor, sys};

/// The verb by which the tool starts itself again for a load.
pub const VERB: &str = "__load";

/// What the fork load runs by this verb: a program that does nothing. No load is called so.
pub(super) const NOTHING: &str = "--nothing";

/// The name that a user's own command goes by.
pub const COMMAND: &str = "command";

const THREAD_STACK: usize = 128 << 10;
/// What a thread takes beside its stack: guards, a stack for signals, buffers.
const THREAD_REST: usize = 256 << 10;

/// The entry of `__load NAME --key value ...`, given what follows the verb.
///
/// The controller passes the [`Board`] as standard input and a socket, whose
/// end tells that the controller is gone, as standard output; typed by hand
/// it refuses.
pub fn main(arguments: impl IntoIterator<Item = OsString>) -> ExitCode {
    let mut arguments = arguments.into_iter().peekable();
    // As fast as this binary can.
    if arguments.peek().is_some_and(|name| name == NOTHING) {
        return ExitCode::SUCCESS;
    }
    match Job::from_arguments(arguments) {
        Ok(job) => supervisor::main(&job),
        Err(error) => supervisor::refuse(&error),
    }
}

/// What one load has to do, as told on the command line of its supervisor.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Job {
    /// A generator's name, or [`COMMAND`].
    pub name: String,
    /// The class to run in.
    pub class: LoadClass,
    /// The CPUs to run on; `None` is all that are allowed.
    pub cpus: Option<Vec<usize>>,
    /// A directory to be made and removed.
    pub scratch: Option<PathBuf>,
    /// The command line, for [`COMMAND`].
    pub run: Option<OsString>,
    /// All of the generator's parameters.
    pub values: Values,
}

impl Job {
    pub fn to_arguments(&self) -> Vec<OsString> {
        let mut arguments = vec![OsString::from(VERB), self.name.clone().into()];
        let mut add = |key: &str, value: OsString| {
            arguments.push(format!("--{key}").into());
            arguments.push(value);
        };
        add("class", self.class.to_string().into());
        if let Some(cpus) = &self.cpus {
            let cpus: Vec<_> = cpus.iter().map(ToString::to_string).collect();
            add("cpus", cpus.join(",").into());
        }
        if let Some(scratch) = &self.scratch {
            add("scratch", scratch.into());
        }
        if let Some(run) = &self.run {
            add("run", run.clone());
        }
        for (key, value) in &self.values {
            add(key, value.to_string().into());
        }
        arguments
    }

    fn from_arguments(mut arguments: impl Iterator<Item = OsString>) -> Result<Self, String> {
        let text = |value: OsString| value.into_string().map_err(|v| format!("not text: {v:?}"));
        let name = text(arguments.next().ok_or("no name of a load")?)?;
        let mut job = Job {
            name,
            class: LoadClass::Other,
            cpus: None,
            scratch: None,
            run: None,
            values: BTreeMap::new(),
        };
        while let Some(key) = arguments.next() {
            let key = text(key)?;
            let value = arguments.next().ok_or_else(|| format!("{key}: no value"))?;
            match key
                .strip_prefix("--")
                .ok_or_else(|| format!("{key}: no option"))?
            {
                "class" => job.class = text(value)?.parse()?,
                "cpus" => {
                    let numbers = text(value)?;
                    let numbers: Result<_, _> = numbers.split(',').map(str::parse).collect();
                    job.cpus = Some(numbers.map_err(|error| format!("--cpus: {error}"))?);
                }
                "scratch" => job.scratch = Some(value.into()),
                "run" => job.run = Some(value),
                key => {
                    let number = text(value)?.parse();
                    let number = number.map_err(|error| format!("--{key}: {error}"))?;
                    job.values.insert(key.to_owned(), number);
                }
            }
        }
        Ok(job)
    }
}

/// What a generator is given.
pub struct Context<'a> {
    pub(super) board: &'a Board,
    pub(super) job: &'a Job,
}

impl<'a> Context<'a> {
    /// The value of a parameter.
    ///
    /// # Panics
    /// When the generator does not declare the parameter.
    pub fn value(&self, key: &str) -> u64 {
        match self.job.values.get(key) {
            Some(&value) => value,
            None => panic!("load {} was not given {key}", self.job.name),
        }
    }

    /// As [`value`](Self::value), for sizes and counts.
    pub fn size(&self, key: &str) -> usize {
        usize::try_from(self.value(key)).unwrap_or(usize::MAX)
    }

    /// As [`value`](Self::value), for switches.
    pub fn is_on(&self, key: &str) -> bool {
        self.value(key) != 0
    }

    /// Where everybody counts.
    pub fn board(&self) -> &'a Board {
        self.board
    }

    /// Where worker `index` counts.
    pub fn slot(&self, index: usize) -> &'a Slot {
        self.board.slot(index)
    }

    /// The directory for this load's files: the supervisor removes it.
    pub fn scratch(&self) -> Result<&'a Path, String> {
        let scratch = self.job.scratch.as_deref();
        scratch.ok_or_else(|| "no scratch directory was given".into())
    }

    /// Runs `body(0)` to `body(processes - 1)` in a process each, and waits
    /// for them. Each body announces itself with [`Board::arrive`] once for
    /// each of its `tasks` (threads) and then works for ever; one that returns
    /// has failed, and so has the load.
    pub fn crew(
        &self,
        processes: usize,
        tasks: usize,
        body: impl Fn(usize) -> Result<(), String>,
    ) -> Result<(), String> {
        self.board.expect(processes * tasks);
        for index in 0..processes {
            self.fork(|| body(index))?;
        }
        match sys::wait(-1, true) {
            Ok(Some(ended)) if !ended.success() => {
                let end = ended.describe();
                Err(format!("a worker (process {}) ended: {end}", ended.pid))
            }
            Ok(_) => Err("a worker ended before it was told to".into()),
            Err(error) => Err(format!("waiting for the workers failed: {error}")),
        }
    }

    /// Runs `body(0)` to `body(threads - 1)` in a thread each. The first that
    /// returns takes the process with it: the others might wait for it for
    /// ever.
    pub fn threads(
        &self,
        threads: usize,
        body: impl Fn(usize) -> Result<(), String> + Sync,
    ) -> Result<(), String> {
        let member = |index| {
            let ended_early = || "a thread ended before it was told to".to_owned();
            self.board
                .fail(&body(index).err().unwrap_or_else(ended_early));
            sys::exit_now(1);
        };
        let member = &member;
        if !sys::has_room(threads.saturating_mul(THREAD_STACK + THREAD_REST)) {
            return Err(format!(
                "there is no memory for {threads} threads: raise its limit (ulimit -v)"
            ));
        }
        thread::scope(|scope| {
            for index in 0..threads {
                let builder = thread::Builder::new().stack_size(THREAD_STACK);
                if let Err(error) = builder.spawn_scoped(scope, move || member(index)) {
                    let hint = "raise the limits of processes (ulimit -u, pids.max) and of \
                                memory (ulimit -v)";
                    self.board
                        .fail(&format!("starting a thread failed: {error}: {hint}"));
                    sys::exit_now(1);
                }
            }
        });
        Err("a thread panicked".into())
    }

    /// Runs `body` in a child process, which dies when this one does. What
    /// `body` returns as an error is the load's failure.
    pub fn fork(&self, body: impl FnOnce() -> Result<(), String>) -> Result<i32, String> {
        let parent = std::process::id() as i32;
        let child = || {
            sys::die_with(parent);
            match body() {
                Ok(()) => 0,
                Err(error) => {
                    self.board.fail(&error);
                    1
                }
            }
        };
        sys::fork_child(child).map_err(|error| {
            format!("fork failed: {error}: raise the limit of processes (ulimit -u, pids.max)")
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_job_survives_the_command_line() {
        let job = Job {
            name: "files".into(),
            class: LoadClass::Idle,
            cpus: Some(vec![0, 3]),
            scratch: Some("/tmp/a b".into()),
            run: Some("echo 'x y'".into()),
            values: [("readers".to_owned(), 7)].into(),
        };
        let mut arguments = job.to_arguments().into_iter();
        assert_eq!(arguments.next(), Some(VERB.into()));
        assert_eq!(Job::from_arguments(arguments), Ok(job));
    }

    #[test]
    fn nonsense_is_refused() {
        for arguments in [
            &["cpu", "--class"][..],
            &["cpu", "x", "y"],
            &["cpu", "--cpus", "a"],
            &[],
        ] {
            let arguments = arguments.iter().map(OsString::from);
            assert!(Job::from_arguments(arguments).is_err());
        }
    }
}
