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
mod delayed;
mod descent;
mod ends;
mod exec;
mod exec_own;
mod explained;
mod fit;
mod gaps;
mod groups;
#[path = "../../../network/tests/injected/hog.rs"]
mod hog;
mod ladder;
mod launch;
mod loads;
mod own_drops;
mod path;
mod places;
mod prove;
mod raw;
mod rights;
mod robot;
mod saving;
mod screen;
#[path = "../../../network/tests/injected/stalls.rs"]
mod stalls;
mod stops;
#[path = "../../../capi/tests/support/mod.rs"]
#[allow(dead_code, reason = "each test program takes what it needs")]
mod support;
mod throttled;
mod tuned;
mod verdicts;
