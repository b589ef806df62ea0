//! Stacks for real-time threads: prefaulted, guarded on both sides, of fixed sizes, and kept
//! ready.
//!
//! A default stack is reserved but not present: a new thread that touches 200 KB of it takes some
//! fifty page faults. A [`Stack`] has every page in memory when it is allocated, so it never
//! faults, and it is locked as soon as the process locks its memory. The pages below and above it
//! are without access: an overflow ends in SIGSEGV at that page rather than in a neighbour's
//! data.
//!
//! To start a thread on a stack, pass it to `pthread_attr_setstack(&attr, stack.base(),
//! stack.len())`, then call `pthread_create`, and drop the [`Stack`] only after `pthread_join`.
//! glibc reports a guard size of 0 for such a stack (the guards exist all the same), and puts the
//! thread's control block and thread-local storage, some 4.4 KB, at the top of it.
//!
//! # How it works
//! As in slab and umem, a stack is constructed once and cached in its constructed state. Each
//! thread keeps some free stacks of each class in a magazine; behind the magazines is a depot
//! with a priority-inheriting lock; behind that is the kernel. The state of each stack is one
//! atomic word in a table out of line, so that every free is checked, and a free stack in another
//! thread's magazine stays available.
//!
//! # On a real-time thread
//! Call [`reserve`] first: an allocation that finds a free stack of its class anywhere in the
//! process makes no system call (except for the depot's lock, when that is contended) and takes
//! no page fault. The first call of any function of this module sets up the allocator, so make it
//! before the program's real-time section. No function may be called from a signal handler,
//! except [`locate`].
//!
//! A `fork` makes every page of the process copy-on-write: each thread of the *parent* would
//! fault again at its next write to each page. Stacks of this allocator are unshared before
//! `fork` returns in the parent. This copies them, some 0.3 ms for a megabyte; a thread that runs
//! meanwhile faults at each page that it writes to first, and the program's heap and data are not
//! covered. Therefore don't fork in a real-time section; `posix_spawn` and `vfork` share the
//! pages and are harmless. In the child, each stack is prefaulted again when it is allocated,
//! which costs one system call.

mod aside;
mod bounds;
mod cache;
mod class;
mod debug;
mod error;
mod explain;
mod fault;
mod fork;
mod header;
mod inspect;
mod lock;
mod magazine;
mod names;
mod options;
mod pool;
mod region;
mod report;
mod setup;
mod stats;
mod table;
mod trace;
mod usage;
mod view;
mod word;

use std::ffi::c_int;
use std::ptr::NonNull;

pub use bounds::{Bounds, bounds, bounds_of, contains, set_bounds};
pub use class::{Class, SIZES, class_of, sizes};
pub use error::StackError;
pub use inspect::{
    Part, Place, Residency, high_water, high_water_of_class, locate, prefault, residency,
};
pub use options::DebugOptions;
pub use stats::Stats;

use crate::sys::{cancel, tsan};
use word::State;

/// The parts of the allocator that a model checker runs; not part of the interface.
#[doc(hidden)]
pub mod protocol {
    pub use super::header::{Header, steal};
    pub use super::magazine::{Depot, Magazine, ROUNDS};
    pub use super::word::{Atom, State, Word};
}

/// Internal functions for libpunctual; not part of the interface.
#[doc(hidden)]
pub mod refusal {
    pub use super::debug::refused;
}

/// The debug-mode call for code that starts threads; not part of the interface.
#[doc(hidden)]
pub mod watching {
    pub use super::fault::watch;
}

/// Sets up the allocator: its lock, its fork handlers, the options of `PUNCTUAL_STACK_DEBUG`.
///
/// Every other function calls it if necessary. Not for a real-time thread.
pub fn init() {
    setup::set_up();
}

