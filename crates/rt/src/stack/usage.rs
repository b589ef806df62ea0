//! Measures how much of a stack was used.

#![expect(unsafe_code, reason = "reads and fills stacks")]

use std::ptr::NonNull;

/// Fills whole words with `pattern`.
///
/// # Safety
/// `base..base + size` is writable and used by no one else; `base` and `size` are multiples of 8.
pub(super) unsafe fn fill(base: NonNull<u8>, size: usize, pattern: u64) {
    let words: NonNull<u64> = base.cast();
    for number in 0..size / 8 {
        // SAFETY: the word lies within `size`.
        let word = unsafe { words.add(number) };
        // SAFETY: by contract the range is writable and used by no one else.
        unsafe { word.write_volatile(pattern) };
    }
}

/// The offset in bytes of the first word, from the lowest address up, that is not `pattern`;
/// `size` when all are.
///
/// # Safety
/// `base..base + size` is readable; `base` and `size` are multiples of 8. A thread may run on it:
/// words are read one by one, and either value of a changing word is correct.
pub(super) unsafe fn first_other(base: NonNull<u8>, size: usize, pattern: u64) -> usize {
    let words: NonNull<u64> = base.cast();
    for number in 0..size / 8 {
        // SAFETY: the word lies within `size`.
        let word = unsafe { words.add(number) };
        // SAFETY: by contract readable; volatile, since a running thread may write to it.
        if unsafe { word.read_volatile() } != pattern {
            return number * 8;
        }
    }
    size
}

/// Like [`first_other`], for memory that may be or become inaccessible: the kernel reads it.
/// `None` when the kernel can't.
pub(super) fn first_other_of(low: usize, size: usize, pattern: u64) -> Option<usize> {
    let mut words = [0_u64; 128];
    for offset in (0..size).step_by(size_of_val(&words)) {
        let len = (size - offset).min(size_of_val(&words));
        let here = libc::iovec {
            iov_base: words.as_mut_ptr().cast(),
            iov_len: len,
        };
        let there = libc::iovec {
            iov_base: (low + offset) as *mut libc::c_void,
            iov_len: len,
        };
        // SAFETY: getpid has no precondition.
        let own = unsafe { libc::getpid() };
        // SAFETY: `here` is a local buffer of that size; unreadable memory gives an error.
        let got = unsafe { libc::process_vm_readv(own, &here, 1, &there, 1, 0) };
        if usize::try_from(got) != Ok(len) {
            return None;
        }
        if let Some(other) = words[..len / 8].iter().position(|word| *word != pattern) {
            return Some(offset + other * 8);
        }
    }
    Some(size)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[cfg(not(miri))]
    fn reading_by_the_kernel_gives_the_same_result_or_none() {
        let mut words = [7_u64; 512];
        let low = words.as_ptr() as usize;
        assert_eq!(first_other_of(low, 4096, 7), Some(4096));
        std::hint::black_box(&mut words)[300] = 8;
        assert_eq!(first_other_of(low, 4096, 7), Some(2400));
        assert_eq!(first_other_of(4096, 4096, 7), None);
    }

    #[test]
    fn the_first_word_that_differs_is_found() {
        let mut words = [7_u64; 64];
        let base = NonNull::from(&mut words).cast::<u8>();
        // SAFETY: the array is 512 bytes of words, borrowed by nothing else.
        unsafe { fill(base, 512, 5) };
        // SAFETY: the same array: 512 writable bytes, a multiple of 8.
        assert_eq!(unsafe { first_other(base, 512, 5) }, 512);
        // SAFETY: word 9 is one of 64.
        let ninth = unsafe { base.cast::<u64>().add(9) };
        // SAFETY: the word is in the array, which this test owns.
        unsafe { ninth.write(6) };
        // SAFETY: the same array: 512 readable bytes, a multiple of 8.
        assert_eq!(unsafe { first_other(base, 512, 5) }, 72);
    }
}
