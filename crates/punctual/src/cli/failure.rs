//! Why a verb ended without doing its work, in one line, with its exit status.

use std::fmt;

/// Exit status of a setup or internal error.
pub const SETUP: u8 = 1;
/// Exit status of wrong usage (EX_USAGE of sysexits.h).
pub const USAGE: u8 = 64;

/// One line, and the exit status.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Failure {
    /// The line, without the program's name.
    pub line: String,
    /// The exit status.
    pub status: u8,
}

impl Failure {
    /// Wrong usage.
    pub fn usage(line: impl Into<String>) -> Self {
        Self {
            line: line.into(),
            status: USAGE,
        }
    }

    /// Something could not be set up, read or written.
    pub fn setup(line: impl fmt::Display) -> Self {
        Self {
            line: line.to_string(),
            status: SETUP,
        }
    }
}

impl From<clap::Error> for Failure {
    /// clap explains itself over several lines; the first says what is wrong and
    /// with which flag, possible values may follow.
    fn from(error: clap::Error) -> Self {
        let text = error.render().to_string();
        let line = text
            .lines()
            .take_while(|line| !line.starts_with("Usage:") && !line.starts_with("For more"))
            .map(str::trim)
            .filter(|line| !line.is_empty())
            .collect::<Vec<_>>()
            .join(" ");
        let line = line.strip_prefix("error: ").unwrap_or(&line);
        Self::usage(line.to_owned())
    }
}
