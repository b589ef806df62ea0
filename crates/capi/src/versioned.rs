//! Structs that contain their size, so that they may grow.

use std::ptr;

/// A C struct whose first field is its size.
///
/// # Safety
/// `repr(C)`, its first field a `usize`, and any bytes, including all zeros, are a valid value.
pub(crate) unsafe trait Versioned: Copy {
    /// The minimum size of a meaningful struct.
    const LEAST: usize;
}

/// Reads the caller's struct in any version; fields that the caller doesn't know are 0. `None` if
/// the size is too small, or if fields that this library doesn't know are not all 0.
///
/// # Safety
/// `from` points to `struct_size` readable bytes.
pub(crate) unsafe fn read<T: Versioned>(from: *const T) -> Option<T> {
    // SAFETY: the size is the first field in every version.
    let size = unsafe { from.cast::<usize>().read() };
    // A size beyond a page is uninitialised memory and not a version's size.
    if size < T::LEAST || size > 4096 {
        return None;
    }
    // SAFETY: all-zero bytes are a valid value, by the contract of the trait.
    let mut known: T = unsafe { std::mem::zeroed() };
    let shared = size.min(size_of::<T>());
    // SAFETY: both structs have at least `shared` bytes.
    unsafe { ptr::copy_nonoverlapping(from.cast::<u8>(), (&raw mut known).cast(), shared) };
    let beyond = (size_of::<T>()..size).all(|offset| {
        // SAFETY: the offset is less than the caller's `struct_size`.
        let place = unsafe { from.cast::<u8>().add(offset) };
        // SAFETY: by contract `struct_size` bytes are readable.
        unsafe { place.read() == 0 }
    });
    beyond.then_some(known)
}

/// Writes `value`, as far as the caller has room. False if that is too little. The size field is
/// set to the number of bytes written; the one in `value` is ignored.
///
/// # Safety
/// `to` points to `struct_size` writable bytes.
pub(crate) unsafe fn write<T: Versioned>(to: *mut T, value: T) -> bool {
    // SAFETY: the size is the first field in every version.
    let room = unsafe { to.cast::<usize>().read() };
    if room < T::LEAST || room > 4096 {
        return false;
    }
    let filled = room.min(size_of::<T>());
    // SAFETY: `filled` is at most the size of either struct.
    unsafe { ptr::copy_nonoverlapping((&raw const value).cast::<u8>(), to.cast(), filled) };
    // SAFETY: by contract `to` is writable; the size is its first field.
    unsafe { to.cast::<usize>().write(filled) };
    true
}
