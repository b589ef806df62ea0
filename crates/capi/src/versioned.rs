//! Structs that say their size, so that they may grow.

use std::ptr;

/// A C struct whose first field is its size.
///
/// # Safety
/// `repr(C)`, its first field a `usize`, and any bytes, all-zero ones too, are a value of it.
pub(crate) unsafe trait Versioned: Copy {
    /// The bytes without which the struct means nothing.
    const LEAST: usize;
}

/// Reads a struct of the caller's, however much of it the caller knows; what it doesn't know
/// is 0. `None` for a size that is too small, or so large that what this library doesn't
/// know of is not all 0.
///
/// # Safety
/// `from` points to `struct_size` readable bytes.
pub(crate) unsafe fn read<T: Versioned>(from: *const T) -> Option<T> {
    // SAFETY: the size is the first field in every version.
    let size = unsafe { from.cast::<usize>().read() };
    // A size beyond a page is no size of any version, but uninitialised.
    if size < T::LEAST || size > 4096 {
        return None;
    }
    // SAFETY: all-zero bytes are a value: the trait's promise.
    let mut known: T = unsafe { std::mem::zeroed() };
    let shared = size.min(size_of::<T>());
    // SAFETY: both have `shared` bytes.
    unsafe { ptr::copy_nonoverlapping(from.cast::<u8>(), (&raw mut known).cast(), shared) };
    let beyond = (size_of::<T>()..size).all(|offset| {
        // SAFETY: within the caller's struct.
        let place = unsafe { from.cast::<u8>().add(offset) };
        // SAFETY: a byte below `struct_size`, which the caller has made readable.
        unsafe { place.read() == 0 }
    });
    beyond.then_some(known)
}

/// Writes `value`, as much of it as the caller has room for. False when that is too little.
/// What is filled is said by the size field, which `value` needn't hold.
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
    // SAFETY: `filled` is at most what either has.
    unsafe { ptr::copy_nonoverlapping((&raw const value).cast::<u8>(), to.cast(), filled) };
    // SAFETY: the size is the first field, and `room` covers at least `T::LEAST` bytes.
    unsafe { to.cast::<usize>().write(filled) };
    true
}
