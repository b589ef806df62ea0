//! Stacks that a real-time thread can stand on: present before they are used, guarded on
//! both sides, of fixed sizes, and kept ready.
//!
//! A default stack is an empty promise: a new thread that touches 200 KB of it takes some
//! fifty page faults. A [`Stack`] has every page in memory when it is allocated, so it
//! faults never, and is locked as soon as the process locks its memory. The page below and
//! the page above are without access: an overflow ends in SIGSEGV at that page rather than
//! in a neighbour's data.
//!
//! To start a thread on one, give it to `pthread_attr_setstack(&attr, stack.base(),
//! stack.len())`, then `pthread_create`, and drop the [`Stack`] only after `pthread_join`.
//! glibc reports a guard size of 0 for a stack that was handed to it (the guards are there
//! all the same), and puts the thread's control block and thread-local storage, some 4.4 KB,
//! at the top of it.
//!
//! # How it works
//! The slab and umem way: a stack is constructed once, and cached in its constructed state.
//! Each thread keeps some free stacks of each class in a magazine; behind the magazines is a
//! depot with a priority-inheriting lock; behind that is the kernel. The truth about each
//! stack is one atomic word in a table out of line, so that every free is checked, and a
//! free stack is never out of reach in another thread's magazine.
//!
//! # On a real-time thread
//! [`reserve`] first: an allocation that finds a free stack of its class anywhere in the
//! process makes no system call (but for the depot's lock, when that is contended) and takes
//! no page fault. The first call of any function of this module sets the allocator up, so
//! let it be made before the program is on duty. None may be called from a signal handler,
//! [`locate`] excepted.
//!
//! A `fork` makes every page of the process copy-on-write: each thread of the *parent* would take
//! a fault again at its next write to each page. Stacks of this allocator are made the parent's
//! own again before `fork` returns there, which copies them, some 0.3 ms for a megabyte; a
//! thread that runs meanwhile takes a fault for each page that it writes to first, and its heap
//! and data are the program's matter. So a program on duty doesn't fork: `posix_spawn` and
//! `vfork` share the pages and are harmless. In the child, stacks that it takes are made present
//! again, which costs one system call for each.

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

/// The parts of the allocator that a model checker runs; not for programs.
#[doc(hidden)]
pub mod protocol {
    pub use super::header::{Header, steal};
    pub use super::magazine::{Depot, Magazine, ROUNDS};
    pub use super::word::{Atom, State, Word};
}

/// What libpunctual asks of the allocator beyond this; not for programs.
#[doc(hidden)]
pub mod refusal {
    pub use super::debug::refused;
}

/// What starts threads asks of the debug mode; not for programs.
#[doc(hidden)]
pub mod watching {
    pub use super::fault::watch;
}

/// Makes the allocator ready: its lock, its fork handlers, what `PUNCTUAL_STACK_DEBUG` asks.
///
/// Every other function does it where it hasn't been done. Not for a real-time thread.
pub fn init() {
    setup::set_up();
}

/// Hands out a stack of `class`, the lowest address of which is returned.
///
/// The content is whatever the last user left. A real-time thread may call it while a stack
/// of the class is free, see [`reserve`].
///
/// # Errors
/// [`StackError::NoMemory`], [`StackError::LockLimit`]: after free stacks of other sizes, those
/// that were not reserved, have been given back to the kernel.
#[inline]
pub fn alloc(class: Class) -> Result<NonNull<u8>, StackError> {
    let base = pool::alloc(class)?;
    // From the thread that had it before.
    tsan::acquire(base.as_ptr() as usize);
    Ok(base)
}

/// Takes back the stack whose lowest address is `address`.
///
/// A real-time thread may call it: it makes no system call, and takes the depot's lock when
/// the thread's magazine is full.
///
/// # Errors
/// Nothing is changed by a wrong free: [`StackError::NotAStack`],
/// [`StackError::WrongClass`], [`StackError::NotInUse`] (a double free),
/// [`StackError::InUse`] (the stack the caller stands on, or one with a thread known to run
/// on it). With `PUNCTUAL_STACK_DEBUG` each but the last is reported on standard error, and the
/// wrong class and the double free abort.
///
/// # Safety
/// If the free is a right one, nothing on the stack is used any more: no thread runs on it
/// and no reference into it is left.
#[inline]
pub unsafe fn free(address: usize, class: Class) -> Result<(), StackError> {
    tsan::release(address);
    pool::free(address, class)
}

