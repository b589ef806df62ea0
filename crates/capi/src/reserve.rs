//! An emergency reserve for small allocations when malloc fails.
//!
//! Rust aborts the process when a small allocation fails; a C library must return ENOMEM. So the
//! library keeps a small reserve, which always suffices to complete a call. If a call used the
//! reserve, its result is freed again, and the call fails. Allocations whose size the program
//! chooses are fallible, and never use the reserve.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::UnsafeCell;
use std::ptr::null_mut;
use std::sync::atomic::{AtomicU64, Ordering};

/// Its size in bytes. A call needs a few hundred, a list of all possible CPUs 64 KB.
const SIZE: usize = 128 << 10;
/// Larger requests aren't served from it: they are fallible.
const LARGEST: usize = 16 << 10;
/// The alignment of its blocks, large enough for the ring's cache lines, see `ring`.
const ALIGNED: usize = 128;

#[repr(align(128))]
struct Arena(UnsafeCell<[u8; SIZE]>);

// SAFETY: each byte belongs to the one block that `take` has allocated there.
unsafe impl Sync for Arena {}

static ARENA: Arena = Arena(UnsafeCell::new([0; SIZE]));
/// The number of allocated blocks (upper half), and the bytes used since there was none (lower
/// half).
static STATE: AtomicU64 = AtomicU64::new(0);
/// The number of blocks allocated since the start.
static DRAWN: AtomicU64 = AtomicU64::new(0);
const ONE_BLOCK: u64 = 1 << 32;

struct Keeping;

#[global_allocator]
static ALLOCATOR: Keeping = Keeping;

/// A moment, from which on use of the reserve is detected.
pub(crate) struct Since(u64);

impl Since {
    pub(crate) fn now() -> Self {
        Self(DRAWN.load(Ordering::Relaxed))
    }

    /// Whether the reserve was used: then everything allocated since must be freed.
    pub(crate) fn is_short(&self) -> bool {
        DRAWN.load(Ordering::Relaxed) != self.0
    }
}

/// Whether malloc fails even for a small block.
pub(crate) fn malloc_is_empty() -> bool {
    // SAFETY: malloc has no precondition.
    let block = unsafe { libc::malloc(4096) };
    // SAFETY: a pointer from malloc, or null.
    unsafe { libc::free(block) };
    block.is_null()
}

fn is_ours(place: *mut u8) -> bool {
    (place as usize).wrapping_sub(ARENA.0.get() as usize) < SIZE
}

/// Allocates a block of the reserve; null when it is too large, or nothing is left.
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
            // SAFETY: `claim` has checked that the block lies within the arena.
            unsafe { ARENA.0.get().cast::<u8>().add(offset) }
        }
        Err(_) => null_mut(),
    }
}

/// Frees a block; when it was the last one, the whole reserve is free again.
#[cold]
fn give_back() {
    let less = |state: u64| {
        let left = state - ONE_BLOCK;
        Some(if left < ONE_BLOCK { 0 } else { left })
    };
    let _ = STATE.fetch_update(Ordering::Release, Ordering::Relaxed, less);
}

// SAFETY: blocks are malloc's, or disjoint parts of the arena that are aligned to 128 bytes; each
// is freed where it was allocated.
unsafe impl GlobalAlloc for Keeping {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        // SAFETY: by contract the layout is valid for malloc.
        let place = unsafe { System.alloc(layout) };
        if place.is_null() { take(layout) } else { place }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        // SAFETY: by contract the layout is valid for calloc.
        let place = unsafe { System.alloc_zeroed(layout) };
        if !place.is_null() {
            return place;
        }
        let place = take(layout);
        if !place.is_null() {
            // SAFETY: the block has this size, and belongs to the caller.
            unsafe { place.write_bytes(0, layout.size()) };
        }
        place
    }

    unsafe fn dealloc(&self, place: *mut u8, layout: Layout) {
        if is_ours(place) {
            give_back();
        } else {
            // SAFETY: not in the arena, so malloc allocated it, by contract with this layout.
            unsafe { System.dealloc(place, layout) };
        }
    }

    unsafe fn realloc(&self, place: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        if !is_ours(place) {
            // SAFETY: not in the arena, so malloc allocated it, by contract with this layout.
            let grown = unsafe { System.realloc(place, layout, size) };
            if !grown.is_null() {
                return grown;
            }
        }
        // SAFETY: by contract the size is not 0, and doesn't overflow with this alignment.
        let wanted = unsafe { Layout::from_size_align_unchecked(size, layout.align()) };
        // SAFETY: by contract the new layout is valid.
        let other = unsafe { self.alloc(wanted) };
        if !other.is_null() {
            // SAFETY: both blocks have that many bytes, and the new one is unused.
            unsafe { other.copy_from_nonoverlapping(place, layout.size().min(size)) };
            // SAFETY: by contract the caller doesn't use the old block any more.
            unsafe { self.dealloc(place, layout) };
        }
        other
    }
}
