//! The wake-ups of one CPU, read while the kernel counts them: the words of `struct cpu` in
//! `bpf/wakeups.bpf.c`.

use std::sync::atomic::{AtomicU64, Ordering};

use super::lengths::{bounds, places};
use super::{CpuWakeUps, Other, SystemWorst};
use crate::capture::slot;

/// Offsets of the fields of `struct cpu`, in words.
const COUNT: usize = 0;
const SUM: usize = 1;
const LEAST: usize = 2;
const MOST: usize = 3;
const LATE: usize = 4;
pub const TURN: usize = 5;
pub const TURN_MOST: usize = 6;
const THRESHOLD: usize = 8;
const LOST: usize = 9;
const WORST: usize = 10;
/// The number of entries, and the words of one.
const WORST_COUNT: usize = 16;
const WORST_WORDS: usize = 11;
/// After them, the threads that ran last: a count, and 16 times an instant and a task.
const RAN_WORDS: usize = 1 + 16 * 5;
const LENGTHS: usize = WORST + WORST_COUNT * WORST_WORDS + RAN_WORDS;
const PART_BITS: u32 = 6;
const LENGTH_COUNT: usize = places(PART_BITS);
pub const WORDS: usize = LENGTHS + LENGTH_COUNT;

/// How often one CPU is read at most if it counts meanwhile.
const ATTEMPTS: usize = 8;

/// Whether a CPU has counted anything.
pub fn is_counting(words: &[AtomicU64]) -> bool {
    [COUNT, LOST]
        .iter()
        .any(|index| words[*index].load(Ordering::Acquire) > 0)
}

/// Everything of one CPU. Whatever is counted meanwhile, each of the worst is among the lengths.
/// Usually nothing is: then each wake-up above the threshold is among the worst, too.
pub fn read(words: &[AtomicU64]) -> CpuWakeUps {
    let count = || words[COUNT].load(Ordering::Acquire);
    let undisturbed = (1..ATTEMPTS).find_map(|_| {
        let before = count();
        let found = read_once(words);
        (count() == before).then_some(found)
    });
    undisturbed.unwrap_or_else(|| read_once(words))
}

/// The kernel counts the length, and then writes its entry of the worst: they are read in the
/// opposite order. The lengths are read before their bounds, so these contain what came between.
fn read_once(words: &[AtomicU64]) -> CpuWakeUps {
    let at = |index: usize| words[index].load(Ordering::Acquire);
    let worst = (0..WORST_COUNT).filter_map(|index| worst(words, index));
    let worst = worst.collect();
    let lengths = (0..LENGTH_COUNT).filter_map(|index| {
        let count = at(LENGTHS + index);
        (count > 0).then(|| (bounds(index, PART_BITS), count))
    });
    CpuWakeUps {
        worst,
        lengths: lengths.collect(),
        count: at(COUNT),
        sum_ns: at(SUM),
        least_ns: at(LEAST),
        most_ns: at(MOST),
        late: at(LATE),
        threshold_ns: at(THRESHOLD),
        lost: at(LOST),
    }
}

/// An entry of the worst; nothing if it is empty, or being written.
fn worst(words: &[AtomicU64], index: usize) -> Option<SystemWorst> {
    let copy = || {
        let from = WORST + index * WORST_WORDS;
        let mut copy = [0; WORST_WORDS];
        for (to, word) in copy.iter_mut().zip(&words[from..]) {
            *to = word.load(Ordering::Acquire);
        }
        copy
    };
    let first = copy();
    (first[0] != 0 && first == copy()).then(|| SystemWorst {
        latency_ns: first[0],
        at_ns: first[1],
        by_timer: first[2] != 0,
        woken: task(&first[3..7]),
        before: task(&first[7..11]),
    })
}

fn task(words: &[u64]) -> Option<Other> {
    let tid = words[0] as u32;
    (tid != 0).then(|| Other {
        tid,
        name: slot::text(&words[2..4]),
        policy: words[1] as u32,
        priority: (words[0] >> 32) as u32 as i32,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::AtomicBool;

    /// Counts as `switched()` in `bpf/wakeups.bpf.c` does.
    fn count(words: &[AtomicU64], latency_ns: u64, at_ns: u64) {
        let add = |index: usize, more: u64| words[index].fetch_add(more, Ordering::Release);
        add(COUNT, 1);
        add(SUM, latency_ns);
        words[MOST].fetch_max(latency_ns, Ordering::Release);
        // Of a few ns each has its own.
        assert_eq!(
            bounds(latency_ns as usize, PART_BITS),
            (latency_ns, latency_ns)
        );
        add(LENGTHS + latency_ns as usize, 1);
        let from = WORST + at_ns as usize % WORST_COUNT * WORST_WORDS;
        words[from].store(latency_ns, Ordering::Release);
        words[from + 1].store(at_ns, Ordering::Release);
    }

    #[test]
    fn each_of_the_worst_is_among_the_lengths_whatever_is_counted_meanwhile() {
        for _ in 0..200 {
            let words: Vec<AtomicU64> = (0..WORDS).map(|_| AtomicU64::new(0)).collect();
            let ended = AtomicBool::new(false);
            std::thread::scope(|scope| {
                scope.spawn(|| {
                    for number in 1..=WORST_COUNT as u64 {
                        count(&words, number, number);
                    }
                    ended.store(true, Ordering::Release);
                });
                loop {
                    let last = ended.load(Ordering::Acquire);
                    let found = read(&words);
                    let counted: u64 = found.lengths.iter().map(|(_, count)| count).sum();
                    assert!(found.worst.len() as u64 <= counted, "{found:?}");
                    if last {
                        assert_eq!(
                            (found.worst.len(), counted),
                            (WORST_COUNT, WORST_COUNT as u64)
                        );
                        break;
                    }
                }
            });
        }
    }
}
