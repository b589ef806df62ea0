//! Places of a program that its threads passed, and how long that took.

use punctual_stats::histogram::{Histogram, HistogramRecord};
use punctual_stats::lengths::LengthEvidence;
use serde::{Deserialize, Serialize};

use super::{WatchedTask, add_histogram};
use crate::bounds::{Broken, at_most, ensure, histogram};
use crate::{Unavailable, is_zero};

/// A mark of a watched program.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct WatchedMark {
    /// What it is called.
    pub name: String,
    /// What is marked, as it was written.
    pub place: String,
    /// One place, measured from one pass to the next; else from one place to another, or from
    /// a function's entry to its return.
    pub point: bool,
    /// None may take longer than this; absent where nothing is required of it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limit_ns: Option<u64>,
    /// Why it was not seen; absent where it was.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub refused: Option<Unavailable>,
    /// The threads that passed.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub threads: Vec<MarkedThread>,
    /// Passes by the program's threads that weren't watched.
    #[serde(default)]
    pub unwatched: u64,
    /// Passes by threads that were not recorded for lack of space.
    #[serde(default)]
    pub beyond: u64,
}

impl WatchedMark {
    /// Marks of a watch.
    pub const MOST: usize = 16;
    /// Threads of a mark that are distinguished.
    pub const THREADS: usize = 4096;
    /// The longest lengths of a thread that are kept.
    pub const WORST: usize = 16;

    /// How long it took, to be compared with its limit; absent where it has none.
    pub fn evidence(&self) -> Option<LengthEvidence<'_>> {
        let lengths = || self.threads.iter().map(|thread| &thread.lengths);
        Some(LengthEvidence {
            name: &self.name,
            limit_ns: self.limit_ns?,
            count: self.sum(|thread| thread.lengths.count),
            longer: self.sum(|thread| thread.longer),
            max_ns: lengths()
                .filter(|lengths| lengths.count > 0)
                .map(|lengths| lengths.max_ns)
                .max(),
        })
    }

    /// A figure of all its threads together.
    pub fn sum(&self, of: impl Fn(&MarkedThread) -> u64) -> u64 {
        let each = self.threads.iter().map(of);
        each.fold(0, u64::saturating_add)
    }
}

/// A thread at a mark.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct MarkedThread {
    /// Itself, as it passed last.
    pub task: WatchedTask,
    /// How often it passed; of a pair or a function, how often it came to its end. Exact.
    pub count: u64,
    /// How long it took: of a point from one pass to the next, so one fewer than it passed.
    pub lengths: HistogramRecord,
    /// Begun, and begun again before the end; calls nested too deep; begun longer ago than the limit when the watch
    /// ended.
    #[serde(default)]
    pub unfinished: u64,
    /// How long the one that had begun and not ended had lasted when the watch ended; 0: there was none.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub open_ns: u64,
    /// Ended, and not begun since the watch began.
    #[serde(default)]
    pub unmatched: u64,
    /// Passes whose lengths were overwritten before they were read.
    #[serde(default)]
    pub lost: u64,
    /// Those that took longer than the mark's limit. Exact, but in a sum of runs with different limits: at least.
    #[serde(default)]
    pub longer: u64,
    /// The longest, the longest first.
    pub worst: Vec<WorstLength>,
}

/// One of the longest, and what the thread went through within it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct WorstLength {
    /// How long it took.
    pub length_ns: u64,
    /// When it ended, CLOCK_MONOTONIC.
    pub at_ns: u64,
    /// How much of it the thread was ready to run and had no CPU; absent where the kernel
    /// doesn't count that.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub waited_ns: Option<u64>,
    /// How often it was preempted.
    pub preempted: u64,
    /// How often it went to sleep.
    pub slept: u64,
    /// Its page faults.
    pub faults: u64,
}

