//! The environment of a generator.

use std::path::Path;
use std::thread;

use crate::board::{Board, Slot};
use crate::error::WorkError;
use crate::job::Job;
use crate::sys;

const THREAD_STACK: usize = 128 << 10;
/// Memory of a thread in addition to its stack: guards, a stack for signals, buffers.
const THREAD_REST: usize = 256 << 10;

/// The environment of a generator.
pub struct Context<'a> {
    pub(crate) board: &'a Board,
    pub(crate) job: &'a Job,
}

impl<'a> Context<'a> {
    /// The value of a parameter.
    ///
    /// # Panics
    /// If the generator does not declare the parameter.
    pub fn value(&self, key: &str) -> u64 {
        match self.job.values.get(key) {
            Some(&value) => value,
            None => panic!("load {} was not given {key}", self.job.name),
        }
    }

    /// Like [`value`](Self::value), for sizes and counts.
    pub fn size(&self, key: &str) -> usize {
        usize::try_from(self.value(key)).unwrap_or(usize::MAX)
    }

    /// Like [`value`](Self::value), for switches.
    pub fn is_on(&self, key: &str) -> bool {
        self.value(key) != 0
    }

    /// The shared board.
    pub fn board(&self) -> &'a Board {
        self.board
    }

    /// The slot of worker `index`.
    pub fn slot(&self, index: usize) -> &'a Slot {
        self.board.slot(index)
    }

    /// The directory for this load's files, which the supervisor removes.
    pub fn scratch(&self) -> Result<&'a Path, WorkError> {
        let scratch = self.job.scratch.as_deref();
        scratch.ok_or(WorkError::NotGiven {
            what: "scratch directory",
        })
    }

    /// Runs `body(0)` to `body(processes - 1)` in one process each, and waits for them. Each body
    /// calls [`Board::arrive`] once for each of its `tasks` (threads) and then works for ever; if one
    /// returns, the load has failed.
    pub fn crew(
        &self,
        processes: usize,
        tasks: usize,
        body: impl Fn(usize) -> Result<(), WorkError>,
    ) -> Result<(), WorkError> {
        self.board.expect(processes * tasks);
        for index in 0..processes {
            self.fork(|| body(index))?;
        }
        match sys::wait(None, true) {
            Ok(Some(ended)) if !ended.success() => {
                let who = format!("a worker (process {})", ended.pid);
                Err(WorkError::ended(who, ended))
            }
            Ok(_) => Err(WorkError::Early { who: "a worker" }),
            Err(error) => Err(WorkError::system("waiting for the workers failed")(error)),
        }
    }

    /// Runs `body(0)` to `body(threads - 1)` in one thread each. The first that returns ends the
    /// process: the others might wait for it for ever.
    pub fn threads(
        &self,
        threads: usize,
        body: impl Fn(usize) -> Result<(), WorkError> + Sync,
    ) -> Result<(), WorkError> {
        let member = |index| {
            let ended_early = || WorkError::Early { who: "a thread" };
            self.board
                .fail(&body(index).err().unwrap_or_else(ended_early));
            sys::exit_now(1);
        };
        let member = &member;
        if !sys::has_room(threads.saturating_mul(THREAD_STACK + THREAD_REST)) {
            return Err(WorkError::NoRoom { threads });
        }
        thread::scope(|scope| {
            for index in 0..threads {
                let builder = thread::Builder::new().stack_size(THREAD_STACK);
                if let Err(error) = builder.spawn_scoped(scope, move || member(index)) {
                    let hint = "raise the limits of processes (ulimit -u, pids.max) and of \
                                memory (ulimit -v)";
                    let failed = WorkError::advised("starting a thread failed", hint);
                    self.board.fail(&failed(error));
                    sys::exit_now(1);
                }
            }
        });
        Err(WorkError::Panicked)
    }

    /// Runs `body` in a child process that dies with this process. An error of `body` is the load's
    /// failure.
    pub fn fork(&self, body: impl FnOnce() -> Result<(), WorkError>) -> Result<i32, WorkError> {
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
        let hint = "raise the limit of processes (ulimit -u, pids.max)";
        sys::fork_child(child).map_err(WorkError::advised("fork failed", hint))
    }
}
