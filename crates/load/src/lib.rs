//! Loads: they keep a machine busy while its latency is measured.
//!
//! [`LoadSpec`] says which loads, [`LoadSettings`] how; [`LoadSet`] starts,
//! watches and stops them. Each load is a tree of processes:
//!
//! ```text
//! controller            holds a socket to each supervisor
//!   supervisor          subreaper; waits for the end of the load or of the socket
//!     worker            killed by the kernel when the supervisor dies
//!       process ...     killed by the kernel when the worker dies
//! ```
//!
//! However the controller ends, also by `kill -9`, the kernel closes its end
//! of the socket; the supervisor then kills what descends from it until
//! nothing does, and removes the load's files.
//!
//! The [`LoadReport`] of a load says if it did nothing or failed: a latency measured without its
//! load proves nothing.

//! From top to bottom: [`LoadSet`] and the supervisors; [`registry`], the list of the
//! generators; the generators; what they work with (context, board, areas of memory, system
//! calls). No layer refers to a layer above it.

pub mod board;
pub mod generator;
pub mod memory;
pub mod parameter;
pub mod registry;
pub mod spec;
pub mod standard;
pub mod worker;

mod area;
mod class;
mod classic;
mod command;
mod context;
mod error;
mod generators;
mod item;
mod job;
mod kernel_paths;
mod limits;
mod look;
mod report;
mod running;
mod set;
mod settings;
mod supervisor;
mod sys;
mod tree;

pub use area::Area;
pub use class::{LoadClass, UnknownClass};
pub use classic::{classic_item, classic_line};
pub use context::Context;
pub use error::{LoadError, SpecError, WorkError};
pub use generator::Generator;
pub use item::LoadItem;
pub use kernel_paths::{KERNEL_PATHS, KERNEL_PATHS_NAME};
pub use look::{LEAST_CPU_NS, Pause};
pub use parameter::Parameter;
pub use registry::ALL;
pub use report::{LoadReport, LoadStatus};
pub use set::{LoadSet, standalone};
pub use settings::{LoadSettings, allowed_cpus};
pub use spec::LoadSpec;
pub use sys::{Ended, become_subreaper, fork_child, wait};
pub use tree::{end_descendants, kill_descendants, kill_marked};
