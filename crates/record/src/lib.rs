//! The versioned run directory: written by one half of the tool, read by the other.

#![forbid(unsafe_code)]

mod beginning;
mod begun;
mod blocks;
mod bounds;
pub mod budget;
pub mod condition;
pub mod conditions;
pub mod cost;
pub mod cpus;
mod cross;
pub mod directory;
pub mod document;
mod earlier;
pub mod error;
pub mod event;
pub mod evidence;
pub mod experiment;
pub mod explanation;
mod field;
pub mod files;
pub mod finding;
pub mod fit;
pub mod fleet;
mod gaps;
pub mod interference;
pub mod invalid;
pub mod judgement;
pub mod lab;
pub mod laboratory;
pub mod ladder;
pub mod ledger;
pub mod live;
mod load;
pub mod merge;
mod named;
pub mod parquet;
pub mod path;
mod peaks;
mod placement;
pub mod proc_stat;
pub mod proc_status;
pub mod read;
pub mod remedy;
pub mod run;
pub mod samples;
pub mod scan;
#[cfg(feature = "schema")]
pub mod schema;
mod stops;
pub mod system;
pub mod taskset;
pub mod text;
pub mod time;
pub mod tuning;
mod unavailable;
mod unread;
mod unsaved;
mod validate;
pub mod watch;

pub use beginning::Beginning;
pub use blocks::{Blocking, Blocks};
pub use condition::{Condition, Demand, Fix, Scheduling, Standing};
pub use cpus::{cpu_list, cpu_mask};
pub use cross::{CrossCheck, CrossCheckFault, CrossFigure, CrossFigureName, KernelTracer};
pub use directory::RunDirectory;
pub use document::Document;
pub use error::RecordError;
pub use event::{Ending, Event, Happening, State};
pub use evidence::Evidence;
pub use explanation::{Bill, BillRow, Cause, Explanation, Stage, StageTimes};
pub use field::Field;
pub use gaps::{Gaps, Method, Subject, Watched};
pub use invalid::{InvalidReason, LoadFault, MarkFault, experiment_faults, invalid_reasons};
pub use judgement::{Judgement, ThreadName, analyse_record};
pub use ledger::Ledger;
pub use load::{IDLE_SHARE, LoadFailure, WorkCheck};
pub use merge::{MergeError, Merger, beginnings, merge};
pub use named::{Hypervisor, KernelCall, RunSource};
pub use placement::{Chosen, Placement};
pub use read::read_each;
pub use run::*;
pub use samples::{Sample, SampleWriter};
pub use stops::{Stop, StopCause, Stops};
pub use system::SystemState;
pub use unavailable::{ProbeRefusal, TracingPart, TracingStep, Unavailable};
pub use unread::{Unread, UnreadReason};
pub use unsaved::{MissingSamples, Unsaved, UnsavedPart, UnsavedReason};

/// For counts that are left out of a record where there are none.
fn is_zero(count: &u64) -> bool {
    *count == 0
}
