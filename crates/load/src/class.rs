//! The scheduling class of the loads.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::error::SpecError;

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

impl FromStr for LoadClass {
    type Err = SpecError;

    fn from_str(text: &str) -> Result<Self, SpecError> {
        match text {
            "other" => Ok(LoadClass::Other),
            "batch" => Ok(LoadClass::Batch),
            "idle" => Ok(LoadClass::Idle),
            _ => Err(SpecError::UnknownClass(text.to_owned())),
        }
    }
}
