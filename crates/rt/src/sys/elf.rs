//! Information about the loaded ELF objects.

use std::ffi::{c_int, c_void};
use std::ops::Range;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Bytes of thread-local storage of all objects that are loaded at the first call; objects opened
/// later have theirs outside of the threads' stacks. glibc and musl put it at the top of each
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
    // SAFETY: `add` is called only during this call, with a pointer to `sum`.
    unsafe { libc::dl_iterate_phdr(Some(add), (&raw mut sum).cast()) };
    KNOWN.store(sum, Ordering::Relaxed);
    sum
}

/// The address range of the shared library that contains `address`; `None` for the program
/// itself, or when no loaded object contains it. Not for a real-time thread: it waits for the
/// loader.
#[must_use]
pub fn library_of(address: usize) -> Option<Range<usize>> {
    let mut wanted = Wanted {
        address,
        is_first: true,
        found: None,
    };
    // SAFETY: `look` is called only during this call, with a pointer to `wanted`.
    unsafe { libc::dl_iterate_phdr(Some(look), (&raw mut wanted).cast()) };
    wanted.found
}

struct Wanted {
    address: usize,
    /// The first object is the program.
    is_first: bool,
    found: Option<Range<usize>>,
}

/// # Safety
/// `object` is the argument of a dl_iterate_phdr callback, during the call.
unsafe fn headers_of<'call>(object: *const libc::dl_phdr_info) -> &'call [libc::Elf64_Phdr] {
    // SAFETY: the C library gives a filled struct, which lives during the call.
    let object = unsafe { &*object };
    // SAFETY: the object has this many program headers, mapped during the callback.
    unsafe { std::slice::from_raw_parts(object.dlpi_phdr, usize::from(object.dlpi_phnum)) }
}

unsafe extern "C" fn look(object: *mut libc::dl_phdr_info, _: usize, wanted: *mut c_void) -> c_int {
    // SAFETY: `library_of` passed the pointer, and uses the value only after the call.
    let wanted = unsafe { &mut *wanted.cast::<Wanted>() };
    // SAFETY: the C library passed `object` to this callback.
    let headers = unsafe { headers_of(object) };
    // SAFETY: the C library's struct is live during the callback.
    let base = unsafe { (*object).dlpi_addr } as usize;
    let loaded = headers.iter().filter(|it| it.p_type == libc::PT_LOAD);
    let ranges = loaded.map(|it| {
        let low = base.wrapping_add(it.p_vaddr as usize);
        low..low.wrapping_add(it.p_memsz as usize)
    });
    let whole = ranges.reduce(|sum, next| sum.start.min(next.start)..sum.end.max(next.end));
    let is_program = std::mem::replace(&mut wanted.is_first, false);
    match whole {
        Some(range) if range.contains(&wanted.address) => {
            wanted.found = (!is_program).then_some(range);
            1
        }
        _ => 0,
    }
}

unsafe extern "C" fn add(object: *mut libc::dl_phdr_info, _: usize, sum: *mut c_void) -> c_int {
    // SAFETY: the C library passed `object` to this callback.
    let headers = unsafe { headers_of(object) };
    let bytes: usize = headers
        .iter()
        .filter(|header| header.p_type == libc::PT_TLS)
        .map(|header| (header.p_memsz as usize).next_multiple_of((header.p_align as usize).max(1)))
        .sum();
    // SAFETY: `thread_local_bytes` passed the pointer, and uses the value only after the call.
    unsafe { *sum.cast::<usize>() += bytes };
    0
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    #[test]
    fn the_program_itself_is_not_reported_as_a_library() {
        let own = super::library_of as *const () as usize;
        assert_eq!(super::library_of(own), None);
        assert_eq!(super::library_of(1), None);
    }

    #[test]
    fn the_thread_local_storage_of_the_program_is_counted() {
        thread_local! {
            static LARGE: Cell<[u8; 10_000]> = const { Cell::new([0; 10_000]) };
        }
        LARGE.with(|large| large.set([1; 10_000]));
        let bytes = super::thread_local_bytes();
        assert!((10_000..1 << 20).contains(&bytes), "{bytes}");
    }
}
