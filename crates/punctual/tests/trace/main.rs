//! What the kernel was seen to do, held against culprits that know when they were there:
//! examples/truth.
#![cfg(feature = "trace")]
#![allow(clippy::print_stderr, reason = "a skipped test says so")]

#[path = "../common/examples.rs"]
mod examples;
mod here;
#[path = "../common/truth.rs"]
mod truth;
