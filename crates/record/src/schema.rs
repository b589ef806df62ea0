//! The JSON schemas of what is saved and printed, from the types themselves.

use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde_json::Value;

use super::budget::Budget;
use super::cost::Cost;
use super::document::{Document, Printed};
use super::finding::Check;
use super::fit::Fit;
use super::interference::Interference;
use super::lab::Lab;
use super::ladder::Ladder;
use super::run::Run;
use super::taskset::analysis::SetAnalysis;

/// What a reader of any of them must know.
const UNNAMED: &str = "Times are nanoseconds. Fields that are not named here may be in those of later \
                       programs and are ignored.";

/// All of them, each with its name and version: `run-2`.
#[must_use]
pub fn all() -> Vec<(String, Value)> {
    vec![
        saved::<Run>("a run directory"),
        saved::<Lab>("the directory of a lab"),
        saved::<Fit>("the directory of a fit"),
        saved::<Ladder>("the directory of a ladder"),
        saved::<Cost>("the directory of a cost"),
        printed::<Check>("What `punctual check --json` prints."),
        printed::<Budget>("What `punctual budget --json` prints."),
        printed::<SetAnalysis>(
            "What `punctual exec --analyse --json` prints; tasks and locks are named by their index.",
        ),
        printed::<Interference>(
            "interference.json beside the record of its watch, and what `punctual interference \
             --json` prints.",
        ),
    ]
}

fn saved<D: Document + JsonSchema>(within: &str) -> (String, Value) {
    let what = format!("{} in {within}. {UNNAMED}", D::FILE);
    of_format::<D>(D::FORMAT, D::VERSION, &what)
}

fn printed<P: Printed + JsonSchema>(what: &str) -> (String, Value) {
    of_format::<P>(P::FORMAT, P::VERSION, &format!("{what} {UNNAMED}"))
}

fn of_format<T: JsonSchema>(format: &str, version: u32, description: &str) -> (String, Value) {
    let name = format.trim_start_matches("punctual-");
    described::<T>(name, version, &format!("punctual {name}"), description)
}

/// The schema of a type, named and described.
pub fn described<T: JsonSchema>(
    name: &str,
    version: u32,
    title: &str,
    description: &str,
) -> (String, Value) {
    let mut schema: Schema = SchemaGenerator::default().into_root_schema_for::<T>();
    let title = format!("{title}, version {version}");
    schema.insert("title".to_owned(), title.into());
    schema.insert("description".to_owned(), description.into());
    (format!("{name}-{version}"), schema.to_value())
}
