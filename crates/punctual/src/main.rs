//! The thin entry point of the tool.

use std::process::ExitCode;

fn main() -> ExitCode {
    let mut arguments = std::env::args_os().skip(1);
    match arguments.next() {
        Some(verb) if verb == punctual::load::worker::VERB => {
            punctual::load::worker::main(arguments)
        }
        _ => ExitCode::from(64),
    }
}
