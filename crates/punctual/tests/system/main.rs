//! The machine as it is read, from recorded trees.

mod cpus;
mod demands;
mod support;
mod survey;
mod watch;
