//! The CPU limits of threads' control groups, and how much the kernel throttled them: read
//! regularly, so that it is known for any time between two readings.

use std::collections::{BTreeMap, VecDeque};

use super::cgroup;
use crate::root::{Reader, Root};
use punctual_record::explanation::{GroupLimit, GroupThrottling};
use punctual_record::proc_stat::Stat;

/// Readings that are kept: at twenty a second they cover a quarter of a minute.
const READINGS: usize = 300;
/// Limits that are followed, at most.
const LIMITS: usize = 64;
/// Threads whose groups are kept, at most.
const THREADS: usize = 4096;

/// The limits of some threads' groups.
#[derive(Debug)]
pub struct GroupLimits {
    root: Root,
    limits: Vec<GroupLimit>,
    /// Which limits apply to a thread, the nearest first.
    of: BTreeMap<u32, Vec<usize>>,
    /// When a thread started: a later one with its number may be in other groups.
    began: BTreeMap<u32, u64>,
    /// The counters when a limit was first seen.
    first: Vec<Option<GroupThrottling>>,
    /// When the counters of each limit were read, and their values.
    readings: VecDeque<(u64, Vec<Option<GroupThrottling>>)>,
}

impl GroupLimits {
    /// No threads yet.
    #[must_use]
    pub fn new(root: &Root) -> Self {
        Self {
            root: root.clone(),
            limits: Vec::new(),
            of: BTreeMap::new(),
            began: BTreeMap::new(),
            first: Vec::new(),
            readings: VecDeque::new(),
        }
    }

    /// Adds threads whose control groups are in this file of `/proc`. If it can't be read (the
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

    /// Adds a thread that has this number in `/proc`, if it is not known yet. A later thread with
    /// the same number replaces it.
    pub fn meet(&mut self, thread: u32, here: u32) {
        let stat = self.root.text(&format!("/proc/{here}/stat"));
        let began = stat.ok().and_then(|stat| Stat::parse(&stat)?.count(22));
        // A thread that has ended keeps its entry.
        let Some(began) = began.filter(|it| self.began.get(&thread) != Some(it)) else {
            return;
        };
        self.of.remove(&thread);
        if self.began.len() < THREADS || self.began.contains_key(&thread) {
            self.began.insert(thread, began);
            self.add(&[thread], &format!("/proc/{here}/cgroup"));
        }
    }

    /// Real-time budgets have no counters.
    fn counted(&self, limit: &GroupLimit) -> Option<GroupThrottling> {
        if limit.is_real_time() {
            return None;
        }
        cgroup::throttling(&self.root, &limit.group)
    }

    /// Reads the counters.
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

    /// The limits of a thread, with the counts between the last reading before one instant
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

    /// All limits, with the counts since each was first seen.
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_later_thread_with_the_same_number_has_the_limits_of_its_own_groups() {
        let place = tempfile::tempdir().expect("a folder");
        let file = |name: &str, text: &str| {
            let path = place.path().join(name);
            std::fs::create_dir_all(path.parent().expect("a folder")).expect("a folder");
            std::fs::write(path, text).expect("a file");
        };
        let mount = "30 23 0:26 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n";
        file("proc/self/mountinfo", mount);
        file("proc/self/cgroup", "0::/\n");
        for (group, quota) in [("first", 1000), ("second", 2000)] {
            let limit = format!("{quota} 10000\n");
            file(&format!("sys/fs/cgroup/{group}/cpu.max"), &limit);
        }
        let thread = |began: u64, group: &str| {
            let stat = format!("77 (one) S 1 77 77 0 -1 0 0 0 0 0 0 0 0 0 20 0 1 0 {began} 0\n");
            file("proc/77/stat", &stat);
            file("proc/77/cgroup", &format!("0::/{group}\n"));
        };
        let mut limits = GroupLimits::new(&Root::recorded(place.path()));
        let groups = |limits: &GroupLimits| {
            let around = limits.around(77, 0, 1).into_iter();
            around.map(|it| it.runtime_us).collect::<Vec<_>>()
        };
        thread(500, "first");
        limits.meet(77, 77);
        assert_eq!(groups(&limits), [1000]);
        thread(900, "second");
        limits.meet(77, 77);
        assert_eq!(groups(&limits), [2000]);
        // In no group with a limit it has none; a thread that has ended keeps its limits.
        thread(950, "");
        limits.meet(77, 77);
        assert!(groups(&limits).is_empty());
        thread(960, "first");
        limits.meet(77, 77);
        std::fs::remove_file(place.path().join("proc/77/stat")).expect("it is there");
        limits.meet(77, 77);
        assert_eq!(groups(&limits), [1000]);
    }
}
