//! Whether a load went on working, looked at every second.

use serde::{Deserialize, Serialize};

/// The share of the time looked at that a load may spend without work.
pub const IDLE_SHARE: f64 = 0.1;

/// Why a load failed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(tag = "is", rename_all = "kebab-case")]
pub enum LoadFailure {
    /// One of its processes ended with an error.
    Error {
        /// The text that the process left behind, evidence that nothing parses.
        error: String,
    },
    /// Its supervisor ended and left no error behind.
    SupervisorGone,
    /// Its supervisor was killed.
    SupervisorKilled,
    /// It was stopped before it was started.
    NotStarted,
    /// It is a load of limited work, and that was done before the run ended.
    EndedEarly {
        /// After how long.
        after_ns: u64,
    },
    /// It did no work at all.
    NoWork {
        /// In how long.
        ran_ns: u64,
    },
    /// It did not stop in time.
    SlowToStop {
        /// How long was waited.
        waited_ns: u64,
    },
    /// Some of its processes could not be killed.
    NotKilled {
        /// How long was waited.
        waited_ns: u64,
    },
}

/// The work of a load, looked at in stretches of at least a second; of a command, of half a second.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct WorkCheck {
    /// Time in the stretches that were looked at. Time in which this program itself did not
    /// run (it was stopped, or the whole machine was) is not in it.
    pub looked_ns: u64,
    /// Of it, in stretches without work. Where a part of its processes was stopped and others
    /// worked, that part of the stretch.
    pub idle_ns: u64,
    /// The longest time without work.
    pub longest_idle_ns: u64,
    /// CPU time that the load's processes had to use in each second to count as working; 0
    /// where this was not checked. Absent for a generator, whose counts have to grow.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub least_cpu_ns: Option<u64>,
}

impl WorkCheck {
    /// Share of the time looked at without work; 0 where it was not checked.
    #[must_use]
    pub fn idle_share(&self) -> f64 {
        if self.looked_ns == 0 {
            return 0.0;
        }
        self.idle_ns as f64 / self.looked_ns as f64
    }

    /// Whether it was without work for too long.
    #[must_use]
    pub fn is_idle(&self) -> bool {
        self.idle_share() > IDLE_SHARE
    }

    /// Whether the check was turned off.
    #[must_use]
    pub fn is_off(&self) -> bool {
        self.least_cpu_ns == Some(0)
    }

    /// Adds what was seen in another run.
    pub fn merge(&mut self, other: &Self) {
        self.looked_ns = self.looked_ns.saturating_add(other.looked_ns);
        self.idle_ns = self.idle_ns.saturating_add(other.idle_ns);
        self.longest_idle_ns = self.longest_idle_ns.max(other.longest_idle_ns);
    }
}
