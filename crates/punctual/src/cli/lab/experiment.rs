//! `lab run`: reads an experiment from a file.

mod error;
mod ladder;

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};

use serde::Deserialize;

use super::super::failure::Failure;
use super::super::nearest::meant;
use super::super::units;
use super::flags::LabRunFlags;
use super::parts::Guest;
use super::values::ValueError;
use super::{Requested, limits, parts, values};
use crate::conduct::lab::{Column, LabPlan};
use error::ExperimentError;
use punctual_lab::cell::Work;
use punctual_lab::channel;
use punctual_record::lab::LabVariant;
use punctual_record::laboratory::Architecture;

/// Makes the text of an experiment.
type Text = fn() -> String;

/// The experiments that are part of the program, by name.
const SHIPPED: &[(&str, Text)] = &[
    ("rt-vs-standard", || {
        include_str!("experiments/rt-vs-standard.toml").to_owned()
    }),
    ("kernels", || {
        include_str!("experiments/kernels.toml").to_owned()
    }),
    ("peers", || {
        include_str!("experiments/peers.toml").to_owned()
    }),
    ("ladder", ladder::text),
    ("exec", || include_str!("experiments/exec.toml").to_owned()),
    ("interference", || {
        include_str!("experiments/interference.toml").to_owned()
    }),
];

/// The names of the experiments that are part of the program.
pub fn shipped() -> Vec<&'static str> {
    SHIPPED.iter().map(|(name, _)| *name).collect()
}

/// Bytes of an experiment's file.
const MOST_BYTES: u64 = 1 << 20;
/// Machines or variants of one experiment.
const MOST_ENTRIES: usize = 100;

/// An experiment as its file has it.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
struct Experiment {
    /// What it shows, for readers of the file.
    #[serde(rename = "why")]
    _why: Option<String>,
    /// Same as `--load`.
    loads: Option<String>,
    /// What follows `--`.
    #[serde(default)]
    command: Vec<String>,
    /// As `--seeds`.
    seeds: Option<u64>,
    /// As `--cpus`.
    cpus: Option<usize>,
    /// As `--arch`.
    arch: Option<Architecture>,
    /// As `--mem`.
    mem: Option<String>,
    /// As `--module`.
    #[serde(default)]
    module: Vec<String>,
    /// As `--bring`.
    #[serde(default)]
    bring: Vec<PathBuf>,
    /// As `--rootfs`.
    rootfs: Option<PathBuf>,
    /// The columns of the table.
    machine: Vec<MachineEntry>,
    /// Commands that each machine runs, instead of `command`: each machine then has a table with a
    /// column for each command.
    #[serde(default)]
    variant: Vec<VariantEntry>,
}

/// One of several commands.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
struct VariantEntry {
    /// Its name in the table.
    name: String,
    /// What follows `--`.
    command: Vec<String>,
    /// As `--bring`, for this command.
    #[serde(default)]
    bring: Vec<PathBuf>,
    /// The file in which a program leaves its figures, in a format that `report` reads; `stdout`
    /// is what it prints.
    result: Option<String>,
    /// The machines that run it [default: all].
    machines: Option<Vec<String>>,
    /// Whether its figures may be compared with the others'.
    ranked: Option<bool>,
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
/// The file cannot be read or is not valid: one line with its name.
pub fn read(flags: &LabRunFlags) -> Result<Requested<'_>, Failure> {
    let path = &flags.experiment;
    let shipped = SHIPPED.iter().find(|(name, _)| path.as_os_str() == *name);
    let text = match shipped {
        Some((_, text)) => text(),
        None => slurp(path)?,
    };
    let usage = |error| Failure::usage(format!("{}: {error}", path.display()));
    let mut parsed = parse(&text).map_err(usage)?;
    if flags.load.is_some() {
        parsed.loads.clone_from(&flags.load);
    }
    parsed.arch = flags.arch.or(parsed.arch);
    let columns = columns(&parsed, flags.host.explain).map_err(usage)?;
    let mem = parsed.mem.as_deref().unwrap_or("1G");
    let memory_mib = values::memory(mem).map_err(refused("mem", mem));
    Ok(Requested {
        lab: LabPlan {
            architecture: parsed.arch.unwrap_or(Architecture::OWN),
            columns,
            seeds: flags.seeds.or(parsed.seeds).unwrap_or(1),
            cpus: parsed.cpus.unwrap_or(1),
            memory_mib: memory_mib.map_err(usage)?,
            modules: parsed.module,
            brought: parsed.bring,
            rootfs: parsed.rootfs,
            limits: limits(&flags.host),
        },
        host: &flags.host,
    })
}

