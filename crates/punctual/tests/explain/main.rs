//! Explanations: the verb, recordings of other tracers, and bills checked against the truth.
#![allow(clippy::print_stderr, reason = "a skipped test says so")]

#[path = "../common/mod.rs"]
mod common;
#[path = "../../../trace/tests/attribute/data.rs"]
mod data;
#[cfg(feature = "trace")]
mod here;
mod recordings;
mod recordings_odd;
#[cfg(feature = "trace")]
mod truth_of_bills;
mod verb;
