//! The JSON schemas of what is saved, from the types themselves.

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

/// That of `run.json`.
#[must_use]
pub fn run() -> Value {
    described::<Run>(
        &format!("punctual run record, version {VERSION}"),
        "run.json in a run directory. Times are nanoseconds. Fields that are not named here may \
         stand in records of later programs and are ignored.",
    )
}

/// That of `lab.json`.
#[must_use]
pub fn lab() -> Value {
    described::<Lab>(
        &format!("punctual lab record, version {LAB_VERSION}"),
        "lab.json in the directory of a lab. Times are nanoseconds. Fields that are not named here \
         may stand in records of later programs and are ignored.",
    )
}

/// That of `punctual check --json`.
#[must_use]
pub fn check() -> Value {
    described::<Check>(
        &format!("punctual check, version {CHECK_VERSION}"),
        "What `punctual check --json` prints. Fields that are not named here may stand in that of \
         later programs and are ignored.",
    )
}

/// That of `fit.json`.
#[must_use]
pub fn fit() -> Value {
    described::<Fit>(
        &format!("punctual fit, version {FIT_VERSION}"),
        "fit.json in the directory of a fit. Times are nanoseconds. Fields that are not named here \
         may stand in those of later programs and are ignored.",
    )
}

/// That of `ladder.json`.
#[must_use]
pub fn ladder() -> Value {
    described::<Ladder>(
        &format!("punctual ladder, version {LADDER_VERSION}"),
        "ladder.json in the directory of a ladder. Times are nanoseconds. Fields that are not named \
         here may stand in those of later programs and are ignored.",
    )
}

/// That of `cost.json`.
#[must_use]
pub fn cost() -> Value {
    described::<Cost>(
        &format!("punctual cost, version {COST_VERSION}"),
        "cost.json in the directory of a cost. Times are nanoseconds. Fields that are not named here \
         may stand in those of later programs and are ignored.",
    )
}

/// That of `punctual budget --json`.
#[must_use]
pub fn budget() -> Value {
    described::<Budget>(
        &format!("punctual budget, version {BUDGET_VERSION}"),
        "What `punctual budget --json` prints. Times are nanoseconds. Fields that are not named here \
         may stand in that of later programs and are ignored.",
    )
}

/// That of `punctual exec --analyse --json`.
#[must_use]
pub fn analysis() -> Value {
    described::<SetAnalysis>(
        &format!("punctual analysis of a task set, version {ANALYSIS_VERSION}"),
        "What `punctual exec --analyse --json` prints. Times are nanoseconds; tasks and locks are named \
         by their index. Fields that are not named here may stand in that of later programs and are \
         ignored.",
    )
}

/// That of `interference.json`.
#[must_use]
pub fn interference() -> Value {
    described::<Interference>(
        &format!("punctual interference, version {INTERFERENCE_VERSION}"),
        "interference.json beside the record of its watch, and what `punctual interference --json` \
         prints. Times are nanoseconds. Fields that are not named here may stand in that of later \
         programs and are ignored.",
    )
}

fn described<T: JsonSchema>(title: &str, description: &str) -> Value {
    let mut schema: Schema = SchemaGenerator::default().into_root_schema_for::<T>();
    schema.insert("title".to_owned(), title.into());
    schema.insert("description".to_owned(), description.into());
    schema.to_value()
}
