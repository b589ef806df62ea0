//! Who owns each slot of a ring.
#![forbid(unsafe_code)]

use std::sync::atomic::{AtomicU64, Ordering};

/// A counter of [`Turns`]: an atomic, or one of a model checker.
pub trait Counter {
    /// Starts at zero.
    fn new() -> Self;
    /// Reads it.
    fn load(&self, order: Ordering) -> u64;
    /// Writes it.
    fn store(&self, value: u64, order: Ordering);
}

impl Counter for AtomicU64 {
    fn new() -> Self {
        Self::new(0)
    }
    #[inline]
    fn load(&self, order: Ordering) -> u64 {
        self.load(order)
    }
    #[inline]
    fn store(&self, value: u64, order: Ordering) {
        self.store(value, order);
    }
}

/// Puts data of two threads on different cache lines. 128 bytes, because x86's adjacent-line
/// prefetcher pairs lines of 64.
#[derive(Debug)]
#[repr(align(128))]
struct Line<T>(T);

/// The owner of each slot: the protocol of the ring, without the memory.
#[derive(Debug)]
pub struct Turns<C> {
    /// A power of two.
    pub(super) capacity: u64,
    /// Written only by the producer.
    pushed: Line<End<C>>,
    /// Written only by the consumer.
    popped: Line<End<C>>,
    /// Written only by the producer.
    refused: Line<C>,
}

/// One end's counter, and the last known value of the other end's. The other counter is in
/// another thread's cache line, so it is read only when this end can't proceed otherwise.
#[derive(Debug)]
struct End<C> {
    count: C,
    seen: C,
}

impl<C: Counter> End<C> {
    fn new() -> Self {
        Self {
            count: C::new(),
            seen: C::new(),
        }
    }
}

impl<C: Counter> Turns<C> {
    /// For a number of slots that is a power of two. Real-time safe.
    #[must_use]
    pub fn new(capacity: u64) -> Self {
        Self {
            capacity,
            pushed: Line(End::new()),
            popped: Line(End::new()),
            refused: Line(C::new()),
        }
    }

    /// The slot that the producer may write to; `None` when all are full, which is counted.
    /// Real-time safe.
    #[inline]
    pub fn to_write(&self) -> Option<u64> {
        self.to_write_and_soon(0, |_| ())
    }

    /// Like [`Turns::to_write`]. Also calls `soon` with the slot `ahead` of that one, if the
    /// producer may write to it too, as far as it knows. Real-time safe.
    #[inline]
    pub fn to_write_and_soon(&self, ahead: u64, soon: impl FnOnce(u64)) -> Option<u64> {
        let mine = &self.pushed.0;
        let pushed = mine.count.load(Ordering::Relaxed);
        let mut full = pushed.wrapping_sub(mine.seen.load(Ordering::Relaxed));
        if full == self.capacity {
            full = self.look_for_room(pushed)?;
        }
        if ahead < self.capacity - full {
            soon(pushed.wrapping_add(ahead) & (self.capacity - 1));
        }
        Some(pushed & (self.capacity - 1))
    }

    /// The slot that the producer may write to, and how many are free from there on, round the
    /// end; `None` when all are full, which is counted. Reads the consumer's counter. Real-time
    /// safe.
    #[inline]
    pub fn free(&self) -> Option<(u64, u64)> {
        let pushed = self.pushed.0.count.load(Ordering::Relaxed);
        let full = self.look_for_room(pushed)?;
        Some((pushed & (self.capacity - 1), self.capacity - full))
    }

    /// Reads the consumer's counter. Returns how many slots are full; `None` when all are, which
    /// is counted.
    #[cold]
    fn look_for_room(&self, pushed: u64) -> Option<u64> {
        let popped = self.popped.0.count.load(Ordering::Acquire);
        self.pushed.0.seen.store(popped, Ordering::Relaxed);
        let full = pushed.wrapping_sub(popped);
        if full < self.capacity {
            return Some(full);
        }
        let refused = self.refused.0.load(Ordering::Relaxed);
        self.refused.0.store(refused + 1, Ordering::Relaxed);
        None
    }

