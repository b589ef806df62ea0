//! Why a file of the host cannot be brought into a guest: in a few words each, without its name.

use std::error::Error;
use std::fmt;
use std::path::PathBuf;

use punctual_record::laboratory::Architecture;

use super::error::LabError;

/// Why a program, or another file of the host, cannot be brought into a guest.
#[derive(Debug)]
#[non_exhaustive]
pub enum ProgramError {
    /// The path in the guest is not text.
    PathNotUtf8,
    /// The path in the guest has a `..` or a zero in it.
    PathLeadsOut,
    /// The host's path ends with no name.
    NoName,
    /// The path in the guest is a directory that holds files of the laboratory.
    HoldsReserved {
        /// That directory, without the slash before it.
        place: String,
    },
    /// The path in the guest belongs to the laboratory.
    Reserved {
        /// What belongs to it, without the slash before it.
        place: &'static str,
    },
    /// Another file has this path in the guest.
    PathInUse {
        /// The path, without the slash before it.
        place: String,
    },
    /// The path in the guest leads through a file.
    BelowFile {
        /// That file, without the slash before it.
        file: String,
    },
    /// It is neither a file nor a directory.
    Kind,
    /// What runs a script is not installed.
    NoInterpreter {
        /// What the script names.
        needed: String,
    },
    /// It is not a program that the guest can run.
    Elf(&'static str),
    /// The file is no program, by its size or kind.
    NotAProgram,
    /// Its dynamic loader cannot be read.
    Loader(Box<LabError>),
    /// A library that it needs is not found.
    NoLibrary {
        /// The library's name.
        name: String,
        /// The file that names it.
        named_by: PathBuf,
    },
    /// It needs too many libraries.
    TooManyLibraries {
        /// How many it may need.
        most: usize,
    },
    /// It is a build of this program of another version.
    OtherVersion {
        /// That of this program.
        version: &'static str,
    },
    /// A build of this program is not static.
    OwnBuild {
        /// The guest's architecture.
        architecture: Architecture,
    },
}

impl fmt::Display for ProgramError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::PathNotUtf8 => f.write_str("its path in the guest is not UTF-8"),
            Self::PathLeadsOut => {
                f.write_str("its path in the guest has a '..' or a zero byte: give the plain path")
            }
            Self::NoName => f.write_str("its path ends without a file name"),
            Self::HoldsReserved { place } => write!(
                f,
                "/{place} in the guest contains files of the laboratory: give another path"
            ),
            Self::Reserved { place } => write!(
                f,
                "/{place} in the guest is reserved for the laboratory: give another path"
            ),
            Self::PathInUse { place } => write!(
                f,
                "/{place} in the guest is already used by another file: give another path \
                 (FILE=PATH)"
            ),
            Self::BelowFile { file } => write!(f, "/{file} in the guest is not a directory"),
            Self::Kind => f.write_str("is neither a file nor a directory"),
            Self::NoInterpreter { needed } => {
                write!(
                    f,
                    "the script needs {needed}, which is not installed: install it"
                )
            }
            Self::Elf(what) => f.write_str(what),
            Self::NotAProgram => f.write_str("is not a program"),
            Self::Loader(error) => write!(f, "its loader: {error}"),
            Self::NoLibrary { name, named_by } => write!(
                f,
                "its library {name} (needed by {}) was not found: set LD_LIBRARY_PATH to its \
                 directory, or link the program statically",
                named_by.display()
            ),
            Self::TooManyLibraries { most } => write!(f, "needs more than {most} libraries"),
            Self::OtherVersion { version } => write!(
                f,
                "is not punctual {version}, but another version or program: guests run the same version \
                 as this program"
            ),
            Self::OwnBuild { architecture } => write!(
                f,
                "this build of punctual is not a static program for {architecture}, so it cannot run in \
                 the guest: build it with make build ARCH={architecture}"
            ),
        }
    }
}

impl Error for ProgramError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        match self {
            Self::Loader(error) => Some(error),
            _ => None,
        }
    }
}
