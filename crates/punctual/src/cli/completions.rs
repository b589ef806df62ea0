//! `completions`: clap's scripts, with what clap does not generate: values that are lists, names
//! or files, and for fish the values of positional arguments.

use clap::{Arg, Command, CommandFactory};
use clap_complete::Shell;

use super::flags::Cli;

/// Flags whose value is a list with commas, by their long names.
const LISTS: [&str; 2] = ["load", "kernel"];
/// Arguments whose value is a name or a file.
const OR_FILES: [&str; 2] = ["kernel", "experiment"];

/// The script of a shell.
pub fn script(shell: Shell) -> String {
    let mut bytes = Vec::new();
    clap_complete::generate(shell, &mut Cli::command(), "punctual", &mut bytes);
    let text = String::from_utf8_lossy(&bytes).into_owned();
    match shell {
        Shell::Bash => bash(text),
        Shell::Zsh => zsh(text),
        Shell::Fish => fish(text),
        _ => text,
    }
}

/// The names of an argument's values, as the shells' scripts list them.
fn names(arg: &Arg) -> Vec<String> {
    let possible = arg.get_possible_values();
    possible
        .iter()
        .map(|value| value.get_name().to_owned())
        .collect()
}

/// Every argument of every verb whose values have names, with the verbs before it.
fn arguments() -> Vec<(Vec<String>, Arg)> {
    fn collect(command: &Command, path: &[String], found: &mut Vec<(Vec<String>, Arg)>) {
        for arg in command.get_arguments() {
            if arg.get_action().takes_values() && !names(arg).is_empty() {
                found.push((path.to_vec(), arg.clone()));
            }
        }
        for verb in command.get_subcommands().filter(|verb| !verb.is_hide_set()) {
            let path = [path, &[verb.get_name().to_owned()]].concat();
            collect(verb, &path, found);
        }
    }
    let mut found = Vec::new();
    collect(&Cli::command(), &[], &mut found);
    found
}

/// bash: keeps the text before the last comma and completes the text after it.
fn bash(mut text: String) -> String {
    for (_, arg) in arguments().iter().filter(|(_, arg)| is_list(arg)) {
        let names = names(arg).join(" ");
        text = text.replace(
            &format!("compgen -W \"{names}\" -- \"${{cur}}\""),
            &format!("compgen -P \"${{cur%\"${{cur##*,}}\"}}\" -W \"{names}\" -- \"${{cur##*,}}\""),
        );
    }
    text
}

fn is_list(arg: &Arg) -> bool {
    arg.get_long().is_some_and(|long| LISTS.contains(&long))
}

/// zsh: a function for each such value, before clap's functions.
fn zsh(mut text: String) -> String {
    let mut functions = String::new();
    let mut made: Vec<String> = Vec::new();
    for (_, arg) in arguments() {
        let id = arg.get_id().as_str();
        let or_files = OR_FILES.contains(&id);
        if !(is_list(&arg) || or_files) {
            continue;
        }
        let names = names(&arg).join(" ");
        if made.contains(&names) {
            continue;
        }
        let function = format!("_punctual_values_{}", made.len());
        let listed = if is_list(&arg) {
            format!("_sequence compadd - {names}")
        } else {
            format!("({names})")
        };
        let body = if or_files {
            format!("_alternative 'names:{id}:{listed}' 'files:file:_files'")
        } else {
            listed
        };
        functions.push_str(&format!("{function}() {{ {body} }}\n"));
        text = text.replace(&format!(":({names})'"), &format!(":{function}'"));
        made.push(names);
    }
    // clap counts what follows `--` among the words before a verb's verbs.
    let lines = text
        .lines()
        .filter(|line| !line.starts_with("'::command -- "));
    let text = lines.fold(String::new(), |text, line| text + line + "\n");
    let text = text.replace("$line[2]", "$line[1]");
    match text.split_once('\n') {
        Some((first, rest)) => format!("{first}\n\n{functions}{rest}"),
        None => text,
    }
}

fn fish(mut text: String) -> String {
    for (path, arg) in arguments() {
        let names = names(&arg);
        if is_list(&arg) {
            let plain = names.iter().map(|name| format!("{name}\\t''"));
            let plain = format!("-a \"{}\"", plain.collect::<Vec<_>>().join("\n"));
            let listed = format!(
                "-a \"(__fish_complete_list , 'printf %s\\\\\\n {}')\"",
                names.join(" ")
            );
            text = text.replace(&plain, &listed);
        }
        if arg.get_long().is_none() && arg.get_short().is_none() {
            let seen = match &path[..] {
                [verb] => format!("__fish_punctual_using_subcommand {verb}"),
                [verb, inner] => format!(
                    "__fish_punctual_using_subcommand {verb}; and __fish_seen_subcommand_from \
                     {inner}"
                ),
                _ => continue,
            };
            let no_files = if OR_FILES.contains(&arg.get_id().as_str()) {
                ""
            } else {
                " -f"
            };
            text.push_str(&format!(
                "complete -c punctual -n \"{seen}\"{no_files} -a \"{}\"\n",
                names.join(" ")
            ));
        }
    }
    text
}
