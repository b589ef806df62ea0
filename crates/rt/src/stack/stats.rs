//! How many stacks there are, and what became of them.

use std::sync::atomic::{AtomicU64, Ordering};

use super::class::Class;
use super::pool::{COUNTS, TABLE};
use super::word::State;

/// A count that many threads add to.
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

/// What happened on the slow paths of one class. A hit counts nothing: it would cost more
/// than the hit.
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

/// The stacks of one class. Exact when no other thread allocates or frees meanwhile.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Stats {
    /// Bytes of one stack of the class, guards not counted.
    pub size: usize,
    /// Stacks in use, those with a thread known to run on them included.
    pub used: usize,
    /// Those with a thread known to run on them.
    pub live: usize,
    /// Free stacks that threads keep for themselves.
    pub kept: usize,
    /// Free stacks in the depot.
    pub stored: usize,
    /// Stacks made since the start: each took the kernel's time, and a page fault per page.
    pub made: u64,
    /// Stacks given back to the kernel since the start.
    pub unmapped: u64,
    /// Allocations since the start that took a stack which another thread had kept.
    pub stolen: u64,
}

impl Stats {
    /// The stacks of `class` as they are now.
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

    /// Free stacks: allocations of this class that won't reach the kernel.
    pub fn free(&self) -> usize {
        self.kept + self.stored
    }
}
