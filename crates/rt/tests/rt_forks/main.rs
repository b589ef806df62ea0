//! Tests of the library in children of a fork, one at a time. A child has a copy of the stacks of
//! the whole process, and only of the thread that forks: other threads should hold no lock then.

#[path = "../../../punctual/tests/common/needs.rs"]
mod needs;
#[path = "../stack_support/mod.rs"]
mod stack_support;

mod errors;
mod memory_cgroup;
mod stack_fork;
mod stack_guard;
