//! Loads: what keeps a machine busy while its latency is measured.
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
//! A load that did nothing or broke says so in its [`LoadReport`]: latency
//! measured beside it proves nothing.
#![allow(unsafe_code, reason = "the loads' system calls and shared memory")]

pub mod board;
pub mod generator;
pub mod memory;
pub mod spec;
pub mod standard;
pub mod worker;

mod area;
mod command;
mod cpu;
mod files;
mod fork;
mod hackbench;
mod look;
mod mmap;
mod net;
mod paths;
mod running;
mod set;
mod supervisor;
mod sys;
mod timers;
mod tree;

pub use generator::{ALL, Generator, Parameter};
pub use hackbench::{classic_item, classic_line};
pub use look::{LEAST_CPU_NS, Pause};
pub use paths::{KERNEL_PATHS, KERNEL_PATHS_NAME};
pub use set::{
    LoadClass, LoadError, LoadReport, LoadSet, LoadSettings, LoadStatus, allowed_cpus, standalone,
};
pub use spec::{LoadItem, LoadSpec};
