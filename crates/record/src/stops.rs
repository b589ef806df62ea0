//! Stops of the measuring process, or of the program that is watched: which must not be taken for a
//! latency of the machine.

use serde::{Deserialize, Serialize};

/// What ended or made a stop, as far as it is known.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum StopCause {
    /// A stop signal: SIGCONT ended it.
    Signal,
    /// A debugger or another tracer.
    Debugger,
    /// A freezer, as for a paused container.
    Freezer,
    /// A freezer (as for a paused container), or a debugger that was gone when it was over.
    Unknown,
}

/// One stop.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Stop {
    /// When it began, since the start of the measurement.
    pub at_ns: u64,
    /// Its length.
    pub length_ns: u64,
    /// What made it.
    pub cause: StopCause,
    /// The CPU of the only probe thread that was stopped; absent where all were.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cpu: Option<usize>,
    /// The number of the only watched thread that was stopped; absent where several were, and
    /// where no program is watched.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tid: Option<u32>,
}

/// All stops of a run. Cycles within them are in no histogram and no count of the threads.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Stops {
    /// How many.
    pub count: u64,
    /// Their length together.
    pub total_ns: u64,
    /// The longest.
    pub longest_ns: u64,
    /// Wake-ups and periods of all threads that lay within them.
    pub cycles: u64,
    /// The first of them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub list: Vec<Stop>,
}

impl Stops {
    /// Stops that are kept one by one.
    pub const LISTED: usize = 100;

    /// A run that was stopped for more than this share of its time is not valid.
    pub const MOST_SHARE: f64 = 0.05;

    /// Counts a stop.
    pub fn add(&mut self, stop: Stop) {
        self.count += 1;
        self.total_ns = self.total_ns.saturating_add(stop.length_ns);
        self.longest_ns = self.longest_ns.max(stop.length_ns);
        if self.list.len() < Self::LISTED {
            self.list.push(stop);
        }
    }

    /// Adds those of another run, without their instants: they are of another clock.
    pub fn add_run(&mut self, other: &Self) {
        self.count = self.count.saturating_add(other.count);
        self.total_ns = self.total_ns.saturating_add(other.total_ns);
        self.longest_ns = self.longest_ns.max(other.longest_ns);
        self.cycles = self.cycles.saturating_add(other.cycles);
        self.list.clear();
    }

    /// Their share of a run that measured so long.
    #[must_use]
    pub fn share(&self, measured_ns: u64) -> f64 {
        match measured_ns.max(self.total_ns) {
            0 => 0.0,
            span_ns => self.total_ns as f64 / span_ns as f64,
        }
    }

    /// Whether a run that measured so long and has these stops is not valid.
    #[must_use]
    pub fn are_too_many(&self, measured_ns: u64) -> bool {
        self.share(measured_ns) > Self::MOST_SHARE
    }
}
