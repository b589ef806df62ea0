//! Reading a machine, and what is found on it. Nothing is changed here: that is in `tune`.

mod findings;
// Where it is because the tests of `punctual` include some of its files.
#[path = "../survey/mod.rs"]
mod survey;
