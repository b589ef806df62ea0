//! Tests of the library that may run beside each other: they count nothing that another thread of
//! the process changes, and start what they measure as a program of its own.

#[path = "../channel_support/mod.rs"]
mod channel_support;
#[path = "../../../punctual/tests/common/needs.rs"]
mod needs;

mod channel_lossy;
mod channel_peers;
mod condvar_loom;
mod documents;
mod heap;
mod irq_steering;
mod records_loom;
mod rt_examples;
mod stack_debug;
mod stack_examples;
mod stack_loom;
