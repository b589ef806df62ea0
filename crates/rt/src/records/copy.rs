//! Copies of records whose size is known when the program runs.

/// Copies a record into a slot, which is aligned to 8 bytes.
///
/// Word by word, where that can be: the program has just filled the record, field by field, and a
/// wider load would wait until all of them have left the processor's store buffer.
///
/// # Safety
/// Both places have `size` bytes, apart from each other; `to` is aligned to 8.
#[inline]
pub(super) unsafe fn put(to: *mut u8, from: *const u8, size: usize) {
    const FEW: usize = 128;
    let aligned = from.addr().is_multiple_of(8);
    let (words, source) = (to.cast::<u64>(), from.cast::<u64>());
    // A constant number of words needs no loop.
    match size {
        // SAFETY: so many words, and aligned: seen above, and the caller's promise.
        64 if aligned => unsafe { put_pairs(words, source, 4) },
        // SAFETY: so many words, aligned as above.
        32 if aligned => unsafe { put_pairs(words, source, 2) },
        few if aligned && few <= FEW && few.is_multiple_of(8) => {
            // SAFETY: so many words, aligned as above.
            unsafe { put_words(words, source, few / 8) }
        }
        // SAFETY: so many bytes each, apart from each other: the caller's promise.
        _ => unsafe { to.copy_from_nonoverlapping(from, size) },
    }
}

/// As [`put_words`], two words by one store: it is the stores that a push waits for, once the
/// slots are further away than the nearest cache.
///
/// # Safety
/// Both places have so many pairs of words, aligned to a word, apart from each other.
#[inline(always)]
unsafe fn put_pairs(to: *mut u64, from: *const u64, pairs: usize) {
    for pair in 0..pairs {
        // SAFETY: within the caller's words.
        let place = unsafe { from.add(2 * pair) };
        // SAFETY: readable and aligned: the caller's promise.
        let low = unsafe { place.read_volatile() };
        // SAFETY: within the caller's words.
        let place = unsafe { place.add(1) };
        // SAFETY: readable and aligned: the caller's promise.
        let high = unsafe { place.read_volatile() };
        // SAFETY: within the caller's words.
        let place = unsafe { to.add(2 * pair) };
        // SAFETY: two writable words, aligned.
        unsafe { put_pair(place, low, high) };
    }
}

/// # Safety
/// `to` is two writable words, aligned to one.
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
/// `to` is two writable words, aligned to one.
#[cfg(not(target_arch = "x86_64"))]
#[inline(always)]
unsafe fn put_pair(to: *mut u64, low: u64, high: u64) {
    // SAFETY: two writable words, aligned.
    unsafe { to.cast::<[u64; 2]>().write([low, high]) };
}

/// # Safety
/// Both places have so many words, aligned, apart from each other.
#[inline(always)]
unsafe fn put_words(to: *mut u64, from: *const u64, words: usize) {
    for word in 0..words {
        // SAFETY: within the caller's words.
        let place = unsafe { from.add(word) };
        // Volatile, or the compiler makes it wide again.
        // SAFETY: readable and aligned: the caller's promise.
        let value = unsafe { place.read_volatile() };
        // SAFETY: within the caller's words.
        let place = unsafe { to.add(word) };
        // SAFETY: writable and aligned: the caller's promise.
        unsafe { place.write(value) };
    }
}

/// Copies a record out of a slot: those of usual sizes in a few instructions, others by a call.
///
/// # Safety
/// Both places have `size` bytes, apart from each other.
#[inline]
pub(super) unsafe fn take(to: *mut u8, from: *const u8, size: usize) {
    match size {
        // SAFETY: the caller's promise, as for the lines below.
        64 => unsafe { to.copy_from_nonoverlapping(from, 64) },
        // SAFETY: so many bytes.
        32 => unsafe { to.copy_from_nonoverlapping(from, 32) },
        // SAFETY: so many bytes.
        16 => unsafe { to.copy_from_nonoverlapping(from, 16) },
        // SAFETY: so many bytes.
        _ => unsafe { to.copy_from_nonoverlapping(from, size) },
    }
}
