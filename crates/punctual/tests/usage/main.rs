//! The command line: verbs, flags, bad input, typing errors, and the documents that describe it.

#[path = "../../../record/tests/made/bills.rs"]
#[allow(dead_code, reason = "some of it is used")]
mod bills;
mod budget;
mod check;
#[path = "../common/mod.rs"]
mod common;
mod cost;
mod documents;
mod exec;
mod fleet;
mod input;
mod nonsense;
mod packages;
mod proposals;
mod prove;
mod tune;
mod tune_faults;
#[path = "../../../machine/tests/tune/turn.rs"]
mod turn;
mod verbs;
mod words;
