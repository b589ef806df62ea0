//! What a developer runs, and CI too: `cargo xtask TASK`.
#![allow(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "talks to the developer, and is no part of what is shipped"
)]

#[cfg(test)]
mod api;
mod bench;
mod copyright;
mod deps;
mod direction;
mod durations;
mod files;
mod guest;
mod lanes;
mod miri;
mod page;
mod programs;
mod prose;
mod results;
mod rules;
mod skips;
mod suite;
mod tally;
mod tiers;
mod told;
mod words;

use std::path::Path;
use std::process::ExitCode;

const USAGE: &str = "\
cargo xtask TASK
  test        the gate: checks and tests in twenty minutes; the last line counts them
  test-all    all other tests, or those of the groups that are named
  check       checks, lints and unit tests
  oldest      what is shipped, compiled by the Rust that Cargo.toml promises
  miri        what is pure and unsafe, run by Miri: undefined behaviour, data races
  direction   who may import whom
  rules       how long files are, lints in each crate, safety comments that say something
  deps        crates that want a newer compiler than ours
  licences    licences, versions and sources of the crates we depend on (cargo-deny)
  copyright   the copyright file of the Debian packages
  words       paths of one machine, hosts that nobody knows, sentences among data
  results     the tables of docs/results, made again
  bench       instructions, latencies and throughput beside the peers'";

/// The root of the workspace.
fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .parent()
        .expect("xtask lies in the workspace")
}

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let (task, rest) = match arguments.split_first() {
        Some((task, rest)) => (task.as_str(), rest),
        None => ("", [].as_slice()),
    };
    if let Some(check) = suite::named(task) {
        return suite::alone(check);
    }
    if let Some(step) = suite::step_named(task) {
        return suite::step_alone(step);
    }
    match task {
        "test" => suite::gate(),
        "test-all" => suite::all(rest),
        "check" => suite::check(),
        "bench" => bench::run(rest),
        "results" => results::write(rest),
        "copyright" => match copyright::file() {
            Ok(file) => {
                print!("{file}");
                ExitCode::SUCCESS
            }
            Err(error) => {
                eprintln!("copyright: {error}");
                ExitCode::FAILURE
            }
        },
        _ => {
            eprintln!("{USAGE}");
            ExitCode::from(64)
        }
    }
}
