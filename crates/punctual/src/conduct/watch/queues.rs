//! How long threads wait for a CPU: counts from the kernel, including threads that have ended.

use std::collections::BTreeMap;

use punctual_stats::histogram::{Histogram, HistogramRecord};

use super::compose;
use punctual_record::explanation::general_name;
use punctual_record::watch::{QueueTimes as Recorded, RunQueue, RunQueueThread};
use punctual_trace::capture::numbers::Numbers;
use punctual_trace::watch::{Other, QueueTimes, QueuedThread, RunQueues};

/// Threads that have ended, or names of such threads, that are kept.
const MOST: usize = 4096;

/// What is counted separately.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Apart {
    /// Each thread.
    Threads,
    /// Threads by name and priority: a whole system has too many threads.
    Names,
}

#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
enum Key {
    Thread(u32, u64),
    Name(String, u32, i32),
}

/// The times of one of them.
#[derive(Debug, Clone)]
struct Sum {
    task: Other,
    threads: u64,
    unseen: u64,
    woken: Times,
    preempted: Times,
}

#[derive(Debug, Clone, Default)]
struct Times {
    lengths: Histogram,
    total_ns: u64,
    longest_at_ns: u64,
}

/// All threads that ran.
pub(super) struct Queues {
    apart: Apart,
    ended: BTreeMap<Key, Sum>,
    alive: Vec<QueuedThread>,
    /// Threads that ended and for which there was no room.
    beyond: u64,
    /// Times that the BPF programs have lost, and how many of them were read before.
    lost: u64,
    replaced: u64,
}

impl Queues {
    pub fn new(apart: Apart) -> Self {
        Self {
            apart,
            ended: BTreeMap::new(),
            alive: Vec::new(),
            beyond: 0,
            lost: 0,
            replaced: 0,
        }
    }

    /// Reads the kernel's counts, and makes room there.
    pub fn look(&mut self, mut kernel: RunQueues<'_>) {
        let seen = kernel.read();
        for ended in self.take(seen, kernel.lost()) {
            if !kernel.forget(ended.task.tid, ended.started_ns) {
                self.replaced += times(&ended);
            }
        }
    }

    /// Adds what was read, and returns which threads have ended and no longer need their room.
    fn take(&mut self, seen: Vec<QueuedThread>, lost: u64) -> Vec<QueuedThread> {
        self.lost = lost;
        let one = |it: QueuedThread| ((it.task.tid, it.started_ns), it);
        let seen: BTreeMap<(u32, u64), QueuedThread> = seen.into_iter().map(one).collect();
        let gone = |it: &QueuedThread| !seen.contains_key(&(it.task.tid, it.started_ns));
        for thread in std::mem::take(&mut self.alive) {
            // Another thread with the same ID has its place: its earlier times are kept.
            if gone(&thread) {
                self.replaced += times(&thread);
                self.keep(&thread);
            }
        }
        let (ended, alive): (Vec<_>, Vec<_>) = seen.into_values().partition(|it| it.ended);
        self.alive = alive;
        for thread in &ended {
            self.keep(thread);
        }
        ended
    }

    /// Keeps the times of a thread that has ended.
    fn keep(&mut self, thread: &QueuedThread) {
        let key = key(self.apart, thread);
        if self.ended.len() >= MOST && !self.ended.contains_key(&key) {
            self.beyond += 1;
        } else {
            add(&mut self.ended, key, thread);
        }
    }

    pub fn to_record(&self, numbers: &Numbers) -> RunQueue {
        let mut all = self.ended.clone();
        for thread in &self.alive {
            add(&mut all, key(self.apart, thread), thread);
        }
        let ran = all
            .into_values()
            .filter(|sum| sum.woken.lengths.count() + sum.preempted.lengths.count() > 0);
        let mut record = RunQueue {
            threads: ran.map(|sum| recorded(self.apart, &sum, numbers)).collect(),
            beyond: self.beyond,
            lost: self.lost.saturating_sub(self.replaced),
            runs: 0,
        };
        record.settle();
        record
    }
}

/// How many times a thread waited.
fn times(thread: &QueuedThread) -> u64 {
    thread.woken.count.saturating_add(thread.preempted.count)
}

fn key(apart: Apart, thread: &QueuedThread) -> Key {
    let task = &thread.task;
    match apart {
        Apart::Threads => Key::Thread(task.tid, thread.started_ns),
        Apart::Names => Key::Name(general_name(&task.name), task.policy, task.priority),
    }
}

fn add(sums: &mut BTreeMap<Key, Sum>, key: Key, thread: &QueuedThread) {
    let sum = sums.entry(key).or_insert_with(|| Sum {
        task: thread.task.clone(),
        threads: 0,
        unseen: 0,
        woken: Times::default(),
        preempted: Times::default(),
    });
    sum.threads += 1;
    sum.unseen = sum.unseen.saturating_add(thread.unseen);
    sum.woken.add(&thread.woken);
    sum.preempted.add(&thread.preempted);
}

impl Times {
    fn add(&mut self, times: &QueueTimes) {
        // Read while the kernel counts the first one: complete the next time.
        if times.longest_at_ns == 0 {
            return;
        }
        if self
            .lengths
            .max()
            .is_none_or(|most| times.longest_ns > most)
        {
            self.longest_at_ns = times.longest_at_ns;
        }
        self.lengths
            .merge(&of_lengths(&times.lengths, times.longest_ns));
        self.total_ns = self.total_ns.saturating_add(times.total_ns);
    }

