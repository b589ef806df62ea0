//! Why runs aren't compared.

use std::error::Error;
use std::fmt;

use punctual_stats::histogram::DecodeError;

/// Why runs can't be compared.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum CompareError {
    /// A run is named twice: `A1`, `B2`.
    Twice {
        /// The one.
        name: String,
        /// The other.
        other: String,
    },
    /// Its CPUs are to be compared, and it measured on one.
    OneThread,
    /// A histogram can't be decoded.
    Histogram(DecodeError),
}

impl fmt::Display for CompareError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Twice { name, other } => write!(
                f,
                "{name} is the same run as {other}: name each run once, one run is evidence once"
            ),
            Self::OneThread => f.write_str(
                "the run has one probe thread: to compare CPUs, measure on two or more (-a 0,1); \
                 to compare two runs, name both",
            ),
            Self::Histogram(source) => source.fmt(f),
        }
    }
}

impl Error for CompareError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        match self {
            Self::Histogram(source) => Some(source),
            Self::Twice { .. } | Self::OneThread => None,
        }
    }
}

impl From<DecodeError> for CompareError {
    fn from(source: DecodeError) -> Self {
        Self::Histogram(source)
    }
}
