//! A ring of records whose size is known at run time, for C and for programs without a Rust type
//! for them: one producer, one consumer, wait-free.
//!
//! [`crate::ring`] is the ring for Rust types. Both refuse and count records that find the ring
//! full.

#![expect(unsafe_code, reason = "the ring of bytes behind C's records")]

use std::alloc::{Layout, alloc_zeroed, dealloc};
use std::io;
use std::ptr::NonNull;
use std::sync::atomic::AtomicU64;

mod copy;
mod turns;

pub use turns::{Counter, Turns};

use crate::sys::{cache, cgroup, tsan};
use copy::{put, take};

/// The size limit of a ring: 1 GB.
pub const LARGEST: usize = 1 << 30;

/// How far ahead a push prefetches slots, in bytes: 32 cache lines of 64. Between 16 and 64 lines
/// the time per record differs by 4 %; with 4 lines it is 20 % longer.
const AHEAD: usize = 2048;

/// [`AHEAD`] in slots.
const fn ahead_of(stride: usize) -> u64 {
    if stride < AHEAD {
        (AHEAD / stride) as u64
    } else {
        1
    }
}

/// The distance between slots, which are aligned to 8 bytes.
const fn stride_of(record: usize) -> usize {
    record.next_multiple_of(8)
}

/// A ring of records of one size.
#[derive(Debug)]
pub struct Records {
    turns: Turns<AtomicU64>,
    slots: NonNull<u8>,
    layout: Layout,
    record: usize,
    /// The stride for the record size.
    stride: usize,
    /// [`ahead_of`] the stride.
    ahead: u64,
}

// SAFETY: a slot belongs to the producer or to the consumer, as the turns say. `push` and `pop`
// are unsafe and require one thread at each end, so no two threads access a slot at once.
unsafe impl Send for Records {}
// SAFETY: `Records` owns its allocation, and nothing in it belongs to one thread.
unsafe impl Sync for Records {}

impl Records {
    /// Allocates a ring of at least `capacity` records of `record` bytes each, and prefaults it.
    /// Not real-time safe.
    ///
    /// # Errors
    /// EINVAL for 0, or for more than [`LARGEST`] bytes in total; ENOMEM, also when the
    /// allocation would trigger the memory cgroup's OOM killer.
    pub fn new(record: usize, capacity: usize) -> io::Result<Self> {
        let error = io::Error::from_raw_os_error;
        let planned = || {
            if record == 0 || capacity == 0 || record > LARGEST {
                return None;
            }
            let stride = stride_of(record);
            let capacity = capacity.max(2).checked_next_power_of_two()?;
            let bytes = stride.checked_mul(capacity).filter(|&all| all <= LARGEST)?;
            let layout = Layout::from_size_align(bytes, 128).ok()?;
            Some((stride, capacity, bytes, layout))
        };
        let (stride, capacity, bytes, layout) = planned().ok_or_else(|| error(libc::EINVAL))?;
        cgroup::allows(bytes)?;
        // SAFETY: the layout's size is not 0.
        let slots = unsafe { alloc_zeroed(layout) };
        let slots = NonNull::new(slots).ok_or_else(|| error(libc::ENOMEM))?;
        for offset in (0..bytes).step_by(4096) {
            // SAFETY: `at` is less than the size of the allocation.
            let page = unsafe { slots.add(offset) };
            // SAFETY: nothing else has the address yet. Zeroed memory may be absent until it is
            // written to.
            unsafe { page.write_volatile(0) };
        }
        Ok(Self {
            turns: Turns::new(capacity as u64),
            slots,
            layout,
            record,
            stride,
            ahead: ahead_of(stride),
        })
    }

    /// Appends a record; false when the ring is full, which is counted. Real-time safe:
    /// wait-free, no system call.
    ///
    /// # Safety
    /// One thread at a time pushes, and `record` has the size of a record.
    #[inline]
    pub unsafe fn push(&self, record: *const u8) -> bool {
        // SAFETY: the slot and `record` both have the size of a record.
        let put = |slot| unsafe { put(slot, record, self.record) };
        // SAFETY: by contract one thread pushes at a time; the stride is this ring's.
        unsafe { self.push_by(self.stride, self.ahead, put) }
    }

