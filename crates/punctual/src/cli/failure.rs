//! Why a verb ended without doing its work, in one line, with its exit status.

use std::ffi::OsStr;
use std::fmt;

use clap::CommandFactory;
use clap::error::{ContextKind, ContextValue, ErrorKind};

use super::flags::Cli;

/// Exit status of a setup or internal error.
pub const SETUP: u8 = 1;
/// Exit status of wrong usage (EX_USAGE of sysexits.h).
pub const USAGE: u8 = 64;

/// One line, and the exit status.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Failure {
    /// The line, without the program's name.
    pub line: String,
    /// The exit status.
    pub status: u8,
}

impl Failure {
    /// Wrong usage.
    pub fn usage(line: impl Into<String>) -> Self {
        Self {
            line: line.into(),
            status: USAGE,
        }
    }

    /// A command line that clap refuses. It explains itself over several lines and
    /// guesses what was meant; here it is one line that names the flag and says
    /// what is accepted. `verb` is the first argument.
    pub fn refused(error: &clap::Error, verb: Option<&OsStr>) -> Self {
        Self::usage(explain(error, verb))
    }

    /// Something could not be set up, read or written.
    pub fn setup(line: impl fmt::Display) -> Self {
        Self {
            line: line.to_string(),
            status: SETUP,
        }
    }
}

fn explain(error: &clap::Error, verb: Option<&OsStr>) -> String {
    let told = |kind| error.get(kind).map(words).unwrap_or_default();
    let argument = told(ContextKind::InvalidArg);
    let value = told(ContextKind::InvalidValue);
    let accepted = told(ContextKind::ValidValue);
    match error.kind() {
        ErrorKind::MissingSubcommand | ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand => {
            format!("a verb is needed: {}", verbs())
        }
        ErrorKind::InvalidSubcommand => format!(
            "unknown verb '{}': accepted are {}; `punctual --help` says what each does",
            told(ContextKind::InvalidSubcommand),
            verbs()
        ),
        ErrorKind::UnknownArgument if argument.starts_with('-') => {
            format!("unknown flag '{argument}': {}", see_help(verb))
        }
        ErrorKind::UnknownArgument => {
            format!("unexpected argument '{argument}': {}", see_help(verb))
        }
        ErrorKind::InvalidValue if value.is_empty() => {
            let accepted = if accepted.is_empty() {
                see_help(verb)
            } else {
                format!("accepted are {accepted}")
            };
            format!("'{argument}' needs a value: {accepted}")
        }
        ErrorKind::InvalidValue => {
            format!("invalid value '{value}' for '{argument}': accepted are {accepted}")
        }
        ErrorKind::MissingRequiredArgument => {
            format!("{argument} is missing: {}", see_help(verb))
        }
        _ => first_line(error),
    }
}

fn words(value: &ContextValue) -> String {
    match value {
        ContextValue::Strings(all) => all.join(", "),
        other => other.to_string(),
    }
}

/// The verbs that the help lists.
fn verbs() -> String {
    let command = Cli::command();
    let verbs = command.get_subcommands().filter(|verb| !verb.is_hide_set());
    verbs
        .map(clap::Command::get_name)
        .collect::<Vec<_>>()
        .join(", ")
}

/// Where everything that a verb takes is listed.
fn see_help(verb: Option<&OsStr>) -> String {
    let command = Cli::command();
    match verb.and_then(|verb| command.find_subcommand(verb)) {
        Some(verb) => format!(
            "`punctual {} --help` lists what is accepted",
            verb.get_name()
        ),
        None => "`punctual --help` lists what is accepted".to_owned(),
    }
}

/// clap's own words, without its guesses and the usage.
fn first_line(error: &clap::Error) -> String {
    let text = error.render().to_string();
    let line = text
        .lines()
        .map(str::trim)
        .take_while(|line| {
            !["Usage:", "For more", "tip:"]
                .iter()
                .any(|w| line.starts_with(w))
        })
        .filter(|line| !line.is_empty())
        .collect::<Vec<_>>()
        .join(" ");
    line.strip_prefix("error: ").unwrap_or(&line).to_owned()
}
