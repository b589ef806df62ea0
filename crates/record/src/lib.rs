//! The versioned run directory: written by one half of the tool, read by the other.

#![forbid(unsafe_code)]

mod begun;
mod blocks;
mod bounds;
pub mod condition;
pub mod conditions;
pub mod cpus;
mod cross;
pub mod directory;
pub mod error;
pub mod event;
pub mod evidence;
pub mod explanation;
mod field;
pub mod files;
mod gaps;
pub mod invalid;
pub mod judgement;
pub mod lab;
pub mod laboratory;
pub mod ledger;
pub mod live;
mod load;
pub mod merge;
mod peaks;
mod placement;
pub mod proc_stat;
pub mod read;
pub mod run;
pub mod samples;
pub mod scan;
#[cfg(feature = "schema")]
pub mod schema;
mod stops;
pub mod system;
pub mod text;
pub mod time;
mod unavailable;
mod validate;
pub mod watch;

pub use blocks::{Blocking, Blocks};
pub use condition::{Condition, Demand, Fix, Scheduling, Standing};
pub use cpus::cpu_list;
pub use cross::{CrossCheck, CrossFigure};
pub use directory::{RUN_FILE, RunDirectory};
pub use error::RecordError;
pub use event::{Ending, Event, Happening, State};
pub use evidence::Evidence;
pub use explanation::{Bill, BillRow, Cause, Explanation, Stage, StageTimes};
pub use field::Field;
pub use gaps::{Gaps, Method, Subject, Watched};
pub use invalid::{InvalidReason, LoadFault, MarkFault, invalid_reasons};
pub use judgement::{Judgement, analyse_record};
pub use ledger::Ledger;
pub use load::{IDLE_SHARE, WorkCheck};
pub use merge::{MergeError, Merger, merge};
pub use placement::{Chosen, Placement};
pub use read::validated;
pub use read::{parse, read, read_each};
pub use run::*;
pub use samples::{Sample, SampleWriter};
pub use stops::{Stop, StopCause, Stops};
pub use system::SystemState;
pub use unavailable::{ProbeRefusal, TracingPart, TracingStep, Unavailable};
