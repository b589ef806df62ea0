//! `help`: as `--help` of the verb that is named.

use std::ffi::OsStr;
use std::process::ExitCode;

use clap::Parser;

use super::failure::Failure;
use super::flags::{Cli, HelpFlags};
use super::out;

/// Prints the help of a verb, or of all.
///
/// # Errors
/// Wrong usage: there is no such verb.
pub fn run(flags: &HelpFlags) -> Result<ExitCode, Failure> {
    let verb = flags.verbs.first().map(OsStr::new);
    if let Some(flag) = flags.verbs.iter().find(|word| word.starts_with('-')) {
        return Err(Failure::usage(format!(
            "unexpected argument '{flag}': expected a verb, as in `punctual help qualify`"
        )));
    }
    let verbs = flags.verbs.iter().map(String::as_str);
    let words = ["punctual"].into_iter().chain(verbs).chain(["--help"]);
    match Cli::try_parse_from(words) {
        Err(error) if !error.use_stderr() => {
            out::print(&error.render().to_string());
            Ok(ExitCode::SUCCESS)
        }
        Err(error) => Err(Failure::refused(&error, verb)),
        // What follows `--`, and what stands behind a program's name, is not ours to explain.
        Ok(_) => Err(Failure::usage(
            "expected a verb alone, as in `punctual help qualify`",
        )),
    }
}
