//! What a run asks of the machine, on recorded trees and on the live machine.
#![allow(unsafe_code, reason = "tests call the C library and unsafe functions")]
#![allow(clippy::print_stderr, reason = "a skipped test says so")]

mod demands;
mod dma_latency;
mod live;
mod monitor;
#[path = "../common/needs.rs"]
mod needs;
#[path = "../../../machine/tests/survey/support.rs"]
mod support;
#[path = "../../../machine/tests/survey/threads.rs"]
mod threads;
