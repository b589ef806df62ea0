//! Why a run isn't written in a foreign format.

use std::error::Error;
use std::fmt;

use punctual_stats::histogram::DecodeError;

use super::Format;

/// A word that names no format.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct UnknownFormat;

impl fmt::Display for UnknownFormat {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names = Format::ALL.map(Format::name);
        write!(f, "accepted are {}", names.join(", "))
    }
}

impl Error for UnknownFormat {}

/// Why a run can't be written.
#[derive(Debug)]
#[non_exhaustive]
pub enum WriteError {
    /// A thread's histogram can't be decoded.
    Histogram {
        /// What the thread is called.
        thread: String,
        /// Why.
        source: DecodeError,
    },
    /// The text can't be written as JSON.
    Json(serde_json::Error),
}

impl fmt::Display for WriteError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Histogram { thread, source } => write!(f, "{thread}: {source}"),
            Self::Json(source) => source.fmt(f),
        }
    }
}

impl Error for WriteError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        match self {
            Self::Histogram { source, .. } => Some(source),
            Self::Json(source) => Some(source),
        }
    }
}
