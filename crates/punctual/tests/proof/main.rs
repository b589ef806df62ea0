//! Proofs of the claims about the probe's loop and the figures.
#![allow(unsafe_code, reason = "tests call the C library and unsafe functions")]

#[path = "../common/mod.rs"]
mod common;
mod outside;
mod pitfall;
mod tasks;
mod the_loop;