    /// Appends a record of a known type: its size is a constant, and the compiler can often build
    /// it in place. Returns false when the ring is full, which is counted. Real-time safe:
    /// wait-free, no system call.
    ///
    /// # Safety
    /// One thread at a time pushes, and a record has the size of `T`.
    #[inline]
    pub unsafe fn push_value<T: Copy>(&self, value: T) -> bool {
        debug_assert_eq!(size_of::<T>(), self.record);
        let put = |slot: *mut u8| {
            // SAFETY: the slot has room for a `T` and belongs to the producer now.
            unsafe { slot.cast::<T>().write_unaligned(value) };
        };
        let stride = const { stride_of(size_of::<T>()) };
        let ahead = const { ahead_of(stride_of(size_of::<T>())) };
        // SAFETY: by contract one thread pushes at a time, and a record has the size of `T`, so
        // the stride is this ring's.
        unsafe { self.push_by(stride, ahead, put) }
    }

    /// Calls `fill` on the next free slot and publishes the slot to the consumer; false when none
    /// is free.
    ///
    /// The consumer read the slot last, so its cache line is in the consumer's cache. The line is
    /// prefetched some slots ahead; otherwise the stores of each push would wait for it.
    ///
    /// # Safety
    /// One thread at a time pushes, and `stride` is the ring's.
    #[inline(always)]
    unsafe fn push_by(&self, stride: usize, ahead: u64, fill: impl FnOnce(*mut u8)) -> bool {
        let place = |slot: u64| {
            // SAFETY: the slot number is below the capacity.
            unsafe { self.slots.add(slot as usize * stride) }.as_ptr()
        };
        let soon = |slot| cache::prepare_write(place(slot));
        let Some(slot) = self.turns.to_write_and_soon(ahead, soon) else {
            return false;
        };
        let (pushed, popped) = self.turns.names();
        tsan::acquire(popped);
        fill(place(slot));
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
        // SAFETY: by contract `record` has room for a record, and the slot holds one.
        let take = |slot| unsafe { take(record, slot, self.record) };
        // SAFETY: by contract one thread pops at a time; the stride is this ring's.
        unsafe { self.pop_by(self.stride, take) }
    }

    /// As [`Records::pop`], for a record whose type the program knows: its size is a constant.
    /// Real-time safe: wait-free.
    ///
    /// # Safety
    /// One thread at a time pops, a record has the size of `T`, and what was pushed are values
    /// of it.
    #[inline]
    pub unsafe fn pop_value<T: Copy>(&self, value: &mut T) -> bool {
        debug_assert_eq!(size_of::<T>(), self.record);
        // SAFETY: the slot holds a `T`, of any alignment.
        let take = |slot: *const u8| *value = unsafe { slot.cast::<T>().read_unaligned() };
        // SAFETY: by contract one thread pops at a time, and a record has the size of `T`, so the
        // stride is this ring's.
        unsafe { self.pop_by(const { stride_of(size_of::<T>()) }, take) }
    }

    /// Calls `take` on the oldest slot and returns the slot to the producer; false when there is
    /// none.
    ///
    /// # Safety
    /// One thread at a time pops, and `stride` is the ring's.
    #[inline(always)]
    unsafe fn pop_by(&self, stride: usize, take: impl FnOnce(*const u8)) -> bool {
        let Some(slot) = self.turns.to_read() else {
            return false;
        };
        // SAFETY: the slot number is below the capacity.
        let place = unsafe { self.slots.add(slot as usize * stride) };
        let (pushed, popped) = self.turns.names();
        tsan::acquire(pushed);
        take(place.as_ptr());
        tsan::release(popped);
        self.turns.read();
        true
    }

    /// Copies the oldest records, at most `room`, without gaps, and returns how many. The slots
    /// are returned to the producer together, after the last copy. Real-time safe: wait-free, no
    /// system call.
    ///
    /// # Safety
    /// One thread at a time pops or drains, and `records` has room for `room` records.
    #[inline]
    pub unsafe fn drain(&self, records: *mut u8, room: usize) -> usize {
        let count = self.turns.full().min(room as u64);
        if count == 0 {
            return 0;
        }
        let (pushed, popped) = self.turns.names();
        tsan::acquire(pushed);
        let oldest = self.turns.oldest();
        for number in 0..count {
            let slot = (oldest + number) & (self.turns.capacity - 1);
            // SAFETY: the slot number is below the capacity.
            let place = unsafe { self.slots.add(slot as usize * self.stride) };
            // SAFETY: the record's index is below `room`.
            let record = unsafe { records.add(number as usize * self.record) };
            // SAFETY: the slot is full, so it belongs to the consumer until it is returned below.
            unsafe { take(record, place.as_ptr(), self.record) };
        }
        tsan::release(popped);
        self.turns.read_many(count);
        count as usize
    }

