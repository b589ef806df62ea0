//! Reading `cost.json`. It may come from anywhere: reading is total, and what is accepted keeps its
//! promises. What follows from the runs is made of them again: nothing that is shown was only said.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use super::{
    COST_FILE, COST_FORMAT, COST_VERSION, Cost, CostMachine, CostOutcome, CostPart, CostRun,
};
use crate::bounds::{Bounds, Broken, at_most, ensure, histogram};
use crate::error::RecordError;
use crate::read::{FileKind, slurp};
use crate::scan;

/// What opens the file.
const COST_KIND: FileKind = FileKind {
    what: "record of a cost",
    format: COST_FORMAT,
    version: COST_VERSION,
};
/// Bytes of `cost.json`.
const MOST_BYTES: u64 = 64 << 20;
/// Runs.
const MOST_RUNS: usize = 1 << 16;
/// Treatments, parts of one.
const MOST_TREATMENTS: usize = 64;
/// Settings of a machine.
const MOST_SETTINGS: usize = 1 << 12;
/// A run of a year.
const MOST_NS: u64 = 366 * 86_400 * 1_000_000_000;

/// Whether a path is that of a cost: the file, or a directory that holds it.
#[must_use]
pub fn is_cost(path: &Path) -> bool {
    path.join(COST_FILE).is_file() || path.file_name() == Some(COST_FILE.as_ref())
}

/// Reads `cost.json`: `path` is the file or its directory, which is returned too. Total, as reading
/// a run is.
///
/// # Errors
/// [`RecordError`] with the path and the place.
pub fn read_cost(path: &Path) -> Result<(Cost, PathBuf), RecordError> {
    let (file, directory) = if path.is_dir() {
        (path.join(COST_FILE), path.to_owned())
    } else {
        let parent = path.parent().unwrap_or(Path::new(""));
        (path.to_owned(), parent.to_owned())
    };
    let bytes = slurp(&file, MOST_BYTES)?;
    Ok((parse_cost(&file, &bytes)?, directory))
}

/// As [`read_cost`], from memory.
///
/// # Errors
/// As [`read_cost`].
pub fn parse_cost(path: &Path, bytes: &[u8]) -> Result<Cost, RecordError> {
    scan::check(path, bytes, &scan::RECORD)?;
    let mut cost: Cost = COST_KIND.decode(path, bytes)?;
    COST_KIND.check(path, Some(&cost.format), Some(cost.version.into()))?;
    match promises(&cost) {
        Err(Broken { place, reason }) => Err(RecordError::malformed(path, place, reason)),
        Ok(()) => {
            if cost.outcome != CostOutcome::FirstHalf {
                cost.judge();
            }
            Ok(cost)
        }
    }
}

/// What a cost promises beyond its types.
fn promises(cost: &Cost) -> Result<(), Broken> {
    let plan = &cost.plan;
    at_most(cost.command.len(), Bounds::SHORT_LIST, "command")?;
    at_most(plan.program.len(), Bounds::SHORT_LIST, "plan.program")?;
    ensure(!plan.program.is_empty(), "plan.program", "no command")?;
    let is_share = |share: f64| share > 0.0 && share < 1.0;
    let confidence = (0.5..1.0).contains(&plan.confidence);
    ensure(confidence, "plan.confidence", "not from 0.5 to 1")?;
    ensure(
        is_share(plan.quantile),
        "plan.quantile",
        "not within 0 and 1",
    )?;
    at_most(cost.treatments.len(), MOST_TREATMENTS, "treatments")?;
    for (at, treatment) in cost.treatments.iter().enumerate() {
        let place = format!("treatments[{at}].parts");
        at_most(treatment.parts.len(), MOST_TREATMENTS, place.as_str())?;
        let mut parts = treatment.parts.iter();
        parts.try_for_each(|it| part(it, &place))?;
    }
    let machines = cost.machines.len();
    ensure((1..=2).contains(&machines), "machines", "not one or two")?;
    cost.machines.iter().try_for_each(machine)?;
    at_most(cost.runs.len(), MOST_RUNS, "runs")?;
    let mut seen = BTreeSet::new();
    for (at, it) in cost.runs.iter().enumerate() {
        let place = format!("runs[{at}]");
        run(it, cost, &place)?;
        let is_new = seen.insert((it.treatment, it.machine, it.pair, it.with));
        ensure(is_new, place, "the same run of the same pair twice")?;
    }
    Ok(())
}

fn part(part: &CostPart, place: &str) -> Result<(), Broken> {
    match part {
        CostPart::RtLoad {
            utilisation, cpus, ..
        } => {
            let is_share = *utilisation > 0.0 && *utilisation <= 1.0;
            ensure(is_share, place, "a utilisation that is none")?;
            cpu_numbers(cpus, place)
        }
        CostPart::Isolate { cpus } => cpu_numbers(cpus, place),
        CostPart::Priority { .. }
        | CostPart::Locked {}
        | CostPart::Preempt { .. }
        | CostPart::Reboot {}
        | CostPart::Kernel { .. } => Ok(()),
    }
}

fn cpu_numbers(cpus: &[usize], place: &str) -> Result<(), Broken> {
    at_most(cpus.len(), Bounds::CPUS, place)?;
    let exist = cpus.iter().all(|cpu| *cpu < Bounds::CPUS);
    ensure(exist, place, "a CPU that does not exist")
}

fn machine(machine: &CostMachine) -> Result<(), Broken> {
    at_most(machine.settings.len(), MOST_SETTINGS, "machines[].settings")?;
    cpu_numbers(&machine.cpus, "machines[].cpus")
}

fn run(run: &CostRun, cost: &Cost, place: &str) -> Result<(), Broken> {
    let has_treatment = run.treatment.is_none_or(|at| at < cost.treatments.len());
    ensure(has_treatment, place, "names a treatment that is not there")?;
    let has_machine = run.machine < cost.machines.len();
    ensure(has_machine, place, "names a machine that is not there")?;
    let usage = &run.usage;
    for ns in [usage.user_ns, usage.system_ns, usage.elapsed_ns] {
        ensure(ns <= MOST_NS, place, "a run of more than a year")?;
    }
    let load = run.load.unwrap_or(0.0);
    ensure((0.0..=1e3).contains(&load), place, "a load that is none")?;
    match &run.wake_ups {
        Some(it) => histogram(&it.latency, place).map(|_| ()),
        None => Ok(()),
    }
}
