//! What is wrong in the figures of another tool.

use std::error::Error;
use std::fmt;
use std::num::{ParseIntError, TryFromIntError};

use punctual_record::text::shortened;

/// Letters of a word that an error shows.
const SHOWN: usize = 40;

/// What is wrong in a line or in the figures of a thread.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum ForeignError {
    /// The bytes are not UTF-8.
    NotText,
    /// It is no format that is known.
    UnknownFormat,
    /// A word is not a count.
    NotACount { word: String, source: ParseIntError },
    /// A unit that is neither ns nor µs.
    UnknownUnit { unit: String },
    /// A second histogram follows the first.
    SecondHistogram,
    /// A row without counts.
    EmptyRow,
    /// A row with another number of columns than those before.
    RowLength { found: usize, expected: usize },
    /// A row that is not above the one before.
    RowOrder { value: u64 },
    /// More rows times columns than are read.
    TooManyCounts { most: usize },
    /// More threads than are read.
    TooManyThreads { most: usize },
    /// More samples than a counter can count.
    TooManySamples,
    /// The summary of a thread lacks a part.
    SummaryLacks { part: &'static str },
    /// The summary of a thread is missing.
    NoSummary { thread: usize },
    /// The text ends before the minima of its histogram.
    CutShort,
    /// A line has not the figures of every thread.
    FiguresMissing { threads: usize },
    /// The rows of a thread don't sum to its total.
    Total { thread: usize, total: u64 },
    /// The histogram has no column that is read.
    NoColumn,
    /// A latency that does not fit in 64 bits of nanoseconds.
    LatencyTooLarge { value: u64 },
    /// The histogram holds more samples than were counted.
    TooFewCounted { inside: u64, count: u64 },
    /// The minimum is not where the histogram begins.
    Minimum { min: u64, first: u64 },
    /// The maximum is not where the histogram ends.
    Maximum { max: u64, last: u64 },
    /// Samples beyond the histogram, and the maximum lies within it.
    MaximumWithin { max: u64 },
    /// A CPU number that does not fit.
    Cpu { cpu: u64, source: TryFromIntError },
}

impl ForeignError {
    /// Parses a count.
    pub fn count(word: &str) -> Result<u64, Self> {
        word.parse().map_err(|source| Self::NotACount {
            word: shortened(word, SHOWN),
            source,
        })
    }
}

impl fmt::Display for ForeignError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotText => f.write_str("not text"),
            Self::UnknownFormat => f.write_str(
                "neither a punctual record nor output of cyclictest, jitterdebugger or rtla \
                 timerlat",
            ),
            Self::NotACount { word, .. } => write!(f, "'{word}' is not a count"),
            Self::UnknownUnit { unit } => write!(f, "unknown unit '{unit}': expected ns or us"),
            Self::SecondHistogram => f.write_str("a second histogram in one file"),
            Self::EmptyRow => f.write_str("a row without counts"),
            Self::RowLength { found, expected } => {
                write!(f, "{found} columns in a row, expected {expected}")
            }
            Self::RowOrder { value } => write!(f, "row {value} is out of order"),
            Self::TooManyCounts { most } => write!(f, "more than {most} counts"),
            Self::TooManyThreads { most } => write!(f, "more than {most} threads"),
            Self::TooManySamples => f.write_str("more samples than can be counted"),
            Self::SummaryLacks { part } => write!(f, "a summary without {part}"),
            Self::NoSummary { thread } => write!(f, "the line of thread {thread} is missing"),
            Self::CutShort => {
                f.write_str("its histogram ends without minima: the file is not complete")
            }
            Self::FiguresMissing { threads } => {
                write!(f, "figures of {threads} threads expected in each line")
            }
            Self::Total { thread, total } => write!(
                f,
                "thread {thread}: the rows do not sum to the total of {total}"
            ),
            Self::NoColumn => {
                f.write_str("the histogram of rtla has no column of a thread (Thr-000)")
            }
            Self::LatencyTooLarge { value } => write!(f, "a latency of {value} is too large"),
            Self::TooFewCounted { inside, count } => write!(
                f,
                "its histogram holds {inside} samples, more than the {count} counted"
            ),
            Self::Minimum { min, first } => {
                write!(f, "its minimum is {min}, its histogram begins at {first}")
            }
            Self::Maximum { max, last } => {
                write!(f, "its maximum is {max}, its histogram ends at {last}")
            }
            Self::MaximumWithin { max } => {
                write!(f, "its maximum of {max} lies within its histogram")
            }
            Self::Cpu { cpu, .. } => write!(f, "{cpu} is not a CPU number"),
        }
    }
}

impl Error for ForeignError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        match self {
            Self::NotACount { source, .. } => Some(source),
            Self::Cpu { source, .. } => Some(source),
            _ => None,
        }
    }
}
