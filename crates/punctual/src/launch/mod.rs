//! Starts a program that was not written for real time: its threads on prefaulted,
//! guarded stacks, its memory locked, scheduled and placed.
//!
//! Policy and CPUs are inherited through `exec`. Stacks and locks are not: a library that is
//! preloaded into the program does these; if a program can't load it,
//! that is reported before the program runs.

mod elf;
mod library;
mod program;

use std::ffi::OsString;
use std::fmt;
use std::io;
use std::os::unix::process::CommandExt;
use std::process::Command;

use punctual_rt::affinity;
use punctual_rt::sched::{self, Policy};

pub use library::Library;
pub use program::Program;

/// Exit status if a program exists and can't be run, as in shells.
pub const CANNOT_RUN: u8 = 126;
/// Exit status if there is no such program, as in shells.
pub const NOT_FOUND: u8 = 127;
const SETUP: u8 = 1;

/// Which stacks the threads of the program get.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum Stacks {
    /// Prefaulted, guarded ones, kept for the next thread
    Pool,
    /// Their own, made present before the thread begins
    Wrap,
    /// Their own, untouched
    None,
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
    /// Whether its memory is locked.
    pub lock: bool,
    /// Whether we are in our own user namespace: its capabilities don't count for locking.
    pub user_namespace: bool,
    /// Its CPUs; empty keeps ours.
    pub cpus: Vec<usize>,
    /// Its policy; `None` keeps ours.
    pub policy: Option<Policy>,
    /// Whether it prints a line at its end that says what was done.
    pub report: bool,
}

/// Why a program was not started.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refusal {
    /// One line.
    pub reason: String,
    /// The exit status.
    pub status: u8,
}

impl Refusal {
    fn new(status: u8, reason: impl fmt::Display) -> Self {
        Self {
            reason: reason.to_string(),
            status,
        }
    }
}

impl Launch {
    fn wants_library(&self) -> bool {
        self.stacks != Stacks::None || self.lock
    }

    /// Becomes the program; returns only if that fails.
    #[must_use]
    pub fn run(&self, name: &OsString, arguments: &[OsString]) -> Refusal {
        match self.prepare(name, arguments) {
            Ok(mut command) => {
                let error = command.exec();
                let status = if error.kind() == io::ErrorKind::NotFound {
                    NOT_FOUND
                } else {
                    CANNOT_RUN
                };
                let name = name.to_string_lossy();
                Refusal::new(status, format!("{name} can't be run: {}", plain(&error)))
            }
            Err(refusal) => refusal,
        }
    }

    fn prepare(&self, name: &OsString, arguments: &[OsString]) -> Result<Command, Refusal> {
        let program = Program::find(name)?;
        let mut command = Command::new(program.path());
        command.arg0(name).args(arguments);
        if self.wants_library() {
            let loaded = program
                .examine()
                .map_err(|reason| Refusal::new(CANNOT_RUN, reason))?;
            let library = Library::find().map_err(|reason| Refusal::new(SETUP, reason))?;
            library
                .try_with(&loaded)
                .map_err(|reason| Refusal::new(CANNOT_RUN, reason))?;
            command.env("LD_PRELOAD", library.beside_others());
            command.env("PUNCTUAL_RUN", self.words());
            if let Some(words) = &self.stack_debug {
                command.env("PUNCTUAL_STACK_DEBUG", words);
            }
            library.keep();
        }
        if self.lock {
            lockable(self.user_namespace).map_err(|reason| Refusal::new(SETUP, reason))?;
        }
        if !self.cpus.is_empty() {
            affinity::set_current(&self.cpus).map_err(|error| {
                Refusal::new(SETUP, format!("the CPUs can't be had: {}", plain(&error)))
            })?;
        }
        if let Some(policy) = self.policy {
            // Last, so that the preceding steps don't compete at the program's priority.
            sched::set_current(policy)
                .map_err(|error| Refusal::new(SETUP, scheduling(policy, &error)))?;
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
        if self.lock {
            words.push_str(",lock");
        }
        if self.report {
            words.push_str(&format!(",report={}", std::process::id()));
        }
        words
    }
}

fn scheduling(policy: Policy, error: &io::Error) -> String {
    let what = format!("{} {} is refused", policy.name(), policy.priority());
    match error.raw_os_error() {
        Some(libc::EPERM) => format!(
            "{what}: run as root, raise the limit (ulimit -r, `rtprio` in \
             /etc/security/limits.conf), or leave a control group without real-time runtime \
             (cpu.rt_runtime_us)"
        ),
        _ => format!("{what}: {}", plain(error)),
    }
}

/// With a limit, locking would succeed and a later allocation would fail: so a limit is refused.
fn lockable(user_namespace: bool) -> Result<(), String> {
    let mut limit = libc::rlimit {
        rlim_cur: 0,
        rlim_max: 0,
    };
    // SAFETY: `limit` is a valid rlimit that outlives the call.
    if unsafe { libc::getrlimit(libc::RLIMIT_MEMLOCK, &mut limit) } != 0 {
        return Err(plain(&io::Error::last_os_error()));
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
    Err(format!(
        "memory can be locked up to {} KB only, and the program would fail where it needs more: \
         raise `memlock` in /etc/security/limits.conf to unlimited, or run as root \
         (capabilities of punctual's own file don't reach the program)",
        limit.rlim_max >> 10
    ))
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

/// An error's text without the number that Rust appends.
fn plain(error: &io::Error) -> String {
    let text = error.to_string();
    text.split(" (os error")
        .next()
        .unwrap_or_default()
        .to_lowercase()
}
