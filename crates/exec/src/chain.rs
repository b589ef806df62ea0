//! What flows through a chain: each task passes on where its data came from.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering, fence};

/// Outputs of a task that are kept: so many jobs may pass while another task reads one.
const KEPT: usize = 1024;

/// Where data came from: a job of the first task of the chain.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Origin {
    /// Which job, from 0.
    pub job: u64,
    /// Its arrival.
    pub arrival_ns: u64,
    /// When it read its input: its start.
    pub read_ns: u64,
}

/// A value that came out of a chain.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Passed {
    /// Which chain of the set.
    pub chain: usize,
    /// Where it came from.
    pub origin: Origin,
    /// The end of the job that put it out.
    pub out_ns: u64,
}

#[derive(Default)]
struct Slot {
    /// The number of the job that put it out, from 1; 0 while it is written.
    put_by: AtomicU64,
    job: AtomicU64,
    arrival_ns: AtomicU64,
    read_ns: AtomicU64,
}

/// The outputs of one task in one chain: one thread writes, others read. Wait-free.
pub struct Outputs {
    slots: Box<[Slot]>,
    /// Jobs that have put out a value.
    latest: AtomicU64,
}

impl Default for Outputs {
    fn default() -> Self {
        Self {
            slots: (0..KEPT).map(|_| Slot::default()).collect(),
            latest: AtomicU64::new(0),
        }
    }
}

impl Outputs {
    /// Job `by` of the task puts out a value. Real-time safe.
    #[inline]
    pub fn put(&self, by: u64, origin: Origin) {
        let slot = &self.slots[by as usize % KEPT];
        slot.put_by.store(0, Ordering::Relaxed);
        // What follows isn't seen before the mark above.
        fence(Ordering::Release);
        slot.job.store(origin.job, Ordering::Relaxed);
        slot.arrival_ns.store(origin.arrival_ns, Ordering::Relaxed);
        slot.read_ns.store(origin.read_ns, Ordering::Relaxed);
        slot.put_by.store(by + 1, Ordering::Release);
        self.latest.store(by + 1, Ordering::Release);
    }

    /// What job `by` put out; `None` if it put out nothing, or that is no longer kept. Real-time safe.
    #[inline]
    pub fn of(&self, by: u64) -> Option<Origin> {
        let slot = &self.slots[by as usize % KEPT];
        if slot.put_by.load(Ordering::Acquire) != by + 1 {
            return None;
        }
        let origin = Origin {
            job: slot.job.load(Ordering::Relaxed),
            arrival_ns: slot.arrival_ns.load(Ordering::Relaxed),
            read_ns: slot.read_ns.load(Ordering::Relaxed),
        };
        // What was read isn't newer than the mark below.
        fence(Ordering::Acquire);
        (slot.put_by.load(Ordering::Relaxed) == by + 1).then_some(origin)
    }

    /// What was put out last; `None` if there was nothing yet. Real-time safe.
    #[inline]
    pub fn latest(&self) -> Option<Origin> {
        match self.latest.load(Ordering::Acquire) {
            0 => None,
            put => self.of(put - 1),
        }
    }
}

/// The place of a task in a chain.
pub struct Link {
    /// Which chain of the set.
    pub chain: usize,
    /// What the task before it puts out; `None` for the first task, which reads the input.
    pub from: Option<Arc<Outputs>>,
    /// Whether that task's job releases this one's: it reads what that job put out, and else the
    /// latest.
    pub triggered: bool,
    /// What this task puts out; `None` for the last task.
    pub into: Option<Arc<Outputs>>,
}

impl Link {
    /// What a job reads as it begins: job `job` of the task, released by job `released_by` of the
    /// one before it. Real-time safe.
    #[inline]
    pub fn read(&self, own: Origin, released_by: u64) -> Option<Origin> {
        match &self.from {
            None => Some(own),
            Some(outputs) if self.triggered => outputs.of(released_by),
            Some(outputs) => outputs.latest(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn origin(number: u64) -> Origin {
        Origin {
            job: number,
            arrival_ns: 100 * number,
            read_ns: 100 * number + 1,
        }
    }

    #[test]
    fn outputs_are_found_by_job_and_by_time_until_they_are_replaced() {
        let outputs = Outputs::default();
        assert_eq!(outputs.latest(), None);
        for by in [0, 1, 5] {
            outputs.put(by, origin(by));
        }
        assert_eq!(outputs.latest(), Some(origin(5)));
        assert_eq!(outputs.of(1), Some(origin(1)));
        assert_eq!(outputs.of(2), None);
        outputs.put(1 + KEPT as u64, origin(9));
        assert_eq!(outputs.of(1), None);
        assert_eq!(outputs.of(1 + KEPT as u64), Some(origin(9)));
    }

    #[test]
    fn no_reader_sees_half_of_a_value() {
        let outputs = Outputs::default();
        std::thread::scope(|scope| {
            scope.spawn(|| {
                for by in 0..200_000 {
                    outputs.put(by, origin(by));
                }
            });
            let mut seen = 0;
            while seen < 199_999 {
                if let Some(found) = outputs.latest() {
                    assert_eq!(found, origin(found.job));
                    assert!(found.job >= seen);
                    seen = found.job;
                }
            }
        });
    }
}
