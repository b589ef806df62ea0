//! Copies of records whose size is known at run time.

#![expect(unsafe_code, reason = "its records, copied word by word")]

/// Copies a record into a slot, which is aligned to 8 bytes.
///
/// Copies word by word where possible: the program has just filled the record field by field, and
/// a wider load would stall until all those stores have left the processor's store buffer.
///
/// # Safety
/// Both places have `size` bytes and don't overlap; `to` is aligned to 8.
#[inline]
pub(super) unsafe fn put(to: *mut u8, from: *const u8, size: usize) {
    const FEW: usize = 128;
    let aligned = from.addr().is_multiple_of(8);
    let (words, source) = (to.cast::<u64>(), from.cast::<u64>());
    // A constant number of words needs no loop.
    match size {
        // SAFETY: 64 bytes are 4 pairs of words; `from` was checked, and `to` is by contract, aligned
        // to 8.
        64 if aligned => unsafe { put_pairs(words, source, 4) },
        // SAFETY: 32 bytes are 2 pairs of words; both places are aligned to 8.
        32 if aligned => unsafe { put_pairs(words, source, 2) },
        few if aligned && few <= FEW && few.is_multiple_of(8) => {
            // SAFETY: `size` holds that many words; both places are aligned to 8.
            unsafe { put_words(words, source, few / 8) }
        }
        // SAFETY: by contract both places have `size` bytes and don't overlap.
        _ => unsafe { to.copy_from_nonoverlapping(from, size) },
    }
}

/// Like [`put_words`], with one store per two words: a push waits for its stores when the slots
/// are not in the nearest cache.
///
/// # Safety
/// Both places have that many pairs of words, aligned to a word, and don't overlap.
#[inline(always)]
unsafe fn put_pairs(to: *mut u64, from: *const u64, pairs: usize) {
    for pair in 0..pairs {
        // SAFETY: `pair` is less than `pairs`, so the words lie within `from`.
        let place = unsafe { from.add(2 * pair) };
        // SAFETY: `low` is in `from`, which by contract is readable and aligned to a word.
        let low = unsafe { place.read_volatile() };
        // SAFETY: the second word of a pair that lies within `from`.
        let place = unsafe { place.add(1) };
        // SAFETY: `high` is in `from`, which by contract is readable and aligned to a word.
        let high = unsafe { place.read_volatile() };
        // SAFETY: `pair` is less than `pairs`, so the words lie within `to`.
        let place = unsafe { to.add(2 * pair) };
        // SAFETY: two words within `to`, which by contract is writable and aligned to a word.
        unsafe { put_pair(place, low, high) };
    }
}

/// # Safety
/// `to` is two writable words, aligned to a word.
#[cfg(target_arch = "x86_64")]
#[inline(always)]
unsafe fn put_pair(to: *mut u64, low: u64, high: u64) {
    use std::arch::x86_64::{_mm_set_epi64x, _mm_storeu_si128};
    // SAFETY: SSE2 is part of the architecture.
    let both = unsafe { _mm_set_epi64x(high.cast_signed(), low.cast_signed()) };
    // SAFETY: 16 writable bytes, of any alignment.
    unsafe { _mm_storeu_si128(to.cast(), both) };
}

/// # Safety
/// `to` is two writable words, aligned to a word.
#[cfg(not(target_arch = "x86_64"))]
#[inline(always)]
unsafe fn put_pair(to: *mut u64, low: u64, high: u64) {
    // SAFETY: two writable words, aligned.
    unsafe { to.cast::<[u64; 2]>().write([low, high]) };
}

/// # Safety
/// Both places have that many words, are aligned to a word, and don't overlap.
#[inline(always)]
unsafe fn put_words(to: *mut u64, from: *const u64, words: usize) {
    for word in 0..words {
        // SAFETY: the index is less than `words`, so the word lies within `from`.
        let place = unsafe { from.add(word) };
        // Volatile; otherwise the compiler merges the loads into wider ones.
        // SAFETY: a word of `from`, which by contract is readable and aligned.
        let value = unsafe { place.read_volatile() };
        // SAFETY: the index is less than `words`, so the word lies within `to`.
        let place = unsafe { to.add(word) };
        // SAFETY: a word of `to`, which by contract is writable and aligned.
        unsafe { place.write(value) };
    }
}

/// Copies a record out of a slot: common sizes in a few instructions, others by a call.
///
/// # Safety
/// Both places have `size` bytes and don't overlap.
#[inline]
pub(super) unsafe fn take(to: *mut u8, from: *const u8, size: usize) {
    match size {
        // SAFETY: by contract both places have `size` bytes, here 64, and don't overlap.
        64 => unsafe { to.copy_from_nonoverlapping(from, 64) },
        // SAFETY: both places have `size` bytes, here 32, and don't overlap.
        32 => unsafe { to.copy_from_nonoverlapping(from, 32) },
        // SAFETY: both places have `size` bytes, here 16, and don't overlap.
        16 => unsafe { to.copy_from_nonoverlapping(from, 16) },
        // SAFETY: by contract both places have `size` bytes and don't overlap.
        _ => unsafe { to.copy_from_nonoverlapping(from, size) },
    }
}
