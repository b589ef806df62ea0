//! Starts a program that was not written for real time: its threads on prefaulted,
//! guarded stacks, its memory locked, scheduled and placed.
//!
//! Policy and CPUs are inherited through `exec`. Stacks and locks are not: a library that is
//! preloaded into the program does these; if a program can't load it,
//! that is reported before the program runs.

mod elf;
mod error;
mod library;
mod program;

use std::ffi::OsString;
use std::io;
use std::os::unix::process::CommandExt;
use std::process::Command;

use punctual_rt::affinity;
use punctual_rt::sched::{self, Policy};

pub use error::{CANNOT_RUN, NOT_FOUND, Refusal};
pub use library::Library;
pub use program::Program;

/// Which stacks the threads of the program get.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum Stacks {
    /// Prefaulted, guarded ones, kept for the next thread
    Pool,
    /// Their own, prefaulted before the thread starts
    Wrap,
    /// Their own, unchanged
    None,
}

/// How the memory of the program is locked.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum Lock {
    /// All that is mapped, made present at once
    All,
    /// Each page from its first use on
    Onfault,
}

/// How to run a program.
#[derive(Debug, Clone)]
pub struct Launch {
    /// Its threads' stacks.
    pub stacks: Stacks,
    /// How stack use is monitored, a value of `PUNCTUAL_STACK_DEBUG`; `None` leaves the variable as
    /// it is.
    pub stack_debug: Option<String>,
    /// Bytes of stack for a thread that requests no size.
    pub stack_size: usize,
    /// How its memory is locked, if it is.
    pub lock: Option<Lock>,
    /// Whether we are in our own user namespace: its capabilities don't count for locking.
    pub user_namespace: bool,
    /// Its CPUs; empty keeps ours.
    pub cpus: Vec<usize>,
    /// Its policy; `None` keeps ours.
    pub policy: Option<Policy>,
    /// Whether it prints a line at its end that says what was done.
    pub report: bool,
}

impl Launch {
    fn wants_library(&self) -> bool {
        self.stacks != Stacks::None || self.lock.is_some()
    }

    /// Becomes the program; returns only if that fails.
    #[must_use]
    pub fn run(&self, name: &OsString, arguments: &[OsString]) -> Refusal {
        match self.prepare(name, arguments) {
            Ok(mut command) => Refusal::NotRun {
                source: command.exec(),
                name: name.to_string_lossy().into_owned(),
            },
            Err(refusal) => refusal,
        }
    }

    /// Schedules and places this thread as the program is to be, and returns the command that starts
    /// the program.
    ///
    /// # Errors
    /// Why it can't be run as requested.
    pub fn prepare(&self, name: &OsString, arguments: &[OsString]) -> Result<Command, Refusal> {
        let program = Program::find(name)?;
        let mut command = Command::new(program.path());
        command.arg0(name).args(arguments);
        if self.wants_library() {
            let loaded = program.examine()?;
            let library = Library::find()?;
            let root = library.try_with(&loaded)?;
            command.env("LD_PRELOAD", library.beside_others(root));
            command.env("PUNCTUAL_RUN", self.words());
            if let Some(words) = &self.stack_debug {
                command.env("PUNCTUAL_STACK_DEBUG", words);
            }
            library.keep();
        }
        if self.lock.is_some() {
            lockable(self.user_namespace)?;
        }
        if !self.cpus.is_empty() {
            affinity::set_current(&self.cpus).map_err(Refusal::Cpus)?;
        }
        if let Some(policy) = self.policy {
            // Last, so that what goes before doesn't compete at the program's priority.
            sched::set_current(policy).map_err(|source| Refusal::Scheduling { policy, source })?;
        }
        Ok(command)
    }

    /// The library's settings, for its environment.
    fn words(&self) -> String {
        let stacks = match self.stacks {
            Stacks::Pool => "pool",
            Stacks::Wrap => "wrap",
            Stacks::None => "none",
        };
        let mut words = format!("stack={stacks},size={}", self.stack_size);
        words.push_str(match self.lock {
            None => "",
            Some(Lock::All) => ",lock",
            Some(Lock::Onfault) => ",lock=onfault",
        });
        if self.report {
            words.push_str(&format!(",report={}", std::process::id()));
        }
        words
    }
}

/// With a limit, locking would succeed and a later allocation fail: so none is accepted.
#[expect(unsafe_code, reason = "getrlimit and setrlimit")]
fn lockable(user_namespace: bool) -> Result<(), Refusal> {
    let mut limit = libc::rlimit {
        rlim_cur: 0,
        rlim_max: 0,
    };
    // SAFETY: `limit` is a valid rlimit that outlives the call.
    if unsafe { libc::getrlimit(libc::RLIMIT_MEMLOCK, &mut limit) } != 0 {
        return Err(Refusal::LockLimitUnread(io::Error::last_os_error()));
    }
    if limit.rlim_cur == libc::RLIM_INFINITY || !user_namespace && has_ipc_lock() {
        return Ok(());
    }
    limit.rlim_cur = limit.rlim_max;
    // SAFETY: `limit` is a valid rlimit that outlives the call.
    let raised = unsafe { libc::setrlimit(libc::RLIMIT_MEMLOCK, &limit) } == 0;
    if raised && limit.rlim_max == libc::RLIM_INFINITY {
        return Ok(());
    }
    Err(Refusal::LockLimit {
        bytes: limit.rlim_max,
    })
}

/// Whether the kernel lets the program lock without a limit (CAP_IPC_LOCK, bit 14): our current
/// capabilities don't count, because `exec` drops those of our file. It keeps ambient capabilities,
/// and root gets those of the bounding set.
fn has_ipc_lock() -> bool {
    const CAP_IPC_LOCK: u64 = 14;
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let has = |key: &str| {
        let digits = status.lines().find_map(|line| line.strip_prefix(key));
        let set = digits.and_then(|digits| u64::from_str_radix(digits.trim(), 16).ok());
        set.is_some_and(|set| set >> CAP_IPC_LOCK & 1 == 1)
    };
    let root = punctual_rt::sys::file::effective_user() == 0;
    has("CapAmb:") || root && has("CapBnd:")
}
