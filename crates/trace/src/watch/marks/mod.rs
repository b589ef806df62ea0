//! Marks: places in a program that its threads pass, seen by probes that the kernel puts there
//! (uprobes). Each thread's passes are counted in the kernel; how long it took from one to the
//! next, or from one place to another, comes out of a ring.

use std::path::PathBuf;

use super::Other;

pub mod find;
pub mod image;
#[cfg(feature = "kernel")]
mod kernel;
pub mod spec;

#[cfg(feature = "kernel")]
pub use kernel::Marking;

#[cfg(not(feature = "kernel"))]
pub use absent::Marking;

#[cfg(not(feature = "kernel"))]
mod absent {
    //! A program that was built without tracing.
    #![allow(missing_docs, reason = "the functions of the module that traces")]
    use super::{Mark, Passed, Passes, Unseen};
    use crate::capture::Unavailable;

    /// There is none.
    pub enum Marking {}

    impl Marking {
        pub fn start(_: u32, _: u32, _: bool, _: &[Mark]) -> Result<Self, Unavailable> {
            Err(super::super::built_without())
        }
        pub fn refused(&self) -> &[Option<Unavailable>] {
            match *self {}
        }
        pub fn drain(&mut self) -> Vec<Passed> {
            match *self {}
        }
        pub fn passes(&self) -> Vec<Passes> {
            match *self {}
        }
        pub fn unseen(&self) -> Vec<Unseen> {
            match *self {}
        }
        pub fn forget(&mut self, _: &Passes) {
            match *self {}
        }
    }
}

/// A mark whose places are known.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Mark {
    /// What to call it.
    pub name: String,
    /// What is marked, as it was written.
    pub text: String,
    /// One place, measured from one time to the next; else from one place to another.
    pub is_point: bool,
    /// Where it is, all of its places.
    pub sites: Vec<Site>,
}

/// One place in a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Site {
    /// The file, as it is reached from here.
    pub path: PathBuf,
    /// Bytes from its beginning to the instruction.
    pub offset: u64,
    /// Bytes from its beginning to the count that must be above 0 meanwhile; 0: none.
    pub semaphore: u32,
    /// What it is to the mark.
    pub role: Role,
}

/// What a place is to its mark: `enum role` in `bpf/marks.bpf.c`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Role {
    /// It is passed again and again.
    Point = 0,
    /// What is measured begins there.
    Begin = 1,
    /// And ends there.
    End = 2,
    /// A function that is measured is entered.
    Call = 3,
    /// And left.
    Return = 4,
}

/// A thread has passed a mark.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Passed {
    /// Which, by its place among those that were asked for.
    pub mark: u32,
    /// The thread.
    pub tid: u32,
    /// When that began to live.
    pub started_ns: u64,
    /// When it passed.
    pub at_ns: u64,
    /// What is known of the time before; absent for the first pass of a point.
    pub length: Option<Length>,
}

/// From one pass to the next, or from one place to another.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Length {
    /// How long.
    pub ns: u64,
    /// How much of it the thread was ready to run and had no CPU, where the kernel knows.
    pub waited_ns: Option<u64>,
    /// How often it was preempted meanwhile.
    pub preempted: u32,
    /// How often it went to sleep.
    pub slept: u32,
    /// Its page faults.
    pub faults: u64,
}

/// The counts of one thread at one mark.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Passes {
    /// Which mark.
    pub mark: u32,
    /// The thread, as it passed last.
    pub task: Other,
    /// When it began to live.
    pub started_ns: u64,
    /// How often it passed; of a pair or a function, how often it came to its end.
    pub count: u64,
    /// Begun, and begun again before the end.
    pub unfinished: u64,
    /// Ended, and not begun.
    pub unmatched: u64,
}

/// Passes of one mark that are not kept apart.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Unseen {
    /// By threads that aren't watched.
    pub unwatched: u64,
    /// By threads that found no room.
    pub beyond: u64,
}
