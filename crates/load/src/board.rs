//! The board: memory that the controller and all processes of one load share. Each worker counts
//! its work on a cache line of its own; the controller can read it at any time without disturbing
//! the workers.

#![expect(unsafe_code, reason = "memory shared by the processes of a load")]

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU8, AtomicU32, AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

use rustix::fs::{MemfdFlags, memfd_create};
use rustix::mm::{MapFlags, ProtFlags, mmap, munmap};

use crate::error::WorkError;
use crate::sys;

/// The number of cache lines; worker N counts on line N modulo this.
pub const SLOTS: usize = 4096;
/// How many kinds of work besides the main one a generator may count.
pub const ALSO: usize = 4;
/// The largest delay of a task's start, if there is a seed.
const MOST_DELAY: Duration = Duration::from_millis(10);
const ERROR_BYTES: usize = 1024;
const MAGIC: u64 = 0x7075_6e63_6c6f_6164;

/// The states of a load, in their order.
pub mod state {
    /// Not all workers have arrived.
    pub const STARTING: u32 = 0;
    /// All workers have arrived and wait.
    pub const READY: u32 = 1;
    /// The controller has released them.
    pub const RUNNING: u32 = 2;
    /// A finite load has done all of its work.
    pub const FINISHED: u32 = 3;
    /// The load failed; the error says why.
    pub const FAILED: u32 = 4;
}

#[repr(C)]
struct Header {
    magic: AtomicU64,
    state: AtomicU32,
    error_claimed: AtomicU32,
    expected: AtomicU64,
    arrived: AtomicU64,
    alive: AtomicU64,
    begin: AtomicU64,
    end: AtomicU64,
    seed: AtomicU64,
    error_length: AtomicU32,
    error: [AtomicU8; ERROR_BYTES],
}

/// Where one worker counts.
#[repr(C, align(64))]
pub struct Slot {
    work: AtomicU64,
    also: [AtomicU64; ALSO],
}

impl Slot {
    /// Counts units of the load's main work.
    pub fn add(&self, units: u64) {
        self.work.fetch_add(units, Ordering::Relaxed);
    }

    /// Overwrites the count of the main work.
    pub fn set(&self, units: u64) {
        self.work.store(units, Ordering::Relaxed);
    }

    /// Counts units of additional work number `which`.
    pub fn add_also(&self, which: usize, units: u64) {
        self.also[which].fetch_add(units, Ordering::Relaxed);
    }
}

#[repr(C)]
struct Layout {
    header: Header,
    slots: [Slot; SLOTS],
}

