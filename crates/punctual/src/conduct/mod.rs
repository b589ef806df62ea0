//! Conducts a measuring run: brings probes, loads and conditions together, and
//! keeps the record.
//!
//! It prints nothing: whoever asked for the run is told through an [`Observer`].

mod blocks;
pub mod breach;
mod compose;
mod culprits;
mod error;
mod explain;
mod gather;
mod housekeeper;
mod keeping;
mod observer;
mod outliers;
mod pace;
mod plan;
mod prepare;
mod sampling;
mod session;
mod setup;
mod signals;
mod stops;
mod time_limit;
mod tracers;
mod view;
mod watch;

pub use error::ConductError;
pub use explain::WINDOWS_FILE;
pub use gather::Gathering;
pub use observer::Observer;
pub use plan::Plan;
pub use session::conduct;
pub use signals::{Signals, survive_long_files};
pub use watch::{Target, WatchPlan, watch};
