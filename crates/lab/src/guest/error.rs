//! Why the guest could not do its work: one line each, for the host.

use std::error::Error;
use std::fmt;
use std::io;

use super::super::job::JOB_FILE;

/// Why the guest could not do its work.
#[derive(Debug)]
pub enum GuestError {
    /// A file of the guest cannot be read or written.
    File {
        /// Which.
        path: String,
        /// The system's error.
        source: io::Error,
    },
    /// The guest's job cannot be parsed.
    Job(serde_json::Error),
    /// The kernel refused a module.
    Module {
        /// The module.
        name: String,
        /// The kernel's error.
        source: io::Error,
        /// What it logged meanwhile.
        log: Vec<String>,
    },
    /// A file system cannot be mounted.
    Mount {
        /// Where.
        place: String,
        /// The system's error.
        source: io::Error,
    },
    /// A program cannot be started.
    Start {
        /// Which.
        what: String,
        /// The system's error.
        source: io::Error,
    },
    /// The loads beside the work failed.
    Loads {
        /// Their last line.
        said: String,
    },
}

impl fmt::Display for GuestError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::File { path, source } => write!(f, "{path}: {source}"),
            Self::Job(error) => write!(f, "{JOB_FILE}: {error}"),
            Self::Module { name, source, log } => {
                write!(f, "the kernel refused module {name}: {source}")?;
                if log.is_empty() {
                    return Ok(());
                }
                write!(f, "; its log: {}", log.join("; "))
            }
            Self::Mount { place, source } => write!(f, "cannot mount {place}: {source}"),
            Self::Start { what, source } => write!(f, "cannot start {what}: {source}"),
            Self::Loads { said } => write!(f, "the loads failed: {said}"),
        }
    }
}

impl Error for GuestError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        match self {
            Self::File { source, .. }
            | Self::Module { source, .. }
            | Self::Mount { source, .. }
            | Self::Start { source, .. } => Some(source),
            Self::Job(error) => Some(error),
            Self::Loads { .. } => None,
        }
    }
}
