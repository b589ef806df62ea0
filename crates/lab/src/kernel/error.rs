//! Why a kernel can't be had.

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};

/// Why a kernel can't be had.
#[derive(Debug)]
pub enum Error {
    /// A file can't be read.
    Unreadable {
        /// Which.
        path: PathBuf,
        /// The reason.
        error: io::Error,
    },
    /// A file is no kernel that can be booted here.
    Unfit {
        /// Which.
        path: PathBuf,
        /// What it is, and what is wanted.
        why: String,
    },
    /// A file is cut short or altered.
    Damaged {
        /// Which.
        path: PathBuf,
        /// How that was noticed.
        why: String,
    },
    /// Nothing can be kept in the cache.
    Cache {
        /// What could not be written.
        path: PathBuf,
        /// The reason.
        error: io::Error,
    },
    /// There is no place for a cache.
    NoCache,
    /// The system's package manager has no such kernel, or can't fetch it.
    Package {
        /// What was looked for.
        asked: String,
        /// What happened, and what can be done.
        why: String,
    },
    /// A module can't be had.
    Module {
        /// Its name.
        name: String,
        /// The kernel's release.
        release: String,
        /// The reason.
        why: String,
    },
    /// A file is no module that this kernel takes.
    ModuleFile {
        /// Which.
        path: PathBuf,
        /// What it is instead, or for which kernel.
        why: String,
    },
}

impl Error {
    pub(super) fn unreadable(path: &Path, error: io::Error) -> Self {
        let path = path.to_owned();
        Self::Unreadable { path, error }
    }

    pub(super) fn unfit(path: &Path, why: impl Into<String>) -> Self {
        let (path, why) = (path.to_owned(), in_a_line(&why.into()));
        Self::Unfit { path, why }
    }

    pub(super) fn damaged(path: &Path, why: impl Into<String>) -> Self {
        let (path, why) = (path.to_owned(), in_a_line(&why.into()));
        Self::Damaged { path, why }
    }

    /// The same of another file: the one that its user knows.
    pub(super) fn about(self, other: &Path) -> Self {
        match self {
            Self::Unfit { why, .. } => Self::unfit(other, why),
            Self::Damaged { why, .. } => Self::damaged(other, why),
            error => error,
        }
    }

    pub(super) fn cache(path: &Path, error: io::Error) -> Self {
        let path = path.to_owned();
        Self::Cache { path, error }
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unreadable { path, error } => {
                write!(f, "{} can't be read: {}", path.display(), plain(error))
            }
            Self::Unfit { path, why } | Self::ModuleFile { path, why } => {
                write!(f, "{} {why}", path.display())
            }
            Self::Damaged { path, why } => write!(
                f,
                "{} is damaged or cut short: {why}; fetch it again",
                path.display()
            ),
            Self::Cache { path, error } => {
                write!(f, "{} can't be written: {}", path.display(), plain(error))?;
                match error.kind() {
                    io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => f.write_str(
                        "; a kernel takes up to 300 MB there: free some space, or name another \
                         place in XDG_CACHE_HOME",
                    ),
                    _ => f.write_str(
                        "; kernels are kept there: name another place in XDG_CACHE_HOME",
                    ),
                }
            }
            Self::NoCache => f.write_str(
                "kernels can't be kept: neither XDG_CACHE_HOME nor HOME names a directory by its \
                 full path",
            ),
            Self::Package { asked, why } => write!(f, "kernel {asked}: {why}"),
            Self::Module { name, release, why } => {
                write!(f, "module {name} of {release}: {why}")
            }
        }
    }
}

impl std::error::Error for Error {}

/// What others say may quote the file, with whatever is in it.
pub(super) fn in_a_line(text: &str) -> String {
    const LONGEST: usize = 300;
    let printable = text.chars().take_while(|&c| c != '\n').take(LONGEST);
    printable
        .map(|c| if c.is_control() { '?' } else { c })
        .collect()
}

/// The kernel's words without the number.
fn plain(error: &io::Error) -> String {
    let text = error.to_string();
    match text.split_once(" (os error") {
        Some((words, _)) => words.to_lowercase(),
        None => text,
    }
}
