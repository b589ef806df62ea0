//! A wait-free ring with one producer and one consumer, for getting data out of
//! a real-time thread.
//!
//! A full ring never blocks and never overwrites: the value is refused and the
//! refusal is counted, so that the reader knows how much it has not seen.

use std::cell::UnsafeCell;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use crate::sys::cgroup;

/// Keeps what two threads write on different cache lines. 128 bytes, because
/// x86's adjacent-line prefetcher pairs lines of 64.
#[repr(align(128))]
struct Line<T>(T);

struct Shared<T> {
    slots: Box<[UnsafeCell<T>]>,
    /// Values ever pushed; written by the producer alone.
    pushed: Line<AtomicUsize>,
    /// Values ever popped; written by the consumer alone.
    popped: Line<AtomicUsize>,
    /// Values refused; written by the producer alone.
    refused: Line<AtomicU64>,
}

// SAFETY: a slot is accessed by the producer only between `popped + capacity` and
// `pushed`, and by the consumer only between `popped` and `pushed`; the two ranges
// never overlap, and the Release/Acquire pairs on the counters order the accesses.
unsafe impl<T: Send> Sync for Shared<T> {}
// SAFETY: it owns its slots, and moving it moves no thread's access.
unsafe impl<T: Send> Send for Shared<T> {}

/// The writing end.
pub struct Producer<T> {
    shared: Arc<Shared<T>>,
    /// The slot that the next value goes into.
    next: *mut T,
    /// The first slot that may not be written before the counters were looked at: the end of the
    /// slots, or the first that is full as far as the consumer's counter was seen. One comparison
    /// of a push sees both.
    stop: *mut T,
}

// SAFETY: its pointers are into the slots that it shares, and no thread's own.
unsafe impl<T: Send> Send for Producer<T> {}

/// The reading end.
pub struct Consumer<T> {
    shared: Arc<Shared<T>>,
    popped: usize,
}

/// As [`try_ring`], for a program that can't go on without. Not real-time safe.
///
/// # Panics
/// When there is no memory for it, or the capacity is above 2^32.
#[must_use]
pub fn ring<T: Copy + Send + Default>(capacity: usize) -> (Producer<T>, Consumer<T>) {
    match try_ring(capacity) {
        Ok(ends) => ends,
        Err(error) => panic!("no ring of {capacity} values: {error}"),
    }
}

/// Makes a ring of at least `capacity` values (rounded up to a power of two, at
/// least 2), its memory touched so that no push faults once it is locked. Not
/// real-time safe.
///
/// # Errors
/// EINVAL when the capacity is above 2^32, ENOMEM when there is no memory for it, or the memory
/// control group would kill.
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
    // Written, not just reserved: each page is faulted in here. Volatile, for the compiler
    // makes of all the zeros above an allocation that is zero by being absent.
    for slot in &slots {
        // SAFETY: the slot is a live T, and nobody else's yet.
        unsafe { slot.get().write_volatile(T::default()) };
    }
    let shared = Arc::new(Shared {
        slots,
        pushed: Line(AtomicUsize::new(0)),
        popped: Line(AtomicUsize::new(0)),
        refused: Line(AtomicU64::new(0)),
    });
    let mut producer = Producer {
        shared: Arc::clone(&shared),
        next: std::ptr::null_mut(),
        stop: std::ptr::null_mut(),
    };
    producer.look_for_room();
    Ok((producer, Consumer { shared, popped: 0 }))
}

impl<T: Copy + Send> Producer<T> {
    /// Appends a value; `false` when the ring is full, which is counted.
    /// Real-time safe: wait-free, no system call.
    #[inline]
    pub fn push(&mut self, value: T) -> bool {
        if self.next == self.stop && !self.look_for_room() {
            return false;
        }
        // SAFETY: `next` is a slot before `stop`: it lies outside popped..pushed, so the
        // consumer doesn't look at it until the store below publishes it.
        unsafe { self.next.write(value) };
        // SAFETY: `stop` is at most one past the last slot, and `next` was before it.
        self.next = unsafe { self.next.add(1) };
        // This thread alone writes the counter.
        let pushed = &self.shared.pushed.0;
        let count = pushed.load(Ordering::Relaxed).wrapping_add(1);
        pushed.store(count, Ordering::Release);
        true
    }

