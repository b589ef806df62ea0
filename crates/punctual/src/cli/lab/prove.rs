//! `lab prove`: which boot parameter helps?

use std::collections::{BTreeMap, BTreeSet};
use std::process::ExitCode;

use super::super::failure::{Failure, SETUP};
use super::flags::LabProveFlags;
use super::parts::Guest;
use super::screen::LabScreen;
use super::{bench, jobs, lab_of, make_cells, making, meaning, parts, watched};
use crate::conduct::lab::{self, Bench, LabPlan, Making, ProofPlan, Proving, Watched};
use crate::conduct::{Observed, Observer, Signals};
use punctual_lab::cell::Work;
use punctual_record::lab::NoResult;
use punctual_report::lab as report;
use punctual_stats::experiment::least_seeds;

/// How sure a conclusion must be.
const CONFIDENCE: f64 = 0.95;
/// The load without `--load`: all of the standard one at once.
const LOAD: &str = "standard";

/// Makes the experiment and shows it.
///
/// # Errors
/// Wrong usage, a parameter that means nothing or that no kernel knows, or what could not be set up.
pub fn run(flags: &LabProveFlags) -> Result<ExitCode, Failure> {
    let mut plan = plan(flags)?;
    let bench = bench(flags.machine.arch, plan.kernels.iter().map(String::as_str))?;
    check_built_in(&plan.kernels, &plan.parameters, &bench)?;
    let signals = Signals::listen().map_err(Failure::setup)?;
    let mut lab = LabPlan {
        seeds: flags.seeds,
        ..lab_of(&flags.machine, &flags.host)
    };
    // What can't be run is refused before the first boot.
    lab.columns = plan.columns();
    lab::plan(&lab, &bench).map_err(Failure::setup)?;
    scout(flags, &mut plan, &lab, &bench, &signals)?;
    refuse_unknown(&plan)?;
    lab.columns = plan.columns();
    let mut cells = lab::plan(&lab, &bench).map_err(Failure::setup)?;
    // If it is interrupted, the seeds so far have all their guests.
    cells.sort_by_key(|cell| cell.plan.seed);
    let host = &flags.host;
    let proving = Proving {
        plan: &plan,
        seeds: flags.seeds,
    };
    let making = Making {
        proving: Some(proving),
        ..making(jobs(host, cells.len()), watched(host))
    };
    let made = make_cells(&cells, host, &bench, &signals, &making)?;
    Ok(match made.proof {
        Some(outcome) if !made.has_failed => outcome.exit_code().into(),
        _ => SETUP.into(),
    })
}

fn plan(flags: &LabProveFlags) -> Result<ProofPlan, Failure> {
    let mut seen = BTreeSet::new();
    for word in &flags.parameters {
        meaning::check(word).map_err(Failure::usage)?;
        if !seen.insert(word) {
            return Err(Failure::usage(format!("{word} is named twice")));
        }
        if flags.machine.param.contains(word) {
            return Err(Failure::usage(format!(
                "{word}: every guest has it by --param: leave it out there"
            )));
        }
    }
    let mut seen = BTreeSet::new();
    if let Some(kernel) = flags.kernel.iter().find(|it| !seen.insert(*it)) {
        return Err(Failure::usage(format!("--kernel: {kernel} is given twice")));
    }
    // A load may be named after `--` instead.
    let is_load = |word: &str| word == "--load" || word.starts_with("--load=");
    let mut words = flags.command.iter().filter_map(|word| word.to_str());
    let named = words.any(is_load);
    let load = flags.load.as_deref().or((!named).then_some(LOAD));
    let guest = Guest {
        architecture: flags.machine.arch,
        is_rooted: flags.machine.rootfs.is_some(),
        cpus: 1,
        explains: false,
    };
    let parts = parts::parts(load, &flags.command, guest)?;
    if parts
        .iter()
        .any(|part| matches!(part.work, Work::Program { .. }) || part.work.executes_tasks())
    {
        return Err(Failure::usage(
            "lab prove compares latencies: give measure or qualify after --; `punctual lab --param \
             WORD -- PROGRAM` runs a program",
        ));
    }
    let plan = ProofPlan {
        kernels: flags.kernel.clone(),
        base: flags.machine.param.clone(),
        parameters: flags.parameters.clone(),
        parts,
        confidence: CONFIDENCE,
        unknown: BTreeMap::new(),
    };
    let tests = plan.tests();
    match least_seeds(tests, CONFIDENCE) {
        Some(least) if flags.seeds >= least as u64 => Ok(plan),
        Some(least) => Err(Failure::usage(format!(
            "--seeds {}: expected {least} to 1000: fewer pairs say nothing (parameters times loads \
             times kernels: {tests})",
            flags.seeds
        ))),
        None => Err(Failure::usage(format!(
            "parameters times loads times kernels are {tests}: of more than 250 tests no result is \
             sure: name fewer parameters or loads"
        ))),
    }
}

/// A kernel ignores a word with a dot that it doesn't know, without a message.
pub(super) fn check_built_in(
    kernels: &[String],
    words: &[String],
    bench: &Bench,
) -> Result<(), Failure> {
    for kernel in kernels {
        for word in words {
            let name = word.split('=').next().unwrap_or(word);
            if !name.contains('.') {
                continue;
            }
            let found = bench.kernel(kernel).map_err(Failure::setup)?;
            let has = found
                .has_built_in(name)
                .map_err(|error| Failure::setup(format!("{}: {error}", found.image.display())))?;
            if has != Some(true) {
                let release = &found.release;
                let why = match has {
                    None => "is packed, and cannot be searched for it: give its vmlinux",
                    _ => "has no such parameter built in, and would ignore it",
                };
                return Err(Failure::usage(format!(
                    "{word}: kernel {kernel} ({release}) {why}{}",
                    meaning::meant(name)
                )));
            }
        }
    }
    Ok(())
}

/// Boots each kernel with all parameters, to find those that it doesn't know.
fn scout(
    flags: &LabProveFlags,
    plan: &mut ProofPlan,
    lab: &LabPlan,
    bench: &Bench,
    signals: &Signals,
) -> Result<(), Failure> {
    let host = &flags.host;
    let ends = || signals.end().is_some();
    let mut screen = LabScreen::new(host.quiet, false);
    let mut tick = |forecast: &lab::Forecast| screen.observe(Observed::Cells(forecast));
    let making = making(jobs(host, plan.kernels.len()), Watched::Nothing);
    let found = lab::scout(plan, lab, bench, &making, &ends, &mut tick);
    found.map_err(|(kernel, why)| {
        let said = report::no_result(&why);
        Failure::setup(match (why, &flags.parameters[..]) {
            (NoResult::Interrupted, _) => said,
            (_, [only]) => format!("{kernel} with {only}: {said}"),
            (_, all) => format!(
                "{kernel} with {}: {said}; name fewer of them",
                all.join(" ")
            ),
        })
    })
}

/// A parameter that no kernel knows is misspelt.
fn refuse_unknown(plan: &ProofPlan) -> Result<(), Failure> {
    let is_unknown = |word: &&String| plan.unknown.values().all(|unknown| unknown.contains(word));
    match plan.parameters.iter().find(is_unknown) {
        None => Ok(()),
        Some(word) => Err(Failure::usage(format!(
            "{word}: unknown to {}, its name or its value{}",
            match &plan.kernels[..] {
                [only] => format!("kernel {only}"),
                several => format!("the kernels {}", several.join(", ")),
            },
            meaning::meant(word)
        ))),
    }
}
