//! The machine as it is read, from recorded trees.

mod cpus;
mod demands;
mod process;
mod support;
mod survey;
mod watch;
