//! What the loaded objects say of themselves.

use std::ffi::{c_int, c_void};
use std::sync::atomic::{AtomicUsize, Ordering};

/// Bytes of thread-local storage of all objects that are loaded, counted once: what is opened
/// later has its own outside of the threads' stacks. glibc and musl put it at the top of each
/// stack. Real-time safe after a first call.
#[must_use]
pub fn thread_local_bytes() -> usize {
    const UNKNOWN: usize = usize::MAX;
    static KNOWN: AtomicUsize = AtomicUsize::new(UNKNOWN);
    let known = KNOWN.load(Ordering::Relaxed);
    if known != UNKNOWN {
        return known;
    }
    let mut sum = 0_usize;
    // SAFETY: `add` is called during this call alone, with a pointer to `sum`.
    unsafe { libc::dl_iterate_phdr(Some(add), (&raw mut sum).cast()) };
    KNOWN.store(sum, Ordering::Relaxed);
    sum
}

unsafe extern "C" fn add(object: *mut libc::dl_phdr_info, _: usize, sum: *mut c_void) -> c_int {
    // SAFETY: the C library gives a filled struct, which lives during the call.
    let object = unsafe { &*object };
    // SAFETY: it has this many program headers, mapped while it is called.
    let headers =
        unsafe { std::slice::from_raw_parts(object.dlpi_phdr, usize::from(object.dlpi_phnum)) };
    let bytes: usize = headers
        .iter()
        .filter(|header| header.p_type == libc::PT_TLS)
        .map(|header| (header.p_memsz as usize).next_multiple_of((header.p_align as usize).max(1)))
        .sum();
    // SAFETY: `thread_local_bytes` gave the place, which nobody else uses meanwhile.
    unsafe { *sum.cast::<usize>() += bytes };
    0
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    #[test]
    fn the_programs_own_storage_is_counted() {
        thread_local! {
            static LARGE: Cell<[u8; 10_000]> = const { Cell::new([0; 10_000]) };
        }
        LARGE.with(|large| large.set([1; 10_000]));
        let bytes = super::thread_local_bytes();
        assert!((10_000..1 << 20).contains(&bytes), "{bytes}");
    }
}
