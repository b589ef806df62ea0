//! Why a verb failed, in one line, with the exit status.

use std::ffi::OsString;
use std::fmt;
use std::iter;

use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::{Command, CommandFactory};

use super::flags::Cli;
use super::nearest::{meant, similar};

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

    /// A command line that clap refuses. clap explains itself over several lines and guesses
    /// what was meant; here it is one line that names the flag and says what is accepted.
    /// `arguments` is the command line, with the program's name first.
    pub fn refused(error: &clap::Error, arguments: &[OsString]) -> Self {
        Self::usage(explain(error, &Called::find(arguments)))
    }

    /// Something could not be set up, read or written.
    pub fn setup(line: impl fmt::Display) -> Self {
        Self {
            line: line.to_string(),
            status: SETUP,
        }
    }
}

/// The verb that a command line calls: the last command of `path`, which begins with `punctual`.
pub struct Called {
    path: Vec<Command>,
}

impl Called {
    /// The verb, and the verb of that verb, as far as `arguments` name them before any flag.
    pub fn find(arguments: &[OsString]) -> Self {
        let mut cli = Cli::command();
        // An argument knows how it is written only then.
        cli.build();
        let mut path = vec![cli];
        for word in arguments.iter().skip(1) {
            let Some(inner) = path.last().and_then(|it| it.find_subcommand(word)).cloned() else {
                break;
            };
            path.push(inner);
        }
        Self { path }
    }

    fn command(&self) -> &Command {
        self.path.last().expect("the program itself comes first")
    }

    /// `punctual lab run`.
    fn name(&self) -> String {
        let names: Vec<&str> = self.path.iter().map(Command::get_name).collect();
        names.join(" ")
    }

    /// Where all flags and arguments of the verb are listed.
    fn see_help(&self) -> String {
        format!("see `{} --help`", self.name())
    }

    /// The commands of the same verb that have this flag: `punctual lab`, `punctual lab bisect`.
    fn others_with(&self, flag: &str) -> Vec<String> {
        let [program, verb, ..] = &self.path[..] else {
            return Vec::new();
        };
        let own = format!("{} {}", program.get_name(), verb.get_name());
        let inner = verb
            .get_subcommands()
            .map(|inner| (format!("{own} {}", inner.get_name()), inner));
        let has_it = |command: &Command| flags(command).iter().any(|name| name == flag);
        iter::once((own.clone(), verb))
            .chain(inner)
            .filter(|(_, command)| has_it(command))
            .map(|(name, _)| format!("`{name}`"))
            .collect()
    }

    /// What to say of a flag that the verb does not have.
    pub fn unknown_flag(&self, flag: &str) -> String {
        if self.path.len() == 1 {
            let meant = meant(flag, ["--help", "--version"]);
            return format!(
                "unknown flag '{flag}': {meant}a verb comes first, as in `punctual measure -l 1000`; \
                 `punctual --help` lists the verbs"
            );
        }
        let others = self.others_with(flag);
        let hint = if !others.is_empty() {
            let others = listed(&others);
            format!("it is a flag of {others}, not of `{}`; ", self.name())
        } else if flag.starts_with("--") {
            let flags = flags(self.command());
            meant(flag, flags.iter().map(String::as_str))
        } else {
            String::new()
        };
        format!("unknown flag '{flag}': {hint}{}", self.see_help())
    }

    /// What to say of a verb that does not exist, or that comes too late.
    fn unknown_verb(&self, unknown: &str) -> String {
        let name = self.name();
        let verbs = verbs(self.command());
        if verbs.contains(&unknown) {
            return format!(
                "unexpected '{unknown}': a verb of `{name}` comes before all flags, as in \
                 `{name} {unknown}`"
            );
        }
        format!(
            "unknown verb '{unknown}': {}expected {}; see `{name} --help`",
            meant(unknown, verbs.iter().copied()),
            verbs.join(", "),
        )
    }

    /// What was meant by a value of an argument that lists its possible values. In a list
    /// (`cpu,frok:workers=2`), it is the first word that is not one of them.
    fn meant_value(&self, argument: &str, value: &str) -> String {
        let mut arguments = self.command().get_arguments();
        let found = arguments.find(|arg| arg.to_string() == argument);
        let possible = found
            .map(clap::Arg::get_possible_values)
            .unwrap_or_default();
        let names: Vec<&str> = possible.iter().map(|value| value.get_name()).collect();
        let mut words = value
            .split([',', '+'])
            .map(|word| word.split(':').next().unwrap_or(word).trim());
        let unknown = words.find(|word| !names.contains(word));
        unknown.map_or_else(String::new, |word| similar(word, names.iter().copied()))
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.line)
    }
}

impl std::error::Error for Failure {}

