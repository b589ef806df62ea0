//! Proofs of the claims about the probe's loop and the figures.

#[path = "../common/mod.rs"]
mod common;
mod outside;
mod pitfall;
mod the_loop;
