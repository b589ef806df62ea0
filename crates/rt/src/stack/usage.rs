//! How much of a stack was really used.

use std::ptr::NonNull;

/// Writes `pattern` over whole words.
///
/// # Safety
/// `base..base + size` is writable, a multiple of 8 bytes at a multiple of 8, and the
/// caller's alone.
pub(super) unsafe fn fill(base: NonNull<u8>, size: usize, pattern: u64) {
    let words: NonNull<u64> = base.cast();
    for number in 0..size / 8 {
        // SAFETY: the word lies within `size`.
        let word = unsafe { words.add(number) };
        // SAFETY: writable and the caller's alone.
        unsafe { word.write_volatile(pattern) };
    }
}

/// The offset in bytes of the first word, from the lowest address up, that is not `pattern`;
/// `size` when all are.
///
/// # Safety
/// `base..base + size` is readable, a multiple of 8 bytes at a multiple of 8. A thread may
/// run on it: words are read one by one, and one that changes meanwhile counts either way.
pub(super) unsafe fn first_other(base: NonNull<u8>, size: usize, pattern: u64) -> usize {
    let words: NonNull<u64> = base.cast();
    for number in 0..size / 8 {
        // SAFETY: the word lies within `size`.
        let word = unsafe { words.add(number) };
        // SAFETY: readable; volatile, since a running thread may write to it.
        if unsafe { word.read_volatile() } != pattern {
            return number * 8;
        }
    }
    size
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_word_that_differs_is_found() {
        let mut words = [7_u64; 64];
        let base = NonNull::from(&mut words).cast::<u8>();
        // SAFETY: the array is 512 bytes of words, borrowed by nobody else.
        unsafe { fill(base, 512, 5) };
        // SAFETY: as above.
        assert_eq!(unsafe { first_other(base, 512, 5) }, 512);
        // SAFETY: word 9 is one of 64.
        let ninth = unsafe { base.cast::<u64>().add(9) };
        // SAFETY: the word is writable and ours.
        unsafe { ninth.write(6) };
        // SAFETY: as above.
        assert_eq!(unsafe { first_other(base, 512, 5) }, 72);
    }
}
