//! What a record may hold, and how a part of it that breaks a promise is refused.

use std::ops::RangeInclusive;

use punctual_stats::histogram::{HistogramRecord, SparseHistogram};

/// What a record may hold at most.
#[derive(Debug)]
pub struct Bounds;

impl Bounds {
    /// Bytes of `run.json`.
    pub const FILE: u64 = 256 << 20;
    /// Probe threads.
    pub const THREADS: usize = 4096;
    /// The highest CPU number and one more; Linux goes to 8192 today.
    pub const CPUS: usize = 1 << 16;
    /// Peaks of one thread.
    pub const PEAKS: usize = 1 << 17;
    /// Rows of the timeline: those of one run, with room for merged ones.
    pub const ROWS: usize = 1 << 16;
    /// Events.
    pub const EVENTS: usize = 1 << 16;
    /// Settings that were changed for a run.
    pub const SETTINGS: usize = 1 << 16;
    /// Demands, loads, requirements, words of a command.
    pub const SHORT_LIST: usize = 1 << 12;
}

/// Tracing begins before a run and ends after it: by less than this, on a slow machine and where
/// punctual is stopped meanwhile too.
const MARGIN_NS: u64 = 600_000_000_000;

/// A broken promise.
#[derive(Debug)]
pub struct Broken {
    pub place: String,
    pub reason: String,
}

pub(super) fn broken<T>(place: impl Into<String>, reason: impl Into<String>) -> Result<T, Broken> {
    Err(Broken {
        place: place.into(),
        reason: reason.into(),
    })
}

pub(super) fn ensure(
    holds: bool,
    place: impl Into<String>,
    reason: impl Into<String>,
) -> Result<(), Broken> {
    if holds { Ok(()) } else { broken(place, reason) }
}

pub(super) fn at_most(count: usize, most: usize, place: impl Into<String>) -> Result<(), Broken> {
    ensure(
        count <= most,
        place,
        format!("{count} entries, at most {most} are allowed"),
    )
}

/// When a run was made, and of which runs it is the sum.
#[derive(Debug, Default)]
pub(super) struct Extent {
    /// CLOCK_MONOTONIC; absent of a sum of runs, whose instants are of several clocks.
    instants: Option<RangeInclusive<u64>>,
    /// Absent where it is a single run.
    parts: Option<u64>,
}

impl Extent {
    /// Of a run that began and measured so, or of the sum of this many.
    pub(super) fn new(start_ns: Option<u64>, measured_ns: u64, parts: Option<u64>) -> Self {
        let instants = start_ns.map(|start_ns| {
            let end_ns = start_ns.saturating_add(measured_ns);
            start_ns.saturating_sub(MARGIN_NS)..=end_ns.saturating_add(MARGIN_NS)
        });
        Self { instants, parts }
    }

    /// Refuses the number of a part, or of parts, that the sum does not have; 0 is none.
    pub(super) fn has_part(&self, number: u64, place: &str) -> Result<(), Broken> {
        match self.parts {
            _ if number == 0 => Ok(()),
            Some(parts) if number <= parts => Ok(()),
            Some(parts) => broken(place, format!("{number} of {parts} runs")),
            None => broken(place, "this record is not a merge of runs"),
        }
    }

    /// Refuses an instant that was not in the run.
    pub(super) fn holds(&self, at_ns: u64, place: &str) -> Result<(), Broken> {
        match &self.instants {
            Some(instants) if !instants.contains(&at_ns) => {
                broken(place, format!("{at_ns} ns is not an instant of this run"))
            }
            _ => Ok(()),
        }
    }
}

pub(super) fn cpu(number: usize, place: impl Into<String>) -> Result<(), Broken> {
    ensure(
        number < Bounds::CPUS,
        place,
        format!("{number} is not a CPU number"),
    )
}

pub(super) fn histogram(record: &HistogramRecord, place: &str) -> Result<SparseHistogram, Broken> {
    SparseHistogram::try_from(record).map_err(|e| Broken {
        place: place.to_owned(),
        reason: e.to_string(),
    })
}
