//! Why a program was not started.

use std::error::Error;
use std::fmt;
use std::io;
use std::path::PathBuf;

use punctual_rt::sched::Policy;

use super::library;

/// Exit status where a program is there and can't be run, as shells have it.
pub const CANNOT_RUN: u8 = 126;
/// Exit status where there is no such program, as shells have it.
pub const NOT_FOUND: u8 = 127;
const SETUP: u8 = 1;

/// Why a program was not started.
#[derive(Debug)]
#[non_exhaustive]
pub enum Refusal {
    /// No folder of PATH has it.
    NotInPath {
        /// As it was asked for.
        name: String,
    },
    /// There is no such file.
    Missing {
        /// As it was asked for.
        name: String,
    },
    /// Its file may not be looked at.
    Forbidden {
        /// As it was asked for.
        name: String,
    },
    /// It is a directory, or a device.
    NoFile {
        /// As it was asked for.
        name: String,
    },
    /// Its file may not be executed.
    NotExecutable {
        /// As it was asked for.
        name: String,
    },
    /// The kernel doesn't run it.
    NotRun {
        /// As it was asked for.
        name: String,
        /// The kernel's reason.
        source: io::Error,
    },
    /// No library can be loaded into it.
    Closed {
        /// Its file, or that of an interpreter.
        path: PathBuf,
        /// Why.
        fault: Fault,
    },
    /// PUNCTUAL_PRELOAD names what can't be had.
    LibraryNamed {
        /// What it names.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// There is no library.
    NoLibrary,
    /// The library that the tool carries can't be put into memory.
    LibraryInMemory(io::Error),
    /// The program's loader can't be run.
    Loader {
        /// The loader.
        loader: PathBuf,
        /// The program.
        program: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// The program's loader doesn't take the library.
    Declined {
        /// The program.
        program: PathBuf,
        /// The loader's first line.
        why: String,
    },
    /// The limit on locked memory can't be read.
    LockLimitUnread(io::Error),
    /// The limit on locked memory is too low.
    LockLimit {
        /// The limit.
        bytes: u64,
    },
    /// Its CPUs are refused.
    Cpus(io::Error),
    /// Its policy is refused.
    Scheduling {
        /// The policy.
        policy: Policy,
        /// The kernel's reason.
        source: io::Error,
    },
}

/// Why no library can be loaded into a program's file.
#[derive(Debug)]
pub enum Fault {
    /// It is of the C library musl.
    Musl,
    /// It is linked statically.
    Static,
    /// It is for another processor or word size.
    Foreign,
    /// It is no program.
    Unknown,
    /// Its interpreters are scripts, one after the other.
    Scripts,
    /// It can't be read.
    Unreadable(io::Error),
    /// It is an interpreter that isn't there.
    NoInterpreter,
    /// It runs with its owner's rights.
    SetUser,
    /// It runs with its group's rights.
    SetGroup,
    /// It has capabilities.
    Capabilities,
}

impl Refusal {
    /// The exit status.
    #[must_use]
    pub fn status(&self) -> u8 {
        match self {
            Self::NotInPath { .. } | Self::Missing { .. } => NOT_FOUND,
            Self::NotRun { source, .. } if source.kind() == io::ErrorKind::NotFound => NOT_FOUND,
            Self::NotRun { .. }
            | Self::Forbidden { .. }
            | Self::NoFile { .. }
            | Self::NotExecutable { .. }
            | Self::Closed { .. }
            | Self::Loader { .. }
            | Self::Declined { .. } => CANNOT_RUN,
            Self::LibraryNamed { .. }
            | Self::NoLibrary
            | Self::LibraryInMemory(_)
            | Self::LockLimitUnread(_)
            | Self::LockLimit { .. }
            | Self::Cpus(_)
            | Self::Scheduling { .. } => SETUP,
        }
    }
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotInPath { name } => write!(f, "{name}: no such program in PATH"),
            Self::Missing { name } => write!(f, "{name}: no such program"),
            Self::Forbidden { name } => write!(f, "{name}: permission denied"),
            Self::NoFile { name } => {
                write!(f, "{name}: not a program but a directory or a special file")
            }
            Self::NotExecutable { name } => {
                write!(f, "{name}: the file is not executable (chmod +x)")
            }
            Self::NotRun { name, source } => write!(f, "could not run {name}: {}", plain(source)),
            Self::Closed { path, fault } => closed(f, &path.display(), fault),
            Self::LibraryNamed { path, source } => write!(
                f,
                "PUNCTUAL_PRELOAD names {}: {}",
                path.display(),
                plain(source)
            ),
            Self::NoLibrary => write!(
                f,
                "this punctual was built without {}: name one with PUNCTUAL_PRELOAD, or use \
                 --stack none without --lock",
                library::NAME
            ),
            Self::LibraryInMemory(source) => {
                write!(f, "no memory file for {}: {}", library::NAME, plain(source))
            }
            Self::Loader {
                loader,
                program,
                source,
            } => write!(
                f,
                "could not run the loader {} of {}: {}",
                loader.display(),
                program.display(),
                plain(source)
            ),
            Self::Declined { program, why } => write!(
                f,
                "the loader of {} rejects {}: {why}",
                program.display(),
                library::NAME
            ),
            Self::LockLimitUnread(source) => f.write_str(&plain(source)),
            Self::LockLimit { bytes } => write!(
                f,
                "the limit of locked memory is {} KB, and the program would fail when it needs \
                 more: raise `memlock` in /etc/security/limits.conf to unlimited, or run as root \
                 (the program does not inherit the capabilities of punctual's own file)",
                bytes >> 10
            ),
            Self::Cpus(source) => write!(f, "the CPUs are not available: {}", plain(source)),
            Self::Scheduling { policy, source } => {
                let what = format!("{} {} is refused", policy.name(), policy.priority());
                match source.raw_os_error() {
                    Some(libc::EPERM) => write!(
                        f,
                        "{what}: run as root, raise the limit (ulimit -r, `rtprio` in \
                         /etc/security/limits.conf), or leave a control group without real-time \
                         runtime (cpu.rt_runtime_us)"
                    ),
                    _ => write!(f, "{what}: {}", plain(source)),
                }
            }
        }
    }
}

