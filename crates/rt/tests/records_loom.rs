//! Every interleaving of a producer and a consumer of the ring of records, by loom.

use std::sync::atomic::Ordering;

use loom::cell::UnsafeCell;
use loom::sync::Arc;
use loom::thread;
use punctual_rt::records::{Counter, Turns};

/// A counter under the model checker's eyes.
struct Watched(loom::sync::atomic::AtomicU64);

impl Counter for Watched {
    fn new() -> Self {
        Self(loom::sync::atomic::AtomicU64::new(0))
    }

    /// A relaxed load is of the thread that alone stores, and no step of its own: loom keeps the
    /// last load of a value only, so that one before each store would hide the other thread's load
    /// from it, and with that most interleavings.
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

// SAFETY: whose turn a slot is, is what loom checks here.
unsafe impl Sync for Model {}
// SAFETY: as above.
unsafe impl Send for Model {}

impl Model {
    fn shared() -> Arc<Self> {
        Arc::new(Self {
            turns: Turns::new(2),
            slots: [UnsafeCell::new(0), UnsafeCell::new(0)],
        })
    }

    /// A thread that writes 1 to 3, and returns those that there was room for.
    fn written_three_times(ring: &Arc<Self>) -> thread::JoinHandle<Vec<u64>> {
        let ring = Arc::clone(ring);
        thread::spawn(move || {
            let mut taken = Vec::new();
            for value in 1..=3 {
                if let Some(slot) = ring.turns.to_write() {
                    // SAFETY: loom reports a race here.
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
fn a_slot_is_never_in_two_hands_and_nothing_is_lost_uncounted() {
    loom::model(|| {
        let ring = Model::shared();
        let producer = Model::written_three_times(&ring);
        let pop = || {
            let slot = ring.turns.to_read()?;
            // SAFETY: loom reports a race here.
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

/// What is asked of the caches for later pushes could be a write: the slot is the producer's.
#[test]
fn a_slot_that_is_asked_for_is_in_the_producers_hand() {
    loom::model(|| {
        let ring = Model::shared();
        let producer = {
            let ring = Arc::clone(&ring);
            thread::spawn(move || {
                let mut asked = 0;
                for value in 1..=3 {
                    let slot = ring.turns.to_write_and_soon(1, |later| {
                        // SAFETY: loom reports a race here.
                        ring.slots[later as usize].with_mut(|place| unsafe { *place = 9 });
                        asked += 1;
                    });
                    if let Some(slot) = slot {
                        // SAFETY: loom reports a race here.
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
                // SAFETY: loom reports a race here.
                seen.push(ring.slots[slot as usize].with(|place| unsafe { *place }));
                ring.turns.read();
            }
        }
        assert!(seen.is_sorted() && !seen.contains(&9), "{seen:?}");
        // The first push, and the third where it saw both slots free.
        assert!((1..=2).contains(&producer.join().unwrap()));
    });
}

/// Several slots are read by one look at the producer's counter, and handed back by one store.
#[test]
fn slots_that_are_drained_at_once_are_in_one_hand_too() {
    loom::model(|| {
        let ring = Model::shared();
        let producer = Model::written_three_times(&ring);
        let drain = |seen: &mut Vec<u64>| {
            let count = ring.turns.full();
            let oldest = ring.turns.to_read().unwrap_or(0);
            for number in 0..count {
                let slot = (oldest + number) % 2;
                // SAFETY: loom reports a race here.
                seen.push(ring.slots[slot as usize].with(|place| unsafe { *place }));
            }
            ring.turns.read_many(count);
        };
        let mut seen = Vec::new();
        drain(&mut seen);
        let taken = producer.join().unwrap();
        drain(&mut seen);
        assert_eq!(seen, taken);
    });
}

/// How the log ends: its writer asks whether this is the end before it empties the ring, and
/// so sees all that was logged before.
#[test]
fn what_was_logged_before_the_end_is_written() {
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
                        // SAFETY: loom reports a race here.
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
            // SAFETY: loom reports a race here.
            ring.slots[slot as usize].with_mut(|place| unsafe { *place = value });
            ring.turns.written();
        }
        ends.store(true, Ordering::Release);
        assert_eq!(writer.join().unwrap(), [1, 2]);
    });
}