/// Allocates a stack of `class` and returns its lowest address.
///
/// The content is what the last user left. A real-time thread may call it while a stack of the
/// class is free, see [`reserve`].
///
/// # Errors
/// [`StackError::NoMemory`], [`StackError::LockLimit`]: after free stacks of other sizes, except
/// reserved ones, have been returned to the kernel.
#[inline]
pub fn alloc(class: Class) -> Result<NonNull<u8>, StackError> {
    let base = pool::alloc(class)?;
    // An acquire after the release by its last user.
    tsan::acquire(base.as_ptr() as usize);
    Ok(base)
}

/// Frees the stack whose lowest address is `address`.
///
/// A real-time thread may call it: it makes no system call, and takes the depot's lock when
/// the thread's magazine is full.
///
/// # Errors
/// A wrong free changes nothing: [`StackError::NotAStack`], [`StackError::WrongClass`],
/// [`StackError::NotInUse`] (a double free), [`StackError::InUse`] (the stack that the caller
/// runs on, or one with a thread known to run on it). With `PUNCTUAL_STACK_DEBUG` each except the
/// last is reported on standard error, and the wrong class and the double free abort.
///
/// # Safety
/// If the free is a right one, nothing on the stack is used any more: no thread runs on it
/// and no reference into it is left.
#[expect(unsafe_code, reason = "a free by address, as in C")]
#[inline]
pub unsafe fn free(address: usize, class: Class) -> Result<(), StackError> {
    tsan::release(address);
    pool::free(address, class)
}

/// Maps stacks until `count` of `class` are free, so that as many allocations, by any threads,
/// need nothing from the kernel. They are kept when memory runs short for stacks of other sizes,
/// until a [`trim`].
///
/// Not for a real-time thread: it maps memory and reads files.
///
/// # Errors
/// [`StackError::NoMemory`], also when the memory cgroup would kill a process instead of
/// refusing, as far as that can be known in advance; [`StackError::LockLimit`]. The stacks mapped
/// so far stay free.
pub fn reserve(class: Class, count: usize) -> Result<(), StackError> {
    pool::reserve(class, count)
}

/// Returns free stacks of `class` to the kernel until `keep` are left. Returns how many.
///
/// This includes stacks in other threads' magazines. Not for a real-time thread: it unmaps
/// memory.
///
/// # Errors
/// [`StackError::NoMemory`] when `vm.max_map_count` doesn't allow splitting the mapping; that
/// stack stays free.
pub fn trim(class: Class, keep: usize) -> Result<usize, StackError> {
    pool::trim(class, keep)
}

/// Declares that a thread runs on the stack at `address` from now on, or no longer does. A live
/// stack can't be freed. Returns false when no such stack is in use, or when it was marked so
/// already.
///
/// A real-time thread may call it: one compare-and-swap.
pub fn set_live(address: usize, live: bool) -> bool {
    let (from, to) = if live {
        (State::Used, State::Live)
    } else {
        (State::Live, State::Used)
    };
    pool::mark(address, from, to)
}

/// Writes a line to `fd` for each stack that is in use, with the call stack of its allocation if
/// `PUNCTUAL_STACK_DEBUG=audit` keeps it. Returns how many there are.
///
/// Not for a real-time thread: it writes to a file.
pub fn debug_leaks(fd: c_int) -> usize {
    let _held = cancel::hold();
    debug::leaks(fd)
}

/// Writes a line and both traces to `fd` for each free stack that was written to since it was
/// freed, whether or not it is ever used again. Returns how many there are. The same is done on
/// standard error when the process exits.
///
/// Not for a real-time thread: it reads all free stacks, and writes to a file.
///
/// # Errors
/// [`StackError::GuardsDisabled`] without `PUNCTUAL_STACK_DEBUG=guards`.
pub fn debug_check(fd: c_int) -> Result<usize, StackError> {
    let _held = cancel::hold();
    setup::set_up();
    debug::check(fd)
}

