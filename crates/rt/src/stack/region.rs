//! One stack in memory: guard page, stack, guard page.
#![expect(unsafe_code, reason = "guard pages")]

use std::ptr::NonNull;

use super::class::Class;
use super::error::StackError;
use crate::sys::map::{self, Access};

/// Maps a stack: its pages prefaulted and writable, a page without access on each side.
///
/// Returns the lowest address of the stack itself. Not for a real-time thread: three system
/// calls, each behind `mmap_lock`, and a fault per page.
///
/// # Errors
/// [`StackError::NoMemory`] and [`StackError::LockLimit`]; nothing stays mapped.
pub(crate) fn map_stack(class: Class) -> Result<NonNull<u8>, StackError> {
    let guard = class.guard_size();
    let whole = map::reserve(class.size() + 2 * guard).map_err(StackError::of_mapping)?;
    // SAFETY: the mapping is longer than one page.
    let base = unsafe { whole.add(guard) };
    // SAFETY: the pages between the guards belong to the mapping created above, whose address
    // nothing else has.
    let opened = unsafe { map::protect(base, class.size(), Access::ReadWrite) };
    // SAFETY: the same pages of the new mapping, which are now writable.
    let filled = opened.and_then(|()| unsafe { map::populate(base, class.size()) });
    match filled {
        Ok(()) => Ok(base),
        Err(errno) => {
            let _ = unmap_stack(base, class);
            Err(StackError::of_mapping(errno))
        }
    }
}

/// Unmaps a stack and its guards.
///
/// `base` and `class` are those of [`map_stack`], and nothing uses the stack any more.
///
/// # Errors
/// [`StackError::NoMemory`]: neighbouring guards are one mapping, and splitting it may exceed
/// `vm.max_map_count`. The stack is then still mapped, completely.
pub(crate) fn unmap_stack(base: NonNull<u8>, class: Class) -> Result<(), StackError> {
    let guard = class.guard_size();
    // SAFETY: map_stack put a guard of one page below the base.
    let whole = unsafe { base.sub(guard) };
    // SAFETY: guard, stack and guard are the mapping that map_stack made, and by contract nothing
    // uses it any more.
    unsafe { map::unmap(whole, class.size() + 2 * guard) }.map_err(StackError::of_mapping)
}
