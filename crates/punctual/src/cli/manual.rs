//! The man page, generated from the flags: one page with a section for each verb.

use std::io;

use clap::{Command, CommandFactory};
use clap_mangen::Man;

use super::flags::Cli;

/// The page in roff.
///
/// # Errors
/// None in practice: the page is written to memory.
pub fn page() -> io::Result<String> {
    let command = command();
    let whole = Man::new(command.clone());
    let mut text = Vec::new();
    whole.render_title(&mut text)?;
    whole.render_name_section(&mut text)?;
    text.extend(synopsis(&command).bytes());
    whole.render_description_section(&mut text)?;
    let mut verbs = Vec::new();
    whole.render_subcommands_section(&mut verbs)?;
    // They are sections of this page, not pages of their own.
    let verbs = String::from_utf8_lossy(&verbs)
        .replace("punctual\\-", "")
        .replace("(1)", "");
    text.extend(verbs.replace(".SH SUBCOMMANDS", ".SH VERBS").bytes());
    for verb in command.get_subcommands().filter(|verb| !verb.is_hide_set()) {
        text.extend(section(verb)?.bytes());
    }
    if let Some(statuses) = command.get_after_help() {
        let statuses = statuses.to_string();
        let statuses = statuses.strip_prefix("Exit status: ").unwrap_or(&statuses);
        text.extend(format!(".SH \"EXIT STATUS\"\n{}\n", escaped(statuses)).bytes());
    }
    whole.render_version_section(&mut text)?;
    Ok(String::from_utf8_lossy(&text).into_owned())
}

fn command() -> Command {
    let mut command = Cli::command().disable_help_flag(true);
    command.build();
    command
}

/// The usage line of the help: the flags are listed below, each with its value.
fn synopsis(command: &Command) -> String {
    let usage = command.clone().render_usage().to_string();
    let lines = usage.lines().map(|line| {
        let line = line.trim_start();
        escaped(line.strip_prefix("Usage: ").unwrap_or(line))
    });
    let lines: Vec<String> = lines.collect();
    format!(".SH SYNOPSIS\n.nf\n{}\n.fi\n", lines.join("\n"))
}

/// One verb: its own sections, a level lower.
fn section(verb: &Command) -> io::Result<String> {
    let name = verb.get_name().to_uppercase();
    let man = Man::new(verb.clone());
    let mut text = Vec::new();
    text.extend(synopsis(verb).bytes());
    man.render_description_section(&mut text)?;
    man.render_options_section(&mut text)?;
    if let Some(examples) = verb.get_after_help() {
        // Not filled: users type these lines.
        let examples = examples.to_string();
        let lines = examples.lines().filter(|line| *line != "Examples:");
        let lines: Vec<String> = lines.map(escaped).collect();
        text.extend(format!(".SH EXAMPLES\n.nf\n{}\n.fi\n", lines.join("\n")).bytes());
    }
    let lower = String::from_utf8_lossy(&text)
        .lines()
        .map(|line| match line.strip_prefix(".SH ") {
            Some(heading) => format!(".SS {heading}\n"),
            None => format!("{line}\n"),
        })
        .collect::<String>();
    Ok(format!(".SH {name}\n{lower}"))
}

/// Text that roff prints unchanged.
fn escaped(text: &str) -> String {
    let text = text.replace('\\', "\\e").replace('-', "\\-");
    if text.starts_with(['.', '\'']) {
        format!("\\&{text}")
    } else {
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_verb_has_its_section_and_every_flag_its_line() {
        let page = page().unwrap();
        for verb in command()
            .get_subcommands()
            .filter(|verb| !verb.is_hide_set())
        {
            assert!(page.contains(&format!(".SH {}\n", verb.get_name().to_uppercase())));
            for flag in verb.get_arguments().filter(|flag| !flag.is_hide_set()) {
                let Some(long) = flag.get_long() else {
                    continue;
                };
                // Hyphens are escaped in roff.
                let long = format!("\\-\\-{}", long.replace('-', "\\-"));
                assert!(page.contains(&long), "{} of {}", long, verb.get_name());
            }
        }
    }
}
