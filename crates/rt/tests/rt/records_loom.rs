//! Checks every interleaving of a producer and a consumer of the two rings, of values and of
//! records, with loom: both let `Turns` decide who owns a slot.
#![allow(unsafe_code, reason = "tests call the C library and unsafe functions")]

use std::sync::atomic::Ordering;

use loom::cell::UnsafeCell;
use loom::sync::Arc;
use loom::thread;
use punctual_rt::records::{Counter, Turns};

/// A counter that the model checker watches.
struct Watched(loom::sync::atomic::AtomicU64);

impl Counter for Watched {
    fn new() -> Self {
        Self(loom::sync::atomic::AtomicU64::new(0))
    }

    /// A relaxed load is made only by the thread that also stores, and is no step of its own:
    /// loom keeps only the last load of a value, so a load before each store would hide the other
    /// thread's load from it, and with that most interleavings.
    fn load(&self, order: Ordering) -> u64 {
        match order {
            // SAFETY: loom reports a store by another thread at the same time.
            Ordering::Relaxed => unsafe { self.0.unsync_load() },
            order => self.0.load(order),
        }
    }

    fn store(&self, value: u64, order: Ordering) {
        self.0.store(value, order);
    }
}

struct Model {
    turns: Turns<Watched>,
    slots: [UnsafeCell<u64>; 2],
}

// SAFETY: loom checks here that only the owner of a slot accesses it.
unsafe impl Sync for Model {}
// SAFETY: the cells don't depend on the thread, and loom checks concurrent accesses.
unsafe impl Send for Model {}

impl Model {
    fn shared() -> Arc<Self> {
        Arc::new(Self {
            turns: Turns::new(2),
            slots: [UnsafeCell::new(0), UnsafeCell::new(0)],
        })
    }

    /// Reads all that is written, in one turn.
    fn drain(&self, seen: &mut Vec<u64>) {
        let count = self.turns.full();
        let oldest = self.turns.oldest();
        for number in 0..count {
            let slot = (oldest + number) % 2;
            // SAFETY: loom fails the test if another thread accesses the cell at the same time.
            seen.push(self.slots[slot as usize].with(|place| unsafe { *place }));
        }
        self.turns.read_many(count);
    }

    /// A thread that writes 1 to 3, and returns the values that fitted.
    fn written_three_times(ring: &Arc<Self>) -> thread::JoinHandle<Vec<u64>> {
        let ring = Arc::clone(ring);
        thread::spawn(move || {
            let mut taken = Vec::new();
            for value in 1..=3 {
                if let Some(slot) = ring.turns.to_write() {
                    // SAFETY: loom fails the test if another thread accesses the cell at the same
                    // time.
                    ring.slots[slot as usize].with_mut(|place| unsafe { *place = value });
                    ring.turns.written();
                    taken.push(value);
                }
            }
            taken
        })
    }
}

#[test]
fn a_slot_has_one_owner_and_every_lost_record_is_counted() {
    loom::model(|| {
        let ring = Model::shared();
        let producer = Model::written_three_times(&ring);
        let pop = || {
            let slot = ring.turns.to_read()?;
            // SAFETY: loom fails the test if another thread accesses the cell at the same time.
            let value = ring.slots[slot as usize].with(|place| unsafe { *place });
            ring.turns.read();
            Some(value)
        };
        let mut seen: Vec<u64> = (0..2).filter_map(|_| pop()).collect();
        let taken = producer.join().unwrap();
        seen.extend(std::iter::from_fn(pop));
        assert_eq!(seen, taken);
        assert_eq!(ring.turns.refused(), 3 - taken.len() as u64);
    });
}

