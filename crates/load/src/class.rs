//! The scheduling class of the loads.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// The scheduling class of the loads, always with nice 0.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum LoadClass {
    /// SCHED_OTHER.
    #[default]
    Other,
    /// SCHED_BATCH.
    Batch,
    /// SCHED_IDLE.
    Idle,
}

impl LoadClass {
    /// The kernel's number for it.
    pub fn policy(self) -> i32 {
        match self {
            LoadClass::Other => libc::SCHED_OTHER,
            LoadClass::Batch => libc::SCHED_BATCH,
            LoadClass::Idle => libc::SCHED_IDLE,
        }
    }
}

impl fmt::Display for LoadClass {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            LoadClass::Other => "other",
            LoadClass::Batch => "batch",
            LoadClass::Idle => "idle",
        })
    }
}

/// A text that is not the name of a class.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnknownClass(pub String);

impl fmt::Display for UnknownClass {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text = &self.0;
        write!(
            f,
            "unknown load class '{text}': expected other, batch or idle"
        )
    }
}

impl std::error::Error for UnknownClass {}

impl FromStr for LoadClass {
    type Err = UnknownClass;

    fn from_str(text: &str) -> Result<Self, UnknownClass> {
        match text {
            "other" => Ok(LoadClass::Other),
            "batch" => Ok(LoadClass::Batch),
            "idle" => Ok(LoadClass::Idle),
            _ => Err(UnknownClass(text.to_owned())),
        }
    }
}
