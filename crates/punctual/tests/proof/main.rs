//! What is claimed of the probe's loop and of the figures, proven.

#[path = "../common/mod.rs"]
mod common;
mod outside;
mod pitfall;
mod the_loop;
