//! What can go wrong with loads, each in one line.

use std::fmt;

/// Why loads could not be started, or did not get going.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LoadError(String);

impl LoadError {
    pub(crate) fn new(load: &str, what: impl fmt::Display) -> Self {
        LoadError(format!("load {load}: {what}"))
    }
}

impl fmt::Display for LoadError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for LoadError {}