    /// Records lost because the ring was full. Real-time safe.
    #[must_use]
    pub fn lost(&self) -> u64 {
        self.turns.refused()
    }

    /// The number of records that fit. Real-time safe.
    #[must_use]
    pub fn capacity(&self) -> usize {
        self.turns.capacity as usize
    }
}

impl Drop for Records {
    fn drop(&mut self) {
        // SAFETY: allocated by `new` with this layout; `drop` has the only reference left.
        unsafe { dealloc(self.slots.as_ptr(), self.layout) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::VecDeque;

    #[test]
    fn a_ring_of_invalid_size_is_refused() {
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
    fn records_of_odd_sizes_arrive_in_order_in_another_thread() {
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

    /// Laid out as in C: with padding, and with a larger alignment than a slot's.
    #[derive(Clone, Copy, Debug, Default, PartialEq)]
    #[repr(C, align(16))]
    struct Padded {
        time: u64,
        kind: u8,
    }

    #[test]
    fn values_arrive_unchanged_in_another_thread() {
        const COUNT: u64 = if cfg!(miri) { 300 } else { 30_000 };
        // More slots than a push prefetches ahead, and fewer.
        for capacity in [4, 4 * AHEAD / size_of::<Padded>()] {
            let ring = Records::new(size_of::<Padded>(), capacity).unwrap();
            let padded = |time: u64| Padded {
                time,
                kind: time as u8,
            };
            std::thread::scope(|scope| {
                scope.spawn(|| {
                    for number in 0..COUNT {
                        // SAFETY: only this thread pushes, and the records have this size.
                        while !unsafe { ring.push_value(padded(number)) } {
                            std::thread::yield_now();
                        }
                    }
                });
                let mut seen = Padded::default();
                for number in 0..COUNT {
                    // SAFETY: only this thread pops, and the records are values of this type.
                    while !unsafe { ring.pop_value(&mut seen) } {
                        std::thread::yield_now();
                    }
                    assert_eq!(seen, padded(number));
                }
                // SAFETY: only this thread pops, and the records are values of this type.
                assert!(!unsafe { ring.pop_value(&mut seen) });
                assert_eq!(seen, padded(COUNT - 1));
            });
        }
    }

    #[test]
    fn a_record_pushed_as_bytes_is_popped_as_a_value_and_vice_versa() {
        // 12 bytes, in slots of 16.
        type Triple = [u32; 3];
        let ring = Records::new(size_of::<Triple>(), 4).unwrap();
        let taken = (0..6).map(|number: u32| {
            let triple = [number; 3];
            match number % 2 {
                // SAFETY: one thread, records of 12 bytes.
                0 => unsafe { ring.push_value(triple) },
                // SAFETY: one thread, records of 12 bytes.
                _ => unsafe { ring.push(triple.as_ptr().cast()) },
            }
        });
        assert_eq!(taken.filter(|&taken| taken).count(), 4);
        assert_eq!(ring.lost(), 2);
        for number in 0..4 {
            let mut seen: Triple = [9; 3];
            let there = match number {
                // SAFETY: one thread, records of 12 bytes.
                0 | 1 => unsafe { ring.pop_value(&mut seen) },
                // SAFETY: one thread, room for 12 bytes.
                _ => unsafe { ring.pop(seen.as_mut_ptr().cast()) },
            };
            assert!(there);
            assert_eq!(seen, [number; 3]);
        }
    }

    proptest! {
        // Miri would need minutes for proptest's strategies.
        #[cfg_attr(miri, ignore)]
        #[test]
        fn the_ring_behaves_like_a_bounded_queue(
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
                        // SAFETY: one thread, and `value` has the size of a record.
                        let taken = unsafe { ring.push(vec![byte; record].as_ptr()) };
                        prop_assert_eq!(taken, model.len() < ring.capacity());
                        if taken { model.push_back(byte) } else { lost += 1 }
                    }
                    (None, Some(room)) => {
                        let room = usize::from(room % 24);
                        let mut all = vec![0; record * room];
                        // SAFETY: one thread, and `all` has room for the records requested.
                        let count = unsafe { ring.drain(all.as_mut_ptr(), room) };
                        prop_assert_eq!(count, room.min(model.len()));
                        let expected = model.drain(..count).flat_map(|byte| vec![byte; record]);
                        let expected: Vec<u8> = expected.collect();
                        let (drained, rest) = all.split_at(count * record);
                        prop_assert_eq!(drained, expected);
                        prop_assert!(rest.iter().all(|&byte| byte == 0));
                    }
                    (None, None) => {
                        // SAFETY: one thread, and `seen` has room for a record.
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
