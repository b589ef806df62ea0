//! What can go wrong in the laboratory, each in one line.

use std::error::Error;
use std::fmt;
use std::io;
use std::path::PathBuf;

use super::channel::ChannelError;
use super::kernel;
use super::observer::ObserverError;
use super::room::RoomError;
use super::rootfs::RootfsError;

/// What a guest did whose first process never ran.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Silence {
    /// It used up its share of the host's processor time.
    Busy,
    /// It took less, and stood still for several times as long.
    Halted,
}

/// Why a cell gave no result.
#[derive(Debug)]
#[non_exhaustive]
pub enum LabError {
    /// There is no QEMU.
    NoQemu,
    /// QEMU is there and can't be used.
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
        /// What the system said.
        source: io::Error,
    },
    /// A program that can't be brought along.
    Program {
        /// The program.
        path: PathBuf,
        /// Why, and what to do.
        reason: String,
    },
    /// There is no room for a file in the guest.
    Room {
        /// The file, or what it belongs to.
        path: PathBuf,
        /// How much there is.
        source: RoomError,
    },
    /// A root file system that can't be taken.
    Rootfs {
        /// Where it is.
        path: PathBuf,
        /// What is wrong with it.
        source: RootfsError,
    },
    /// What watches the machine from without failed.
    Watcher(ObserverError),
    /// The kernel hasn't what it is to have.
    Kernel(kernel::Error),
    /// The host's time-out came.
    HostLimit {
        /// Seconds that were allowed.
        seconds: u64,
        /// The console's last words.
        console: String,
    },
    /// Nothing came of the guest's first process.
    BootLimit {
        /// Seconds of the host's processor time that were allowed.
        seconds: u64,
        /// What it did meanwhile.
        silence: Silence,
        /// The console's last words.
        console: String,
    },
    /// The guest ran out of virtual time.
    VirtualLimit {
        /// Virtual seconds that were allowed.
        seconds: u64,
        /// The last words of what ran.
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
        /// QEMU's exit status and its last words.
        emulator: String,
        /// The console's last words.
        console: String,
    },
    /// The guest could not begin its work.
    Guest {
        /// Why.
        reason: String,
    },
    /// What ran in the guest measured nothing.
    Inside {
        /// Its exit status.
        status: i32,
        /// Its last words.
        tail: String,
    },
    /// The result can't be read.
    Result {
        /// Why.
        reason: String,
    },
    /// Somebody ended us.
    Interrupted,
}

impl LabError {
    /// A file and what the system said.
    pub fn file(path: impl Into<PathBuf>, source: io::Error) -> Self {
        Self::File {
            path: path.into(),
            source,
        }
    }
}

fn said(console: &str) -> String {
    if console.is_empty() {
        "its console is silent".to_owned()
    } else {
        format!("its console ends: {console}")
    }
}

impl fmt::Display for LabError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoQemu => f.write_str(
                "qemu-system-x86_64 is not in PATH: the laboratory runs kernels in QEMU; \
                 install it (apt install qemu-system-x86)",
            ),
            Self::Qemu { path, reason } | Self::Program { path, reason } => {
                write!(f, "{}: {reason}", path.display())
            }
            Self::Room { path, source } => write!(f, "{}: {source}", path.display()),
            Self::Rootfs { path, source } => write!(f, "{}: {source}", path.display()),
            Self::Watcher(error) => write!(f, "in the guest: {error}"),
            Self::Kernel(error) => error.fmt(f),
            Self::File { path, source } => write!(f, "{}: {source}", path.display()),
            Self::HostLimit { seconds, console } => write!(
                f,
                "the guest was ended after {seconds} s of the host's time (--host-limit); {}",
                said(console)
            ),
            Self::BootLimit {
                seconds,
                silence,
                console,
            } => {
                let within = match silence {
                    Silence::Busy => format!("within {seconds} s of processor time"),
                    Silence::Halted => {
                        format!("and the guest stood still for more than {seconds} s")
                    }
                };
                let said = said(console);
                write!(
                    f,
                    "the guest's first process did not run {within} (--boot-limit); {said}"
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
                    write!(f, "; what ran in it said last: {tail}")
                }
            }
            Self::Panic { line } => write!(f, "the guest's kernel panicked: {line}"),
            Self::NoResult {
                channel,
                emulator,
                console,
            } => write!(f, "{channel}; QEMU {emulator}; {}", said(console)),
            Self::Guest { reason } => write!(f, "in the guest: {reason}"),
            Self::Inside { status, tail } => {
                write!(f, "in the guest: exit status {status}: {tail}")
            }
            Self::Result { reason } => write!(f, "the guest's result can't be read: {reason}"),
            Self::Interrupted => f.write_str("interrupted"),
        }
    }
}

impl Error for LabError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        match self {
            Self::File { source, .. } => Some(source),
            Self::Room { source, .. } => Some(source),
            Self::Rootfs { source, .. } => Some(source),
            Self::Watcher(error) => Some(error),
            Self::Kernel(error) => Some(error),
            Self::NoResult { channel, .. } => Some(channel),
            _ => None,
        }
    }
}
