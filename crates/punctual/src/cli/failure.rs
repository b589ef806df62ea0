//! Why a verb ended without doing its work, in one line, with its exit status.

use std::ffi::OsStr;
use std::fmt;

use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::{Command, CommandFactory};

use super::flags::Cli;
use super::nearest::meant;

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
    pub fn usage(line: impl fmt::Display) -> Self {
        Self {
            line: line.to_string(),
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
            format!("a verb is needed: {}", verbs(&Cli::command()).join(", "))
        }
        ErrorKind::InvalidSubcommand => unknown_verb(&told(ContextKind::InvalidSubcommand), verb),
        ErrorKind::UnknownArgument if argument.starts_with('-') => unknown_flag(&argument, verb),
        ErrorKind::UnknownArgument if has_verbs(verb) => unknown_verb(&argument, verb),
        ErrorKind::UnknownArgument => {
            format!("unexpected argument '{argument}': {}", see_help(verb))
        }
        ErrorKind::InvalidValue if value.is_empty() => {
            let expected = if accepted.is_empty() {
                see_help(verb)
            } else {
                format!("expected {accepted}")
            };
            format!("'{argument}' needs a value: {expected}")
        }
        ErrorKind::InvalidValue | ErrorKind::ValueValidation => {
            let meant = meant_value(verb, &argument, &value);
            let why = match std::error::Error::source(error) {
                Some(source) => source.to_string(),
                None => format!("expected {accepted}"),
            };
            format!("invalid value '{value}' for '{argument}': {meant}{why}")
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

/// The verbs that the help lists, of all or of one that has its own.
fn verbs(command: &Command) -> Vec<&str> {
    let verbs = command.get_subcommands().filter(|verb| !verb.is_hide_set());
    verbs.map(Command::get_name).collect()
}

/// Whether a verb has verbs of its own.
fn has_verbs(verb: Option<&OsStr>) -> bool {
    let cli = Cli::command();
    let verb = verb.and_then(|verb| cli.find_subcommand(verb));
    verb.is_some_and(Command::has_subcommands)
}

/// A verb that there isn't; `outer` is the first argument, where the verb is one of another's.
fn unknown_verb(unknown: &str, outer: Option<&OsStr>) -> String {
    let cli = Cli::command();
    let (names, whose) = match outer.and_then(|outer| cli.find_subcommand(outer)) {
        Some(outer) => (verbs(outer), format!(" {}", outer.get_name())),
        None => (verbs(&cli), String::new()),
    };
    format!(
        "unknown verb '{unknown}': {}expected {}; `punctual{whose} --help` says what each does",
        meant(unknown, names.iter().copied()),
        names.join(", ")
    )
}

/// A flag that a verb doesn't take.
pub fn unknown_flag(flag: &str, verb: Option<&OsStr>) -> String {
    let cli = Cli::command();
    let Some(verb) = verb.and_then(|verb| cli.find_subcommand(verb)) else {
        let meant = meant(flag, ["--help", "--version"]);
        return format!(
            "unknown flag '{flag}': {meant}a verb comes first, as in `punctual measure -l 1000`; \
             `punctual --help` lists the verbs"
        );
    };
    let inner = verb.get_subcommands().flat_map(Command::get_arguments);
    let longs = verb
        .get_arguments()
        .chain(inner)
        .filter(|arg| !arg.is_hide_set());
    let longs: Vec<String> = longs
        .filter_map(|arg| Some(format!("--{}", arg.get_long()?)))
        .chain(["--help".to_owned()])
        .collect();
    let meant = match flag.starts_with("--") {
        true => meant(flag, longs.iter().map(String::as_str)),
        false => String::new(),
    };
    format!(
        "unknown flag '{flag}': {meant}{}",
        see_help(Some(OsStr::new(verb.get_name())))
    )
}

/// What was meant by a value of which an argument lists the possible ones: of a list
/// (`cpu,frok:workers=2`) the first that is none of them.
fn meant_value(verb: Option<&OsStr>, argument: &str, value: &str) -> String {
    let mut cli = Cli::command();
    // An argument knows how it is written only then.
    cli.build();
    let Some(verb) = verb.and_then(|verb| cli.find_subcommand(verb)) else {
        return String::new();
    };
    let inner = verb.get_subcommands().flat_map(Command::get_arguments);
    let found = verb
        .get_arguments()
        .chain(inner)
        .find(|arg| arg.to_string() == argument);
    let possible = found
        .map(clap::Arg::get_possible_values)
        .unwrap_or_default();
    let names: Vec<&str> = possible.iter().map(|value| value.get_name()).collect();
    let mut words = value
        .split([',', '+'])
        .map(|word| word.split(':').next().unwrap_or(word).trim());
    let unknown = words.find(|word| !names.contains(word));
    unknown.map_or_else(String::new, |word| meant(word, names.iter().copied()))
}

/// Where everything that a verb takes is listed.
fn see_help(verb: Option<&OsStr>) -> String {
    let command = Cli::command();
    match verb.and_then(|verb| command.find_subcommand(verb)) {
        Some(verb) => format!("`punctual {} --help` lists what it takes", verb.get_name()),
        None => "`punctual --help` lists what it takes".to_owned(),
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
