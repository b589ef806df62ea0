//! `help`: prints what `--help` of a verb prints.

use std::ffi::OsString;
use std::process::ExitCode;

use clap::Parser;

use super::failure::Failure;
use super::flags::{Cli, HelpFlags};
use super::out;

/// Prints the help of a verb, or of all.
///
/// # Errors
/// Wrong usage: the verb does not exist.
pub fn run(flags: &HelpFlags) -> Result<ExitCode, Failure> {
    if let Some(flag) = flags.verbs.iter().find(|word| word.starts_with('-')) {
        return Err(Failure::usage(format!(
            "unexpected argument '{flag}': expected a verb, as in `punctual help qualify`"
        )));
    }
    let verbs = flags.verbs.iter().map(String::as_str);
    let words = ["punctual"].into_iter().chain(verbs).chain(["--help"]);
    let words: Vec<OsString> = words.map(OsString::from).collect();
    match Cli::try_parse_from(&words) {
        Err(error) if !error.use_stderr() => {
            out::print(&error.render().to_string());
            Ok(ExitCode::SUCCESS)
        }
        Err(error) => Err(Failure::refused(&error, &words)),
        // Words that follow `--` or a program's name are not verbs.
        Ok(_) => Err(Failure::usage(
            "expected a verb alone, as in `punctual help qualify`",
        )),
    }
}
