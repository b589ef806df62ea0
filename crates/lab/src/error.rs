//! What can go wrong in the laboratory, each in one line.

use std::error::Error;
use std::fmt;
use std::io;
use std::path::PathBuf;

use super::channel::ChannelError;
use super::kernel;
use super::observer::ObserverError;
use super::program_error::ProgramError;
use super::room::RoomError;
use super::rootfs::RootfsError;

/// What a guest did whose first process never started.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Silence {
    /// It used up its share of the host's processor time.
    Busy,
    /// It used less, and did not run for several times as long.
    Halted,
}

/// Why a cell gave no result.
#[derive(Debug)]
#[non_exhaustive]
pub enum LabError {
    /// There is no QEMU.
    NoQemu,
    /// QEMU cannot be used.
    Qemu {
        /// The program.
        path: PathBuf,
        /// What is wrong.
        reason: String,
    },
    /// A file could not be read or written.
    File {
        /// The file.
        path: PathBuf,
        /// The system's error.
        source: io::Error,
    },
    /// A program or file that cannot be brought into the guest.
    Program {
        /// The program.
        path: PathBuf,
        /// Why, and what to do.
        source: ProgramError,
    },
    /// There is no room for a file in the guest.
    Room {
        /// The file, or what it belongs to.
        path: PathBuf,
        /// How much there is.
        source: RoomError,
    },
    /// A root file system that cannot be used.
    Rootfs {
        /// Where it is.
        path: PathBuf,
        /// What is wrong with it.
        source: RootfsError,
    },
    /// The observer failed.
    Watcher(ObserverError),
    /// The kernel is not available, or lacks a required feature.
    Kernel(kernel::Error),
    /// The limit of the host's time was reached.
    HostLimit {
        /// Seconds that were allowed.
        seconds: u64,
        /// The end of the console's text.
        console: String,
    },
    /// The guest's first process did not start in time.
    BootLimit {
        /// Seconds of the host's processor time that were allowed.
        seconds: u64,
        /// What the guest did meanwhile.
        silence: Silence,
        /// The end of the console's text.
        console: String,
    },
    /// The guest ran out of virtual time.
    VirtualLimit {
        /// Virtual seconds that were allowed.
        seconds: u64,
        /// The end of the program's output.
        tail: String,
    },
    /// The kernel panicked.
    Panic {
        /// Its line.
        line: String,
    },
    /// The machine ended without a result.
    NoResult {
        /// How the stream is broken.
        channel: ChannelError,
        /// QEMU's exit status and the end of its output.
        emulator: String,
        /// The end of the console's text.
        console: String,
    },
    /// The guest could not start its work.
    Guest {
        /// Why.
        reason: String,
    },
    /// What ran in the guest measured nothing.
    Inside {
        /// Its exit status.
        status: i32,
        /// The end of its output.
        tail: String,
    },
    /// The result cannot be read.
    Result {
        /// Why.
        reason: String,
    },
    /// A signal ended this program.
    Interrupted,
}

impl LabError {
    /// A file and the system's error.
    pub fn file(path: impl Into<PathBuf>, source: io::Error) -> Self {
        Self::File {
            path: path.into(),
            source,
        }
    }
}

fn shown(console: &str) -> String {
    if console.is_empty() {
        "its console is empty".to_owned()
    } else {
        format!("end of its console: {console}")
    }
}

impl fmt::Display for LabError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoQemu => f.write_str(
                "qemu-system-x86_64 is not in PATH: the laboratory runs kernels in QEMU; \
                 install it (apt install qemu-system-x86)",
            ),
            Self::Qemu { path, reason } => write!(f, "{}: {reason}", path.display()),
            Self::Program { path, source } => write!(f, "{}: {source}", path.display()),
            Self::Room { path, source } => write!(f, "{}: {source}", path.display()),
            Self::Rootfs { path, source } => write!(f, "{}: {source}", path.display()),
            Self::Watcher(error) => write!(f, "in the guest: {error}"),
            Self::Kernel(error) => error.fmt(f),
            Self::File { path, source } => write!(f, "{}: {source}", path.display()),
            Self::HostLimit { seconds, console } => write!(
                f,
                "the guest was stopped after {seconds} s of the host's time (--host-limit); {}",
                shown(console)
            ),
            Self::BootLimit {
                seconds,
                silence,
                console,
            } => {
                let within = match silence {
                    Silence::Busy => format!("within {seconds} s of processor time"),
                    Silence::Halted => {
                        format!("and the guest was idle for more than {seconds} s")
                    }
                };
                let console = shown(console);
                write!(
                    f,
                    "the guest's first process did not start {within} (--boot-limit); {console}"
                )
            }
            Self::VirtualLimit { seconds, tail } => {
                write!(
                    f,
                    "the guest ran out of its {seconds} s of virtual time (--virtual-limit)"
                )?;
                if tail.is_empty() {
                    Ok(())
                } else {
                    write!(f, "; end of the program's output: {tail}")
                }
            }
            Self::Panic { line } => write!(f, "the guest's kernel panicked: {line}"),
            Self::NoResult {
                channel,
                emulator,
                console,
            } => write!(f, "{channel}; QEMU {emulator}; {}", shown(console)),
            Self::Guest { reason } => write!(f, "in the guest: {reason}"),
            Self::Inside { status, tail } => {
                write!(f, "in the guest: exit status {status}: {tail}")
            }
            Self::Result { reason } => write!(f, "cannot read the guest's result: {reason}"),
            Self::Interrupted => f.write_str("interrupted"),
        }
    }
}

impl Error for LabError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        match self {
            Self::File { source, .. } => Some(source),
            Self::Program { source, .. } => Some(source),
            Self::Room { source, .. } => Some(source),
            Self::Rootfs { source, .. } => Some(source),
            Self::Watcher(error) => Some(error),
            Self::Kernel(error) => Some(error),
            Self::NoResult { channel, .. } => Some(channel),
            _ => None,
        }
    }
}