/// A prefetch for writing could be a write: the slot must belong to the producer.
#[test]
fn a_prefetched_slot_belongs_to_the_producer() {
    loom::model(|| {
        let ring = Model::shared();
        let producer = {
            let ring = Arc::clone(&ring);
            thread::spawn(move || {
                let mut asked = 0;
                for value in 1..=3 {
                    let slot = ring.turns.to_write_and_soon(1, |later| {
                        // SAFETY: loom fails the test if another thread accesses the cell at the
                        // same time.
                        ring.slots[later as usize].with_mut(|place| unsafe { *place = 9 });
                        asked += 1;
                    });
                    if let Some(slot) = slot {
                        // SAFETY: loom fails the test if another thread accesses the cell at the
                        // same time.
                        ring.slots[slot as usize].with_mut(|place| unsafe { *place = value });
                        ring.turns.written();
                    }
                }
                asked
            })
        };
        let mut seen = Vec::new();
        for _ in 0..2 {
            if let Some(slot) = ring.turns.to_read() {
                // SAFETY: loom fails the test if another thread accesses the cell at the same
                // time.
                seen.push(ring.slots[slot as usize].with(|place| unsafe { *place }));
                ring.turns.read();
            }
        }
        assert!(seen.is_sorted() && !seen.contains(&9), "{seen:?}");
        // The first push, and the third if it saw both slots free.
        assert!((1..=2).contains(&producer.join().unwrap()));
    });
}

/// The consumer reads several slots after one load of the producer's counter, and returns them by
/// one store.
#[test]
fn slots_that_are_drained_together_have_one_owner() {
    loom::model(|| {
        let ring = Model::shared();
        let producer = Model::written_three_times(&ring);
        let mut seen = Vec::new();
        ring.drain(&mut seen);
        let taken = producer.join().unwrap();
        ring.drain(&mut seen);
        assert_eq!(seen, taken);
    });
}

/// The ring of values: the producer writes all slots that were free at its last look, and looks
/// again only then.
#[test]
fn slots_that_were_free_at_one_look_belong_to_the_producer() {
    loom::model(|| {
        let ring = Model::shared();
        let producer = {
            let ring = Arc::clone(&ring);
            thread::spawn(move || {
                let (mut next, mut room) = (0, 0);
                let mut taken = Vec::new();
                for value in 1..=4 {
                    if room == 0 {
                        let Some(free) = ring.turns.free() else {
                            continue;
                        };
                        (next, room) = free;
                    }
                    // SAFETY: loom fails the test if another thread accesses the cell at the same
                    // time.
                    ring.slots[next as usize].with_mut(|place| unsafe { *place = value });
                    ring.turns.written();
                    taken.push(value);
                    (next, room) = ((next + 1) % 2, room - 1);
                }
                taken
            })
        };
        let mut seen = Vec::new();
        ring.drain(&mut seen);
        let taken = producer.join().unwrap();
        ring.drain(&mut seen);
        assert_eq!(seen, taken);
        assert_eq!(ring.turns.refused(), 4 - taken.len() as u64);
    });
}

/// The end of a log: its writer checks for the end before it empties the ring, and therefore sees
/// all records that were logged before.
#[test]
fn records_logged_before_the_end_are_written() {
    loom::model(|| {
        let ring = Model::shared();
        let ends = Arc::new(loom::sync::atomic::AtomicBool::new(false));
        let writer = {
            let (ring, ends) = (Arc::clone(&ring), Arc::clone(&ends));
            thread::spawn(move || {
                let mut seen = Vec::new();
                loop {
                    let last = ends.load(Ordering::Acquire);
                    while let Some(slot) = ring.turns.to_read() {
                        // SAFETY: loom fails the test if another thread accesses the cell at the
                        // same time.
                        seen.push(ring.slots[slot as usize].with(|place| unsafe { *place }));
                        ring.turns.read();
                    }
                    if last {
                        return seen;
                    }
                    thread::yield_now();
                }
            })
        };
        for value in 1..=2 {
            let slot = ring.turns.to_write().expect("two slots");
            // SAFETY: loom fails the test if another thread accesses the cell at the same time.
            ring.slots[slot as usize].with_mut(|place| unsafe { *place = value });
            ring.turns.written();
        }
        ends.store(true, Ordering::Release);
        assert_eq!(writer.join().unwrap(), [1, 2]);
    });
}
