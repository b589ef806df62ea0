//! Latency statistics that say how far they can be trusted.
//!
//! Pure: no I/O, no clock, no `unsafe`. Every time is in nanoseconds.
#![forbid(unsafe_code)]

pub mod analysis;
pub mod binomial;
pub mod compare;
pub mod evidence;
pub mod extremal;
pub mod format;
pub mod histogram;
pub mod miss;
pub mod peaks;
pub mod requirement;
pub mod stationarity;
pub mod tail;
pub mod verdict;

mod pareto;
mod random;
mod special;

pub use analysis::{Analysis, Settings, analyse};
pub use evidence::{HalfEvidence, RunEvidence, ThreadEvidence};
pub use histogram::{Histogram, HistogramRecord};
pub use peaks::{Peak, Peaks};
pub use requirement::Requirement;
pub use verdict::{Outcome, Verdict, judge};
