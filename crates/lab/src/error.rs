//! What can go wrong in the laboratory, each in one line.

use std::error::Error;
use std::fmt;
use std::io;
use std::path::PathBuf;

use punctual_record::laboratory::Architecture;

use super::kernel;
use super::program_error::ProgramError;
use super::qemu::QemuFault;
use super::room::RoomError;
use super::rootfs::RootfsError;
use punctual_record::lab::{NoResult, Preparation};

/// Why what a cell needs on the host is not available.
#[derive(Debug)]
#[non_exhaustive]
pub enum LabError {
    /// There is no QEMU.
    NoQemu {
        /// Its program.
        program: &'static str,
        /// Debian's package of it.
        package: &'static str,
    },
    /// There is no build of this program for the guest's architecture.
    NoGuestProgram {
        /// Which.
        architecture: Architecture,
        /// Where it was expected.
        path: PathBuf,
    },
    /// QEMU cannot be used.
    Qemu {
        /// The program.
        path: PathBuf,
        /// What is wrong.
        why: QemuFault,
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
    /// The kernel is not available, or lacks a required feature.
    Kernel(kernel::Error),
    /// The kernel's command line would be too long.
    CommandLine {
        /// Its characters.
        characters: usize,
        /// The most that there may be.
        most: usize,
    },
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

impl fmt::Display for LabError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoQemu { program, package } => write!(
                f,
                "{program} is not in PATH: the laboratory runs kernels in QEMU; install it (apt \
                 install {package})"
            ),
            Self::NoGuestProgram { architecture, path } => write!(
                f,
                "{}: no such file: guests run punctual itself, which for {architecture} is a file of its own: \
                 copy it there from a release, build it with make build ARCH={architecture}, or name it in \
                 PUNCTUAL_GUEST",
                path.display()
            ),
            Self::Qemu { path, why } => write!(f, "{}: {why}", path.display()),
            Self::Program { path, source } => write!(f, "{}: {source}", path.display()),
            Self::Room { path, source } => write!(f, "{}: {source}", path.display()),
            Self::Rootfs { path, source } => write!(f, "{}: {source}", path.display()),
            Self::Kernel(error) => error.fmt(f),
            Self::File { path, source } => write!(f, "{}: {source}", path.display()),
            Self::CommandLine { characters, most } => write!(
                f,
                "the kernel's command line would have {characters} characters, at most {most} are \
                 possible: give fewer --param"
            ),
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
            Self::Kernel(error) => Some(error),
            Self::Qemu { why, .. } => Some(why),
            Self::NoQemu { .. } | Self::NoGuestProgram { .. } | Self::CommandLine { .. } => None,
        }
    }
}

impl From<LabError> for NoResult {
    fn from(error: LabError) -> Self {
        let what = match error {
            LabError::NoQemu { .. } | LabError::Qemu { .. } => Preparation::Emulator,
            LabError::File { .. } => Preparation::File,
            LabError::Program { .. } | LabError::NoGuestProgram { .. } => Preparation::Program,
            LabError::Room { .. } => Preparation::Memory,
            LabError::Rootfs { .. } => Preparation::RootFileSystem,
            LabError::Kernel(_) | LabError::CommandLine { .. } => Preparation::Kernel,
        };
        Self::Unprepared {
            what,
            error: error.to_string(),
        }
    }
}
