//! `lab bound`: how late a wake-up could have been on what the guests executed.

use std::process::ExitCode;

use super::super::failure::{Failure, SETUP};
use super::flags::LabBoundFlags;
use super::{bench, jobs, make_cells, making, of_flags, refuse_bills};
use crate::conduct::Signals;
use crate::conduct::lab::{self, Watched};
use punctual_lab::bound::Bounding;
use punctual_record::laboratory::Architecture;

/// Runs the cells, and measures their windows.
///
/// # Errors
/// Wrong usage, or what could not be set up.
pub fn run(flags: &LabBoundFlags) -> Result<ExitCode, Failure> {
    let host = &flags.guest.host;
    refuse_bills(host)?;
    let requested = of_flags(&flags.guest)?;
    if requested.lab.architecture != Architecture::Amd64 {
        return Err(Failure::usage(format!(
            "--arch {}: the windows of amd64 guests alone can be measured",
            requested.lab.architecture
        )));
    }
    let columns = requested.lab.columns.iter();
    let bench = bench(
        requested.lab.architecture,
        columns.map(|column| &*column.kernel),
    )?;
    let cells = lab::plan(&requested.lab, &bench).map_err(Failure::setup)?;
    if !cells.iter().any(|cell| Bounding::suits(&cell.plan)) {
        return Err(Failure::usage(
            "a bound is that of a probe on one processor: run measure or qualify, without --cpus"
                .to_owned(),
        ));
    }
    let making = making(jobs(host, cells.len()), Watched::Windows);
    let signals = Signals::listen().map_err(Failure::setup)?;
    let concluded = make_cells(&cells, host, &bench, &signals, &making)?;
    let is_whole = concluded.is_whole && concluded.bounded;
    Ok(if is_whole { concluded.status } else { SETUP }.into())
}