    fn recorded(&self) -> Recorded {
        let lengths = HistogramRecord::from(&self.lengths);
        // The kernel counts while its sums are read: they may differ by the last time.
        let possible = Recorded::possible_total(&lengths);
        Recorded {
            total_ns: self.total_ns.clamp(*possible.start(), *possible.end()),
            lengths,
            longest_at_ns: self.longest_at_ns,
        }
    }
}

fn recorded(apart: Apart, sum: &Sum, numbers: &Numbers) -> RunQueueThread {
    let mut task = compose::task(&sum.task, numbers);
    if apart == Apart::Names {
        task.name = general_name(&task.name);
    }
    if sum.threads > 1 {
        task.tid = 0;
    }
    RunQueueThread {
        task,
        threads: sum.threads,
        unseen: sum.unseen,
        woken: sum.woken.recorded(),
        preempted: sum.preempted.recorded(),
    }
}

/// Lengths that the BPF programs counted, as a histogram: each counts as the maximum of its bucket,
/// but the longest is exact.
pub(super) fn of_lengths(lengths: &[((u64, u64), u64)], longest_ns: u64) -> Histogram {
    let mut histogram = Histogram::new();
    let last = lengths.len().saturating_sub(1);
    for (index, ((least_ns, most_ns), count)) in lengths.iter().enumerate() {
        let ns = (*most_ns).min(longest_ns).max(*least_ns);
        // The last bucket includes everything longer.
        let exact = u64::from(index == last && longest_ns >= *least_ns);
        histogram.record_n(ns, count - exact);
        histogram.record_n(longest_ns, exact);
    }
    histogram
}

#[cfg(test)]
mod tests {
    use super::*;

    fn thread(tid: u32, name: &str, ended: bool, longest_ns: u64) -> QueuedThread {
        let times = QueueTimes {
            count: 3,
            total_ns: 20 + longest_ns,
            longest_ns,
            longest_at_ns: longest_ns * 2,
            lengths: vec![((10, 10), 2), ((longest_ns - 1, longest_ns + 8), 1)],
        };
        QueuedThread {
            task: Other {
                tid,
                name: name.to_owned(),
                policy: 0,
                priority: 120,
            },
            started_ns: u64::from(tid),
            program: 1,
            ended,
            unseen: 1,
            woken: times,
            preempted: QueueTimes::default(),
        }
    }

    #[test]
    fn threads_of_one_name_are_summed_up_and_those_that_ended_stay() {
        let mut queues = Queues::new(Apart::Names);
        let seen = vec![
            thread(1, "cc1", true, 500),
            thread(2, "cc1", false, 300),
            thread(3, "kworker/0:1", false, 100),
        ];
        assert_eq!(numbers(queues.take(seen, 0)), [1]);
        // What lives is read anew, with all that it had.
        let seen = vec![
            thread(2, "cc1", false, 300),
            thread(4, "kworker/1:2-events", false, 200),
            thread(3, "kworker/0:1", false, 100),
        ];
        assert!(numbers(queues.take(seen, 7)).is_empty());
        let record = queues.to_record(&Numbers::default());
        assert_eq!(
            (record.threads.len(), record.beyond, record.lost),
            (2, 0, 7)
        );
        let (first, second) = (&record.threads[0], &record.threads[1]);
        assert_eq!(
            (&*first.task.name, first.task.tid, first.threads),
            ("cc1", 0, 2)
        );
        assert_eq!(
            (first.woken.lengths.count, first.woken.lengths.max_ns),
            (6, 500)
        );
        assert_eq!(
            (first.woken.total_ns, first.woken.longest_at_ns),
            (840, 1000)
        );
        assert_eq!(first.unseen, 2);
        assert_eq!((&*second.task.name, second.threads), ("kworker", 2));
        assert_eq!(second.woken.longest_at_ns, 400);
    }

    fn numbers(threads: Vec<QueuedThread>) -> Vec<u32> {
        threads.into_iter().map(|it| it.task.tid).collect()
    }

    /// The kernel's side gives the place of a thread to the next of its number, and counts its times as
    /// lost: those that were read before are not, and those after the last reading are.
    #[test]
    fn times_of_a_thread_whose_number_another_one_has_are_kept_or_counted() {
        let mut queues = Queues::new(Apart::Threads);
        queues.take(vec![thread(1, "first", false, 500)], 0);
        let next = || QueuedThread {
            started_ns: 9,
            ..thread(1, "next", false, 300)
        };
        // Three times that were read, two that were not.
        queues.take(vec![next(), next()], 3 + 2);
        let record = queues.to_record(&Numbers::default());
        assert_eq!(record.lost, 2);
        let counts = record.threads.iter().map(|it| it.woken.lengths.count);
        assert_eq!(counts.collect::<Vec<_>>(), [3, 3]);
        // One that had ended, and was read, is not forgotten in time: nothing of it is lost.
        let ended = || QueuedThread {
            ended: true,
            ..next()
        };
        let [ended] = &queues.take(vec![ended()], 5)[..] else {
            panic!("it has ended");
        };
        queues.replaced += times(ended);
        queues.take(Vec::new(), 3 + 2 + 3);
        let record = queues.to_record(&Numbers::default());
        assert_eq!((record.threads.len(), record.lost), (2, 2));
    }

    #[test]
    fn threads_are_told_apart_and_memory_stays_bounded() {
        let mut queues = Queues::new(Apart::Threads);
        for tid in 1..=(MOST as u32 + 5) {
            queues.take(vec![thread(tid, "one", true, 50)], 0);
        }
        let record = queues.to_record(&Numbers::default());
        assert_eq!(record.threads.len(), RunQueue::MOST);
        assert_eq!(record.beyond, MOST as u64 + 5 - RunQueue::MOST as u64);
        assert_eq!(record.threads[0].task.tid, 1);
    }
}
