//! Why runs are not merged.

use std::fmt;

use punctual_stats::histogram::DecodeError;

use super::super::conditions::Difference;
use super::super::watch::WatchedMark;

/// Why runs were not merged.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub enum MergeError {
    /// No run was added.
    Nothing,
    /// A run was made under other conditions than the first.
    Different {
        /// Which, counted from 0.
        run: usize,
        /// In what.
        differences: Vec<Difference>,
    },
    /// A run that is in the sum already: counted twice it would prove too much.
    Twice {
        /// Which, counted from 0.
        run: usize,
        /// When it was begun.
        started: String,
    },
    /// A run that measured the same CPUs in the same time as one of the sum: its evidence would count twice.
    Overlapping {
        /// Which, counted from 0.
        run: usize,
        /// When it was begun.
        started: String,
        /// When the other one was begun.
        other: String,
    },
    /// A run that executed a set of tasks: its jobs aren't added up.
    TaskSet {
        /// Which, counted from 0.
        run: usize,
    },
    /// A run that measured the path to another machine: what became of its messages isn't added up.
    Path {
        /// Which, counted from 0.
        run: usize,
    },
    /// A watch with marks that have limits, and no place in the sum: they would be judged no longer.
    Marks {
        /// Which, counted from 0.
        run: usize,
    },
    /// A run whose histograms can't be decoded.
    Damaged {
        /// Which, counted from 0.
        run: usize,
        /// What is wrong.
        source: DecodeError,
    },
}

impl fmt::Display for MergeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Nothing => f.write_str("no run to merge"),
            Self::Different { run, differences } => write!(
                f,
                "run {} differs from the first in {} of the conditions that must agree",
                run + 1,
                differences.len()
            ),
            Self::Twice { run, started } => write!(
                f,
                "run {} (begun {started}) was given twice: name each run once",
                run + 1
            ),
            Self::Overlapping {
                run,
                started,
                other,
            } => write!(
                f,
                "run {} (begun {started}) measured in the same time, on the same machine, what the one \
                 begun {other} did: name one of the two",
                run + 1
            ),
            Self::TaskSet { run } => write!(
                f,
                "run {} executed a task set, whose runs can't be merged: execute it for longer with \
                 `punctual exec -D`",
                run + 1
            ),
            Self::Path { run } => write!(
                f,
                "run {} measured the path to another machine: such runs are not merged; compare \
                 shows two of them beside each other",
                run + 1
            ),
            Self::Marks { run } => write!(
                f,
                "run {} has other marks than the runs before it, and a sum holds {} marks: merge runs \
                 with the same marks",
                run + 1,
                WatchedMark::MOST
            ),
            Self::Damaged { run, source } => write!(f, "run {}: {source}", run + 1),
        }
    }
}

impl std::error::Error for MergeError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Damaged { source, .. } => Some(source),
            Self::Nothing
            | Self::Different { .. }
            | Self::Twice { .. }
            | Self::Overlapping { .. }
            | Self::TaskSet { .. }
            | Self::Path { .. }
            | Self::Marks { .. } => None,
        }
    }
}
