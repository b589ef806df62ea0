//! A ring of records whose size is known when the program runs, for C and for programs that have
//! no type for them: one producer, one consumer, wait-free.
//!
//! [`crate::ring`] is the one for Rust types. Both refuse and count what finds them full.

use std::alloc::{Layout, alloc_zeroed, dealloc};
use std::io;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::sys::{cgroup, tsan};

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
    capacity: u64,
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
        let mine = &self.pushed.0;
        let pushed = mine.count.load(Ordering::Relaxed);
        let seen = mine.seen.load(Ordering::Relaxed);
        if pushed.wrapping_sub(seen) == self.capacity && !self.has_room(pushed) {
            return None;
        }
        Some(pushed & (self.capacity - 1))
    }

    /// Looks how far the consumer has come; false when all slots are full, which is counted.
    #[cold]
    fn has_room(&self, pushed: u64) -> bool {
        let popped = self.popped.0.count.load(Ordering::Acquire);
        self.pushed.0.seen.store(popped, Ordering::Relaxed);
        if pushed.wrapping_sub(popped) < self.capacity {
            return true;
        }
        let refused = self.refused.0.load(Ordering::Relaxed);
        self.refused.0.store(refused + 1, Ordering::Relaxed);
        false
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

    /// How often the producer found the ring full. Real-time safe.
    #[inline]
    pub fn refused(&self) -> u64 {
        self.refused.0.load(Ordering::Relaxed)
    }
}

/// The most bytes that a ring of records may take: 1 GB.
pub const LARGEST: usize = 1 << 30;

/// A ring of records of one size.
#[derive(Debug)]
pub struct Records {
    turns: Turns<AtomicU64>,
    slots: NonNull<u8>,
    layout: Layout,
    record: usize,
    /// From one slot to the next: the record's size rounded up to 8.
    stride: usize,
}

// SAFETY: each slot is the producer's or the consumer's, as the turns say; who is which is the
// callers' promise.
unsafe impl Send for Records {}
// SAFETY: as above.
unsafe impl Sync for Records {}

impl Records {
    /// A ring of at least `capacity` records of `record` bytes each, every page of it present.
    /// Not real-time safe.
    ///
    /// # Errors
    /// EINVAL for 0, or more than [`LARGEST`] bytes in all; ENOMEM, also where the memory control
    /// group would kill.
    pub fn new(record: usize, capacity: usize) -> io::Result<Self> {
        let error = io::Error::from_raw_os_error;
        let planned = || {
            if record == 0 || capacity == 0 || record > LARGEST {
                return None;
            }
            let stride = record.next_multiple_of(8);
            let capacity = capacity.max(2).checked_next_power_of_two()?;
            let bytes = stride.checked_mul(capacity).filter(|&all| all <= LARGEST)?;
            let layout = Layout::from_size_align(bytes, 128).ok()?;
            Some((stride, capacity, bytes, layout))
        };
        let (stride, capacity, bytes, layout) = planned().ok_or_else(|| error(libc::EINVAL))?;
        cgroup::allows(bytes)?;
        // SAFETY: the size is not 0.
        let slots = unsafe { alloc_zeroed(layout) };
        let slots = NonNull::new(slots).ok_or_else(|| error(libc::ENOMEM))?;
        for offset in (0..bytes).step_by(4096) {
            // SAFETY: within the allocation.
            let page = unsafe { slots.add(offset) };
            // SAFETY: ours alone. Zeroed memory may not be present until it is written to.
            unsafe { page.write_volatile(0) };
        }
        Ok(Self {
            turns: Turns::new(capacity as u64),
            slots,
            layout,
            record,
            stride,
        })
    }

    /// Appends a record; false when the ring is full, which is counted. Real-time safe:
    /// wait-free, no system call.
    ///
    /// # Safety
    /// One thread at a time pushes, and `record` has the size of a record.
    #[inline]
    pub unsafe fn push(&self, record: *const u8) -> bool {
        let Some(slot) = self.turns.to_write() else {
            return false;
        };
        // SAFETY: the slot is below the capacity.
        let place = unsafe { self.slots.add(slot as usize * self.stride) };
        let (pushed, popped) = self.names();
        tsan::acquire(popped);
        // SAFETY: the slot is the producer's until it is `written`; the sizes are the caller's
        // promise.
        unsafe { put(place.as_ptr(), record, self.record) };
        tsan::release(pushed);
        self.turns.written();
        true
    }

    /// Takes the oldest record; false when there is none. Real-time safe: wait-free.
    ///
    /// # Safety
    /// One thread at a time pops, and `record` has room for a record.
    #[inline]
    pub unsafe fn pop(&self, record: *mut u8) -> bool {
        let Some(slot) = self.turns.to_read() else {
            return false;
        };
        // SAFETY: the slot is below the capacity.
        let place = unsafe { self.slots.add(slot as usize * self.stride) };
        let (pushed, popped) = self.names();
        tsan::acquire(pushed);
        // SAFETY: the slot is the consumer's until it is `read`.
        unsafe { take(record, place.as_ptr(), self.record) };
        tsan::release(popped);
        self.turns.read();
        true
    }

