//! What a real-time program on Linux needs, and what punctual's own probes run on.
//!
//! Every function says whether a real-time thread may call it. *Real-time safe*
//! means: bounded, no allocation, no lock, no page fault once its arguments are
//! resident, and no system call but the one it is named after.

pub mod advice;
pub mod affinity;
pub mod channel;
pub mod clock;
pub mod cpulist;
pub mod cpuset;
pub mod heap;
pub mod irq;
pub mod log;
pub mod memory;
pub mod periodic;
pub mod records;
pub mod ring;
pub mod sched;
pub mod stack;
pub mod sync;
pub mod sys;
pub mod thread;
pub mod watchpoint;

/// Its example is compiled.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
mod readme {}