fn closed(f: &mut fmt::Formatter<'_>, path: &dyn fmt::Display, fault: &Fault) -> fmt::Result {
    match fault {
        Fault::Musl => write!(
            f,
            "{path} is linked against musl, and stacks and memory locks need glibc: use --stack none \
             (without --lock), which still sets policy and CPUs"
        ),
        Fault::Static => write!(
            f,
            "{path} is linked statically, so nothing can be loaded into it to give its threads \
             stacks or lock its memory: use --stack none (without --lock), which still sets policy \
             and CPUs"
        ),
        Fault::Foreign => write!(
            f,
            "{path} is for another processor or word size than this punctual, whose library it \
             could not load: use --stack none without --lock"
        ),
        Fault::Unknown => write!(
            f,
            "{path} is neither an ELF program nor a script with an interpreter line (#!)"
        ),
        Fault::Scripts => write!(
            f,
            "{path} is a script whose interpreter is a script: give a program as its interpreter"
        ),
        Fault::Unreadable(source) => write!(
            f,
            "could not read {path}, to check whether a library can be loaded into it: {}",
            plain(source)
        ),
        Fault::NoInterpreter => write!(
            f,
            "its interpreter {path} does not exist or is not accessible"
        ),
        Fault::SetUser | Fault::SetGroup => {
            let kind = match fault {
                Fault::SetUser => "set-uid",
                _ => "set-gid",
            };
            write!(
                f,
                "{path} is {kind}: the loader loads no library of others into a program that \
                 runs with its owner's rights; use --stack none without --lock"
            )
        }
        Fault::Capabilities => write!(
            f,
            "{path} has file capabilities (getcap): the loader loads no library of others into \
             it; use --stack none without --lock"
        ),
    }
}

impl Error for Refusal {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        match self {
            Self::NotRun { source, .. }
            | Self::LibraryNamed { source, .. }
            | Self::LibraryInMemory(source)
            | Self::Loader { source, .. }
            | Self::LockLimitUnread(source)
            | Self::Cpus(source)
            | Self::Scheduling { source, .. }
            | Self::Closed {
                fault: Fault::Unreadable(source),
                ..
            } => Some(source),
            _ => None,
        }
    }
}

/// An error's words without the number that Rust puts behind them.
fn plain(error: &io::Error) -> String {
    let text = error.to_string();
    text.split(" (os error")
        .next()
        .unwrap_or_default()
        .to_lowercase()
}
