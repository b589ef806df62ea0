//! `exec`: does a set of real-time tasks meet its deadlines?

mod analyse;

use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use punctual_record::taskset::{Step, TaskSet};
use punctual_taskset::{Format, MOST_BYTES};

use super::failure::Failure;
use super::flags::ExecFlags;
use super::out;

/// Analyses a set, or runs it.
///
/// # Errors
/// What is wrong with the file, or can't be measured.
pub fn run(flags: &ExecFlags) -> Result<ExitCode, Failure> {
    let set = read(&flags.file)?;
    if flags.analyse {
        return analyse::run(flags, &set);
    }
    Err(Failure::usage("exec runs no task sets yet: give --analyse"))
}

/// Reads a set; the paths of its libraries are relative to its own directory.
fn read(path: &Path) -> Result<TaskSet, Failure> {
    let shown = path.display();
    let mut bytes = Vec::new();
    File::open(path)
        .and_then(|file| file.take(MOST_BYTES as u64 + 1).read_to_end(&mut bytes))
        .map_err(|error| Failure::setup(format!("{shown}: {error}")))?;
    if bytes.len() > MOST_BYTES {
        return Err(Failure::usage(format!(
            "{shown}: longer than 1 MiB: expected a task set"
        )));
    }
    let text = String::from_utf8(bytes).map_err(|_| {
        Failure::usage(format!(
            "{shown}: not text: expected TOML, or JSON of rt-app"
        ))
    })?;
    let name = path
        .file_stem()
        .map_or_else(String::new, |stem| stem.display().to_string());
    let read = punctual_taskset::read(&text, &name, Format::of(path))
        .map_err(|fault| Failure::usage(format!("{shown}:{fault}")))?;
    for note in &read.notes {
        out::complain(&format!("{shown}:{note}"));
    }
    let mut set = read.set;
    let directory = path.parent().unwrap_or(Path::new(""));
    for phase in set.tasks.iter_mut().flat_map(|task| &mut task.phases) {
        join(&mut phase.work, directory);
    }
    Ok(set)
}

fn join(work: &mut [Step], directory: &Path) {
    for step in work {
        match step {
            Step::Library { path, .. } => {
                let joined: PathBuf = directory.join(&*path);
                *path = joined;
            }
            Step::Lock { work, .. } => join(work, directory),
            _ => {}
        }
    }
}
