//! The loads by themselves: what they do, what they leave behind, and the library's examples under
//! load.
#![allow(unsafe_code, reason = "tests call the C library and unsafe functions")]
#![allow(clippy::print_stderr, reason = "a skipped test says so")]

#[path = "../common/examples.rs"]
mod build;
mod cleanup;
mod examples;
mod generators;
#[path = "../common/needs.rs"]
mod needs;
#[path = "../../../capi/tests/support/mod.rs"]
#[allow(dead_code, reason = "each test program takes what it needs")]
mod support;
