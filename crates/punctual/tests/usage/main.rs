//! The command line: verbs, flags, bad input, typing errors, and the documents that describe it.

mod check;
#[path = "../common/mod.rs"]
mod common;
mod documents;
mod input;
mod packages;
mod tune;
#[path = "../../../machine/tests/tune/turn.rs"]
mod turn;
mod verbs;
mod words;
