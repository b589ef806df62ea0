//! A wait-free ring with one producer and one consumer, for getting data out of
//! a real-time thread.
//!
//! A full ring never blocks and never overwrites: it refuses the value and counts the refusal, so
//! that the reader knows how many values it lost.

#![expect(unsafe_code, reason = "slots shared by two threads")]

use std::cell::UnsafeCell;
use std::io;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use crate::records::Turns;
use crate::sys::cgroup;

struct Shared<T> {
    slots: Box<[UnsafeCell<T>]>,
    turns: Turns<AtomicU64>,
}

// SAFETY: the producer accesses only slots that `turns` gives it to write, the consumer only those
// that it gives it to read; no slot is both at a time, and `turns` orders the accesses.
unsafe impl<T: Send> Sync for Shared<T> {}
// SAFETY: it owns its slots, and none of its fields depends on the thread that holds it.
unsafe impl<T: Send> Send for Shared<T> {}

/// The writing end.
pub struct Producer<T> {
    shared: Arc<Shared<T>>,
    /// The slot that the next value goes into.
    next: *mut T,
    /// The first slot that may not be written before the counters are read again: the end of the
    /// slots, or the first full slot as of the last reading of the consumer's counter. One
    /// comparison per push covers both.
    stop: *mut T,
}

// SAFETY: its pointers lead into the shared slots, and don't depend on the thread.
unsafe impl<T: Send> Send for Producer<T> {}

/// The reading end.
pub struct Consumer<T> {
    shared: Arc<Shared<T>>,
}

/// Like [`try_ring`], for a program that can't run without the ring. Not real-time safe.
///
/// # Panics
/// When memory is short, or the capacity is above 2^32.
#[must_use]
pub fn ring<T: Copy + Send + Default>(capacity: usize) -> (Producer<T>, Consumer<T>) {
    match try_ring(capacity) {
        Ok(ends) => ends,
        Err(error) => panic!("no ring of {capacity} values: {error}"),
    }
}

/// Creates a ring of at least `capacity` values (rounded up to a power of two, at least 2) and
/// touches its memory, so that no push faults once it is locked. Not real-time safe.
///
/// # Errors
/// EINVAL when the capacity is above 2^32; ENOMEM when memory is short, also when the allocation
/// would trigger the memory cgroup's OOM killer.
pub fn try_ring<T: Copy + Send + Default>(
    capacity: usize,
) -> io::Result<(Producer<T>, Consumer<T>)> {
    if capacity > 1 << 32 {
        return Err(io::Error::from_raw_os_error(libc::EINVAL));
    }
    let capacity = capacity.max(2).next_power_of_two();
    cgroup::allows(capacity.saturating_mul(size_of::<T>()))?;
    let mut slots = Vec::new();
    slots
        .try_reserve_exact(capacity)
        .map_err(|_| io::Error::from_raw_os_error(libc::ENOMEM))?;
    slots.extend((0..capacity).map(|_| UnsafeCell::new(T::default())));
    let slots: Box<[UnsafeCell<T>]> = slots.into_boxed_slice();
    // Written, not only reserved: each page is faulted in here. Volatile, because the compiler
    // turns writing zeros into a zeroed allocation, whose pages are absent.
    for slot in &slots {
        // SAFETY: the slot is a live T, and no other thread has the ring yet.
        unsafe { slot.get().write_volatile(T::default()) };
    }
    let turns = Turns::new(slots.len() as u64);
    let shared = Arc::new(Shared { slots, turns });
    let mut producer = Producer {
        shared: Arc::clone(&shared),
        next: std::ptr::null_mut(),
        stop: std::ptr::null_mut(),
    };
    producer.look_for_room();
    Ok((producer, Consumer { shared }))
}

impl<T: Copy + Send> Producer<T> {
    /// Appends a value; `false` when the ring is full, which is counted.
    /// Real-time safe: wait-free, no system call.
    #[inline]
    pub fn push(&mut self, value: T) -> bool {
        if self.next == self.stop && !self.look_for_room() {
            return false;
        }
        // SAFETY: `next` is before `stop`, so the slot is free: the consumer doesn't read it until
        // it is published below.
        unsafe { self.next.write(value) };
        // SAFETY: `stop` is at most one past the last slot, and `next` was before it.
        self.next = unsafe { self.next.add(1) };
        self.shared.turns.written();
        true
    }

