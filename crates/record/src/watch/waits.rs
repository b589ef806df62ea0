//! Where threads were while they were off the CPU, and how long they waited for one.

mod check;

use std::cmp::Reverse;
use std::ops::RangeInclusive;

use punctual_stats::histogram::HistogramRecord;
use serde::{Deserialize, Serialize};

use super::{Watch, WatchedTask, add_histogram};
use crate::is_zero;
pub(super) use check::check;

/// Where threads were while they were off the CPU.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct OffCpu {
    /// The places, the most time first.
    pub places: Vec<OffCpuPlace>,
    /// What was at further places.
    #[serde(default, skip_serializing_if = "TimesSum::is_empty")]
    pub beyond: TimesSum,
    /// What was not recorded in the kernel for lack of space: the places are not known.
    #[serde(default, skip_serializing_if = "TimesSum::is_empty")]
    pub no_room: TimesSum,
    /// Times at places without a stack: another one had its room in the kernel.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub stackless: u64,
    /// In a sum of runs, of how many of them this is known; 0 in a run.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub runs: u64,
}

/// How often, and for how long all together.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct TimesSum {
    /// How often.
    pub count: u64,
    /// All together.
    pub total_ns: u64,
}

/// Stacks with which a thread left the CPU.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct OffCpuPlace {
    /// The thread, as its place among the threads of the run.
    pub thread: u32,
    /// Why it left.
    pub why: OffCpuWhy,
    /// Functions in the kernel, innermost first, without the scheduler.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub kernel: Vec<String>,
    /// Functions of the program, innermost first, as far as its frame pointers lead.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub user: Vec<String>,
    /// How often it came back.
    pub count: u64,
    /// From the switch away to the switch back, all together.
    pub total_ns: u64,
    /// The longest.
    pub longest_ns: u64,
    /// When that ended, CLOCK_MONOTONIC.
    pub longest_at_ns: u64,
}

/// Why a thread was off the CPU.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum OffCpuWhy {
    /// It slept, and a signal could have ended that.
    Asleep,
    /// It slept for something that no signal ends.
    Uninterruptible,
    /// It could run: it was preempted.
    Preempted,
    /// Its budget under SCHED_DEADLINE was used up.
    Throttled,
    /// It was stopped, traced or frozen.
    Stopped,
    /// It had called `sched_yield`; under SCHED_DEADLINE that lasts until the next period.
    Yielded,
}

/// How long threads waited for a CPU, from ready to running.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct RunQueue {
    /// The threads, the longest first; of a whole system all threads of one name together.
    pub threads: Vec<RunQueueThread>,
    /// Threads that aren't among these.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub beyond: u64,
    /// Times that were not recorded for lack of space.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub lost: u64,
    /// In a sum of runs, of how many of them this is known; 0 in a run.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub runs: u64,
}

/// How long a thread waited for a CPU, or several of one name did.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct RunQueueThread {
    /// Itself, as it was seen last; number 0 for several.
    pub task: WatchedTask,
    /// How many they were.
    pub threads: u64,
    /// Times whose end the kernel did not show: they are in none of these.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub unseen: u64,
    /// After a wake-up.
    pub woken: QueueTimes,
    /// After it was preempted, or had yielded.
    pub preempted: QueueTimes,
}

/// Times from ready to running.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct QueueTimes {
    /// Each at most 6.25 % too long; the longest is exact.
    pub lengths: HistogramRecord,
    /// All together, exactly.
    pub total_ns: u64,
    /// When the longest ended, CLOCK_MONOTONIC.
    pub longest_at_ns: u64,
}

impl TimesSum {
    fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// Adds some.
    pub fn add(&mut self, count: u64, total_ns: u64) {
        self.count = self.count.saturating_add(count);
        self.total_ns = self.total_ns.saturating_add(total_ns);
    }
}

impl OffCpu {
    /// Places that are kept.
    pub const MOST: usize = 256;
    /// Functions of a stack.
    pub const FRAMES: usize = 64;

