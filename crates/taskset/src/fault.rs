//! What is wrong with a file, and where.

use std::error::Error;
use std::fmt;

use punctual_record::text::one_line;

/// What is wrong, in one line, and the line of the file. Whoever shows it puts the file before it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fault {
    /// From 1.
    pub line: usize,
    /// What is wrong, and what was expected.
    pub why: String,
}

impl Fault {
    pub(crate) fn new(line: usize, why: impl AsRef<str>) -> Self {
        Fault {
            line,
            why: one_line(why.as_ref()),
        }
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.line, self.why)
    }
}

impl Error for Fault {}
