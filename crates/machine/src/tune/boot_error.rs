//! Why boot parameters could not be configured.

use std::io;

use punctual_record::tuning::Setting;

use crate::root::plain;

/// Why boot parameters could not be configured. Nothing is configured then.
#[derive(Debug)]
#[non_exhaustive]
pub enum BootError {
    /// It is configured elsewhere with another value.
    Elsewhere {
        /// The file, or the program that keeps it.
        place: String,
        /// As it stands there.
        there: String,
        /// As it was to be added.
        parameter: String,
    },
    /// Some of the installed kernels have it, and some don't.
    OfSomeKernels {
        /// The parameter.
        parameter: String,
    },
    /// It has a character that needs quotes.
    Odd {
        /// The parameter.
        parameter: String,
    },
    /// A file is not of the form that it must have.
    Malformed {
        /// The file.
        path: String,
    },
    /// Another program changed the file since we did.
    Edited {
        /// The file.
        path: String,
    },
    /// A file can't be read.
    Unreadable {
        /// The file, or the program that was asked.
        path: String,
        /// Why not.
        source: io::Error,
    },
    /// A file can't be written, or the program that reads it fails.
    NotWritten {
        /// What was to be written.
        setting: Setting,
        /// Why not.
        source: io::Error,
    },
    /// What the boot loader's program generates lacks the parameter.
    NotGenerated {
        /// The generated file.
        path: String,
        /// The parameter.
        parameter: String,
    },
}

impl std::fmt::Display for BootError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Elsewhere {
                place,
                there,
                parameter,
            } => write!(
                f,
                "{place} has {there}, and {parameter} is needed: change it there, or run punctual tune \
                 restore if punctual wrote it; nothing was changed"
            ),
            Self::OfSomeKernels { parameter } => write!(
                f,
                "{parameter} is an argument of some installed kernels and not of all: make them \
                 equal with grubby; nothing was changed"
            ),
            Self::Odd { parameter } => write!(
                f,
                "{parameter:?} has a character that boot loaders read differently: add it by hand"
            ),
            Self::Malformed { path } => write!(
                f,
                "{path}: expected one line of text: correct it; nothing was changed"
            ),
            Self::Edited { path } => write!(
                f,
                "{path} was changed by another program since punctual did: `punctual tune restore \
                 --force` restores the original; nothing was changed"
            ),
            Self::Unreadable { path, source } => {
                write!(f, "{path}: {}; nothing was changed", plain(source))
            }
            Self::NotWritten { setting, source } => write!(
                f,
                "{setting}: {}; what was written was put back",
                plain(source)
            ),
            Self::NotGenerated { path, parameter } => write!(
                f,
                "{path} lacks {parameter} after its update: another file overrides ours; what was \
                 written was put back"
            ),
        }
    }
}

impl std::error::Error for BootError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Unreadable { source, .. } | Self::NotWritten { source, .. } => Some(source),
            Self::Elsewhere { .. }
            | Self::OfSomeKernels { .. }
            | Self::Odd { .. }
            | Self::Malformed { .. }
            | Self::Edited { .. }
            | Self::NotGenerated { .. } => None,
        }
    }
}
