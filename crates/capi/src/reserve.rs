//! What small allocations get when malloc has nothing more.
//!
//! Rust ends the process where a small allocation fails; a C library answers with ENOMEM. So the
//! library keeps a little for itself, out of which it can always go on to the end of a call:
//! what a call returns is given up again when any of it came from here, and the call fails.
//! Everything whose size the program chooses is asked for in a way that can be refused, and
//! never comes from here.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::UnsafeCell;
use std::ptr::null_mut;
use std::sync::atomic::{AtomicU64, Ordering};

/// Bytes of it. A call takes a few hundred, a list of all the CPUs that there can be 64 KB.
const SIZE: usize = 128 << 10;
/// No larger request is met: such a one can be refused.
const LARGEST: usize = 16 << 10;
/// How its blocks are aligned: as what two threads write, see `ring`.
const ALIGNED: usize = 128;

#[repr(align(128))]
struct Arena(UnsafeCell<[u8; SIZE]>);

// SAFETY: each byte belongs to the one block of `take` that it lies in.
unsafe impl Sync for Arena {}

static ARENA: Arena = Arena(UnsafeCell::new([0; SIZE]));
/// Blocks that are out (upper half), and bytes that were given since none was (lower half).
static STATE: AtomicU64 = AtomicU64::new(0);
/// Blocks given since the start.
static DRAWN: AtomicU64 = AtomicU64::new(0);
const ONE_BLOCK: u64 = 1 << 32;

struct Keeping;

#[global_allocator]
static ALLOCATOR: Keeping = Keeping;

/// A moment from which on it is seen whether memory ran out.
pub(crate) struct Since(u64);

impl Since {
    pub(crate) fn now() -> Self {
        Self(DRAWN.load(Ordering::Relaxed))
    }

    /// Whether anything was taken out of what the library keeps: then what was made since is to
    /// be given up.
    pub(crate) fn is_short(&self) -> bool {
        DRAWN.load(Ordering::Relaxed) != self.0
    }
}

/// Whether malloc has nothing more even for little.
pub(crate) fn malloc_is_empty() -> bool {
    // SAFETY: malloc has no precondition.
    let block = unsafe { libc::malloc(4096) };
    // SAFETY: malloc's, or null.
    unsafe { libc::free(block) };
    block.is_null()
}

fn is_ours(place: *mut u8) -> bool {
    (place as usize).wrapping_sub(ARENA.0.get() as usize) < SIZE
}

/// A block of what is kept; null when it is too large, or nothing is left.
#[cold]
fn take(layout: Layout) -> *mut u8 {
    let size = layout.size().next_multiple_of(ALIGNED) as u64;
    if layout.size() > LARGEST || layout.align() > ALIGNED {
        return null_mut();
    }
    let claim = |state: u64| {
        let used = state & (ONE_BLOCK - 1);
        (used + size <= SIZE as u64).then(|| state + ONE_BLOCK + size)
    };
    match STATE.fetch_update(Ordering::Acquire, Ordering::Relaxed, claim) {
        Ok(before) => {
            DRAWN.fetch_add(1, Ordering::Relaxed);
            let offset = (before & (ONE_BLOCK - 1)) as usize;
            // SAFETY: `claim` has seen that the block lies within.
            unsafe { ARENA.0.get().cast::<u8>().add(offset) }
        }
        Err(_) => null_mut(),
    }
}

/// Takes a block back; with the last one all of it is free again.
#[cold]
fn give_back() {
    let less = |state: u64| {
        let left = state - ONE_BLOCK;
        Some(if left < ONE_BLOCK { 0 } else { left })
    };
    let _ = STATE.fetch_update(Ordering::Release, Ordering::Relaxed, less);
}

// SAFETY: blocks are malloc's, or disjoint parts of the arena that are aligned to 128 bytes; each
// goes back to where it came from.
unsafe impl GlobalAlloc for Keeping {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        // SAFETY: the caller's promise.
        let place = unsafe { System.alloc(layout) };
        if place.is_null() { take(layout) } else { place }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        // SAFETY: the caller's promise.
        let place = unsafe { System.alloc_zeroed(layout) };
        if !place.is_null() {
            return place;
        }
        let place = take(layout);
        if !place.is_null() {
            // SAFETY: the block has this size, and is the caller's.
            unsafe { place.write_bytes(0, layout.size()) };
        }
        place
    }

    unsafe fn dealloc(&self, place: *mut u8, layout: Layout) {
        if is_ours(place) {
            give_back();
        } else {
            // SAFETY: the caller's promise, and it is malloc's.
            unsafe { System.dealloc(place, layout) };
        }
    }

    unsafe fn realloc(&self, place: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        if !is_ours(place) {
            // SAFETY: the caller's promise, and it is malloc's.
            let grown = unsafe { System.realloc(place, layout, size) };
            if !grown.is_null() {
                return grown;
            }
        }
        // SAFETY: the caller's promise: not 0, and no overflow with this alignment.
        let wanted = unsafe { Layout::from_size_align_unchecked(size, layout.align()) };
        // SAFETY: as above.
        let other = unsafe { self.alloc(wanted) };
        if !other.is_null() {
            // SAFETY: both have so many bytes, and the new one is nobody else's.
            unsafe { other.copy_from_nonoverlapping(place, layout.size().min(size)) };
            // SAFETY: the caller gives the old one up.
            unsafe { self.dealloc(place, layout) };
        }
        other
    }
}