    /// Publishes the slot of [`Turns::to_write`] to the consumer. Real-time safe.
    #[inline]
    pub fn written(&self) {
        let count = &self.pushed.0.count;
        let pushed = count.load(Ordering::Relaxed);
        count.store(pushed.wrapping_add(1), Ordering::Release);
    }

    /// The oldest full slot, which the consumer may read. Real-time safe.
    #[inline]
    pub fn to_read(&self) -> Option<u64> {
        let mine = &self.popped.0;
        let popped = mine.count.load(Ordering::Relaxed);
        if popped == mine.seen.load(Ordering::Relaxed) {
            let pushed = self.pushed.0.count.load(Ordering::Acquire);
            if popped == pushed {
                return None;
            }
            mine.seen.store(pushed, Ordering::Relaxed);
        }
        Some(popped & (self.capacity - 1))
    }

    /// Returns the slot of [`Turns::to_read`] to the producer. Real-time safe.
    #[inline]
    pub fn read(&self) {
        let count = &self.popped.0.count;
        let popped = count.load(Ordering::Relaxed);
        count.store(popped.wrapping_add(1), Ordering::Release);
    }

    /// How many slots are full, from [`Turns::to_read`] on: the consumer may read them all.
    /// Real-time safe.
    #[inline]
    pub fn full(&self) -> u64 {
        let mine = &self.popped.0;
        let pushed = self.pushed.0.count.load(Ordering::Acquire);
        mine.seen.store(pushed, Ordering::Relaxed);
        pushed.wrapping_sub(mine.count.load(Ordering::Relaxed))
    }

    /// The first of the slots of [`Turns::full`]. Real-time safe.
    #[inline]
    pub fn oldest(&self) -> u64 {
        self.popped.0.count.load(Ordering::Relaxed) & (self.capacity - 1)
    }

    /// Returns the oldest `count` slots to the producer, at most [`Turns::full`]. Real-time safe.
    #[inline]
    pub fn read_many(&self, count: u64) {
        let popped = &self.popped.0.count;
        let before = popped.load(Ordering::Relaxed);
        popped.store(before.wrapping_add(count), Ordering::Release);
    }

    /// The addresses that identify the counters of pushes and of pops to ThreadSanitizer.
    pub(super) fn names(&self) -> (usize, usize) {
        (
            (&raw const self.pushed) as usize,
            (&raw const self.popped) as usize,
        )
    }

    /// How often the producer found the ring full. Real-time safe.
    #[inline]
    pub fn refused(&self) -> u64 {
        self.refused.0.load(Ordering::Relaxed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counters_wrap_around() {
        let turns = Turns::<AtomicU64>::new(2);
        for end in [&turns.pushed.0, &turns.popped.0] {
            for counter in [&end.count, &end.seen] {
                counter.store(u64::MAX - 1, Ordering::Relaxed);
            }
        }
        for number in 0..10 {
            let slot = number % 2;
            assert_eq!(turns.free(), Some((slot, 2)));
            assert_eq!(turns.to_write(), Some(slot));
            turns.written();
            assert_eq!((turns.full(), turns.oldest()), (1, slot));
            assert_eq!(turns.to_read(), Some(slot));
            match slot {
                0 => turns.read(),
                _ => turns.read_many(1),
            }
        }
        assert_eq!((turns.full(), turns.refused()), (0, 0));
    }

    #[test]
    fn only_slots_known_to_be_free_are_prefetched() {
        let turns = Turns::<AtomicU64>::new(8);
        let push = |ahead| {
            let mut asked = None;
            let slot = turns.to_write_and_soon(ahead, |slot| asked = Some(slot));
            slot.inspect(|_| turns.written());
            (slot, asked)
        };
        for number in 0..8 {
            let asked = (number < 5).then_some(number + 3);
            assert_eq!(push(3), (Some(number), asked));
        }
        assert_eq!(push(3), (None, None));
        for _ in 0..4 {
            turns.to_read().unwrap();
            turns.read();
        }
        // Slots 0 to 3 are free; 4 to 7 belong to the consumer.
        assert_eq!(push(3), (Some(0), Some(3)));
        assert_eq!(push(3), (Some(1), None));
        assert_eq!(push(8), (Some(2), None));
        assert_eq!(push(u64::from(u32::MAX)), (Some(3), None));
        assert_eq!(turns.refused(), 1);
    }
}
