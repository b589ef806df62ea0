//! Tests of the library that run one at a time, because they count what the process has or does:
//! free stacks, page faults, calls of the allocator, resident memory; or because they use up what
//! there is little of: CPUs, watchpoints. Each takes its turn with [`stack_support::alone`].
//!
//! No test here forks: a fork makes every page of the process copy-on-write, and each thread faults
//! again at its next write, also in later tests. Those that fork are in `rt_forks`.

#[path = "../channel_support/mod.rs"]
mod channel_support;
mod counting;
#[path = "../../../punctual/tests/common/needs.rs"]
mod needs;
#[path = "../stack_support/mod.rs"]
mod stack_support;

mod channel_path;
mod cpuset_sets;
mod inversion;
mod rt_fast;
mod stack_core;
mod stack_fast;
mod stack_inspect;
mod stack_model;
mod stack_storm;
mod watchpoint_hits;
