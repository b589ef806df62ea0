//! Whose turn each slot of a ring is.

use std::sync::atomic::{AtomicU64, Ordering};

/// A counter of [`Turns`]: an atomic, or a model checker's.
pub trait Counter {
    /// At zero.
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

/// Keeps what two threads write on different cache lines.
#[derive(Debug)]
#[repr(align(128))]
struct Line<T>(T);

/// Whose turn each slot is: the protocol of the ring, without the memory.
#[derive(Debug)]
pub struct Turns<C> {
    /// A power of two.
    pub(super) capacity: u64,
    /// Written by the producer alone.
    pushed: Line<End<C>>,
    /// Written by the consumer alone.
    popped: Line<End<C>>,
    /// Written by the producer alone.
    refused: Line<C>,
}

/// One end's counter, and how far it has seen the other end's: that is another thread's cache
/// line, which it looks at only when it can't go on.
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

    /// The slot that the producer may write to, `None` when all are full, which is counted.
    /// Real-time safe.
    #[inline]
    pub fn to_write(&self) -> Option<u64> {
        self.to_write_and_soon(0, |_| ())
    }

    /// As [`Turns::to_write`]. `soon` gets the slot `ahead` of that one, if the producer may write
    /// to it too, as far as it has seen. Real-time safe.
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

    /// Looks how far the consumer has come: how many slots are full, `None` when all are, which
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

    /// Hands the slot of [`Turns::to_write`] to the consumer. Real-time safe.
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

    /// Hands the slot of [`Turns::to_read`] back to the producer. Real-time safe.
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

    /// Hands the oldest `count` slots back to the producer, at most those that are
    /// [`Turns::full`]. Real-time safe.
    #[inline]
    pub fn read_many(&self, count: u64) {
        let popped = &self.popped.0.count;
        let before = popped.load(Ordering::Relaxed);
        popped.store(before.wrapping_add(count), Ordering::Release);
    }

    /// What the counters of pushes and of pops are called before ThreadSanitizer.
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
    fn only_slots_that_are_seen_to_be_free_are_asked_for() {
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
        // Slots 0 to 3 are free, and 4 to 7 the consumer's.
        assert_eq!(push(3), (Some(0), Some(3)));
        assert_eq!(push(3), (Some(1), None));
        assert_eq!(push(8), (Some(2), None));
        assert_eq!(push(u64::from(u32::MAX)), (Some(3), None));
        assert_eq!(turns.refused(), 1);
    }
}
