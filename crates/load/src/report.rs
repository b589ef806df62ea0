//! What a load does, and what it did.

use std::collections::BTreeMap;

use punctual_record::{LoadFailure, WorkCheck};
use serde::{Deserialize, Serialize};

/// What a load is doing right now.
#[derive(Clone, Debug, PartialEq)]
pub struct LoadStatus {
    /// Its name.
    pub name: String,
    /// Its supervisor.
    pub supervisor: u32,
    /// Tasks (processes or threads) that it should have.
    pub expected: u64,
    /// Tasks that it has.
    pub alive: u64,
    /// Work done so far, in `unit`.
    pub work: u64,
    /// The unit of the work.
    pub unit: String,
    /// Additional counts, by their units.
    pub also: BTreeMap<String, u64>,
    /// Seconds since its tasks were released.
    pub seconds: f64,
    /// Work per second since then.
    pub rate: f64,
    /// Whether it continues to work, as far as that is checked.
    pub check: WorkCheck,
    /// Whether it is finite and done.
    pub finished: bool,
    /// Why it failed, if it did.
    pub failed: Option<LoadFailure>,
}

/// What a load did from start to end.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct LoadReport {
    /// Its name.
    pub name: String,
    /// Everything needed to repeat it.
    pub parameters: BTreeMap<String, String>,
    /// Tasks (processes or threads) that did the work.
    pub processes: u64,
    /// Work done, in `unit`.
    pub work: u64,
    /// The unit of the work.
    pub unit: String,
    /// Additional counts, by their units.
    pub also: BTreeMap<String, u64>,
    /// Seconds from the release of the tasks until the load was done or stopped.
    pub seconds: f64,
    /// Work per second.
    pub rate: f64,
    /// Whether it continued to work; absent if that was not checked.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub check: Option<WorkCheck>,
    /// Why it failed, if it did. A run beside such a load is not valid.
    pub failed: Option<LoadFailure>,
}

/// Work per second.
pub(crate) fn rate(work: u64, seconds: f64) -> f64 {
    if seconds > 0.0 {
        work as f64 / seconds
    } else {
        0.0
    }
}