/// A column for each machine, and on it for each command.
fn columns(experiment: &Experiment, explains: bool) -> Result<Vec<Column>, ExperimentError> {
    let alone = VariantEntry {
        command: experiment.command.clone(),
        ..VariantEntry::default()
    };
    let variants = match &experiment.variant[..] {
        [] => std::slice::from_ref(&alone),
        several => several,
    };
    let mut columns = Vec::new();
    for machine in &experiment.machine {
        let here = |variant: &&VariantEntry| {
            let machines = variant.machines.as_ref();
            machines.is_none_or(|machines| machines.contains(&machine.name))
        };
        for variant in variants.iter().filter(here) {
            columns.push(column(experiment, machine, variant, explains)?);
        }
    }
    Ok(columns)
}

fn column(
    experiment: &Experiment,
    machine: &MachineEntry,
    variant: &VariantEntry,
    explains: bool,
) -> Result<Column, ExperimentError> {
    let guest = Guest {
        architecture: experiment.arch.unwrap_or(Architecture::OWN),
        is_rooted: experiment.rootfs.is_some(),
        cpus: experiment.cpus.unwrap_or(1),
        explains,
    };
    let command: Vec<OsString> = variant.command.iter().map(OsString::from).collect();
    let mut parts = parts::parts(experiment.loads.as_deref(), &command, guest)
        .map_err(ExperimentError::Work)?;
    for part in &mut parts {
        part.brought.extend_from_slice(&variant.bring);
        let executes = part.work.executes_tasks();
        match (&mut part.work, &machine.max) {
            (_, Some(_)) if executes => return Err(ExperimentError::MaxOfProgram),
            (Work::Own(words), Some(max)) => words.extend(["--max".to_owned(), max.clone()]),
            (Work::Program { .. }, Some(_)) => {
                return Err(ExperimentError::MaxOfProgram);
            }
            (_, None) => {}
        }
        if let (Work::Own(_), Some(result)) = (&part.work, &variant.result) {
            let result = result.clone();
            return Err(ExperimentError::OwnResult { result });
        }
    }
    let several = !experiment.variant.is_empty();
    Ok(Column {
        name: if several {
            format!("{} {}", machine.name, variant.name)
        } else {
            machine.name.clone()
        },
        kernel: machine.kernel.clone(),
        parameters: machine.param.clone(),
        parts,
        variant: several.then(|| LabVariant {
            machine: machine.name.clone(),
            name: variant.name.clone(),
            ranked: variant.ranked.unwrap_or(true),
        }),
        result: variant.result.clone(),
    })
}

fn slurp(path: &Path) -> Result<String, Failure> {
    let shown = path.display();
    let mut text = String::new();
    let read = File::open(path)
        .and_then(|file| file.take(MOST_BYTES + 1).read_to_string(&mut text))
        .map_err(|error| {
            let known = shipped();
            let meant = meant(&path.to_string_lossy(), known.iter().copied());
            Failure::setup(format!(
                "{shown}: {error}; {meant}expected a file, or one of {}",
                known.join(", ")
            ))
        })?;
    if read as u64 > MOST_BYTES {
        return Err(Failure::usage(format!(
            "{shown}: longer than 1 MiB: expected an experiment in TOML"
        )));
    }
    Ok(text)
}

/// The experiment in a text; total, whatever the text.
fn parse(text: &str) -> Result<Experiment, ExperimentError> {
    let experiment: Experiment = toml::from_str(text).map_err(|error| {
        let before = error.span().and_then(|span| text.get(..span.start));
        ExperimentError::Toml {
            line: before.map(|before| before.lines().count().max(1)),
            source: error,
        }
    })?;
    let range = |field, value: u64, most| match (1..=most).contains(&value) {
        true => Ok(()),
        false => Err(ExperimentError::Range { field, most }),
    };
    range("seeds", experiment.seeds.unwrap_or(1), 1000)?;
    range("cpus", experiment.cpus.unwrap_or(1) as u64, 64)?;
    if experiment.machine.is_empty() || experiment.machine.len() > MOST_ENTRIES {
        return Err(ExperimentError::Count {
            table: "machine",
            least: 1,
            most: MOST_ENTRIES,
        });
    }
    check_names("machine", experiment.machine.iter().map(|one| &*one.name))?;
    check_names("variant", experiment.variant.iter().map(|one| &*one.name))?;
    check_variants(&experiment)?;
    for name in &experiment.module {
        values::module(name).map_err(refused("module", name))?;
    }
    for machine in &experiment.machine {
        let name = &machine.name;
        for word in &machine.param {
            values::parameter(word).map_err(refused(&format!("{name}: param"), word))?;
        }
        if let Some(max) = &machine.max {
            units::latency(max).map_err(|source| ExperimentError::Max {
                machine: name.clone(),
                value: max.clone(),
                source,
            })?;
        }
    }
    Ok(experiment)
}

/// The error of a value that a flag refuses as well.
fn refused(field: &str, value: &str) -> impl FnOnce(ValueError) -> ExperimentError {
    let (field, value) = (field.to_owned(), value.to_owned());
    move |source| ExperimentError::Value {
        field,
        value,
        source,
    }
}