    /// Reads the consumer's counter and sets `next` and `stop` for the free slots; `false` when
    /// there are none, which is counted.
    #[cold]
    fn look_for_room(&mut self) -> bool {
        let shared = &*self.shared;
        let capacity = shared.slots.len();
        let Some((at, room)) = shared.turns.free() else {
            return false;
        };
        // Both are at most the number of slots.
        let (at, room) = (at as usize, room as usize);
        let first = UnsafeCell::raw_get(shared.slots.as_ptr());
        // SAFETY: `at` is less than the number of slots.
        self.next = unsafe { first.add(at) };
        // SAFETY: the sum is at most the number of slots.
        self.stop = unsafe { first.add(capacity.min(at + room)) };
        true
    }
}

impl<T: Copy + Send> Consumer<T> {
    /// Calls `take` on every available value, oldest first, and returns how many there were.
    /// Wait-free; the slots are free when it returns.
    #[inline]
    pub fn drain(&mut self, mut take: impl FnMut(T)) -> usize {
        self.drain_slices(|values| values.iter().copied().for_each(&mut take))
    }

    /// Like [`Consumer::drain`], with at most two slices, split at the end of the ring. Real-time
    /// safe and wait-free as far as `take` is.
    #[inline]
    pub fn drain_slices(&mut self, mut take: impl FnMut(&[T])) -> usize {
        let turns = &self.shared.turns;
        let count = turns.full() as usize;
        let capacity = self.shared.slots.len();
        let from = turns.oldest() as usize;
        let to_the_end = count.min(capacity - from);
        for range in [from..from + to_the_end, 0..count - to_the_end] {
            let slots = &self.shared.slots[range];
            // SAFETY: the slots are full ones, which the producer doesn't touch until they are
            // returned below. An `UnsafeCell<T>` has the layout of a `T`.
            let values = unsafe { &*(std::ptr::from_ref(slots) as *const [T]) };
            if !values.is_empty() {
                take(values);
            }
        }
        turns.read_many(count as u64);
        count
    }

    /// How many values have been refused so far because the ring was full. Real-time safe.
    #[must_use]
    pub fn refused(&self) -> u64 {
        self.shared.turns.refused()
    }

    /// The number of values that fit. Real-time safe.
    #[must_use]
    pub fn capacity(&self) -> usize {
        self.shared.slots.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_value_is_popped_once_and_in_order() {
        // Miri checks each access, which is slow.
        const COUNT: u64 = if cfg!(miri) { 3_000 } else { 300_000 };
        let (mut producer, mut consumer) = ring::<u64>(1024);
        let writer = std::thread::spawn(move || {
            let mut next = 0;
            while next < COUNT {
                if producer.push(next) {
                    next += 1;
                } else {
                    std::thread::yield_now();
                }
            }
        });
        let mut expected = 0;
        while expected < COUNT {
            let drained = consumer.drain(|value| {
                assert_eq!(value, expected);
                expected += 1;
            });
            if drained == 0 {
                std::thread::yield_now();
            }
        }
        writer.join().unwrap();
        assert_eq!(consumer.drain(|_| ()), 0);
    }

    #[test]
    fn slices_are_split_only_at_the_end_of_the_ring() {
        let (mut producer, mut consumer) = ring::<u32>(4);
        let mut seen = Vec::new();
        for (values, slices) in [
            (0..3, vec![vec![0, 1, 2]]),
            (3..6, vec![vec![3], vec![4, 5]]),
            (6..6, vec![]),
            (6..8, vec![vec![6, 7]]),
        ] {
            values.for_each(|value| assert!(producer.push(value)));
            seen.clear();
            consumer.drain_slices(|values| seen.push(values.to_vec()));
            assert_eq!(seen, slices);
        }
    }

    #[test]
    fn a_full_ring_refuses_and_counts() {
        let (mut producer, mut consumer) = ring::<u32>(4);
        assert_eq!(consumer.capacity(), 4);
        let accepted: Vec<bool> = (0..6).map(|value| producer.push(value)).collect();
        assert_eq!(accepted, [true, true, true, true, false, false]);
        assert_eq!(consumer.refused(), 2);
        let mut seen = Vec::new();
        assert_eq!(consumer.drain(|value| seen.push(value)), 4);
        assert_eq!(seen, [0, 1, 2, 3]);
        assert!(producer.push(9));
        consumer.drain(|value| seen.push(value));
        assert_eq!(seen.last(), Some(&9));
    }
}
