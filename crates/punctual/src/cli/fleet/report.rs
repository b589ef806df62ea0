//! `fleet report`: a dataset in a few lines, or as a page.

use std::process::ExitCode;

use punctual_fleet::{Dataset, DuckDb};
use punctual_report::fleet::{PageFacts, page, summary};

use super::super::failure::Failure;
use super::super::looking::write;
use super::super::out;
use super::flags::ReportFlags;
use crate::conduct::this_tool;

/// Prints the summary, or writes the page.
///
/// # Errors
/// There is no such dataset or no run in it, DuckDB is not installed or refused a query, or the page can't
/// be written.
pub fn run(flags: &ReportFlags) -> Result<ExitCode, Failure> {
    let dataset = Dataset::located(&flags.dataset).map_err(Failure::setup)?;
    let visible = || Dataset::visible(&dataset).map_err(Failure::setup);
    let before = visible()?;
    let named = flags.dataset.display();
    if before == 0 {
        return Err(Failure::setup(format!(
            "{named}: no run in it: `punctual fleet ingest DIR -o {named}` adds some"
        )));
    }
    let duckdb = DuckDb::on(&dataset).map_err(Failure::setup)?;
    let answers = duckdb.answers().map_err(Failure::setup)?;
    let found = answers.overview.runs + answers.overview.invalid;
    // Another process may have added runs meanwhile.
    let after = visible()?;
    if !(before..=after).contains(&found) {
        return Err(Failure::setup(format!(
            "{named}: its tables have {found} of {after} runs: one of them was changed: remove that batch's directory, \
             and ingest its runs again"
        )));
    }
    let Some(file) = &flags.html else {
        out::print(&summary(&answers, &out::style()));
        return Ok(ExitCode::SUCCESS);
    };
    let facts = PageFacts {
        dataset: &flags.dataset.display().to_string(),
        tool: &this_tool(),
        engine: &duckdb.name(),
    };
    write(file, &page(&answers, &facts))?;
    Ok(ExitCode::SUCCESS)
}
