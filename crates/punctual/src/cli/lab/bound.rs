//! `lab bound`: how late a wake-up could have been on what the guests executed.

use std::process::ExitCode;

use super::super::failure::{Failure, SETUP};
use super::flags::LabBoundFlags;
use super::{bench, make_cells, of_flags};
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
    if host.explain || host.no_explain {
        return Err(Failure::usage(
            "--explain, --no-explain: bills are those of `punctual lab`: leave them out".to_owned(),
        ));
    }
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
    let signals = Signals::listen().map_err(Failure::setup)?;
    let concluded = make_cells(&cells, host, &bench, &signals, Watched::Windows, None)?;
    let is_whole = concluded.is_whole && concluded.bounded;
    Ok(if is_whole { concluded.status } else { SETUP }.into())
}
