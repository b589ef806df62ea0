//! What the control groups of threads may run, and how much the kernel throttled them: read now
//! and then, so that it is known of any time between two readings.

use std::collections::{BTreeMap, VecDeque};

use super::cgroup;
use super::root::{Reader, Root};
use crate::record::explanation::{GroupLimit, GroupThrottling};

/// Readings that are kept: at twenty a second they reach back a quarter of a minute.
const READINGS: usize = 300;
/// Limits that are followed.
const LIMITS: usize = 64;
/// Threads whose groups are known.
const THREADS: usize = 4096;

/// The limits of some threads' groups.
#[derive(Debug)]
pub struct GroupLimits {
    root: Root,
    limits: Vec<GroupLimit>,
    /// Which limits hold for a thread, the nearest first.
    of: BTreeMap<u32, Vec<usize>>,
    /// What was counted when a limit was first seen.
    first: Vec<Option<GroupThrottling>>,
    /// What was counted when, of each limit.
    readings: VecDeque<(u64, Vec<Option<GroupThrottling>>)>,
}

impl GroupLimits {
    /// Without threads.
    #[must_use]
    pub fn new(root: &Root) -> Self {
        Self {
            root: root.clone(),
            limits: Vec::new(),
            of: BTreeMap::new(),
            first: Vec::new(),
            readings: VecDeque::new(),
        }
    }

    /// Adds threads whose control groups stand in this file of `/proc`. What can't be read (the
    /// thread has ended) has no limit.
    pub fn add(&mut self, threads: &[u32], file: &str) {
        let groups = cgroup::read_of(&mut Reader::new(&self.root), file);
        let mut indices = Vec::new();
        for bound in groups.bounds {
            let same = |it: &GroupLimit| it.group == bound.group && it.file == bound.file;
            match self.limits.iter().position(same) {
                Some(index) => indices.push(index),
                None if self.limits.len() < LIMITS => {
                    indices.push(self.limits.len());
                    self.first.push(self.counted(&bound));
                    self.limits.push(bound);
                }
                None => {}
            }
        }
        for thread in threads {
            if self.of.len() < THREADS && !indices.is_empty() {
                self.of.insert(*thread, indices.clone());
            }
        }
    }

    /// Real-time budgets have no account.
    fn counted(&self, limit: &GroupLimit) -> Option<GroupThrottling> {
        if limit.is_real_time() {
            return None;
        }
        cgroup::throttling(&self.root, &limit.group)
    }

    /// Reads the accounts.
    pub fn look(&mut self, at_ns: u64) {
        if self.limits.is_empty() {
            return;
        }
        if self.readings.len() == READINGS {
            self.readings.pop_front();
        }
        let counted = self.limits.iter().map(|limit| self.counted(limit));
        let counted = counted.collect();
        self.readings.push_back((at_ns, counted));
    }

    /// The limits of a thread, with what was counted between the last reading before one instant
    /// and the first after another.
    #[must_use]
    pub fn around(&self, thread: u32, from_ns: u64, to_ns: u64) -> Vec<GroupLimit> {
        let before = self.readings.partition_point(|(at, _)| *at <= from_ns);
        let after = self.readings.partition_point(|(at, _)| *at < to_ns);
        let reading = |place: Option<usize>, index: usize| {
            let (_, counted) = self.readings.get(place?)?;
            counted.get(index).copied().flatten()
        };
        let with = |index: usize| {
            let first = reading(before.checked_sub(1), index).or(self.first[index]);
            let last = reading(Some(after), index);
            GroupLimit {
                throttled: first.zip(last).map(since),
                ..self.limits[index].clone()
            }
        };
        let indices = self.of.get(&thread).map_or(&[][..], Vec::as_slice);
        indices.iter().map(|index| with(*index)).collect()
    }

    /// All limits, with what was counted since each was first seen.
    #[must_use]
    pub fn over_run(&self) -> Vec<GroupLimit> {
        let last = |index: usize| self.readings.back()?.1.get(index).copied().flatten();
        let each = self.limits.iter().zip(&self.first).enumerate();
        each.map(|(index, (limit, first))| GroupLimit {
            throttled: first.zip(last(index)).map(since),
            ..limit.clone()
        })
        .collect()
    }
}

fn since((first, last): (GroupThrottling, GroupThrottling)) -> GroupThrottling {
    GroupThrottling {
        periods: last.periods.saturating_sub(first.periods),
        ns: last.ns.saturating_sub(first.ns),
    }
}
