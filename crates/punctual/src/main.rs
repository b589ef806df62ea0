//! The thin entry point of the tool.

use std::process::ExitCode;

fn main() -> ExitCode {
    punctual_tool::cli::main(std::env::args_os())
}