    /// Sees how far the consumer has come, and goes on at the first slot after the last;
    /// `false` when there is no room, which is counted.
    #[cold]
    fn look_for_room(&mut self) -> bool {
        let shared = &*self.shared;
        let capacity = shared.slots.len();
        let pushed = shared.pushed.0.load(Ordering::Relaxed);
        let popped = shared.popped.0.load(Ordering::Acquire);
        let room = capacity - pushed.wrapping_sub(popped);
        if room == 0 {
            let refused = shared.refused.0.load(Ordering::Relaxed);
            shared.refused.0.store(refused + 1, Ordering::Relaxed);
            return false;
        }
        let at = pushed & (capacity - 1);
        let first = UnsafeCell::raw_get(shared.slots.as_ptr());
        // SAFETY: `at` is less than the number of slots.
        self.next = unsafe { first.add(at) };
        // SAFETY: the sum is at most the number of slots.
        self.stop = unsafe { first.add(capacity.min(at + room)) };
        true
    }
}

impl<T: Copy + Send> Consumer<T> {
    /// Hands every value that is there to `take`, oldest first, and returns how
    /// many. Wait-free; frees the slots as it returns.
    #[inline]
    pub fn drain(&mut self, mut take: impl FnMut(T)) -> usize {
        self.drain_slices(|values| values.iter().copied().for_each(&mut take))
    }

    /// As [`Consumer::drain`], in at most two slices: the ring's end is between them.
    /// Real-time safe, and wait-free, as far as `take` is.
    #[inline]
    pub fn drain_slices(&mut self, mut take: impl FnMut(&[T])) -> usize {
        let pushed = self.shared.pushed.0.load(Ordering::Acquire);
        let count = pushed.wrapping_sub(self.popped);
        let capacity = self.shared.slots.len();
        let from = self.popped & (capacity - 1);
        let to_the_end = count.min(capacity - from);
        for range in [from..from + to_the_end, 0..count - to_the_end] {
            let slots = &self.shared.slots[range];
            // SAFETY: the slots lie within popped..pushed: they were written before
            // the Acquire load above saw them, and the producer leaves them alone
            // until the store below. An `UnsafeCell<T>` is laid out as its `T`.
            let values = unsafe { &*(std::ptr::from_ref(slots) as *const [T]) };
            if !values.is_empty() {
                take(values);
            }
        }
        self.popped = pushed;
        self.shared.popped.0.store(pushed, Ordering::Release);
        count
    }

    /// How many values have been refused so far because the ring was full. Real-time safe.
    #[must_use]
    pub fn refused(&self) -> u64 {
        self.shared.refused.0.load(Ordering::Relaxed)
    }

    /// How many values fit. Real-time safe.
    #[must_use]
    pub fn capacity(&self) -> usize {
        self.shared.slots.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_come_out_in_order_and_once() {
        // Miri looks at each access, and takes its time.
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
    fn slices_are_split_at_the_end_of_the_ring_alone() {
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

    #[test]
    fn counters_survive_wrapping_around() {
        let (mut producer, mut consumer) = ring::<u32>(2);
        let counters = [&producer.shared.pushed.0, &producer.shared.popped.0];
        for counter in counters {
            counter.store(usize::MAX - 1, Ordering::Relaxed);
        }
        consumer.popped = usize::MAX - 1;
        for value in 0..10 {
            assert!(producer.push(value));
            assert_eq!(consumer.drain(|seen| assert_eq!(seen, value)), 1);
        }
    }
}