    /// Takes the oldest records, at most `room` of them, one after the other without a gap, and
    /// returns how many. Their slots are handed back at once, after the last. Real-time safe:
    /// wait-free, no system call.
    ///
    /// # Safety
    /// One thread at a time pops or drains, and there is room for so many records at `records`.
    #[inline]
    pub unsafe fn drain(&self, records: *mut u8, room: usize) -> usize {
        let count = self.turns.full().min(room as u64);
        if count == 0 {
            return 0;
        }
        let (pushed, popped) = self.names();
        tsan::acquire(pushed);
        let oldest = self.turns.to_read().unwrap_or(0);
        for number in 0..count {
            let slot = (oldest + number) & (self.turns.capacity - 1);
            // SAFETY: the slot is below the capacity.
            let place = unsafe { self.slots.add(slot as usize * self.stride) };
            // SAFETY: the number is below the room.
            let record = unsafe { records.add(number as usize * self.record) };
            // SAFETY: the slot is full, so the consumer's until it is handed back below.
            unsafe { take(record, place.as_ptr(), self.record) };
        }
        tsan::release(popped);
        self.turns.read_many(count);
        count as usize
    }

    /// What the two counters are called before ThreadSanitizer.
    fn names(&self) -> (usize, usize) {
        let turns = &self.turns;
        (
            (&raw const turns.pushed) as usize,
            (&raw const turns.popped) as usize,
        )
    }

    /// Records lost because the ring was full. Real-time safe.
    #[must_use]
    pub fn lost(&self) -> u64 {
        self.turns.refused()
    }

    /// Records that fit. Real-time safe.
    #[must_use]
    pub fn capacity(&self) -> usize {
        self.turns.capacity as usize
    }
}

/// Copies a record into a slot, which is aligned to 8 bytes.
///
/// Word by word, where that can be: the program has just filled the record, field by field, and a
/// wider load would wait until all of them have left the processor's store buffer.
///
/// # Safety
/// Both places have `size` bytes, apart from each other; `to` is aligned to 8.
#[inline]
unsafe fn put(to: *mut u8, from: *const u8, size: usize) {
    const FEW: usize = 128;
    let aligned = from.addr().is_multiple_of(8);
    let (words, source) = (to.cast::<u64>(), from.cast::<u64>());
    // A constant number of words needs no loop.
    match size {
        // SAFETY: so many words, and aligned: seen above, and the caller's promise.
        64 if aligned => unsafe { put_pairs(words, source, 4) },
        // SAFETY: so many words, aligned as above.
        32 if aligned => unsafe { put_pairs(words, source, 2) },
        few if aligned && few <= FEW && few.is_multiple_of(8) => {
            // SAFETY: so many words, aligned as above.
            unsafe { put_words(words, source, few / 8) }
        }
        // SAFETY: so many bytes each, apart from each other: the caller's promise.
        _ => unsafe { to.copy_from_nonoverlapping(from, size) },
    }
}

/// As [`put_words`], two words by one store: it is the stores that a push waits for, once the
/// slots are further away than the nearest cache.
///
/// # Safety
/// Both places have so many pairs of words, aligned to a word, apart from each other.
#[inline(always)]
unsafe fn put_pairs(to: *mut u64, from: *const u64, pairs: usize) {
    for pair in 0..pairs {
        // SAFETY: within the caller's words.
        let place = unsafe { from.add(2 * pair) };
        // SAFETY: readable and aligned: the caller's promise.
        let low = unsafe { place.read_volatile() };
        // SAFETY: within the caller's words.
        let place = unsafe { place.add(1) };
        // SAFETY: readable and aligned: the caller's promise.
        let high = unsafe { place.read_volatile() };
        // SAFETY: within the caller's words.
        let place = unsafe { to.add(2 * pair) };
        // SAFETY: two writable words, aligned.
        unsafe { put_pair(place, low, high) };
    }
}

/// # Safety
/// `to` is two writable words, aligned to one.
#[cfg(target_arch = "x86_64")]
#[inline(always)]
unsafe fn put_pair(to: *mut u64, low: u64, high: u64) {
    use std::arch::x86_64::{_mm_set_epi64x, _mm_storeu_si128};
    // SAFETY: SSE2 is part of the architecture.
    let both = unsafe { _mm_set_epi64x(high.cast_signed(), low.cast_signed()) };
    // SAFETY: 16 writable bytes, of any alignment.
    unsafe { _mm_storeu_si128(to.cast(), both) };
}

/// # Safety
/// `to` is two writable words, aligned to one.
#[cfg(not(target_arch = "x86_64"))]
#[inline(always)]
unsafe fn put_pair(to: *mut u64, low: u64, high: u64) {
    // SAFETY: two writable words, aligned.
    unsafe { to.cast::<[u64; 2]>().write([low, high]) };
}

