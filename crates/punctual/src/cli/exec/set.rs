//! The set that is executed: read from its file, or one that is part of the program.

use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};

use super::super::failure::Failure;
use super::super::flags::ExecFlags;
use super::super::out;
use punctual_record::taskset::{Step, TaskSet};
use punctual_taskset::{Format, MOST_BYTES};

/// The sets that are part of the program, by name.
const SHIPPED: &[(&str, &str)] = &[(
    "rt-exec",
    include_str!("../../../../../examples/tasksets/rt-exec.toml"),
)];

/// The names of the sets that are part of the program.
pub fn shipped() -> Vec<&'static str> {
    SHIPPED.iter().map(|(name, _)| *name).collect()
}

/// Whether a set is part of the program: it has no file.
pub(in super::super) fn is_shipped(path: &Path) -> bool {
    SHIPPED.iter().any(|(name, _)| path.as_os_str() == *name)
}

/// Reads the set that the flags name; the paths of its libraries are relative to its own directory.
pub(super) fn read(flags: &ExecFlags) -> Result<TaskSet, Failure> {
    let mut set = written(flags)?;
    let directory = flags.file.parent().unwrap_or(Path::new(""));
    each_step(&mut set, &mut |step| {
        if let Step::Library { path, .. } = step {
            let joined: PathBuf = directory.join(&*path);
            *path = joined;
        }
    });
    Ok(set)
}

/// Reads the set that the flags name; its paths are as they are written.
pub(in super::super) fn written(flags: &ExecFlags) -> Result<TaskSet, Failure> {
    let path = &*flags.file;
    let shown = path.display();
    let name = path
        .file_stem()
        .map_or_else(String::new, |stem| stem.display().to_string());
    let shipped = SHIPPED.iter().find(|_| is_shipped(path));
    let text = match shipped {
        Some((_, text)) => (*text).to_owned(),
        None => text(path)?,
    };
    let read = punctual_taskset::read(&text, &name, Format::of(path))
        .map_err(|fault| Failure::usage(format!("{shown}:{fault}")))?;
    for note in &read.notes {
        out::complain(&format!("{shown}:{note}"));
    }
    let mut set = read.set;
    if let Some(cpu) = flags.cpu {
        punctual_taskset::put_on_cpu(&mut set, cpu)
            .map_err(|why| Failure::usage(format!("{shown}: with --cpu {cpu}, {why}")))?;
    }
    Ok(set)
}

/// Refuses a duration in which a task has no job: nothing could be said of it.
pub(in super::super) fn check_arrivals(
    set: &TaskSet,
    flags: &ExecFlags,
    duration_ns: u64,
) -> Result<(), Failure> {
    let arrivals = (0..set.tasks.len()).map(|task| set.first_arrival_ns(task));
    let late = set.tasks.iter().zip(arrivals);
    match late.max_by_key(|(_, at_ns)| *at_ns) {
        Some((task, at_ns)) if at_ns >= duration_ns => Err(Failure::usage(format!(
            "{}: task {}: its first job arrives {} after the start, and the set ends after {}: expected a \
             longer duration (-D), or a shorter offset",
            flags.file.display(),
            task.name,
            punctual_report::words::duration(at_ns),
            punctual_report::words::duration(duration_ns)
        ))),
        _ => Ok(()),
    }
}

/// The line of a file in which the step of a task stands; none of a set without a file.
pub(super) fn line_of_step(path: &Path, task: usize, phase: usize, step: usize) -> Option<usize> {
    let text = text(path).ok()?;
    punctual_taskset::line_of_step(&text, Format::of(path), task, phase, step)
}

fn text(path: &Path) -> Result<String, Failure> {
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
    String::from_utf8(bytes).map_err(|_| {
        Failure::usage(format!(
            "{shown}: not text: expected TOML, or JSON of rt-app"
        ))
    })
}

/// Calls this with each step of a set, also with those within locks.
pub(in super::super) fn each_step(set: &mut TaskSet, found: &mut impl FnMut(&mut Step)) {
    for phase in set.tasks.iter_mut().flat_map(|task| &mut task.phases) {
        steps(&mut phase.work, found);
    }
}

fn steps(work: &mut [Step], found: &mut impl FnMut(&mut Step)) {
    for step in work {
        found(step);
        if let Step::Lock { work, .. } = step {
            steps(work, found);
        }
    }
}
