//! Conducts runs, watches and labs: brings probes, loads and conditions together, and
//! keeps the record.
//!
//! It prints nothing: what happens is told to an [`Observer`].

mod blocks;
pub mod breach;
mod compose;
pub mod cost;
mod culprits;
mod error;
mod exec;
mod experiment;
mod explain;
pub mod fit;
pub mod fleet;
mod housekeeper;
pub mod interference;
mod keeping;
pub mod lab;
pub mod ladder;
pub mod observer;
mod outliers;
pub mod overheads;
pub mod path;
mod plan;
pub mod prove;
mod run;
mod signals;
mod under_way;
mod watch;
pub mod wrap;

pub use error::ConductError;
pub use exec::{ExecError, ExecPlan, exec};
pub use experiment::{Design, pilot_slots};
pub use explain::WINDOWS_FILE;
pub use observer::{Observed, Observer};
pub use plan::{Claim, TracingPlan};
pub use run::{Companion, ConditionsPlan, LoadPlan, ProbePlan, RunPlan, TunePlan, run};
pub use signals::{Signals, survive_long_files};
pub use watch::{Scope, Target, WatchPlan, watch};

/// This program, as records name it.
#[must_use]
pub fn this_tool() -> punctual_record::Tool {
    punctual_record::Tool {
        name: "punctual".to_owned(),
        version: env!("CARGO_PKG_VERSION").to_owned(),
    }
}
