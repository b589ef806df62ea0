//! Why a kernel is not available.

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};

use punctual_record::text::one_line;

use super::fault::{Damage, NoPackage, Unfit};

/// Why a kernel is not available.
#[derive(Debug)]
pub enum Error {
    /// A file cannot be read.
    Unreadable {
        /// Which.
        path: PathBuf,
        /// The reason.
        error: io::Error,
    },
    /// A file is not a kernel that can be booted here.
    Unfit {
        /// Which.
        path: PathBuf,
        /// What it is, and what is expected.
        why: Unfit,
    },
    /// A file is cut short or altered.
    Damaged {
        /// Which.
        path: PathBuf,
        /// What is wrong.
        why: Damage,
    },
    /// The cache cannot be written.
    Cache {
        /// What could not be written.
        path: PathBuf,
        /// The reason.
        error: io::Error,
    },
    /// There is no place for a cache.
    NoCache,
    /// The system's package manager has no such kernel, or cannot download it.
    Package {
        /// The name that was requested.
        asked: String,
        /// What happened, and what can be done.
        why: NoPackage,
    },
    /// A module is not available.
    Module {
        /// Its name.
        name: String,
        /// The kernel's release.
        release: String,
        /// The reason.
        why: ModuleError,
    },
    /// A file is not a module that this kernel loads.
    ModuleFile {
        /// Which.
        path: PathBuf,
        /// What it is instead, or for which kernel.
        why: ModuleFileError,
    },
}

impl Error {
    pub(super) fn unreadable(path: &Path, error: io::Error) -> Self {
        let path = path.to_owned();
        Self::Unreadable { path, error }
    }

    pub(super) fn unfit(path: &Path, why: Unfit) -> Self {
        let path = path.to_owned();
        Self::Unfit { path, why }
    }

    pub(super) fn damaged(path: &Path, why: Damage) -> Self {
        let path = path.to_owned();
        Self::Damaged { path, why }
    }

    /// The same error about another file: the one that the user named.
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
                write!(f, "cannot read {}: {}", path.display(), plain(error))
            }
            Self::Unfit { path, why } => {
                write!(f, "{} {}", path.display(), one_line(&why.to_string()))
            }
            Self::ModuleFile {
                path,
                why: why @ ModuleFileError::Before { .. },
            } => write!(f, "{} {why}", path.display()),
            Self::ModuleFile { path, why } => {
                write!(f, "{} {}", path.display(), one_line(&why.to_string()))
            }
            Self::Damaged { path, why } => write!(
                f,
                "{} is damaged or truncated: {}; get it again",
                path.display(),
                one_line(&why.to_string())
            ),
            Self::Cache { path, error } => {
                write!(f, "cannot write {}: {}", path.display(), plain(error))?;
                match error.kind() {
                    io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => f.write_str(
                        "; the cache needs up to 300 MB for a kernel: free some space, or set \
                         XDG_CACHE_HOME to another directory",
                    ),
                    _ => f.write_str(
                        "; it is the cache of kernels: set XDG_CACHE_HOME to another directory",
                    ),
                }
            }
            Self::NoCache => f.write_str(
                "there is no directory for the cache of kernels: set XDG_CACHE_HOME or HOME to an \
                 absolute path",
            ),
            Self::Package { asked, why } => write!(f, "kernel {asked}: {why}"),
            Self::Module { name, release, why } => {
                write!(f, "module {name} of {release}: {why}")
            }
        }
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Unreadable { error, .. } | Self::Cache { error, .. } => Some(error),
            Self::Module { why, .. } => Some(why),
            Self::ModuleFile { why, .. } => Some(why),
            Self::Unfit { why, .. } => Some(why),
            Self::Damaged { why, .. } => Some(why),
            Self::Package { why, .. } => Some(why),
            Self::NoCache => None,
        }
    }
}

/// Why a module of the kernel is not available.
#[derive(Debug)]
#[non_exhaustive]
pub enum ModuleError {
    /// The kernel came without modules.
    NoModules,
    /// The module drives a device that no guest has.
    OfADevice,
    /// There is no such module.
    Unknown,
    /// A module that it needs is not in the cache.
    NotKept(String),
    /// A file cannot be read.
    Read {
        /// Which.
        path: PathBuf,
        /// The reason.
        source: io::Error,
    },
    /// A file in the cache is not a module.
    NoModule(String),
    /// A module that needs itself.
    NeedsItself(String),
    /// It needs too many others.
    TooMany {
        /// How many it may need.
        most: usize,
    },
}

