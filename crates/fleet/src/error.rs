//! Why a dataset can't be used.

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};

/// Why a dataset can't be used.
#[derive(Debug)]
#[non_exhaustive]
pub enum FleetError {
    /// A file of it can't be read or written.
    File {
        /// Which.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// The directory is not empty, and no dataset.
    NotADataset {
        /// Which.
        path: PathBuf,
    },
    /// There is no dataset.
    NoDataset {
        /// Where.
        path: PathBuf,
    },
    /// It was written by another version.
    Version {
        /// Which.
        path: PathBuf,
        /// Its version.
        version: u64,
    },
    /// Another process adds to it.
    Busy {
        /// Which.
        path: PathBuf,
    },
    /// The list of a batch's runs is not the one that was written.
    DamagedBatch {
        /// The directory.
        path: PathBuf,
    },
    /// A table of a batch is not there.
    MissingTable {
        /// Which.
        path: PathBuf,
    },
    /// Two different runs have the same key.
    SameKey {
        /// The path of the one that was to be added.
        record: String,
    },
}

impl FleetError {
    pub(crate) fn file(path: &Path, source: io::Error) -> Self {
        Self::File {
            path: path.to_owned(),
            source,
        }
    }
}

impl fmt::Display for FleetError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::File { path, source } => write!(f, "{}: {source}", path.display()),
            Self::NotADataset { path } => write!(
                f,
                "{}: not empty, and no dataset of punctual: name a new directory",
                path.display()
            ),
            Self::NoDataset { path } => write!(
                f,
                "{}: no dataset: `punctual fleet ingest DIR -o {0}` makes one",
                path.display()
            ),
            Self::Version { path, version } => write!(
                f,
                "{}: a dataset of version {version}, this program has version {}: use that program, or \
                 ingest into a new directory",
                path.display(),
                crate::dataset::VERSION
            ),
            Self::Busy { path } => write!(
                f,
                "{}: another punctual adds to it: wait until it is done",
                path.display()
            ),
            Self::DamagedBatch { path } => write!(
                f,
                "{}: its list of runs is damaged: remove the directory and ingest its runs again",
                path.display()
            ),
            Self::MissingTable { path } => write!(
                f,
                "{}: missing: remove the batch's directory and ingest its runs again",
                path.display()
            ),
            Self::SameKey { record } => write!(
                f,
                "{record}: its key is that of another run: ingest it into another dataset"
            ),
        }
    }
}

impl std::error::Error for FleetError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::File { source, .. } => Some(source),
            _ => None,
        }
    }
}