/// Checks that each entry has a name, and that no name is used twice.
fn check_names<'a>(
    table: &'static str,
    names: impl Iterator<Item = &'a str>,
) -> Result<(), ExperimentError> {
    let mut used = BTreeSet::new();
    for name in names {
        if name.is_empty() || name.chars().any(char::is_control) || !used.insert(name) {
            let name = name.to_owned();
            return Err(ExperimentError::Name { table, name });
        }
    }
    Ok(())
}

/// Checks the variants of the command.
fn check_variants(experiment: &Experiment) -> Result<(), ExperimentError> {
    if experiment.variant.len() > MOST_ENTRIES {
        return Err(ExperimentError::Count {
            table: "variant",
            least: 0,
            most: MOST_ENTRIES,
        });
    }
    if !experiment.variant.is_empty() && !experiment.command.is_empty() {
        return Err(ExperimentError::CommandBesideVariants);
    }
    for variant in &experiment.variant {
        let name = &variant.name;
        for machine in variant.machines.iter().flatten() {
            if !experiment.machine.iter().any(|one| one.name == *machine) {
                return Err(ExperimentError::UnknownMachine {
                    variant: name.clone(),
                    machine: machine.clone(),
                });
            }
        }
        if let Some(result) = &variant.result
            && !channel::is_name(result)
        {
            return Err(ExperimentError::ResultName {
                variant: name.clone(),
                result: result.clone(),
            });
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn the_shipped_experiments_are_valid() {
        for (name, text) in SHIPPED {
            let experiment = parse(&text()).unwrap_or_else(|error| panic!("{name}: {error}"));
            // Peers need not be installed where this runs.
            let peers = |v: &VariantEntry| {
                ["cyclictest", "jitterdebugger", "chrt"].contains(&&*v.command[0])
            };
            let mut experiment = experiment;
            experiment.variant.retain(|variant| !peers(variant));
            columns(&experiment, false).expect(name);
        }
    }

    #[test]
    fn a_variant_brings_its_own_files() {
        let text = "loads = \"idle,fork\"\n[[machine]]\nname = \"rt\"\nkernel = \"rt\"\n\
                    [[variant]]\nname = \"a\"\ncommand = [\"true\"]\nbring = [\"x\", \"y=/z\"]\n\
                    [[variant]]\nname = \"b\"\ncommand = [\"true\"]\n";
        let columns = columns(&parse(text).unwrap(), false).unwrap();
        let brought = columns.iter().map(|column| {
            let parts = column.parts.iter();
            parts.map(|part| part.brought.len()).collect::<Vec<_>>()
        });
        assert_eq!(brought.collect::<Vec<_>>(), [[2, 2], [0, 0]]);
    }

    #[test]
    fn modules_and_files_are_named_as_by_the_flags() {
        let text = "module = [\"null_blk\"]\nbring = [\"a\", \"/b/c\"]\n\
                    [[machine]]\nname = \"a\"\nkernel = \"rt\"\n";
        let experiment = parse(text).unwrap();
        assert_eq!(experiment.module, ["null_blk"]);
        assert_eq!(experiment.bring, [Path::new("a"), Path::new("/b/c")]);
    }

    #[test]
    fn nonsense_is_refused_in_a_line() {
        let machine = "[[machine]]\nname = \"a\"\nkernel = \"rt\"\n";
        let variant = "[[variant]]\nname = \"v\"\ncommand = [\"measure\"]\n";
        for (text, words) in [
            ("", "machine"),
            ("machine = 3", "line 1"),
            ("x = 1\n[[machine]]\nname = \"a\"\nkernel = \"rt\"\n", "x"),
            (
                &format!("seeds = 0\n{machine}"),
                "seeds: expected 1 to 1000",
            ),
            (&format!("cpus = 65\n{machine}"), "cpus: expected 1 to 64"),
            (
                &format!("{machine}{machine}"),
                "machine 'a': expected a name",
            ),
            (&format!("module = [\"a b\"]\n{machine}"), "module 'a b'"),
            (&format!("bring = \"a\"\n{machine}"), "line 1"),
            (&format!("{machine}param = [\"a b\"]\n"), "one word"),
            (&format!("{machine}max = \"soon\"\n"), "a time above 0"),
            (
                &format!("{machine}{variant}{variant}"),
                "variant 'v': expected a name",
            ),
            (
                &format!("command = [\"a\"]\n{machine}{variant}"),
                "each variant has its own",
            ),
            (
                &format!("{machine}{variant}machines = [\"b\"]\n"),
                "no machine 'b'",
            ),
            (
                &format!("{machine}{variant}result = \"../x\"\n"),
                "the name of a file under /out",
            ),
            (&format!("{machine}[[variant]]\nname = \"v\"\n"), "command"),
        ] {
            let error = parse(text).unwrap_err().to_string();
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
