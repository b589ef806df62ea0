//! The machine as it is read: from recorded trees, and this one.
#![allow(clippy::print_stderr, reason = "a skipped test says so")]

#[path = "../common/mod.rs"]
mod common;
mod cpus;
mod demands;
mod hotplug;
mod live;
mod monitor;
mod process;
mod support;
mod survey;