/// The splitmix64 mixer: every bit of the result depends on every bit given.
pub(crate) fn scatter(value: u64) -> u64 {
    let value = value.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let value = (value ^ (value >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let value = (value ^ (value >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    value ^ (value >> 31)
}

/// The shared memory of one load.
#[derive(Debug)]
pub struct Board {
    fd: OwnedFd,
    layout: NonNull<Layout>,
}

// SAFETY: all that is behind the pointer are atomics, and the mapping lives
// as long as the board.
unsafe impl Send for Board {}
// SAFETY: a shared board gives access to atomics alone, which any thread may use at any time.
unsafe impl Sync for Board {}

impl Board {
    /// A new board, all zeros.
    pub fn new() -> io::Result<Self> {
        let file = std::fs::File::from(memfd_create("punctual-load", MemfdFlags::CLOEXEC)?);
        file.set_len(size_of::<Layout>() as u64)?;
        let board = Self::map(file.into())?;
        board.header().magic.store(MAGIC, Ordering::Relaxed);
        Ok(board)
    }

    /// The board behind an inherited descriptor.
    pub fn open(fd: OwnedFd) -> io::Result<Self> {
        let file = std::fs::File::from(fd);
        let not_ours =
            || io::Error::new(io::ErrorKind::InvalidInput, "it is not the board of a load");
        if file.metadata()?.len() != size_of::<Layout>() as u64 {
            return Err(not_ours());
        }
        let board = Self::map(file.into())?;
        if board.header().magic.load(Ordering::Relaxed) != MAGIC {
            return Err(not_ours());
        }
        Ok(board)
    }

    fn map(fd: OwnedFd) -> io::Result<Self> {
        let protection = ProtFlags::READ | ProtFlags::WRITE;
        let (anywhere, bytes) = (std::ptr::null_mut(), size_of::<Layout>());
        // SAFETY: a new mapping at an address that the kernel chooses touches
        // no memory of ours.
        let address = unsafe { mmap(anywhere, bytes, protection, MapFlags::SHARED, &fd, 0) }?;
        let layout = NonNull::new(address.cast()).ok_or(io::ErrorKind::OutOfMemory)?;
        Ok(Board { fd, layout })
    }

    fn layout(&self) -> &Layout {
        // SAFETY: the mapping is as large as Layout (the file is, by new and
        // open), page-aligned, lives as long as self, and holds atomics alone,
        // for which every bit pattern is valid and shared writing is allowed.
        unsafe { self.layout.as_ref() }
    }

    fn header(&self) -> &Header {
        &self.layout().header
    }

    /// The descriptor, for a child process.
    pub fn fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }

    /// The slot of worker `index`.
    pub fn slot(&self, index: usize) -> &Slot {
        &self.layout().slots[index % SLOTS]
    }

    /// Sets how many tasks (processes or threads) will arrive.
    pub fn expect(&self, tasks: usize) {
        self.header()
            .expected
            .store(tasks as u64, Ordering::Relaxed);
    }

    /// How many tasks were announced.
    pub fn expected(&self) -> u64 {
        self.header().expected.load(Ordering::Relaxed)
    }

    /// How many tasks are running now.
    pub fn alive(&self) -> u64 {
        self.header().alive.load(Ordering::Relaxed)
    }

    /// Overwrites the number of running tasks.
    pub fn set_alive(&self, tasks: u64) {
        self.header().alive.store(tasks, Ordering::Relaxed);
    }

    /// Counts a task that has ended.
    pub fn left(&self) {
        let _ = self
            .header()
            .alive
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, |n| n.checked_sub(1));
    }

    /// Gives the tasks different start times and other random choices. With 0, the default, they
    /// start at once.
    pub fn set_seed(&self, seed: u64) {
        self.header().seed.store(seed, Ordering::Relaxed);
    }

    /// The seed of a task's random choices; `task` is any number that identifies it.
    pub fn seed(&self, task: u64) -> u64 {
        match self.header().seed.load(Ordering::Relaxed) {
            0 => task,
            seed => scatter(scatter(seed) ^ task),
        }
    }

    /// Reports that this task is ready, and waits until all tasks of all loads are ready and the
    /// controller releases them together; with a seed, waits for its own delay in addition.
    pub fn arrive(&self) {
        let header = self.header();
        header.alive.fetch_add(1, Ordering::Relaxed);
        let before = header.arrived.fetch_add(1, Ordering::AcqRel);
        if before + 1 == self.expected() {
            self.enter(state::READY);
        }
        while let now @ (state::STARTING | state::READY) = self.state() {
            self.await_change(now, Duration::from_secs(1));
        }
        if header.seed.load(Ordering::Relaxed) != 0 {
            let share = self.seed(before) as u32;
            thread::sleep(MOST_DELAY.mul_f64(f64::from(share) / f64::from(u32::MAX)));
        }
    }

    /// Releases the tasks.
    pub fn release(&self) {
        self.header().begin.store(sys::now(), Ordering::Relaxed);
        self.enter(state::RUNNING);
    }

    /// Waits at most `timeout` until the load leaves the state `now`.
    pub fn await_change(&self, now: u32, timeout: Duration) {
        if self.state() == now {
            sys::futex_wait(&self.header().state, now, timeout);
        }
    }

    /// The state now.
    pub fn state(&self) -> u32 {
        self.header().state.load(Ordering::Acquire)
    }

    fn enter(&self, next: u32) {
        self.header().state.fetch_max(next, Ordering::AcqRel);
        sys::futex_wake_all(&self.header().state);
    }

    /// Sets that a finite load is done.
    pub fn finish(&self) {
        self.header().end.store(sys::now(), Ordering::Relaxed);
        self.enter(state::FINISHED);
    }

    /// Records why the load failed. Only the first reason is kept.
    pub fn fail(&self, why: &WorkError) {
        let why = why.to_string();
        let header = self.header();
        if header.error_claimed.swap(1, Ordering::AcqRel) == 0 {
            let mut length = why.len().min(ERROR_BYTES);
            while !why.is_char_boundary(length) {
                length -= 1;
            }
            for (cell, &byte) in header.error.iter().zip(&why.as_bytes()[..length]) {
                cell.store(byte, Ordering::Relaxed);
            }
            header.end.store(sys::now(), Ordering::Relaxed);
            header.error_length.store(length as u32, Ordering::Release);
        }
        self.enter(state::FAILED);
    }

    /// Why the load failed, if it did.
    pub fn error(&self) -> Option<String> {
        let header = self.header();
        let length = header.error_length.load(Ordering::Acquire) as usize;
        let bytes: Vec<u8> = header.error[..length.min(ERROR_BYTES)]
            .iter()
            .map(|cell| cell.load(Ordering::Relaxed))
            .collect();
        (length > 0).then(|| String::from_utf8_lossy(&bytes).into_owned())
    }

    /// When the workers were released, in CLOCK_MONOTONIC nanoseconds.
    pub fn begin(&self) -> Option<u64> {
        Some(self.header().begin.load(Ordering::Relaxed)).filter(|&t| t > 0)
    }

    /// When a finite load was done, or a failed one failed.
    pub fn end(&self) -> Option<u64> {
        Some(self.header().end.load(Ordering::Relaxed)).filter(|&t| t > 0)
    }

    /// The slots that may be in use: there are never more workers than tasks.
    fn used(&self) -> &[Slot] {
        &self.layout().slots[..(self.expected() as usize).min(SLOTS)]
    }

    /// The work of all workers together.
    pub fn work(&self) -> u64 {
        let work = |slot: &Slot| slot.work.load(Ordering::Relaxed);
        self.used().iter().map(work).fold(0, u64::wrapping_add)
    }

    /// The sum of all counts of any kind: it grows as long as there is work.
    pub fn counts(&self) -> u64 {
        (0..ALSO)
            .map(|which| self.also(which))
            .fold(self.work(), u64::wrapping_add)
    }

    /// Whether the load is done, or has failed.
    pub fn is_over(&self) -> bool {
        self.state() >= state::FINISHED
    }

    /// Additional work number `which` of all workers together.
    pub fn also(&self, which: usize) -> u64 {
        let also = |slot: &Slot| slot.also[which].load(Ordering::Relaxed);
        self.used().iter().map(also).fold(0, u64::wrapping_add)
    }
}

impl Drop for Board {
    fn drop(&mut self) {
        // SAFETY: this mapping of exactly this size was made by map, and no
        // reference into it outlives the board.
        let _ = unsafe { munmap(self.layout.as_ptr().cast(), size_of::<Layout>()) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seed_changes_choices_always_alike_and_without_one_they_are_as_they_were() {
        let board = Board::new().expect("a board");
        let with = |seed| {
            board.set_seed(seed);
            [1, 2].map(|task| board.seed(task))
        };
        assert_eq!(with(0), [1, 2]);
        let [first, second] = [with(1), with(2)];
        assert_eq!([with(1), with(2)], [first, second]);
        let all: std::collections::BTreeSet<u64> =
            [1, 2].into_iter().chain(first).chain(second).collect();
        assert_eq!(all.len(), 6);
    }

    #[test]
    fn tasks_go_on_with_a_seed_too() {
        let board = Board::new().expect("a board");
        board.set_seed(3);
        board.expect(4);
        thread::scope(|scope| {
            let waiting: Vec<_> = (0..4).map(|_| scope.spawn(|| board.arrive())).collect();
            while board.state() != state::READY {
                board.await_change(state::STARTING, Duration::from_millis(20));
            }
            board.release();
            waiting
                .into_iter()
                .for_each(|task| task.join().expect("went on"));
        });
        assert_eq!(board.alive(), 4);
    }
}
