//! A task set in a guest: which of its files are copied there, and what it can't have there.

use std::ffi::OsStr;
use std::fs::File;
use std::io::{self, Read};
use std::path::{Component, Path, PathBuf};

use super::super::exec::set;
use super::super::failure::Failure;
use super::super::flags::ExecFlags;
use super::parts::{Guest, find};
use crate::launch::Library;
use punctual_lab::board::Board;
use punctual_lab::libraries;
use punctual_record::cpu_list;
use punctual_record::laboratory::Architecture;
use punctual_record::taskset::{Step, TaskSet};

/// Where a set and the libraries beside it are in the guest.
const PLACE: &str = "/lab/set";
/// What hosts functions of libraries; a guest without a root file system has none.
const HOST: &str = "/bin/sh";
/// How long a set is executed by default, at most, in ns.
const DURATION_NS: u64 = 10_000_000_000;

/// Checks and completes the words of `exec`; returns the files that the guest needs, as of `--bring`.
///
/// # Errors
/// Wrong usage, a file that is missing, or what a guest can't execute.
pub fn complete(
    words: &mut Vec<String>,
    flags: &ExecFlags,
    guest: Guest,
) -> Result<Vec<PathBuf>, Failure> {
    if flags.output.is_some() || flags.verbose || flags.analyse {
        return Err(Failure::usage(
            "-o, -v and --analyse after --: the guest has no disk and no screen, and each record has \
             its analysis; leave them out, -o before -- sets the directory",
        ));
    }
    let mut set = set::written(flags)?;
    check_cpus(&set, flags, guest)?;
    let own_ns = set.duration_ns.unwrap_or(DURATION_NS).min(DURATION_NS);
    set::check_arrivals(&set, flags, flags.duration.unwrap_or(own_ns))?;
    if flags.duration.is_none() {
        words.extend(["-D".to_owned(), format!("{own_ns}ns")]);
    }
    // What a tracer takes would be in the figures.
    if !guest.explains && !flags.no_explain {
        words.push("--no-explain".to_owned());
    }
    let brought = files(&mut set, flags, guest)?;
    if !set::is_shipped(&flags.file) {
        let is_file = |word: &&mut String| Path::new(word.as_str()) == flags.file;
        if let Some(word) = words.iter_mut().skip(1).find(is_file) {
            *word = inside(name(&flags.file)?);
        }
    }
    Ok(brought)
}

fn inside(name: &str) -> String {
    format!("{PLACE}/{name}")
}

fn name(file: &Path) -> Result<&str, Failure> {
    file.file_name()
        .and_then(OsStr::to_str)
        .ok_or_else(|| Failure::usage(format!("{}: expected the name of a file", file.display())))
}

/// A guest has CPUs from 0 on.
fn check_cpus(set: &TaskSet, flags: &ExecFlags, guest: Guest) -> Result<(), Failure> {
    let lacks = |cpu: &usize| *cpu >= guest.cpus;
    let Some((task, cpu)) = set
        .tasks
        .iter()
        .find_map(|task| Some((task, task.cpus.iter().copied().find(lacks)?)))
    else {
        return Ok(());
    };
    let has: Vec<usize> = (0..guest.cpus).collect();
    let most = set.tasks.iter().flat_map(|task| &task.cpus).max();
    let needed = most.map_or(1, |most| most.saturating_add(1));
    Err(Failure::usage(format!(
        "{}: task {}: the guest has no CPU {cpu}, it has {}: put all tasks on one with --cpu 0 after \
         exec, or give it {needed} (--cpus {needed} before --), whose times are no latencies",
        flags.file.display(),
        task.name,
        cpu_list(&has),
    )))
}

