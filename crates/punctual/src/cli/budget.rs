//! `budget`: do these hops meet one deadline together?

mod file;
mod part;

use std::process::ExitCode;

use super::failure::Failure;
use super::flags::BudgetFlags;
use super::out;
use file::BudgetFile;
use punctual_record::budget::{BudgetDemand, judge};
use punctual_report::budget as words;
use punctual_report::summary_json::printed;

/// Judges the file, and prints what it says.
///
/// # Errors
/// What can't be read, or is no budget.
pub fn run(flags: &BudgetFlags) -> Result<ExitCode, Failure> {
    let file = BudgetFile::read(&flags.file)?;
    let demand = BudgetDemand {
        deadline_ns: flags.deadline.or(file.deadline_ns).ok_or_else(|| {
            Failure::usage(format!(
                "{}: no deadline: write deadline = \"10ms\" there, or give --deadline",
                flags.file.display()
            ))
        })?,
        allowed: flags.miss.or(file.allowed).unwrap_or(1e-4),
        confidence: flags.confidence.or(file.confidence).unwrap_or(0.95),
    };
    let budget = judge(&demand, &file.hops, file.whole.as_ref()).map_err(Failure::setup)?;
    if flags.json {
        let sentence = words::sentence(&budget);
        out::print(&printed(&budget, &[("sentence", sentence.as_str())]));
    } else {
        out::print(&words::summary(&budget, &out::style()));
    }
    Ok(ExitCode::from(budget.outcome.exit_code()))
}
