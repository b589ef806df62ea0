#![no_main]
// What holds of every input stands with the tests, which try it on those known.
#[path = "../../crates/punctual/tests/hostile/lab_bound.rs"]
mod target;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| target::check(bytes));
