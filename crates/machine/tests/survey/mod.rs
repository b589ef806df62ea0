//! Reading the machine: recorded trees, and the live machine.
#![allow(unsafe_code, reason = "tests call the C library and unsafe functions")]
#![allow(clippy::print_stderr, reason = "a skipped test says so")]

#[path = "../../../punctual/tests/common/needs.rs"]
mod needs;

mod cpus;
mod live;
mod process;
mod support;
mod threads;
mod trees;
