//! Explanations: the verb, recordings of other tracers, and bills checked against the truth.
#![allow(clippy::print_stderr, reason = "a skipped test says so")]

use std::sync::{Mutex, MutexGuard, PoisonError};

#[path = "../common/mod.rs"]
mod common;
#[path = "../../../trace/tests/attribute/data.rs"]
mod data;
#[cfg(feature = "trace")]
mod here;
mod recordings;
mod recordings_damaged;
mod recordings_events;
mod recordings_limits;
mod recordings_odd;
#[cfg(feature = "trace")]
mod truth_of_bills;
mod verb;

/// Tests that trace the machine take turns. trace-cmd reads /proc/kallsyms twice, and fails if the symbols of
/// a BPF program that somebody loaded came in between.
fn tracing_alone() -> MutexGuard<'static, ()> {
    static ALONE: Mutex<()> = Mutex::new(());
    ALONE.lock().unwrap_or_else(PoisonError::into_inner)
}