fn explain(error: &clap::Error, called: &Called) -> String {
    let context = |kind| error.get(kind).map(words).unwrap_or_default();
    let argument = context(ContextKind::InvalidArg);
    let value = context(ContextKind::InvalidValue);
    let accepted = context(ContextKind::ValidValue);
    match error.kind() {
        ErrorKind::MissingSubcommand | ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand => {
            format!("a verb is needed: {}", verbs(called.command()).join(", "))
        }
        ErrorKind::InvalidSubcommand => {
            called.unknown_verb(&context(ContextKind::InvalidSubcommand))
        }
        ErrorKind::UnknownArgument if argument.starts_with('-') => called.unknown_flag(&argument),
        ErrorKind::UnknownArgument if called.command().has_subcommands() => {
            called.unknown_verb(&argument)
        }
        ErrorKind::UnknownArgument => {
            format!("unexpected argument '{argument}': {}", called.see_help())
        }
        ErrorKind::TooManyValues => {
            format!("invalid value '{value}' for '{argument}': this flag has no value")
        }
        ErrorKind::InvalidValue if value.is_empty() => {
            let expected = if accepted.is_empty() {
                called.see_help()
            } else {
                format!("expected {accepted}")
            };
            format!("'{argument}' needs a value: {expected}")
        }
        ErrorKind::InvalidValue | ErrorKind::ValueValidation => {
            let meant = called.meant_value(&argument, &value);
            let why = match std::error::Error::source(error) {
                Some(source) => source.to_string(),
                None => format!("expected {accepted}"),
            };
            format!("invalid value '{value}' for '{argument}': {meant}{why}")
        }
        ErrorKind::MissingRequiredArgument => {
            format!("missing {argument}: {}", called.see_help())
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

/// `a`, `a and b`, `a, b and c`.
fn listed(names: &[String]) -> String {
    match names {
        [first @ .., last] if !first.is_empty() => format!("{} and {last}", first.join(", ")),
        _ => names.concat(),
    }
}

/// The verbs of a command that its help lists.
fn verbs(command: &Command) -> Vec<&str> {
    let verbs = command.get_subcommands().filter(|verb| !verb.is_hide_set());
    verbs.map(Command::get_name).collect()
}

/// The long flags of a command that its help lists.
fn flags(command: &Command) -> Vec<String> {
    let listed = command.get_arguments().filter(|arg| !arg.is_hide_set());
    let names = listed.flat_map(|arg| arg.get_long_and_visible_aliases().unwrap_or_default());
    let mut flags: Vec<String> = names.map(|name| format!("--{name}")).collect();
    flags.push("--help".to_owned());
    flags
}

/// clap's own message, without its suggestions and the usage.
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

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use clap::Parser;

    use super::*;

    fn line(words: &[&str]) -> String {
        let arguments: Vec<OsString> = words.iter().map(OsString::from).collect();
        let error = Cli::try_parse_from(&arguments).expect_err("a refused command line");
        Failure::refused(&error, &arguments).line
    }

    /// The command lines that end with a verb, and its command.
    fn calls() -> Vec<(Vec<String>, Command)> {
        let mut cli = Cli::command();
        cli.build();
        let mut calls = Vec::new();
        for verb in cli.get_subcommands().filter(|verb| !verb.is_hide_set()) {
            let words = vec!["punctual".to_owned(), verb.get_name().to_owned()];
            for inner in verb.get_subcommands() {
                let words = [&words[..], &[inner.get_name().to_owned()]].concat();
                calls.push((words, inner.clone()));
            }
            calls.push((words, verb.clone()));
        }
        calls
    }

    #[test]
    fn a_flag_of_another_command_is_never_suggested_for_itself() {
        let calls = calls();
        let every: BTreeSet<String> = calls.iter().flat_map(|(_, it)| flags(it)).collect();
        let mut elsewhere = 0;
        for (words, command) in &calls {
            // What follows these is a program's or a verb's name.
            if ["run", "help"].contains(&command.get_name()) && words.len() == 2 {
                continue;
            }
            for flag in every.iter().filter(|flag| !flags(command).contains(flag)) {
                let words: Vec<&str> = words.iter().map(String::as_str).chain([&**flag]).collect();
                let line = line(&words);
                assert!(line.contains(&format!("unknown flag '{flag}'")), "{line}");
                assert!(!line.contains(&format!("mean '{flag}'")), "{line}");
                let owner = format!("see `{} --help`", words[..words.len() - 1].join(" "));
                assert!(line.ends_with(&owner), "{line}");
                elsewhere += usize::from(line.contains("it is a flag of"));
            }
        }
        assert!(elsewhere > 20, "{elsewhere}");
    }

    #[test]
    fn a_flag_of_another_form_of_the_verb_names_the_forms_that_have_it() {
        assert_eq!(
            line(&["punctual", "lab", "run", "--kernel", "rt"]),
            "unknown flag '--kernel': it is a flag of `punctual lab`, `punctual lab prove`, \
             `punctual lab gate`, `punctual lab bound`, `punctual lab cost` and `punctual lab bisect`, not of \
             `punctual lab run`; see \
             `punctual lab run --help`"
        );
        assert_eq!(
            line(&["punctual", "lab", "--build", "make"]),
            "unknown flag '--build': it is a flag of `punctual lab bisect`, not of `punctual lab`; \
             see `punctual lab --help`"
        );
    }

    #[test]
    fn a_verb_in_the_wrong_place_is_not_suggested_for_itself() {
        for (words, expected) in [
            (
                &["lab", "--kernel", "rt", "compare", "A", "B"][..],
                "unexpected 'compare': a verb of `punctual lab` comes before all flags, as in \
                 `punctual lab compare`",
            ),
            (
                &["lab", "compare", "A", "B", "run"],
                "unexpected argument 'run': see `punctual lab compare --help`",
            ),
            (
                &["qualify", "measure"],
                "unexpected argument 'measure': see `punctual qualify --help`",
            ),
        ] {
            assert_eq!(line(&[&["punctual"], words].concat()), expected);
        }
    }

    #[test]
    fn a_switch_with_a_value_and_a_missing_argument_are_named() {
        let quiet = line(&["punctual", "qualify", "--quiet=3"]);
        let expected = "invalid value '3' for '--quiet': this flag has no value";
        assert_eq!(quiet, expected);
        let missing = line(&["punctual", "lab", "compare"]);
        assert_eq!(
            missing,
            "missing <A>, <B>: see `punctual lab compare --help`"
        );
    }
}
