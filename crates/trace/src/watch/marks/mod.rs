//! Marks: places in a program that its threads pass, recorded by probes that the kernel puts there
//! (uprobes). Each thread's passes are counted in the kernel; how long it took from one to the
//! next, or from one place to another, is read from a ring.

use std::path::PathBuf;

use super::Other;

pub mod error;
pub mod find;
pub mod image;
#[cfg(feature = "kernel")]
mod kernel;
pub mod preset;
pub mod spec;

#[cfg(feature = "kernel")]
pub use kernel::ActiveMarks;

#[cfg(not(feature = "kernel"))]
pub use absent::ActiveMarks;

#[cfg(not(feature = "kernel"))]
mod absent {
    //! For a program that was built without tracing.
    #![allow(missing_docs, reason = "the functions of the module that traces")]
    use super::{Mark, MarkCounts, MarkPass, Unseen};
    use crate::capture::Unavailable;

    /// It can't exist.
    pub enum ActiveMarks {}

    impl ActiveMarks {
        pub fn start(_: u32, _: u32, _: bool, _: &[Mark]) -> Result<Self, Unavailable> {
            Err(super::super::built_without())
        }
        pub fn refused(&self) -> &[Option<Unavailable>] {
            match *self {}
        }
        pub fn drain(&mut self) -> Vec<MarkPass> {
            match *self {}
        }
        pub fn passes(&self) -> Vec<MarkCounts> {
            match *self {}
        }
        pub fn unseen(&self) -> Vec<Unseen> {
            match *self {}
        }
        pub fn forget(&mut self, _: &MarkCounts) {
            match *self {}
        }
    }
}

/// A mark whose places are known.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Mark {
    /// Its name.
    pub name: String,
    /// The marked place as the user wrote it.
    pub text: String,
    /// A single place, measured from one pass to the next; otherwise from one place to another.
    pub is_point: bool,
    /// Where it is, all of its places.
    pub sites: Vec<Site>,
}

/// One place in a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Site {
    /// The file, by the path through which we reach it.
    pub path: PathBuf,
    /// Offset of the instruction in the file.
    pub offset: u64,
    /// Offset of the semaphore that must be above 0 meanwhile; 0: none.
    pub semaphore: u32,
    /// The place's role in the mark.
    pub role: Role,
}

/// The role of a place in its mark: `enum role` in `bpf/marks.bpf.c`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Role {
    /// Measured from one pass to the next.
    Point = 0,
    /// The measurement begins there.
    Begin = 1,
    /// The measurement ends there.
    End = 2,
    /// The entry of a measured function.
    Call = 3,
    /// The return of a measured function.
    Return = 4,
}

/// A thread has passed a mark.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MarkPass {
    /// The index of the mark among the requested ones.
    pub mark: u32,
    /// The thread.
    pub tid: u32,
    /// When that thread was started.
    pub started_ns: u64,
    /// When it passed.
    pub at_ns: u64,
    /// What is known of the time before; absent for the first pass of a single place.
    pub length: Option<MarkLength>,
}

/// From one pass to the next, or from one place to another.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MarkLength {
    /// How long.
    pub ns: u64,
    /// For how much of it the thread was ready and had no CPU, if the kernel knows.
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
pub struct MarkCounts {
    /// Which mark.
    pub mark: u32,
    /// The thread at its last pass.
    pub task: Other,
    /// When it was started.
    pub started_ns: u64,
    /// How often it passed; for a pair or a function, how often it reached the end.
    pub count: u64,
    /// Begun, and begun again before the end; or calls nested too deep.
    pub unfinished: u64,
    /// Ended, but not begun.
    pub unmatched: u64,
    /// Since when the outermost has begun and not ended.
    pub open_since_ns: Option<u64>,
}

/// Passes of one mark that are not counted by thread.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Unseen {
    /// By threads that aren't watched.
    pub unwatched: u64,
    /// By threads that exceeded the map's size.
    pub no_room: u64,
}
