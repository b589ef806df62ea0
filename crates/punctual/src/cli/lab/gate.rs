//! `lab gate`: runs a lab again, and fails if a figure grew by more than is allowed.

use std::process::ExitCode;

use super::super::failure::{Failure, SETUP};
use super::super::out;
use super::flags::{FigureName, LabGateFlags, MayGrow};
use super::verify::refused;
use super::{bench, conclude, jobs, making, run_cells, save_suite, watched};
use crate::conduct::Signals;
use crate::conduct::lab::verify::{self, Before};
use crate::conduct::lab::{Counting, Making};
use punctual_record::lab::LabCell;
use punctual_report::lab::{self as report, Allowance};
use punctual_stats::verdict::Outcome as VerdictOutcome;

/// Runs the baseline's cells, and compares.
///
/// # Errors
/// What cannot be read or run.
pub fn run(flags: &LabGateFlags) -> Result<ExitCode, Failure> {
    let baseline = baseline(flags)?;
    let allowance = allowance(&flags.allow, flags.figure, &baseline)?;
    let mut before: Vec<Before> = baseline.iter().filter_map(Before::of).collect();
    if let Some(kernel) = &flags.kernel {
        for it in &mut before {
            it.laboratory.kernel.clone_from(kernel);
        }
    }
    let kernels = before.iter().map(|it| &*it.laboratory.kernel);
    let bench = bench(verify::architecture(&before), kernels)?;
    let mut cells = verify::cells(&before, &bench).map_err(Failure::setup)?;
    for (cell, old) in cells.iter_mut().zip(&baseline) {
        cell.directory.clone_from(&old.directory);
        cell.variant.clone_from(&old.variant);
    }
    let signals = Signals::listen().map_err(Failure::setup)?;
    let host = &flags.host;
    let mut costs = baseline.iter().filter_map(|cell| cell.cost.as_ref());
    let making = Making {
        counting: costs.next().map(Counting::of),
        ..making(jobs(host, cells.len()), watched(host))
    };
    let made = run_cells(&cells, host, &bench, &signals, &making)?;
    let gate = report::gate(&baseline, &made.lab, &allowance);
    let mut trouble = made.trouble;
    let suite = || report::gate_junit(&gate, &made.lab);
    trouble.extend(save_suite(&flags.host, suite));
    if flags.host.json {
        out::print(&punctual_report::summary_json::of_lab(&made.lab));
    } else if !flags.host.quiet || !gate.passes() {
        out::print(&report::gate_text(&gate, &out::style()));
    }
    trouble.iter().for_each(|line| out::complain(line));
    if !trouble.is_empty() || conclude(&made.lab, &made.outcomes) == SETUP {
        return Ok(SETUP.into());
    }
    Ok(match gate.passes() {
        true => ExitCode::SUCCESS,
        false => VerdictOutcome::Fail.exit_code().into(),
    })
}

/// The cells of the baseline that have a result.
fn baseline(flags: &LabGateFlags) -> Result<Vec<LabCell>, Failure> {
    let shown = flags.baseline.display();
    let cells = verify::read_cells(&flags.baseline).map_err(refused)?;
    if flags.kernel.is_some() && cells.iter().any(|cell| cell.kernel != cells[0].kernel) {
        return Err(Failure::usage(format!(
            "--kernel: {shown} has several kernels: make a baseline of one, with --kernel"
        )));
    }
    Ok(cells)
}

fn allowance(
    allowed: &[MayGrow],
    figure: Option<FigureName>,
    cells: &[LabCell],
) -> Result<Allowance, Failure> {
    let mut allowance = Allowance {
        median: figure != Some(FigureName::Worst),
        worst: figure != Some(FigureName::Median),
        ..Allowance::default()
    };
    for MayGrow { load, ns } in allowed {
        let Some(load) = load else {
            allowance.others_ns = *ns;
            continue;
        };
        let operations = cells.iter().filter_map(|cell| cell.cost.as_ref());
        let operations = operations.flat_map(|cost| &cost.operations);
        let mut known: Vec<&str> = cells.iter().map(|cell| &*cell.load).collect();
        known.extend(operations.map(|it| it.operation.name()));
        if !known.contains(&&**load) {
            known.sort_unstable();
            known.dedup();
            return Err(Failure::usage(format!(
                "--allow {load}=...: the baseline has no load or operation of this name, but {}",
                known.join(", ")
            )));
        }
        allowance.loads_ns.insert(load.clone(), *ns);
    }
    Ok(allowance)
}
