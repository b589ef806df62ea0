//! What can go wrong with a record, each in one line that names the file.

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};

use crate::files::{self, Fault};
use crate::text::one_line;

/// Why a record could not be made, saved or read.
#[derive(Debug)]
#[non_exhaustive]
pub enum RecordError {
    /// The requested directory exists already and holds something.
    Exists {
        /// The directory or file in the way.
        path: PathBuf,
    },
    /// The directory could not be made, or not be written to.
    Create {
        /// The directory.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// The requested directory exists already, and root must not write into it.
    Foreign {
        /// The directory.
        path: PathBuf,
        /// Why not.
        fault: Fault,
    },
    /// A file could not be saved; what stood under its name before still stands.
    Save {
        /// The file.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// A file could not be read.
    Read {
        /// The file.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// A directory without a record.
    NoRecord {
        /// The directory.
        path: PathBuf,
        /// The file that it lacks.
        name: &'static str,
    },
    /// A file larger than any record is.
    TooLarge {
        /// The file.
        path: PathBuf,
        /// The most bytes that are read.
        limit: u64,
    },
    /// A file that is not a record, or a damaged one.
    Malformed {
        /// The file.
        path: PathBuf,
        /// Where in the file: line and column, the field, or both.
        place: String,
        /// What is wrong there.
        reason: String,
    },
    /// A record of an earlier version of the format.
    Older {
        /// The file.
        path: PathBuf,
        /// What kind of file it is.
        what: &'static str,
        /// The version that it states.
        version: u64,
        /// The version that this program reads.
        reads: u64,
    },
    /// A record of a later version of the format.
    Newer {
        /// The file.
        path: PathBuf,
        /// What the file is, e.g. `record`.
        what: &'static str,
        /// The version that it states.
        version: u64,
        /// The newest version that this program reads.
        reads: u64,
    },
}

impl RecordError {
    /// True where the disk, a quota or a limit on file sizes was the reason.
    #[must_use]
    pub fn is_full(&self) -> bool {
        match self {
            Self::Create { source, .. } | Self::Save { source, .. } => files::is_full(source),
            _ => false,
        }
    }

    /// The file or directory in question.
    #[must_use]
    pub fn path(&self) -> &Path {
        match self {
            Self::Exists { path }
            | Self::Foreign { path, .. }
            | Self::Create { path, .. }
            | Self::Save { path, .. }
            | Self::Read { path, .. }
            | Self::NoRecord { path, .. }
            | Self::TooLarge { path, .. }
            | Self::Malformed { path, .. }
            | Self::Older { path, .. }
            | Self::Newer { path, .. } => path,
        }
    }

    /// What in a file is not as it should be: where, and why.
    pub fn malformed(path: &Path, place: impl Into<String>, reason: impl Into<String>) -> Self {
        Self::Malformed {
            path: path.to_owned(),
            place: place.into(),
            reason: one_line(&reason.into()),
        }
    }
}

impl fmt::Display for RecordError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Exists { path } => write!(
                f,
                "{}: exists already; name another directory with -o",
                path.display()
            ),
            Self::Foreign { path, fault } => write!(
                f,
                "{}: {fault}; root writes into directories of root only: name a new one with -o",
                path.display()
            ),
            Self::Create { path, source } => {
                write!(
                    f,
                    "{}: cannot create the run directory: {source}",
                    path.display()
                )
            }
            Self::Save { path, source } => write!(f, "{}: not saved: {source}", path.display()),
            Self::Read { path, source } => write!(f, "{}: {source}", path.display()),
            Self::NoRecord { path, name } => write!(
                f,
                "{}: holds no {name}: not such a directory, or killed before its first save",
                path.display()
            ),
            Self::TooLarge { path, limit } => write!(
                f,
                "{}: larger than {} MiB: not read",
                path.display(),
                limit >> 20
            ),
            Self::Malformed {
                path,
                place,
                reason,
            } if place.is_empty() => {
                write!(f, "{}: {reason}", path.display())
            }
            Self::Malformed {
                path,
                place,
                reason,
            } => {
                write!(f, "{}: {place}: {reason}", path.display())
            }
            Self::Older {
                path,
                what,
                version,
                reads,
            } => write!(
                f,
                "{}: {what} version {version}, this program reads version {reads}: measure again, \
                 or read it with the program that wrote it",
                path.display()
            ),
            Self::Newer {
                path,
                what,
                version,
                reads,
            } => write!(
                f,
                "{}: written by a newer program ({what} version {version}, this program reads up to {reads})",
                path.display()
            ),
        }
    }
}

impl std::error::Error for RecordError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Create { source, .. } | Self::Save { source, .. } | Self::Read { source, .. } => {
                Some(source)
            }
            _ => None,
        }
    }
}
