//! `watch`: measures a running program, or the whole system, without changing it.

use std::process::ExitCode;

use super::failure::{Failure, SETUP};
use super::flags::WatchFlags;
use super::measuring::{conclude_breach, make_directory, print_breach, settled, show};
use super::plan::claim;
use super::screen::Screen;
use super::textfile::TextFile;
use crate::conduct::{self, Scope, Target, TracingPlan, WatchPlan};
use punctual_machine::Root;
use punctual_machine::survey::group;
use punctual_machine::survey::process::{self, Process};
use punctual_trace::watch::marks::error::NotFound;
use punctual_trace::watch::marks::find;
use punctual_trace::watch::marks::preset::Preset;
use punctual_trace::watch::marks::{Mark, spec};

/// Watches and prints the result.
///
/// # Errors
/// Wrong usage, a program that does not exist, or what could not be set up.
pub fn run(flags: &WatchFlags) -> Result<ExitCode, Failure> {
    let plan = plan(flags)?;
    let textfile = flags.textfile.as_deref().map(TextFile::new).transpose()?;
    let directory = make_directory(flags.output.as_deref(), "watch")?;
    let mut screen =
        Screen::new(flags.quiet || flags.json, false, flags.verbose, false).with_textfile(textfile);
    let outcome = conduct::watch(&plan, &directory, &mut screen);
    let run = settled(outcome, &mut screen, &directory)?;
    print_breach(&run);
    show(&run, flags.json, flags.quiet, flags.verbose, &directory);
    let status = conclude_breach(&flags.breach, &run, &directory)?;
    Ok(match screen.lacks_metrics() {
        true => ExitCode::from(SETUP),
        false => status,
    })
}

fn plan(flags: &WatchFlags) -> Result<WatchPlan, Failure> {
    let root = Root::live();
    let target = target(flags, &root)?;
    let wanted = wanted(flags)?;
    let limits = limits(flags, &wanted)?;
    let program = target.as_ref().and_then(Target::program);
    let marks = program.map(|it| marks(flags, it)).transpose()?;
    Ok(WatchPlan {
        runtime: flags.runtime,
        marks: marks.unwrap_or_default(),
        limits,
        command: std::env::args_os()
            .map(|word| word.to_string_lossy().into_owned())
            .collect(),
        target,
        scope: Scope {
            // Most threads of a runtime, and those that run its pauses, have no real-time priority.
            every: flags.all || flags.runtime.is_some(),
            off_cpu: flags.off_cpu,
            run_queue: flags.run_queue,
        },
        duration_ns: flags.duration,
        break_ns: flags.breach.break_value,
        claim: claim(&flags.required, None)?,
        tracing: TracingPlan {
            explain: !flags.no_explain,
            above_ns: flags.explain_above,
            stack_above_ns: flags.stack_above,
        },
    })
}

/// Whose threads are watched; `None` for the whole system.
fn target(flags: &WatchFlags, root: &Root) -> Result<Option<Target>, Failure> {
    if let Some(wanted) = &flags.program {
        let process = process::find(root, wanted).map_err(Failure::usage)?;
        let children = flags.children;
        return Ok(Some(Target::Program { process, children }));
    }
    if let Some(name) = &flags.comm {
        if name.is_empty() {
            return Err(Failure::usage("--comm: expected the name of a program"));
        }
        return Ok(Some(Target::Named(name.clone())));
    }
    let Some(wanted) = &flags.cgroup else {
        return Ok(None);
    };
    let group = group::find(root, wanted).map_err(Failure::usage)?;
    let wanted = wanted.clone();
    Ok(Some(Target::Group { wanted, group }))
}

/// The names of all marks, those of the runtime first.
fn wanted(flags: &WatchFlags) -> Result<Vec<String>, Failure> {
    let presets = flags.runtime.map(Preset::specs).unwrap_or_default();
    let all = presets.into_iter().chain(flags.marks.iter().cloned());
    let names: Vec<String> = all.map(|mark| mark.name).collect();
    if names.len() > spec::MOST {
        return Err(Failure::usage(format!(
            "--mark: at most {} are possible",
            spec::MOST - (names.len() - flags.marks.len())
        )));
    }
    for (index, name) in names.iter().enumerate() {
        if names[..index].contains(name) {
            return Err(Failure::usage(format!(
                "--mark: two marks are named '{name}': give one another name, NAME=PLACE"
            )));
        }
    }
    Ok(names)
}

/// The limit of each mark, in the order of the marks.
fn limits(flags: &WatchFlags, names: &[String]) -> Result<Vec<Option<u64>>, Failure> {
    let mut limits = vec![None; names.len()];
    for (name, limit_ns) in &flags.mark_max {
        let at = names.iter().position(|known| known == name);
        let Some(at) = at else {
            let there = match names {
                [] => format!("add --mark {name}"),
                _ => format!("expected one of {}", names.join(", ")),
            };
            return Err(Failure::usage(format!(
                "--mark-max: no mark is named '{name}'; {there}"
            )));
        };
        if limits[at].replace(*limit_ns).is_some() {
            return Err(Failure::usage(format!(
                "--mark-max: '{name}' has two limits: give one"
            )));
        }
    }
    Ok(limits)
}

/// Where the marks are. A place that is not in the program is wrong usage, like a program that does
/// not exist.
fn marks(flags: &WatchFlags, program: &Process) -> Result<Vec<Mark>, Failure> {
    let of_runtime = flags
        .runtime
        .map(|preset| find::find_preset(program.pid, preset));
    let found = of_runtime.unwrap_or(Ok(Vec::new())).and_then(|mut marks| {
        marks.extend(find::find(program.pid, &flags.marks)?);
        Ok(marks)
    });
    found.map_err(|why| match why {
        NotFound::Program { .. } => Failure::setup(why.to_string()),
        _ => Failure::usage(why.to_string()),
    })
}
