//! Runs as users start them: how they are measured, disturbed, attacked, explained, ended and judged.
#![allow(unsafe_code, reason = "tests call the C library and unsafe functions")]
#![allow(
    clippy::print_stderr,
    clippy::print_stdout,
    reason = "a skipped test says so"
)]

mod advice;
mod alone;
mod asked;
mod attacked;
#[path = "../../../record/tests/made/bills.rs"]
mod bills;
mod breach;
#[path = "../common/mod.rs"]
mod common;
mod cost;
mod culprits;
mod ends;
mod exec;
mod explained;
mod fit;
mod gaps;
mod groups;
mod ladder;
mod launch;
mod loads;
mod path;
mod places;
mod prove;
mod rights;
mod saving;
mod screen;
mod stops;
mod throttled;
mod tuned;
mod verdicts;
