//! `exec`: executes a set of tasks, and judges each by its deadline.

mod analyse;
pub(super) mod set;

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
use punctual_record::taskset::TaskSet;
use punctual_record::taskset::analysis::SetAnalysis;

/// How long a set is executed whose file doesn't say.
const DURATION_NS: u64 = 60_000_000_000;

/// Executes the set and shows what it did.
///
/// # Errors
/// What can't be read, is no task set, or can't be executed here.
pub fn run(flags: &ExecFlags) -> Result<ExitCode, Failure> {
    let set = set::read(flags)?;
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
        .and_then(|error| line_of(flags, error));
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
fn line_of(flags: &ExecFlags, error: &ConductError) -> Option<usize> {
    let ConductError::Exec(error) = error else {
        return None;
    };
    let (task, phase, step) = error.step()?;
    set::line_of_step(&flags.file, task, phase, step)
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
    let duration_ns = flags.duration.or(set.duration_ns).unwrap_or(DURATION_NS);
    set::check_arrivals(&set, flags, duration_ns)?;
    let load = flags.load.clone().unwrap_or(LoadSpec::None);
    let taken = |cpu: &usize| set.tasks.iter().any(|task| task.cpus.contains(cpu));
    let some_anywhere = set.tasks.iter().any(|task| task.cpus.is_empty());
    let free = place.reachable.iter().copied().find(|cpu| !taken(cpu));
    Ok(ExecPlan {
        command: std::env::args_os()
            .map(|word| word.to_string_lossy().into_owned())
            .collect(),
        duration_ns: Some(duration_ns),
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
        all_on_cpu: flags.cpu,
    })
}
