//! The load generators, one file each. They count their work on the board and do not depend on the
//! processes above them: [`crate::registry`] lists them, and they do not refer to it.

pub mod cpu;
pub mod files;
pub mod fork;
pub mod hackbench;
pub mod kill;
pub mod memory;
pub mod mmap;
pub mod net;
pub mod poll;
pub mod proc;
pub mod timers;
pub mod truncate;
