//! The command line: verbs, flags, bad input, words, and the documents that describe it.

#[path = "../common/mod.rs"]
mod common;
mod documents;
mod input;
mod packages;
mod verbs;
mod words;
