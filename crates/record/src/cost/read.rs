//! Reading `cost.json`. It may come from anywhere: reading is total, and what is accepted keeps its
//! promises. What follows from the runs is made of them again: nothing that is shown was only said.

use super::{Cost, CostMachine, CostOutcome, CostPart, CostRun};
use crate::bounds::{Bounds, Broken, at_most, ensure, histogram};
use crate::document::Document;
use std::collections::BTreeSet;

/// Runs.
const MOST_RUNS: usize = 1 << 16;
/// Treatments, parts of one.
const MOST_TREATMENTS: usize = 64;
/// Settings of a machine.
const MOST_SETTINGS: usize = 1 << 12;
/// A run of a year.
const MOST_NS: u64 = 366 * 86_400 * 1_000_000_000;

impl Document for Cost {
    const WHAT: &'static str = "record of a cost";
    const FILE: &'static str = "cost.json";
    const PAGE: Option<&'static str> = None;
    const FORMAT: &'static str = "punctual-cost";
    const VERSION: u32 = 1;

    fn header(&self) -> (&str, u32) {
        (&self.format, self.version)
    }

    fn promises(&self) -> Result<(), Broken> {
        promises(self)
    }

    fn conclude(&mut self) {
        if self.outcome != CostOutcome::FirstHalf {
            self.judge();
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