pub(super) fn check(marks: &[WatchedMark]) -> Result<(), Broken> {
    at_most(marks.len(), WatchedMark::MOST, "watch.marks")?;
    for (index, mark) in marks.iter().enumerate() {
        let place = format!("watch.marks[{index}].threads");
        at_most(mark.threads.len(), WatchedMark::THREADS, place.clone())?;
        for (index, thread) in mark.threads.iter().enumerate() {
            let place = format!("{place}[{index}]");
            histogram(&thread.lengths, &format!("{place}.lengths"))?;
            ensure(
                thread.longer <= thread.lengths.count,
                format!("{place}.longer"),
                "more than there are lengths",
            )?;
            let worst = thread.worst.len();
            at_most(worst, WatchedMark::WORST, format!("{place}.worst"))?;
        }
    }
    Ok(())
}

/// Whether each mark with a limit finds its place among those before.
pub(crate) fn find_room(sum: &[WatchedMark], marks: &[WatchedMark]) -> bool {
    let is_new = |mark: &&WatchedMark| !sum.iter().any(|known| known.is_same(mark));
    let room = WatchedMark::MOST.saturating_sub(sum.len());
    let mut beyond = marks.iter().filter(is_new).skip(room);
    beyond.all(|mark| mark.limit_ns.is_none())
}

/// Adds the marks of a watch to those before: the same marks by name and place, their threads by
/// name. The limit is that of the first.
pub(super) fn add_up(sum: &mut Vec<WatchedMark>, marks: &[WatchedMark]) {
    for mark in marks {
        match sum.iter().position(|known| known.is_same(mark)) {
            Some(at) => sum[at].add(mark),
            None if sum.len() < WatchedMark::MOST => sum.push(mark.clone()),
            None => {}
        }
    }
}

impl WatchedMark {
    fn is_same(&self, other: &Self) -> bool {
        (&self.name, &self.place, self.point) == (&other.name, &other.place, other.point)
    }

    fn add(&mut self, other: &Self) {
        self.unwatched = self.unwatched.saturating_add(other.unwatched);
        self.beyond = self.beyond.saturating_add(other.beyond);
        if self.refused.is_none() {
            self.refused.clone_from(&other.refused);
        }
        let mut taken: Vec<usize> = Vec::new();
        for thread in &other.threads {
            let mut thread = thread.clone();
            if self.limit_ns != other.limit_ns {
                thread.longer = thread.longer_than(self.limit_ns);
                let is_over =
                    |limit_ns: Option<u64>| limit_ns.is_some_and(|it| thread.open_ns > it);
                let more = is_over(self.limit_ns) && !is_over(other.limit_ns);
                thread.unfinished = thread.unfinished.saturating_add(more.into());
            }
            // The second of a name joins the second of that name.
            let same =
                |at: &usize| self.threads[*at].task.name == thread.task.name && !taken.contains(at);
            match (0..self.threads.len()).find(same) {
                Some(at) => {
                    taken.push(at);
                    self.threads[at].add(&thread);
                }
                None if self.threads.len() < Self::THREADS => {
                    taken.push(self.threads.len());
                    self.threads.push(thread);
                }
                None => self.beyond = self.beyond.saturating_add(thread.count),
            }
        }
    }
}

impl MarkedThread {
    /// Those longer than another limit, as many as surely are.
    fn longer_than(&self, limit_ns: Option<u64>) -> u64 {
        limit_ns.map_or(0, |limit_ns| {
            let lengths = Histogram::try_from(&self.lengths);
            let surely = lengths.map_or(0, |lengths| lengths.count_surely_above(limit_ns));
            let known = self.worst.iter().filter(|it| it.length_ns > limit_ns);
            surely.max(known.count() as u64)
        })
    }

    fn add(&mut self, other: &Self) {
        add_histogram(&mut self.lengths, &other.lengths);
        self.open_ns = self.open_ns.max(other.open_ns);
        for (sum, term) in [
            (&mut self.count, other.count),
            (&mut self.unfinished, other.unfinished),
            (&mut self.unmatched, other.unmatched),
            (&mut self.lost, other.lost),
            (&mut self.longer, other.longer),
        ] {
            *sum = sum.saturating_add(term);
        }
        self.worst.extend(&other.worst);
        self.worst
            .sort_by_key(|worst| std::cmp::Reverse(worst.length_ns));
        self.worst.truncate(WatchedMark::WORST);
    }
}
