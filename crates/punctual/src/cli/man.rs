//! The man page: one page for the program and all its verbs, out of the flags.

use std::io;

use clap::{Command, CommandFactory};
use clap_mangen::Man;

use super::flags::Cli;

/// The page, as roff.
///
/// # Errors
/// None in practice.
pub fn page() -> io::Result<String> {
    let mut command = Cli::command();
    // The usage lines of the verbs then name the program too.
    command.build();
    let mut text = Vec::new();
    let whole = Man::new(command.clone());
    whole.render_title(&mut text)?;
    whole.render_name_section(&mut text)?;
    whole.render_synopsis_section(&mut text)?;
    whole.render_options_section(&mut text)?;
    let mut page = String::from_utf8_lossy(&text).into_owned();
    for verb in command.get_subcommands().filter(|verb| !verb.is_hide_set()) {
        page += &section(verb)?;
    }
    if let Some(statuses) = command.get_after_help() {
        let statuses = statuses.to_string();
        let statuses = statuses.strip_prefix("Exit status: ").unwrap_or(&statuses);
        page += &format!(".SH \"EXIT STATUS\"\n{}\n", escaped(statuses));
    }
    Ok(page)
}

/// One verb: what it does, what it takes, and its examples as they are typed.
fn section(verb: &Command) -> io::Result<String> {
    let mut text = Vec::new();
    let man = Man::new(verb.clone());
    man.render_synopsis_section(&mut text)?;
    man.render_options_section(&mut text)?;
    let inner = String::from_utf8_lossy(&text).replace("\n.SH ", "\n.SS ");
    let inner = inner
        .strip_prefix(".SH ")
        .map_or(inner.clone(), |rest| format!(".SS {rest}"));
    let name = verb.get_name().to_uppercase();
    let about = verb
        .get_about()
        .map(ToString::to_string)
        .unwrap_or_default();
    let mut page = format!(".SH \"{name}\"\n{}\n{inner}", escaped(&about));
    if let Some(examples) = verb.get_after_help() {
        let examples = examples.to_string();
        let lines = examples.lines().filter(|line| *line != "Examples:");
        let lines: Vec<String> = lines.map(escaped).collect();
        page += &format!(".SS EXAMPLES\n.nf\n{}\n.fi\n", lines.join("\n"));
    }
    Ok(page)
}

/// Text that roff sets as it is.
fn escaped(text: &str) -> String {
    let text = text.replace('\\', "\\e").replace('-', "\\-");
    let guard = |line: &str| {
        if line.starts_with(['.', '\'']) {
            format!("\\&{line}")
        } else {
            line.to_owned()
        }
    };
    text.lines().map(guard).collect::<Vec<_>>().join("\n")
}
