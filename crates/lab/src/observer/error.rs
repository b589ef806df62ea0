//! Why the observer has no result: one line each.

use std::error::Error;
use std::fmt;
use std::io;
use std::path::PathBuf;

use super::super::kernel;

/// Why a guest cannot be observed, or why it has no bill.
#[derive(Debug)]
#[non_exhaustive]
pub enum ObserverError {
    /// The plugin could not be written.
    Plugin {
        /// Its file.
        path: PathBuf,
        /// The system's error.
        source: io::Error,
    },
    /// The kernel's symbols cannot be read.
    Symbols(kernel::Error),
    /// The record does not have exactly one probe thread.
    Threads(usize),
    /// The plugin's file cannot be read.
    Trail(io::Error),
    /// The plugin's file is too large.
    TrailTooLarge,
    /// The plugin's file has another format.
    NoTrail,
    /// The plugin's file is truncated.
    TrailCut,
    /// The plugin's file has too many stretches.
    Stretches(u64),
    /// The plugin's file refers to a missing mark.
    NoMark(u64),
    /// The plugin's file refers to a missing block.
    NoBlock,
    /// The plugin's marks do not match the wake-ups of the record.
    OtherMarks(usize),
    /// A program woke too rarely.
    FewMarks {
        /// How often it woke.
        marks: usize,
        /// The least number.
        fewest: usize,
    },
    /// A program has no period.
    NoPeriod,
    /// A program has several loops.
    SeveralLoops,
}

impl fmt::Display for ObserverError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Plugin { path, source } => write!(f, "{}: {source}", path.display()),
            Self::Symbols(error) => error.fmt(f),
            Self::Threads(threads) => write!(
                f,
                "a bill needs exactly one probe thread, the run had {threads}"
            ),
            Self::Trail(error) => write!(f, "the observer's file: {error}"),
            Self::TrailTooLarge => f.write_str("the observer's file is too large"),
            Self::NoTrail => f.write_str("the observer's file is missing or has another format"),
            Self::TrailCut => f.write_str("the observer's file is truncated"),
            Self::Stretches(stretches) => {
                write!(f, "the observer's file has {stretches} stretches")
            }
            Self::NoMark(mark) => write!(f, "the observer's file has no mark {mark}"),
            Self::NoBlock => f.write_str("the observer's file refers to a missing block"),
            Self::OtherMarks(marks) => write!(
                f,
                "the observer's {marks} marks do not match the wake-ups of this record"
            ),
            Self::FewMarks { marks, fewest } => write!(
                f,
                "it woke {marks} times from a periodic loop of punctual-rt, at least {fewest} wake-ups \
                 are needed to find its period"
            ),
            Self::NoPeriod => f.write_str("its wake-ups do not have one period"),
            Self::SeveralLoops => f.write_str(
                "it has several periodic loops, and the observer cannot assign the wake-ups to them",
            ),
        }
    }
}

impl Error for ObserverError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        match self {
            Self::Plugin { source, .. } | Self::Trail(source) => Some(source),
            Self::Symbols(error) => Some(error),
            _ => None,
        }
    }
}
