//! Programs with known behaviour, and what `punctual watch` reports about them.
#![allow(unsafe_code, reason = "tests call the C library and unsafe functions")]

#[path = "../common/mod.rs"]
mod common;
// Its macro must be defined first.
#[macro_use]
mod known;
mod containers;
mod crossing;
mod exact;
mod interference;
mod loops;
mod marks;
mod periods;
mod program;
mod runtime;
mod service;
mod several;
mod stops;
mod textfile;
mod threads;
mod unit;
mod waits;
