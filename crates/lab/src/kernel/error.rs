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
        why: ModuleError,
    },
    /// A file is no module that this kernel takes.
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
            Self::Unfit { path, why } => write!(f, "{} {why}", path.display()),
            Self::ModuleFile {
                path,
                why: why @ ModuleFileError::Before { .. },
            } => write!(f, "{} {why}", path.display()),
            Self::ModuleFile { path, why } => {
                write!(f, "{} {}", path.display(), in_a_line(&why.to_string()))
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

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Unreadable { error, .. } | Self::Cache { error, .. } => Some(error),
            Self::Module { why, .. } => Some(why),
            Self::ModuleFile { why, .. } => Some(why),
            _ => None,
        }
    }
}

/// Why a module of the kernel's own can't be had.
#[derive(Debug)]
#[non_exhaustive]
pub enum ModuleError {
    /// The kernel came without modules.
    NoModules,
    /// The module drives a device that no guest has.
    OfADevice,
    /// There is no such module.
    Unknown,
    /// A module that it needs is not kept.
    NotKept(String),
    /// A file can't be read.
    Read {
        /// Which.
        path: PathBuf,
        /// The reason.
        source: io::Error,
    },
    /// What is kept under a name is no module.
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
                f.write_str("this kernel came without modules; give the .deb that they are in")
            }
            Self::OfADevice => f.write_str("it drives a device that no guest has, and is not kept"),
            Self::Unknown => f.write_str("there is no such module"),
            Self::NotKept(name) => write!(f, "{name}, which it needs, is not kept"),
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

/// Why a file is no module that a kernel takes, in words that follow its name.
#[derive(Debug)]
#[non_exhaustive]
pub enum ModuleFileError {
    /// It is no file.
    NoFile,
    /// It is longer than any module.
    Long,
    /// It can't be unpacked.
    Unpack(io::Error),
    /// It is no ELF file.
    NotElf,
    /// It is for another processor.
    Processor,
    /// It is a program or a library.
    Program,
    /// It is too short to have a header.
    Short {
        /// What it has.
        bytes: usize,
    },
    /// It ends before its section headers.
    Cut {
        /// Where these end.
        end: u64,
        /// What it has.
        bytes: usize,
    },
    /// It has no `.modinfo`.
    NoModinfo,
    /// Its name is none of a module.
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
    /// A module that it needs can't be had.
    Needs {
        /// Which.
        needed: String,
        /// The reason.
        error: Box<Error>,
    },
    /// Another module of its name comes before it.
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
            Self::NoFile => f.write_str("is no file"),
            Self::Long => f.write_str("is longer than 256 MiB"),
            Self::Unpack(error) => error.fmt(f),
            Self::NotElf => f.write_str("is no kernel module: it is no ELF file"),
            Self::Processor => f.write_str("is a module for another processor"),
            Self::Program => f.write_str("is a program or a library, not a module"),
            Self::Short { bytes } => write!(f, "is cut short: it has {bytes} bytes"),
            Self::Cut { end, bytes } => write!(
                f,
                "is cut short: its section headers end at {end}, and it has {bytes} bytes"
            ),
            Self::NoModinfo => {
                f.write_str("is an object file and no kernel module: it has no .modinfo")
            }
            Self::NoName => f.write_str("has no module's name"),
            Self::OtherRelease { built_for, release } => {
                let built_for = match built_for.as_str() {
                    "" => "no stated kernel",
                    stated => stated,
                };
                write!(
                    f,
                    "was built for {built_for}, and the kernel is {release}: build it against \
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
                "would not be loaded: another module {other} comes before it, named itself or \
                 needed by one that is: put --module {} first, or leave the other out",
                in_a_line(asked)
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