    /// Sorts the places, and keeps half of them by their time and then sleeps: each instruction at which a thread is
    /// preempted is a place of its own, and would hide where it waits.
    pub fn settle(&mut self) {
        let by_time = |place: &OffCpuPlace| (Reverse(place.total_ns), place.thread);
        self.places.sort_by_key(by_time);
        let rest = self.places.len().min(Self::MOST);
        if let Some(later) = self.places.get_mut(rest / 2..) {
            later.sort_by_key(|place| (!place.why.is_sleep(), by_time(place)));
        }
        for place in self.places.drain(rest..) {
            self.beyond.add(place.count, place.total_ns);
        }
        self.places.sort_by_key(by_time);
    }

    /// Adds those of another run, whose threads stand at other places.
    pub(super) fn add(&mut self, other: &Self, threads: &[usize]) {
        for place in &other.places {
            let thread = threads.get(place.thread as usize).copied();
            let Some(thread) = thread.and_then(|at| u32::try_from(at).ok()) else {
                // Of a thread that the record has not: nobody else was there.
                self.beyond.add(place.count, place.total_ns);
                continue;
            };
            let same = |it: &&mut OffCpuPlace| {
                (it.thread, it.why) == (thread, place.why)
                    && it.kernel == place.kernel
                    && it.user == place.user
            };
            match self.places.iter_mut().find(same) {
                Some(known) => known.add(place),
                None => self.places.push(OffCpuPlace {
                    thread,
                    ..place.clone()
                }),
            }
        }
        self.beyond.add(other.beyond.count, other.beyond.total_ns);
        self.no_room
            .add(other.no_room.count, other.no_room.total_ns);
        self.stackless = self.stackless.saturating_add(other.stackless);
        self.runs = self.runs.saturating_add(other.runs);
        self.settle();
    }
}

impl OffCpuWhy {
    /// Whether it slept.
    #[must_use]
    pub fn is_sleep(self) -> bool {
        matches!(self, Self::Asleep | Self::Uninterruptible)
    }
}

impl OffCpuPlace {
    /// What this many times may sum to, of which this is the longest.
    #[must_use]
    pub fn possible_total(count: u64, longest_ns: u64) -> RangeInclusive<u64> {
        longest_ns.min(longest_ns.saturating_mul(count))..=longest_ns.saturating_mul(count)
    }

    /// Adds what was at the same place.
    pub fn add(&mut self, other: &Self) {
        self.count = self.count.saturating_add(other.count);
        self.total_ns = self.total_ns.saturating_add(other.total_ns);
        if other.longest_ns > self.longest_ns {
            self.longest_ns = other.longest_ns;
            self.longest_at_ns = other.longest_at_ns;
        }
    }
}

impl RunQueue {
    /// Threads, or names, that are kept.
    pub const MOST: usize = 256;

    /// Sorts the threads, and keeps the first of them.
    pub fn settle(&mut self) {
        self.threads
            .sort_by_key(|it| (Reverse(it.longest_ns()), it.task.tid));
        let rest = self.threads.len().min(Self::MOST);
        for thread in self.threads.drain(rest..) {
            self.beyond = self.beyond.saturating_add(thread.threads);
        }
    }

    /// Adds those of another run, by name and policy.
    pub(super) fn add(&mut self, other: &Self) {
        let mut taken = Vec::new();
        for thread in &other.threads {
            let key = |task: &WatchedTask| (task.name.clone(), task.policy.clone(), task.priority);
            let same = |at: &usize| {
                key(&self.threads[*at].task) == key(&thread.task) && !taken.contains(at)
            };
            let at = match (0..self.threads.len()).find(same) {
                Some(at) => {
                    let sum = &mut self.threads[at];
                    sum.threads = sum.threads.max(thread.threads);
                    if sum.threads > 1 {
                        sum.task.tid = 0;
                    }
                    sum.unseen = sum.unseen.saturating_add(thread.unseen);
                    sum.woken.add(&thread.woken);
                    sum.preempted.add(&thread.preempted);
                    at
                }
                None => {
                    self.threads.push(thread.clone());
                    self.threads.len() - 1
                }
            };
            taken.push(at);
        }
        self.beyond = self.beyond.max(other.beyond);
        self.lost = self.lost.saturating_add(other.lost);
        self.runs = self.runs.saturating_add(other.runs);
        self.settle();
    }
}