impl fmt::Display for ModuleError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoModules => {
                f.write_str("this kernel has no modules: give the .deb that contains them")
            }
            Self::OfADevice => {
                f.write_str("it drives a device that no guest has, so it is not in the cache")
            }
            Self::Unknown => f.write_str("the kernel has no such module"),
            Self::NotKept(name) => write!(f, "it needs {name}, which is not in the cache"),
            Self::Read { path, source } => write!(f, "{}: {source}", path.display()),
            Self::NoModule(name) => write!(f, "{name} is not a module"),
            Self::NeedsItself(name) => write!(f, "{name} needs itself"),
            Self::TooMany { most } => write!(f, "it needs more than {most} modules"),
        }
    }
}

impl std::error::Error for ModuleError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Read { source, .. } => Some(source),
            _ => None,
        }
    }
}

/// Why a file is not a module that the kernel loads; the text follows the file's name.
#[derive(Debug)]
#[non_exhaustive]
pub enum ModuleFileError {
    /// It is not a file.
    NoFile,
    /// It is longer than any module.
    Long,
    /// It cannot be unpacked.
    Unpack(io::Error),
    /// It is not an ELF file.
    NotElf,
    /// It is for another processor.
    Processor,
    /// It is a program or a library.
    Program,
    /// It is too short to have a header.
    Short {
        /// Its length.
        bytes: usize,
    },
    /// It ends before its section headers.
    Cut {
        /// Where these end.
        end: u64,
        /// Its length.
        bytes: usize,
    },
    /// It has no `.modinfo`.
    NoModinfo,
    /// Its name is not that of a module.
    NoName,
    /// It was built for another kernel.
    OtherRelease {
        /// That kernel's release; empty where it states none.
        built_for: String,
        /// The kernel's.
        release: String,
    },
    /// It was built with other options than the kernel.
    OtherOptions {
        /// Those that it states.
        stated: String,
        /// Those of the kernel's own modules.
        own: String,
    },
    /// A module that it needs is not available.
    Needs {
        /// Which.
        needed: String,
        /// The reason.
        error: Box<Error>,
    },
    /// Another module of the same name is loaded first.
    Before {
        /// The other's name.
        other: String,
        /// How this one was asked for.
        asked: String,
    },
}

impl fmt::Display for ModuleFileError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoFile => f.write_str("is not a file"),
            Self::Long => f.write_str("is longer than 256 MiB"),
            Self::Unpack(error) => error.fmt(f),
            Self::NotElf => f.write_str("is not a kernel module: it is not an ELF file"),
            Self::Processor => f.write_str("is a module for another processor"),
            Self::Program => f.write_str("is a program or a library, not a module"),
            Self::Short { bytes } => write!(f, "is truncated: it has {bytes} bytes"),
            Self::Cut { end, bytes } => write!(
                f,
                "is truncated: its section headers end at {end}, it has {bytes} bytes"
            ),
            Self::NoModinfo => {
                f.write_str("is an object file, not a kernel module: it has no .modinfo")
            }
            Self::NoName => f.write_str("is not named as a module (NAME.ko)"),
            Self::OtherRelease { built_for, release } => {
                let built_for = match built_for.as_str() {
                    "" => "no stated kernel",
                    stated => stated,
                };
                write!(
                    f,
                    "was built for {built_for}, but the kernel is {release}: build it against \
                     that kernel's headers"
                )
            }
            Self::OtherOptions { stated, own } => write!(
                f,
                "was built with other options (\"{stated}\") than the kernel (\"{own}\"): \
                 build it against that kernel's headers"
            ),
            Self::Needs { needed, error } => {
                write!(f, "needs {needed}, which must come before it: {error}")
            }
            Self::Before { other, asked } => write!(
                f,
                "would not be loaded: another module {other} is loaded first, named by --module or \
                 needed by such a module: give --module {} first, or leave out the other",
                one_line(asked)
            ),
        }
    }
}

impl std::error::Error for ModuleFileError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Unpack(error) => Some(error),
            Self::Needs { error, .. } => Some(&**error),
            _ => None,
        }
    }
}

/// The system's error without its number.
fn plain(error: &io::Error) -> String {
    let text = error.to_string();
    match text.split_once(" (os error") {
        Some((words, _)) => words.to_lowercase(),
        None => text,
    }
}
