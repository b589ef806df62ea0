//! The laboratory: real kernels in virtual time, where figures repeat bit for bit.
//!
//! A cell is one kernel, one load, one seed. [`cell`] makes it: an [`initramfs`] with this
//! very binary as its first process ([`guest`]), a QEMU ([`machine`]) that counts
//! instructions instead of time, and what the guest hands out ([`channel`]).

pub mod board;
pub mod bound;
pub mod bring;
pub mod cell;
pub mod channel;
pub mod error;
pub mod guest;
pub mod guest_program;
pub mod initramfs;
pub mod job;
pub mod kernel;
pub mod libraries;
pub mod machine;
pub mod observer;
mod plugin;
mod processor;
pub mod program_error;
pub mod qemu;
pub mod room;
pub mod rootfs;
mod sys;
pub mod work;

pub use cell::{CellPlan, CellResult, Watcher};
pub use error::LabError;
pub use program_error::ProgramError;
pub use qemu::{Qemu, QemuFault};
