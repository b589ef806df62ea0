//! `fleet sql`: prints a query that an engine executes.

use std::process::ExitCode;

use super::super::failure::Failure;
use super::super::out;
use super::flags::SqlFlags;
use punctual_fleet::{Dataset, QUERIES};

/// Prints the query with what it needs, or lists all.
///
/// # Errors
/// There is no such dataset or query.
pub fn run(flags: &SqlFlags) -> Result<ExitCode, Failure> {
    let Some(name) = &flags.query else {
        let longest = QUERIES.iter().map(|it| it.name.len()).max().unwrap_or(0);
        for query in QUERIES {
            out::print(&format!("{:longest$}  {}\n", query.name, query.answers));
        }
        return Ok(ExitCode::SUCCESS);
    };
    let query = QUERIES.iter().find(|it| it.name == name).ok_or_else(|| {
        let all: Vec<&str> = QUERIES.iter().map(|it| it.name).collect();
        Failure::usage(format!(
            "{name}: no such query: expected {}",
            all.join(", ")
        ))
    })?;
    let dataset = Dataset::located(&flags.dataset).map_err(Failure::setup)?;
    let views = punctual_fleet::Engine::from(flags.engine).views(&dataset);
    out::print(&format!("{views}\n{};\n", query.sql.trim_end()));
    Ok(ExitCode::SUCCESS)
}
