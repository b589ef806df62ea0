//! Reads a machine: what it is, which of its settings fit real-time work, and what would fix the
//! others.
//!
//! Everything is read through a [`Root`]: the live machine, a recorded tree, or a
//! [`Snapshot`]. Readers are total. Nothing here prints, and only [`tune`] changes
//! anything.
//!
//! ```no_run
//! use punctual_machine::{CheckRequest, Root, check};
//!
//! let found = check(&Root::live(), &CheckRequest::default());
//! assert!(!found.kernel.is_empty());
//! ```

mod audit;
mod check;
pub mod config;
mod findings;
mod isolated;
mod kernel_log;
mod look;
mod mask;
mod netlink;
mod outcome;
mod parameter;
mod posix;
pub mod queueing;
pub mod root;
mod sample;
mod snapshot;
pub mod survey;
mod tasks;
pub mod tune;
mod version;

pub use check::{CheckRequest, check, differences};
pub use findings::PARAMETERS as REAL_TIME_PARAMETERS;
pub use root::{READ_LIMIT, Reader, Root};
pub use snapshot::{SNAPSHOT_LIMIT, SNAPSHOT_VERSION, Snapshot, SnapshotError};