/// Makes stacks until `count` of `class` are free, so that as many allocations, by whichever
/// threads, need nothing from the kernel. They stay when memory runs short for stacks of other
/// sizes, until a [`trim`].
///
/// Not for a real-time thread: it maps memory and reads files.
///
/// # Errors
/// [`StackError::NoMemory`], also where the memory control group would kill for it rather than
/// refuse, as far as that can be known in advance; [`StackError::LockLimit`]. The stacks made so
/// far stay free.
pub fn reserve(class: Class, count: usize) -> Result<(), StackError> {
    pool::reserve(class, count)
}

/// Gives free stacks of `class` back to the kernel until `keep` are left. Returns how many.
///
/// Those that other threads keep in their magazines are given back too. Not for a real-time
/// thread: it unmaps memory.
///
/// # Errors
/// [`StackError::NoMemory`] when `vm.max_map_count` doesn't allow the hole; that stack stays
/// free.
pub fn trim(class: Class, keep: usize) -> Result<usize, StackError> {
    pool::trim(class, keep)
}

/// Says that a thread runs on the stack at `address` from now on, or no more. A live stack
/// can't be freed. False when there is no such stack in use, or when it was marked so
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

/// Writes a line to `fd` for each stack that is in use, with its allocation's call stack
/// where `PUNCTUAL_STACK_DEBUG=audit` keeps it. Returns how many there are.
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
/// [`StackError::NotWatched`] without `PUNCTUAL_STACK_DEBUG=guards`.
pub fn debug_check(fd: c_int) -> Result<usize, StackError> {
    let _held = cancel::hold();
    setup::set_up();
    debug::check(fd)
}

/// Writes to `fd` all that is known of the stack that `address` is in, or that it guards: its
/// state, the threads that run on it (those that block just now, and the caller), how much of it
/// was used, whether it was written to while it was free, and who allocated and who freed it, where
/// `PUNCTUAL_STACK_DEBUG=audit` keeps that. False, and a line that says
/// what is there instead, where it is no stack of this allocator.
///
/// Not for a real-time thread: it reads files and writes to one. A handler of SIGSEGV may call it.
pub fn debug_report(address: usize, fd: c_int) -> bool {
    let _held = cancel::hold();
    explain::report(address, fd)
}

/// A stack that belongs to its holder until it is dropped.
#[derive(Debug)]
pub struct Stack {
    base: NonNull<u8>,
    class: Class,
}

// SAFETY: a Stack is the only owner of its memory and has no ties to the thread it was made
// on.
unsafe impl Send for Stack {}
// SAFETY: a shared Stack gives out its address and size alone.
unsafe impl Sync for Stack {}

impl Stack {
    /// A stack of at least `size` bytes: `size` is rounded up to a class, 32 KB to 2 MB.
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

    /// The lowest address, as `pthread_attr_setstack` and `mmap` count: the first byte above
    /// the lower guard. Real-time safe.
    pub fn base(&self) -> NonNull<u8> {
        self.base
    }

    /// The size in bytes, guards not counted: one of [`SIZES`]. Real-time safe.
    #[expect(clippy::len_without_is_empty, reason = "a stack is never empty")]
    pub fn len(&self) -> usize {
        self.class.size()
    }

    /// The bytes without access below the stack, and as many above it. Real-time safe.
    pub fn guard_size(&self) -> usize {
        self.class.guard_size()
    }

    /// The addresses of the stack. Real-time safe.
    pub fn bounds(&self) -> Bounds {
        let low = self.base.as_ptr() as usize;
        Bounds {
            low,
            high: low + self.len(),
        }
    }

    /// Says that a thread runs on the stack from now on, so that no free succeeds, not even
    /// by a drop, until [`Stack::mark_idle`]. False when it was marked already.
    ///
    /// Call it before `pthread_create`. A real-time thread may call it: one compare-and-swap.
    pub fn mark_live(&self) -> bool {
        set_live(self.base.as_ptr() as usize, true)
    }

    /// Says that no thread runs on the stack any more. False when it was not marked.
    ///
    /// Call it after `pthread_join`. A real-time thread may call it: one compare-and-swap.
    pub fn mark_idle(&self) -> bool {
        set_live(self.base.as_ptr() as usize, false)
    }

    /// The most bytes of it that were ever in use; see the function [`high_water`].
    ///
    /// Not for a real-time thread: it reads up to the whole stack.
    pub fn high_water(&self) -> usize {
        // SAFETY: the stack is freed by the drop of `self` alone.
        unsafe { high_water(self.base.as_ptr() as usize) }.unwrap_or(0)
    }
}

impl Drop for Stack {
    fn drop(&mut self) {
        // The only error left is InUse: a stack somebody runs on is leaked, not pulled away.
        // SAFETY: the holder gives the stack up, and with it all that used it.
        let _ = unsafe { free(self.base.as_ptr() as usize, self.class) };
    }
}