impl RunQueueThread {
    /// The longest, after a wake-up or a preemption.
    fn longest_ns(&self) -> u64 {
        self.woken.lengths.max_ns.max(self.preempted.lengths.max_ns)
    }
}

impl QueueTimes {
    /// Lengths from here on are counted at this place, however long they are.
    const LONG_NS: u64 = 1 << 37;

    /// What lengths may sum to that were counted by places.
    #[must_use]
    pub fn possible_total(lengths: &HistogramRecord) -> RangeInclusive<u64> {
        let saturated = |ns: u128| u64::try_from(ns).unwrap_or(u64::MAX);
        // A place is a 16th wider than its least, and each length stands at the most of its place.
        let least = saturated(lengths.sum_ns / 17 * 16).saturating_sub(lengths.count);
        let most = if lengths.max_ns < Self::LONG_NS {
            saturated(lengths.sum_ns)
        } else {
            lengths.max_ns.saturating_mul(lengths.count)
        };
        least.max(lengths.max_ns)..=most.max(lengths.max_ns)
    }

    fn add(&mut self, other: &Self) {
        if other.lengths.max_ns > self.lengths.max_ns {
            self.longest_at_ns = other.longest_at_ns;
        }
        add_histogram(&mut self.lengths, &other.lengths);
        self.total_ns = self.total_ns.saturating_add(other.total_ns);
    }
}

/// States of what is looked for on demand that it is of so many runs, where that isn't stated yet.
pub(super) fn of_runs(watch: &mut Watch, runs: u64) {
    let off_cpu = watch.off_cpu.iter_mut().map(|it| &mut it.runs);
    let run_queue = watch.run_queue.iter_mut().map(|it| &mut it.runs);
    for stated in off_cpu.chain(run_queue).filter(|it| **it == 0) {
        *stated = runs;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn time_of_a_thread_that_is_not_in_the_record_is_put_down_to_no_other() {
        let place = |thread: u32| OffCpuPlace {
            thread,
            why: OffCpuWhy::Asleep,
            kernel: Vec::new(),
            user: Vec::new(),
            count: 1,
            total_ns: 100,
            longest_ns: 100,
            longest_at_ns: 5,
        };
        let other = OffCpu {
            places: vec![place(0), place(1)],
            ..OffCpu::default()
        };
        let mut sum = OffCpu::default();
        sum.add(&other, &[7]);
        let threads: Vec<u32> = sum.places.iter().map(|it| it.thread).collect();
        assert_eq!((threads, sum.places[0].total_ns), (vec![7], 100));
        assert_eq!((sum.beyond.count, sum.beyond.total_ns), (1, 100));
    }

    #[test]
    fn where_a_thread_was_preempted_hides_no_sleep() {
        let place = |why: OffCpuWhy, total_ns: u64| OffCpuPlace {
            thread: 0,
            why,
            kernel: Vec::new(),
            user: Vec::new(),
            count: 1,
            total_ns,
            longest_ns: total_ns,
            longest_at_ns: 0,
        };
        let preempted = (0..1_000).map(|at| place(OffCpuWhy::Preempted, 10_000 + at));
        let mut away = OffCpu {
            places: preempted.collect(),
            ..OffCpu::default()
        };
        away.places.push(place(OffCpuWhy::Uninterruptible, 7));
        away.settle();
        assert_eq!(away.places.len(), OffCpu::MOST);
        assert_eq!(away.places[0].total_ns, 10_999);
        assert_eq!(away.places[OffCpu::MOST - 1].total_ns, 7);
        assert_eq!(away.beyond.count, 1_001 - OffCpu::MOST as u64);
    }
}