/// What the guest needs: the set, its libraries, its commands. A root file system has its own commands.
fn files(set: &mut TaskSet, flags: &ExecFlags, guest: Guest) -> Result<Vec<PathBuf>, Failure> {
    let mut files: Vec<PathBuf> = Vec::new();
    if !set::is_shipped(&flags.file) {
        files.push(to(&flags.file, &inside(name(&flags.file)?)));
    }
    let mut steps = Vec::new();
    set::each_step(set, &mut |step| steps.push(step.clone()));
    for step in steps {
        let more = match &step {
            Step::Library { path, .. } => library(path, flags, guest)?,
            Step::Command { command } if !guest.is_rooted => {
                self::command(command, &flags.file)?.into_iter().collect()
            }
            _ => Vec::new(),
        };
        for file in more {
            if !files.contains(&file) {
                files.push(file);
            }
        }
    }
    Ok(files)
}

/// `FILE=PATH`, as `--bring` takes it.
fn to(file: &Path, place: &str) -> PathBuf {
    let mut text = file.as_os_str().to_owned();
    text.push("=");
    text.push(place);
    PathBuf::from(text)
}

/// A library, and what hosts its functions.
fn library(path: &Path, flags: &ExecFlags, guest: Guest) -> Result<Vec<PathBuf>, Failure> {
    let shown = || format!("{}: library {}", flags.file.display(), path.display());
    if guest.architecture != Architecture::OWN && !guest.is_rooted {
        return Err(Failure::usage(format!(
            "{}: its functions are hosted by a program of the guest, and this machine has none for {}: \
             give --rootfs before --",
            shown(),
            guest.architecture
        )));
    }
    let directory = flags.file.parent().unwrap_or(Path::new(""));
    let file = directory.join(path);
    read_some(&file).map_err(|error| Failure::setup(format!("{}: {error}", shown())))?;
    let text = path.to_str();
    let place = match text {
        Some(text) if path.is_absolute() => text.to_owned(),
        Some(text) if !path.components().any(|it| it == Component::ParentDir) => inside(text),
        _ => {
            return Err(Failure::usage(format!(
                "{}: expected one below the directory of the set, or an absolute path: a guest has \
                 only these",
                shown()
            )));
        }
    };
    let mut files = vec![to(&file, &place)];
    if !guest.is_rooted {
        files.push(to(Path::new(HOST), HOST));
        // What makes the host a host is in this program, and what that needs isn't.
        let needed = libraries::parse(Library::embedded()).unwrap_or_default();
        for name in needed.needed {
            let file = libraries::to_bring(&name, Board::of(guest.architecture));
            files.push(file.ok_or_else(|| {
                Failure::setup(format!("{}: needs {name}, which is not installed", shown()))
            })?);
        }
    }
    Ok(files)
}

/// A command's program, if it isn't this one. Files among its arguments can't be known.
fn command(command: &[String], set: &Path) -> Result<Option<PathBuf>, Failure> {
    let Some(program) = command.first() else {
        return Ok(None);
    };
    let shown = || format!("{}: command {program}", set.display());
    if program.contains('/') && !Path::new(program).is_absolute() {
        return Err(Failure::usage(format!(
            "{}: expected a name or an absolute path: its directory in the guest is another one",
            shown()
        )));
    }
    let file = find(OsStr::new(program)).map_err(|failure| Failure {
        line: format!("{}: {}", set.display(), failure.line),
        ..failure
    })?;
    if file == Path::new(program) && !Path::new(program).is_absolute() {
        return Ok(None);
    }
    let begin =
        read_some(&file).map_err(|error| Failure::setup(format!("{}: {error}", shown())))?;
    if begin.starts_with(b"#!") {
        return Err(Failure::usage(format!(
            "{}: it is a script, which the guest can't execute: give its interpreter as the command, \
             or --rootfs before --",
            shown()
        )));
    }
    Ok(Some(match Path::new(program).is_absolute() {
        true => to(&file, program),
        false => file,
    }))
}

/// The first bytes of a file.
fn read_some(path: &Path) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    File::open(path)?.take(4).read_to_end(&mut bytes)?;
    Ok(bytes)
}
