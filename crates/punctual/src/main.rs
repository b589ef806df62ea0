//! The thin entry point of the tool.

use std::process::ExitCode;

fn main() -> ExitCode {
    punctual::cli::main(std::env::args_os())
}
