//! What a developer runs, and CI too: `cargo xtask TASK`.
#![allow(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "talks to the developer, and is no part of what is shipped"
)]

mod again;
mod bench;
mod deps;
mod direction;
mod guest;
mod miri;
mod results;
mod rules;
mod source;
mod suite;
mod tally;
mod words;

use std::path::Path;
use std::process::ExitCode;

const USAGE: &str = "\
cargo xtask TASK
  test        every check and every test; the last line counts them
  check       the same checks and the fast tests
  guest       the privileged tests on real kernels, in the laboratory
  miri        what is pure and unsafe, run by Miri: undefined behaviour, data races
  direction   who may import whom
  rules       where unsafe may stand, how long files are, who prints
  deps        licences, versions and compilers of the crates we depend on
  words       paths of one machine, hosts that nobody knows
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
    match task {
        "test" => suite::test(rest),
        "check" => suite::check(rest),
        "miri" => suite::miri_alone(),
        "guest" => suite::guest_alone(),
        "bench" => bench::run(rest),
        "results" => results::write(rest),
        _ => {
            eprintln!("{USAGE}");
            ExitCode::from(64)
        }
    }
}
