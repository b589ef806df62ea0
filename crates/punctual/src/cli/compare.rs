//! `compare`: two runs, several on each side, or the CPUs of one.

use std::path::PathBuf;
use std::process::ExitCode;

use serde::Serialize;

use super::failure::Failure;
use super::flags::CompareFlags;
use super::looking::read;
use super::out;
use punctual_record::Run;
use punctual_report::compare::{
    TextStyle, compare, compare_cpus, compare_headline, compare_text, cpus_headline, cpus_text,
};
use punctual_report::explain::against_text;
use punctual_report::summary_json::headed;

/// The word that opens the JSON, and its version.
const FORMAT: (&str, u32) = ("punctual-compare", 1);

/// What is compared with what.
#[derive(Debug, PartialEq)]
enum Compared<'a> {
    Cpus(&'a PathBuf),
    Sides(&'a [PathBuf], &'a [PathBuf]),
}

fn compared(flags: &CompareFlags) -> Result<Compared<'_>, Failure> {
    match (flags.first.as_slice(), flags.second.as_slice()) {
        ([], []) => Err(Failure::usage(
            "expected two runs (A B), several on each side (A1 A2 -- B1 B2), or one run, whose \
             CPUs are compared",
        )),
        ([run], []) => Ok(Compared::Cpus(run)),
        // `--` before names that begin with a dash.
        ([], [run]) => Ok(Compared::Cpus(run)),
        ([first, second], []) | ([], [first, second]) => Ok(Compared::Sides(
            std::slice::from_ref(first),
            std::slice::from_ref(second),
        )),
        (more, []) | ([], more) => Err(Failure::usage(format!(
            "{} runs: write `--` between those of A and those of B (A1 A2 -- B1 B2)",
            more.len()
        ))),
        (first, second) => Ok(Compared::Sides(first, second)),
    }
}

/// Compares.
///
/// # Errors
/// What can't be read, or does not go together.
pub fn compare_runs(flags: &CompareFlags) -> Result<ExitCode, Failure> {
    let style = TextStyle {
        colour: out::style().colour,
        ..TextStyle::default()
    };
    match compared(flags)? {
        Compared::Cpus(path) => {
            let run = read(path)?;
            let failure = |why| Failure::setup(format!("{}: {why}", path.display()));
            let cpus = compare_cpus(&run, flags.confidence).map_err(failure)?;
            let text = if flags.json {
                printed(
                    &cpus,
                    &[("kind", "cpus"), ("headline", &cpus_headline(&cpus))],
                )
            } else {
                cpus_text(&cpus, style)
            };
            out::print(&text);
        }
        Compared::Sides(first, second) => {
            let all = |paths: &[PathBuf]| -> Result<Vec<Run>, Failure> {
                paths.iter().map(|path| read(path)).collect()
            };
            let (first, second) = (all(first)?, all(second)?);
            let comparison = compare(&first, &second, flags.confidence).map_err(Failure::setup)?;
            if flags.json {
                let headline = compare_headline(&comparison);
                out::print(&printed(
                    &comparison,
                    &[("kind", "runs"), ("headline", &headline)],
                ));
                return Ok(ExitCode::SUCCESS);
            }
            let mut text = compare_text(&comparison, style);
            if let ([first], [second]) = (first.as_slice(), second.as_slice()) {
                let causes = against_text(first, second, &out::style());
                if !causes.is_empty() {
                    text.push('\n');
                    causes.iter().for_each(|line| text.extend([line, "\n"]));
                }
            }
            out::print(&text);
        }
    }
    Ok(ExitCode::SUCCESS)
}

/// The facts with their headline.
fn printed(facts: &impl Serialize, words: &[(&str, &str)]) -> String {
    headed(facts, FORMAT, words)
}
