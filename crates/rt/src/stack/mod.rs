//! Stacks that a real-time thread can stand on: present before they are used, guarded on
//! both sides, of fixed sizes.
//!
//! A default stack is an empty promise: a new thread that touches 200 KB of it takes some
//! fifty page faults. A [`Stack`] has every page in memory when it is handed out, so it
//! faults never, and is locked as soon as the process locks its memory. The page below and
//! the page above are without access: an overflow ends in SIGSEGV at that page rather than
//! in a neighbour's data.
//!
//! To start a thread on one, give it to `pthread_attr_setstack(&attr, stack.base(),
//! stack.len())`, then `pthread_create`, and drop the [`Stack`] only after `pthread_join`.
//! glibc reports a guard size of 0 for a stack that was handed to it (the guards are there
//! all the same), and puts the thread's control block and thread-local storage, some 4.4 KB,
//! at the top of it.

mod class;
mod error;
mod region;

use std::ptr::NonNull;

pub use class::{Class, SIZES, class_of, sizes};
pub use error::StackError;

/// A stack that belongs to its holder until it is dropped.
#[derive(Debug)]
pub struct Stack {
    base: NonNull<u8>,
    class: Class,
}

// SAFETY: a Stack is the only owner of its memory and has no ties to the thread it was made
// on.
unsafe impl Send for Stack {}

impl Stack {
    /// A stack of at least `size` bytes: `size` is rounded up to a class, 32 KB to 2 MB.
    ///
    /// Not for a real-time thread: it maps memory.
    ///
    /// # Errors
    /// [`StackError::NoSuchClass`] above 2 MB, [`StackError::NoMemory`],
    /// [`StackError::LockLimit`].
    pub fn new(size: usize) -> Result<Self, StackError> {
        let class = Class::fitting(size).ok_or(StackError::NoSuchClass(size))?;
        let base = region::map_stack(class)?;
        Ok(Self { base, class })
    }

    /// The lowest address, as `pthread_attr_setstack` and `mmap` count: the first byte above
    /// the lower guard.
    pub fn base(&self) -> NonNull<u8> {
        self.base
    }

    /// The size in bytes, guards not counted: one of [`SIZES`].
    #[expect(clippy::len_without_is_empty, reason = "a stack is never empty")]
    pub fn len(&self) -> usize {
        self.class.size()
    }
}

impl Drop for Stack {
    fn drop(&mut self) {
        let _ = region::unmap_stack(self.base, self.class);
    }
}
