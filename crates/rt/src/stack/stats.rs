//! Statistics of the allocator.

use std::sync::atomic::{AtomicU64, Ordering};

use super::class::Class;
use super::pool::{COUNTS, TABLE};
use super::word::State;

/// A counter that many threads add to.
pub(super) struct Count(AtomicU64);

impl Count {
    const fn new() -> Self {
        Self(AtomicU64::new(0))
    }

    pub(super) fn add(&self, more: u64) {
        self.0.fetch_add(more, Ordering::Relaxed);
    }

    fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// Counts of the slow paths of one class. A fast allocation isn't counted: counting would cost
/// more than the allocation.
pub(super) struct Counts {
    pub(super) made: Count,
    pub(super) unmapped: Count,
    pub(super) stolen: Count,
}

impl Counts {
    pub(super) const fn new() -> Self {
        Self {
            made: Count::new(),
            unmapped: Count::new(),
            stolen: Count::new(),
        }
    }
}

/// The stacks of one class. Exact while no other thread allocates or frees.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Stats {
    /// Bytes of one stack of the class, without guards.
    pub size: usize,
    /// Stacks in use, including those with a thread known to run on them.
    pub used: usize,
    /// Stacks with a thread known to run on them.
    pub live: usize,
    /// Free stacks that threads keep for themselves.
    pub kept: usize,
    /// Free stacks in the depot.
    pub stored: usize,
    /// Stacks mapped since the start: each costs kernel time, and a page fault per page.
    pub made: u64,
    /// Stacks returned to the kernel since the start.
    pub unmapped: u64,
    /// Allocations since the start that stole a stack from another thread's magazine.
    pub stolen: u64,
}

impl Stats {
    /// The current counts of `class`.
    ///
    /// A real-time thread may call it, with care: no lock, no system call, but a walk over
    /// all headers, some 4 ns for each.
    pub fn of(class: Class) -> Self {
        let counts = &COUNTS[class.index()];
        let mut stats = Self {
            size: class.size(),
            made: counts.made.get(),
            unmapped: counts.unmapped.get(),
            stolen: counts.stolen.get(),
            ..Self::default()
        };
        for (_, word) in TABLE.stacks().filter(|(_, word)| word.class() == class) {
            match word.state() {
                Some(State::Used) => stats.used += 1,
                Some(State::Live) => {
                    stats.used += 1;
                    stats.live += 1;
                }
                Some(State::Kept) => stats.kept += 1,
                Some(State::Stored) => stats.stored += 1,
                Some(State::Moving | State::Gone) | None => {}
            }
        }
        stats
    }

    /// Free stacks: allocations of this class that don't need the kernel.
    pub fn free(&self) -> usize {
        self.kept + self.stored
    }
}