/// Writes to `fd` everything known of the stack that contains or guards `address`: its state, the
/// threads that run on it (those that block at the moment, and the caller), how much of it was
/// used, whether it was written to while it was free, and the allocation and free traces, if
/// `PUNCTUAL_STACK_DEBUG=audit` keeps them. If it is no stack of this allocator, it writes a line
/// that describes the address and returns false.
///
/// Not for a real-time thread: it reads files and writes to one. A handler of SIGSEGV may call it.
pub fn debug_report(address: usize, fd: c_int) -> bool {
    let _held = cancel::hold();
    explain::report(address, fd)
}

/// A stack that is freed when dropped.
#[derive(Debug)]
pub struct Stack {
    base: NonNull<u8>,
    class: Class,
}

#[expect(unsafe_code, reason = "the memory is no thread's own")]
// SAFETY: a Stack is the only owner of its memory and has no ties to the thread it was made
// on.
unsafe impl Send for Stack {}
#[expect(unsafe_code, reason = "the memory is no thread's own")]
// SAFETY: a shared Stack gives out its address and size alone.
unsafe impl Sync for Stack {}

impl Stack {
    /// Allocates a stack of at least `size` bytes: `size` is rounded up to a class, 32 KB to 2
    /// MB.
    ///
    /// A real-time thread may call it while a stack of the class is free, see [`reserve`].
    ///
    /// # Errors
    /// [`StackError::NoSuchClass`] above 2 MB, [`StackError::NoMemory`],
    /// [`StackError::LockLimit`].
    pub fn new(size: usize) -> Result<Self, StackError> {
        let class = Class::fitting(size).ok_or(StackError::NoSuchClass(size))?;
        Ok(Self {
            base: alloc(class)?,
            class,
        })
    }

    /// The lowest address, as in `pthread_attr_setstack` and `mmap`: the first byte above the
    /// lower guard. Real-time safe.
    pub fn base(&self) -> NonNull<u8> {
        self.base
    }

    /// The size in bytes, without guards: one of [`SIZES`]. Real-time safe.
    #[expect(clippy::len_without_is_empty, reason = "a stack is never empty")]
    pub fn len(&self) -> usize {
        self.class.size()
    }

    /// The bytes without access below the stack, and above it. Real-time safe.
    pub fn guard_size(&self) -> usize {
        self.class.guard_size()
    }

    /// The address range of the stack. Real-time safe.
    pub fn bounds(&self) -> Bounds {
        let low = self.base.as_ptr() as usize;
        Bounds {
            low,
            high: low + self.len(),
        }
    }

    /// Declares that a thread runs on the stack from now on, so that no free succeeds, not even
    /// by a drop, until [`Stack::mark_idle`]. Returns false when it was already marked.
    ///
    /// Call it before `pthread_create`. A real-time thread may call it: one compare-and-swap.
    pub fn mark_live(&self) -> bool {
        set_live(self.base.as_ptr() as usize, true)
    }

    /// Declares that no thread runs on the stack any longer. Returns false when it was not
    /// marked.
    ///
    /// Call it after `pthread_join`. A real-time thread may call it: one compare-and-swap.
    pub fn mark_idle(&self) -> bool {
        set_live(self.base.as_ptr() as usize, false)
    }

    /// The largest number of bytes of it that were ever in use; see the function [`high_water`].
    ///
    /// Not for a real-time thread: it reads up to the whole stack.
    #[expect(unsafe_code, reason = "reads the whole stack")]
    pub fn high_water(&self) -> usize {
        // SAFETY: only the drop of `self` frees the stack.
        unsafe { high_water(self.base.as_ptr() as usize) }.unwrap_or(0)
    }
}

impl Drop for Stack {
    #[expect(unsafe_code, reason = "a free by address, as in C")]
    fn drop(&mut self) {
        // The only possible error is InUse: a stack with a running thread is leaked, not unmapped.
        // SAFETY: `self` was the only owner, and no reference into the stack outlives it.
        let _ = unsafe { free(self.base.as_ptr() as usize, self.class) };
    }
}
