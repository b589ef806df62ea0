//! The JSON schemas of what is saved and printed, from the types themselves.

use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde_json::Value;

use super::budget::{BUDGET_VERSION, Budget};
use super::cost::{COST_VERSION, Cost};
use super::finding::{CHECK_VERSION, Check};
use super::fit::{FIT_VERSION, Fit};
use super::interference::{INTERFERENCE_VERSION, Interference};
use super::lab::{LAB_VERSION, Lab};
use super::ladder::{LADDER_VERSION, Ladder};
use super::run::{Run, VERSION};
use super::taskset::analysis::{ANALYSIS_VERSION, SetAnalysis};

/// All of them, each with its name and version: `run-2`.
#[must_use]
pub fn all() -> Vec<(String, Value)> {
    vec![
        described::<Run>(
            "run",
            VERSION,
            "punctual run record",
            "run.json in a run directory. Times are nanoseconds. Fields that are not named here may \
             stand in records of later programs and are ignored.",
        ),
        described::<Lab>(
            "lab",
            LAB_VERSION,
            "punctual lab record",
            "lab.json in the directory of a lab. Times are nanoseconds. Fields that are not named \
             here may stand in records of later programs and are ignored.",
        ),
        described::<Check>(
            "check",
            CHECK_VERSION,
            "punctual check",
            "What `punctual check --json` prints. Fields that are not named here may stand in that \
             of later programs and are ignored.",
        ),
        described::<Fit>(
            "fit",
            FIT_VERSION,
            "punctual fit",
            "fit.json in the directory of a fit. Times are nanoseconds. Fields that are not named \
             here may stand in those of later programs and are ignored.",
        ),
        described::<Ladder>(
            "ladder",
            LADDER_VERSION,
            "punctual ladder",
            "ladder.json in the directory of a ladder. Times are nanoseconds. Fields that are not \
             named here may stand in those of later programs and are ignored.",
        ),
        described::<Cost>(
            "cost",
            COST_VERSION,
            "punctual cost",
            "cost.json in the directory of a cost. Times are nanoseconds. Fields that are not named \
             here may stand in those of later programs and are ignored.",
        ),
        described::<Budget>(
            "budget",
            BUDGET_VERSION,
            "punctual budget",
            "What `punctual budget --json` prints. Times are nanoseconds. Fields that are not named \
             here may stand in that of later programs and are ignored.",
        ),
        described::<SetAnalysis>(
            "analysis",
            ANALYSIS_VERSION,
            "punctual analysis of a task set",
            "What `punctual exec --analyse --json` prints. Times are nanoseconds; tasks and locks \
             are named by their index. Fields that are not named here may stand in that of later \
             programs and are ignored.",
        ),
        described::<Interference>(
            "interference",
            INTERFERENCE_VERSION,
            "punctual interference",
            "interference.json beside the record of its watch, and what `punctual interference \
             --json` prints. Times are nanoseconds. Fields that are not named here may stand in \
             that of later programs and are ignored.",
        ),
    ]
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
