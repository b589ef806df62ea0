//! How long threads wait for a CPU: reads the maps of `bpf/runqueue.h`, in any program that
//! includes it.

use aya::maps::{Array, HashMap, MapData};
use aya::{Ebpf, EbpfLoader};

use super::kernel::other;
use super::lengths::{bounds, places};
use super::{QueueTimes, QueuedThread};

/// The tracepoints for it.
pub(super) const TRACEPOINTS: &[&str] = &["sched_wakeup", "sched_wakeup_new"];
/// Threads that are counted at the same time.
const MOST: u32 = 4096;
const PART_BITS: u32 = 4;
const PLACES: usize = places(PART_BITS);
/// Words of `struct queued`, and of `struct queue_times` in it.
const HEAD: usize = 10;
const TIMES_HEAD: usize = 4;
const TIMES: usize = TIMES_HEAD + PLACES / 2;
const WORDS: usize = HEAD + 2 * TIMES;
type Words = [u64; WORDS];

/// Switches it on or off, before the program is loaded.
pub(super) fn ask<'a>(loader: &mut EbpfLoader<'a>, asked: &'a u32) {
    loader.override_global("run_queue", asked, true);
    if *asked != 0 {
        loader.map_max_entries("queued", MOST);
    }
}

/// The times on run queues that a BPF program has counted.
pub struct RunQueues<'p>(&'p mut Ebpf);

impl<'p> RunQueues<'p> {
    pub(super) fn of_programs(programs: &'p mut Ebpf) -> Self {
        Self(programs)
    }

    /// All threads that ran, with their times since each was first seen.
    #[must_use]
    pub fn read(&self) -> Vec<QueuedThread> {
        let map = self.0.map("queued");
        let map = map.and_then(|map| HashMap::<&MapData, u32, Words>::try_from(map).ok());
        let entries = map.iter().flat_map(|map| map.iter().filter_map(Result::ok));
        entries.map(|(tid, words)| queued(tid, &words)).collect()
    }

    /// Removes a thread that has ended, and whose times were read. Returns whether the entry was still
    /// its own: another thread with its number may have it by now.
    pub fn forget(&mut self, tid: u32, started_ns: u64) -> bool {
        let map = self.0.map_mut("queued");
        let map = map.and_then(|map| HashMap::<_, u32, Words>::try_from(map).ok());
        let Some(mut map) = map else {
            return false;
        };
        let is_it = map.get(&tid, 0).is_ok_and(|words| words[0] == started_ns);
        is_it && map.remove(&tid).is_ok()
    }

    /// Times that exceeded the map, and those of threads whose entry another thread has.
    #[must_use]
    pub fn lost(&self) -> u64 {
        let map = self.0.map("queue_lost");
        let count = map.and_then(|map| Array::<_, u64>::try_from(map).ok());
        count.and_then(|count| count.get(&0, 0).ok()).unwrap_or(0)
    }
}

fn queued(tid: u32, words: &Words) -> QueuedThread {
    QueuedThread {
        task: other(u64::from(tid), words[1], &words[2..4]),
        started_ns: words[0],
        program: words[4] as u32,
        ended: words[5] != 0,
        unseen: words[9],
        woken: times(&words[HEAD..][..TIMES]),
        preempted: times(&words[HEAD + TIMES..][..TIMES]),
    }
}

fn times(words: &[u64]) -> QueueTimes {
    let counts = words[TIMES_HEAD..].iter();
    let counts = counts.flat_map(|word| [*word as u32, (*word >> 32) as u32]);
    let lengths = counts
        .enumerate()
        .filter(|(_, count)| *count > 0)
        .map(|(index, count)| (bounds(index, PART_BITS), u64::from(count)));
    QueueTimes {
        count: words[0],
        total_ns: words[1],
        longest_ns: words[2],
        longest_at_ns: words[3],
        lengths: lengths.collect(),
    }
}
