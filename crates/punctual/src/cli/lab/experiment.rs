//! `lab run`: what is to be made, from a file.

use std::ffi::OsString;
use std::fs::File;
use std::io::Read;
use std::path::Path;

use serde::Deserialize;

use super::super::failure::Failure;
use super::super::units;
use super::flags::{self, LabRunFlags};
use super::{Column, Wanted, plan};
use crate::lab::cell::Work;

/// Those that come with the program.
const SHIPPED: &[(&str, &str)] = &[
    (
        "rt-vs-standard",
        include_str!("experiments/rt-vs-standard.toml"),
    ),
    ("kernels", include_str!("experiments/kernels.toml")),
];
/// A longer file is no experiment.
const MOST_BYTES: u64 = 1 << 20;

/// An experiment as its file has it.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
struct Experiment {
    /// What it shows, for whoever reads the file.
    #[serde(rename = "why")]
    _why: Option<String>,
    /// As `--load`.
    loads: Option<String>,
    /// What follows `--`.
    #[serde(default)]
    command: Vec<String>,
    /// As `--seeds`.
    seeds: Option<u64>,
    /// As `--cpus`.
    cpus: Option<usize>,
    /// As `--mem`.
    mem: Option<String>,
    /// The columns of the table.
    machine: Vec<MachineEntry>,
}

/// One column.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
struct MachineEntry {
    /// Its name in the table.
    name: String,
    /// As `--kernel`.
    kernel: String,
    /// As `--param`.
    #[serde(default)]
    param: Vec<String>,
    /// No latency above this, for `measure` and `qualify`.
    max: Option<String>,
}

/// Reads an experiment.
///
/// # Errors
/// It can't be read, or says what makes no sense: one line with its name.
pub fn read(flags: &LabRunFlags) -> Result<Wanted<'_>, Failure> {
    let path = &flags.experiment;
    let shipped = SHIPPED.iter().find(|(name, _)| path.as_os_str() == *name);
    let text = match shipped {
        Some((_, text)) => (*text).to_owned(),
        None => slurp(path)?,
    };
    let usage = |line: String| Failure::usage(format!("{}: {line}", path.display()));
    let parsed = parse(&text).map_err(usage)?;
    let mut columns = Vec::new();
    let command: Vec<OsString> = parsed.command.iter().map(OsString::from).collect();
    let parts =
        plan::parts(parsed.loads.as_deref(), &command).map_err(|failure| usage(failure.line))?;
    for machine in parsed.machine {
        let mut parts = parts.clone();
        if let Some(max) = &machine.max {
            for part in &mut parts {
                let Work::Own(words) = &mut part.work else {
                    return Err(usage("max goes with measure and qualify alone".to_owned()));
                };
                words.extend(["--max".to_owned(), max.clone()]);
            }
        }
        columns.push(Column {
            name: machine.name,
            kernel: machine.kernel,
            parameters: machine.param,
            parts,
        });
    }
    Ok(Wanted {
        columns,
        seeds: parsed.seeds.unwrap_or(1),
        cpus: parsed.cpus.unwrap_or(1),
        memory_mib: parsed
            .mem
            .map_or(Ok(1024), |mem| flags::memory(&mem))
            .map_err(usage)?,
        host: &flags.host,
    })
}

fn slurp(path: &Path) -> Result<String, Failure> {
    let shown = path.display();
    let known: Vec<&str> = SHIPPED.iter().map(|(name, _)| *name).collect();
    let mut text = String::new();
    let read = File::open(path)
        .and_then(|file| file.take(MOST_BYTES + 1).read_to_string(&mut text))
        .map_err(|error| {
            let known = known.join(", ");
            Failure::setup(format!("{shown}: {error} (shipped are {known})"))
        })?;
    if read as u64 > MOST_BYTES {
        return Err(Failure::usage(format!(
            "{shown}: longer than 1 MiB, which is no experiment"
        )));
    }
    Ok(text)
}

/// The experiment in a text; total, whatever the text.
fn parse(text: &str) -> Result<Experiment, String> {
    let experiment: Experiment = toml::from_str(text).map_err(|error| {
        let message = error.message().replace('\n', " ");
        let Some(span) = error.span() else {
            return message;
        };
        let before = text.get(..span.start).unwrap_or_default();
        format!("line {}: {message}", before.lines().count().max(1))
    })?;
    let range = |what: &str, value: u64, most: u64| {
        if (1..=most).contains(&value) {
            Ok(())
        } else {
            Err(format!("{what} is from 1 to {most}"))
        }
    };
    range("seeds", experiment.seeds.unwrap_or(1), 1000)?;
    range("cpus", experiment.cpus.unwrap_or(1) as u64, 64)?;
    if experiment.machine.is_empty() || experiment.machine.len() > 100 {
        return Err("from 1 to 100 machines are wanted".to_owned());
    }
    for (index, machine) in experiment.machine.iter().enumerate() {
        let name = &machine.name;
        let twice = experiment.machine[..index].iter().any(|m| m.name == *name);
        if name.is_empty() || name.chars().any(char::is_control) || twice {
            return Err(format!("machine '{name}' needs a name of its own"));
        }
        for word in &machine.param {
            flags::parameter(word).map_err(|reason| format!("{name}: '{word}': {reason}"))?;
        }
        if let Some(max) = &machine.max {
            units::latency(max).map_err(|reason| format!("{name}: max '{max}': {reason}"))?;
        }
    }
    Ok(experiment)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn what_is_shipped_can_be_read() {
        for (name, text) in SHIPPED {
            let experiment = parse(text).unwrap_or_else(|error| panic!("{name}: {error}"));
            let command: Vec<OsString> = experiment.command.iter().map(OsString::from).collect();
            plan::parts(experiment.loads.as_deref(), &command).expect(name);
        }
    }

    #[test]
    fn nonsense_is_refused_in_a_line() {
        let machine = "[[machine]]\nname = \"a\"\nkernel = \"rt\"\n";
        for (text, words) in [
            ("", "machine"),
            ("machine = 3", "line 1"),
            ("x = 1\n[[machine]]\nname = \"a\"\nkernel = \"rt\"\n", "x"),
            (&format!("seeds = 0\n{machine}"), "seeds is from 1"),
            (&format!("cpus = 65\n{machine}"), "cpus is from 1"),
            (&format!("{machine}{machine}"), "name of its own"),
            (&format!("{machine}param = [\"a b\"]\n"), "one word"),
            (&format!("{machine}max = \"soon\"\n"), "a time above 0"),
        ] {
            let error = parse(text).unwrap_err();
            assert!(error.contains(words), "{error}");
            assert!(!error.contains('\n'), "{error}");
        }
    }

    proptest! {
        #[test]
        fn no_text_makes_it_panic(text in "\\PC{0,200}") {
            let _ = parse(&text);
            let _ = parse(&format!("[[machine]]\nname = {text}\n"));
        }
    }
}