/// # Safety
/// Both places have so many words, aligned, apart from each other.
#[inline(always)]
unsafe fn put_words(to: *mut u64, from: *const u64, words: usize) {
    for word in 0..words {
        // SAFETY: within the caller's words.
        let place = unsafe { from.add(word) };
        // Volatile, or the compiler makes it wide again.
        // SAFETY: readable and aligned: the caller's promise.
        let value = unsafe { place.read_volatile() };
        // SAFETY: within the caller's words.
        let place = unsafe { to.add(word) };
        // SAFETY: writable and aligned: the caller's promise.
        unsafe { place.write(value) };
    }
}

/// Copies a record out of a slot: those of usual sizes in a few instructions, others by a call.
///
/// # Safety
/// Both places have `size` bytes, apart from each other.
#[inline]
unsafe fn take(to: *mut u8, from: *const u8, size: usize) {
    match size {
        // SAFETY: the caller's promise, as for the lines below.
        64 => unsafe { to.copy_from_nonoverlapping(from, 64) },
        // SAFETY: so many bytes.
        32 => unsafe { to.copy_from_nonoverlapping(from, 32) },
        // SAFETY: so many bytes.
        16 => unsafe { to.copy_from_nonoverlapping(from, 16) },
        // SAFETY: so many bytes.
        _ => unsafe { to.copy_from_nonoverlapping(from, size) },
    }
}

impl Drop for Records {
    fn drop(&mut self) {
        // SAFETY: allocated by `new` with this layout, and nobody uses it any more.
        unsafe { dealloc(self.slots.as_ptr(), self.layout) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::VecDeque;

    #[test]
    fn impossible_rings_are_refused() {
        for (record, capacity) in [
            (0, 1),
            (1, 0),
            (8, usize::MAX),
            (usize::MAX, 2),
            (LARGEST, 2),
        ] {
            assert!(Records::new(record, capacity).is_err());
        }
        assert_eq!(Records::new(1, 1).unwrap().capacity(), 2);
        assert_eq!(Records::new(24, 5).unwrap().capacity(), 8);
    }

    #[test]
    fn records_of_odd_sizes_pass_from_thread_to_thread() {
        const COUNT: u8 = 200;
        let ring = Records::new(3, 4).unwrap();
        std::thread::scope(|scope| {
            scope.spawn(|| {
                for number in 0..COUNT {
                    // SAFETY: this thread alone pushes, and a record has 3 bytes.
                    while !unsafe { ring.push([number; 3].as_ptr()) } {
                        std::thread::yield_now();
                    }
                }
            });
            let mut seen = [0; 3];
            for number in 0..COUNT {
                // SAFETY: this thread alone pops, and a record has 3 bytes.
                while !unsafe { ring.pop(seen.as_mut_ptr()) } {
                    std::thread::yield_now();
                }
                assert_eq!(seen, [number; 3]);
            }
        });
    }

    proptest! {
        // Miri would take minutes for its strategies.
        #[cfg_attr(miri, ignore)]
        #[test]
        fn it_does_what_a_queue_does(
            record in 1..40_usize,
            capacity in 1..20_usize,
            steps in proptest::collection::vec(any::<(Option<u8>, Option<u8>)>(), 0..200),
        ) {
            let ring = Records::new(record, capacity).unwrap();
            let (mut model, mut lost) = (VecDeque::new(), 0);
            let mut seen = vec![0; record];
            for (push, room) in steps {
                match (push, room) {
                    (Some(byte), _) => {
                        // SAFETY: one thread, and as many bytes as a record has.
                        let taken = unsafe { ring.push(vec![byte; record].as_ptr()) };
                        prop_assert_eq!(taken, model.len() < ring.capacity());
                        if taken { model.push_back(byte) } else { lost += 1 }
                    }
                    (None, Some(room)) => {
                        let room = usize::from(room % 24);
                        let mut all = vec![0; record * room];
                        // SAFETY: one thread, and room for so many records.
                        let count = unsafe { ring.drain(all.as_mut_ptr(), room) };
                        prop_assert_eq!(count, room.min(model.len()));
                        let expected = model.drain(..count).flat_map(|byte| vec![byte; record]);
                        let expected: Vec<u8> = expected.collect();
                        let (drained, rest) = all.split_at(count * record);
                        prop_assert_eq!(drained, expected);
                        prop_assert!(rest.iter().all(|&byte| byte == 0));
                    }
                    (None, None) => {
                        // SAFETY: as above.
                        let there = unsafe { ring.pop(seen.as_mut_ptr()) };
                        let expected = model.pop_front();
                        prop_assert_eq!(there.then(|| seen.clone()), expected.map(|byte| vec![byte; record]));
                    }
                }
                prop_assert_eq!(ring.lost(), lost);
            }
        }
    }
}
