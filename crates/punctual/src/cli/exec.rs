//! `exec`: executes a set of tasks, and judges each by its deadline.

mod analyse;

use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use super::failure::Failure;
use super::flags::ExecFlags;
use super::measuring::{conclude, make_directory, settled, show};
use super::out;
use super::screen::Screen;
use crate::conduct::{self, ConditionsPlan, ConductError, ExecPlan, LoadPlan, TracingPlan};
use punctual_load::{LEAST_CPU_NS, LoadSpec};
use punctual_machine::Root;
use punctual_machine::survey;
use punctual_machine::survey::cpus::{self, Place};
use punctual_record::taskset::analysis::SetAnalysis;
use punctual_record::taskset::{Step, TaskSet};
use punctual_taskset::{Format, MOST_BYTES};

/// How long a set is executed whose file doesn't say.
const DURATION_NS: u64 = 60_000_000_000;

/// Executes the set and shows what it did.
///
/// # Errors
/// What can't be read, is no task set, or can't be executed here.
pub fn run(flags: &ExecFlags) -> Result<ExitCode, Failure> {
    let set = read(&flags.file)?;
    if flags.analyse {
        return analyse::run(flags, &set);
    }
    // An execution is worth as much without it.
    let analysis = analyse::analysed(flags, &set);
    if let Err(failure) = &analysis {
        out::complain(&format!(
            "the set is executed without an analysis: {}",
            failure.line
        ));
    }
    let plan = plan(flags, set, analysis.ok())?;
    let directory = make_directory(flags.output.as_deref(), "exec")?;
    let mut screen =
        Screen::new(flags.quiet || flags.json, false, flags.verbose, false).with_keys();
    let outcome = conduct::exec(&plan, &directory, &mut screen);
    let line = outcome
        .as_ref()
        .err()
        .and_then(|error| line_of(&flags.file, error));
    let run = settled(outcome, &mut screen, &directory).map_err(|failure| match line {
        Some(line) => Failure {
            line: format!("{}:{line}: {}", flags.file.display(), failure.line),
            ..failure
        },
        None => failure,
    })?;
    // The terminal is as it was before anything is printed.
    drop(screen);
    show(&run, flags.json, flags.quiet, flags.verbose, &directory);
    Ok(conclude(&run, &directory))
}

/// The line of the file whose step can't be done.
fn line_of(path: &Path, error: &ConductError) -> Option<usize> {
    let ConductError::Exec(error) = error else {
        return None;
    };
    let (task, phase, step) = error.step()?;
    let text = std::fs::read_to_string(path).ok()?;
    punctual_taskset::line_of_step(&text, Format::of(path), task, phase, step)
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

fn plan(
    flags: &ExecFlags,
    set: TaskSet,
    analysis: Option<SetAnalysis>,
) -> Result<ExecPlan, Failure> {
    let root = Root::live();
    let place = Place::read(&root);
    let topology = survey::topology(&root);
    for task in &set.tasks {
        if let Some(cpu) = task.cpus.iter().find(|cpu| !place.reachable.contains(cpu)) {
            return Err(Failure::usage(format!(
                "{}: task {}: CPU {cpu} can't be used: expected one of {}",
                flags.file.display(),
                task.name,
                punctual_record::cpu_list(&place.reachable)
            )));
        }
    }
    let load = flags.load.clone().unwrap_or(LoadSpec::None);
    let taken = |cpu: &usize| set.tasks.iter().any(|task| task.cpus.contains(cpu));
    let some_anywhere = set.tasks.iter().any(|task| task.cpus.is_empty());
    let free = place.reachable.iter().copied().find(|cpu| !taken(cpu));
    Ok(ExecPlan {
        command: std::env::args_os()
            .map(|word| word.to_string_lossy().into_owned())
            .collect(),
        duration_ns: Some(flags.duration.or(set.duration_ns).unwrap_or(DURATION_NS)),
        allowed: flags.miss,
        confidence: flags.confidence,
        load: LoadPlan {
            spec: load,
            class: flags.load_class,
            cpus: cpus::for_load(&topology, &place),
            least_cpu_ns: LEAST_CPU_NS,
        },
        conditions: ConditionsPlan {
            as_deployed: flags.as_deployed,
            lock_memory: true,
            best_effort: flags.best_effort,
            measure_unmet: flags.best_effort,
        },
        tracing: TracingPlan {
            explain: !flags.no_explain,
            above_ns: None,
            stack_above_ns: None,
        },
        housekeeping: free.filter(|_| !some_anywhere),
        all_cpus: place.reachable.clone(),
        analysis,
        set,
    })
}
