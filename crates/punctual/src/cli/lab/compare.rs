//! `lab compare`: two labs, cell by cell, exactly.

use punctual_record::Document;
use punctual_record::lab::Lab;
use std::process::ExitCode;

use super::super::failure::Failure;
use super::super::out;
use super::flags::LabCompareFlags;
use punctual_report::lab as report;

/// Reads both and prints which cells differ.
///
/// # Errors
/// A lab cannot be read, or the labs have no cell in common.
pub fn run(flags: &LabCompareFlags) -> Result<ExitCode, Failure> {
    let first = Lab::read(&flags.first).map_err(Failure::setup)?;
    let second = Lab::read(&flags.second).map_err(Failure::setup)?;
    if let Some(text) = report::cost_comparison(&first, &second, &out::style()) {
        out::print(&text);
        return Ok(ExitCode::SUCCESS);
    }
    let comparison = report::compare(&first, &second);
    if comparison.pairs.is_empty() {
        return Err(Failure::usage(format!(
            "{} and {}: no kernel of the same architecture with the same load and seed was measured in both",
            flags.first.display(),
            flags.second.display()
        )));
    }
    out::print(&report::comparison(&comparison, &out::style()));
    Ok(ExitCode::SUCCESS)
}
