//! Calls the kernel's vDSO code for reading CLOCK_MONOTONIC directly.
//!
//! The C library's `clock_gettime` calls the same code, with ten instructions of overhead. A
//! periodic loop reads the clock in each cycle.

use std::mem::MaybeUninit;
use std::sync::atomic::{AtomicPtr, Ordering};

type ReadClock = unsafe extern "C" fn(libc::clockid_t, *mut libc::timespec) -> libc::c_int;

/// The function that reads the clock: initially [`find`], which replaces itself with what it
/// finds.
static READ_CLOCK: AtomicPtr<()> = AtomicPtr::new(find as *mut ());

/// Reads CLOCK_MONOTONIC. Real-time safe from the second call in the process on; the first
/// searches the vDSO.
#[inline]
pub(super) fn monotonic() -> libc::timespec {
    Reader::current().monotonic()
}

/// The function that reads the clock, for a loop that keeps it in a register.
#[derive(Debug, Clone, Copy)]
pub(super) struct Reader(ReadClock);

impl Reader {
    /// A reader after the search of the vDSO. Not real-time safe the first time.
    pub(super) fn found() -> Self {
        monotonic();
        Self::current()
    }

    #[inline]
    fn current() -> Self {
        let read = READ_CLOCK.load(Ordering::Relaxed);
        // SAFETY: only functions of this type are ever stored there.
        Self(unsafe { std::mem::transmute::<*mut (), ReadClock>(read) })
    }

    /// Reads CLOCK_MONOTONIC. Real-time safe for a reader from [`Reader::found`].
    #[inline]
    pub(super) fn monotonic(self) -> libc::timespec {
        let mut time = MaybeUninit::<libc::timespec>::uninit();
        // SAFETY: `time` has room for a timespec, the only pointer passed.
        let error = unsafe { (self.0)(libc::CLOCK_MONOTONIC, time.as_mut_ptr()) };
        if error != 0 {
            by_library(&mut time);
        }
        // SAFETY: the call reported success, so it wrote the time; else `by_library` has written
        // it.
        unsafe { time.assume_init() }
    }
}

/// Reads through the C library, when a sandbox refuses the call itself.
#[cold]
fn by_library(time: &mut MaybeUninit<libc::timespec>) {
    let time = time.write(libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    });
    // SAFETY: `time` is a live, writable timespec.
    unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC, time) };
}

/// Searches the vDSO, stores the function that it finds, and reads the clock with it.
#[cold]
unsafe extern "C" fn find(clock: libc::clockid_t, to: *mut libc::timespec) -> libc::c_int {
    let read = arch::kernels().unwrap_or(libc_call as ReadClock);
    READ_CLOCK.store(read as *mut (), Ordering::Relaxed);
    // SAFETY: by contract `to` has room for a timespec, which is all that `read` needs.
    unsafe { read(clock, to) }
}

/// Reads through the C library, when the kernel has no vDSO, hides it, or has one with an unknown
/// layout.
unsafe extern "C" fn libc_call(clock: libc::clockid_t, to: *mut libc::timespec) -> libc::c_int {
    // SAFETY: by contract `to` has room for a timespec.
    unsafe { libc::clock_gettime(clock, to) }
}

#[cfg(all(target_arch = "x86_64", target_pointer_width = "64", not(miri)))]
mod arch {
    use std::ffi::CStr;

    use super::ReadClock;

    const NAME: &CStr = c"__vdso_clock_gettime";

    /// The used part of the ELF file header, 64 bits.
    #[repr(C)]
    struct Header {
        magic: [u8; 16],
        before: [u8; 16],
        segments_at: u64,
        sections_at: u64,
        between: [u8; 6],
        segment_size: u16,
        segments: u16,
        section_size: u16,
        sections: u16,
        names: u16,
    }

    #[repr(C)]
    struct Section {
        name: u32,
        kind: u32,
        flags: u64,
        address: u64,
        offset: u64,
        size: u64,
        link: u32,
        info: u32,
        alignment: u64,
        entry_size: u64,
    }

    #[repr(C)]
    struct Symbol {
        name: u32,
        info: u8,
        other: u8,
        section: u16,
        value: u64,
        size: u64,
    }

    /// A program header.
    #[repr(C)]
    struct Segment {
        kind: u32,
        flags: u32,
        offset: u64,
        address: u64,
        physical: u64,
        file_size: u64,
        memory_size: u64,
        alignment: u64,
    }

    const DYNAMIC_SYMBOLS: u32 = 11;
    const LOADED: u32 = 1;
    const PAGE: u64 = 4096;

    /// Whether `count` items of a size lie within the mapped bytes, aligned to eight bytes where
    /// they are structures.
    fn within(from: u64, count: u64, size: usize, mapped: u64) -> bool {
        let length = count.checked_mul(size as u64);
        let end = length.and_then(|length| from.checked_add(length));
        (size == 1 || from.is_multiple_of(8)) && end.is_some_and(|end| end <= mapped)
    }

    /// The vDSO's function in this process; `None` when it is hidden, or has an unknown layout.
    pub(super) fn kernels() -> Option<ReadClock> {
        // SAFETY: takes no pointers.
        let base = unsafe { libc::getauxval(libc::AT_SYSINFO_EHDR) } as *const u8;
        if base.is_null() {
            return None;
        }
        // SAFETY: the kernel maps a whole ELF file there, page-aligned, for as long as the
        // process lives.
        let header = unsafe { &*base.cast::<Header>() };
        if &header.magic[..6] != b"\x7fELF\x02\x01"
            || usize::from(header.section_size) != size_of::<Section>()
            || usize::from(header.segment_size) != size_of::<Segment>()
            || !within(
                header.segments_at,
                u64::from(header.segments),
                size_of::<Segment>(),
                PAGE,
            )
        {
            return None;
        }
        // SAFETY: the first page is mapped, and contains these headers, aligned.
        let segments = unsafe {
            std::slice::from_raw_parts(
                base.wrapping_add(header.segments_at as usize)
                    .cast::<Segment>(),
                usize::from(header.segments),
            )
        };
        let loaded = segments
            .iter()
            .find(|it| it.kind == LOADED && it.offset == 0)?;
        // The number of mapped bytes: whole pages. Kernels other than Linux may map no more than
        // this.
        let mapped = loaded.file_size.checked_next_multiple_of(PAGE)?;
        if !within(
            header.sections_at,
            u64::from(header.sections),
            size_of::<Section>(),
            mapped,
        ) {
            return None;
        }
        // SAFETY: that many section headers lie within the mapped bytes, aligned: checked above.
        let sections = unsafe {
            std::slice::from_raw_parts(
                base.wrapping_add(header.sections_at as usize)
                    .cast::<Section>(),
                usize::from(header.sections),
            )
        };
        let table = sections.iter().find(|it| it.kind == DYNAMIC_SYMBOLS)?;
        let names = sections.get(table.link as usize)?;
        if !within(
            table.offset,
            table.size / size_of::<Symbol>() as u64,
            size_of::<Symbol>(),
            mapped,
        ) || !within(names.offset, names.size, 1, mapped)
        {
            return None;
        }
        // SAFETY: the names lie within the mapped bytes: checked above.
        let text = unsafe {
            std::slice::from_raw_parts(
                base.wrapping_add(names.offset as usize),
                names.size as usize,
            )
        };
        // SAFETY: that many symbols lie within the mapped bytes, aligned: checked above.
        let symbols = unsafe {
            std::slice::from_raw_parts(
                base.wrapping_add(table.offset as usize).cast::<Symbol>(),
                table.size as usize / size_of::<Symbol>(),
            )
        };
        let is_wanted = |symbol: &&Symbol| {
            let name = text.get(symbol.name as usize..).unwrap_or_default();
            let name = CStr::from_bytes_until_nul(name);
            // A defined symbol, in mapped code.
            symbol.section != 0 && symbol.value < mapped && name.is_ok_and(|name| name == NAME)
        };
        let found = symbols.iter().find(is_wanted)?;
        // The vDSO is linked to address 0, so an address is an offset.
        let code = base.wrapping_add(found.value as usize);
        // SAFETY: the kernel's `__vdso_clock_gettime` has this type.
        Some(unsafe { std::mem::transmute::<*const u8, ReadClock>(code) })
    }
}

#[cfg(not(all(target_arch = "x86_64", target_pointer_width = "64", not(miri))))]
mod arch {
    use super::ReadClock;

    pub(super) fn kernels() -> Option<ReadClock> {
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ns(time: &libc::timespec) -> i64 {
        time.tv_sec * 1_000_000_000 + time.tv_nsec
    }

    fn library() -> libc::timespec {
        let mut time = MaybeUninit::uninit();
        by_library(&mut time);
        // SAFETY: `by_library` writes it in any case.
        unsafe { time.assume_init() }
    }

    #[test]
    fn the_vdso_and_the_library_read_the_same_clock() {
        let reader = Reader::found();
        let mut before = ns(&library());
        for turn in 0..1000 {
            let now = match turn % 4 {
                0 => monotonic(),
                1 => library(),
                2 => reader.monotonic(),
                _ => {
                    let mut time = library();
                    // SAFETY: `time` is a live, writable timespec.
                    let done = unsafe { libc_call(libc::CLOCK_MONOTONIC, &mut time) };
                    assert_eq!(done, 0);
                    time
                }
            };
            assert!(before <= ns(&now), "turn {turn}");
            before = ns(&now);
        }
    }

    #[test]
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    fn the_vdso_function_is_found_and_returns_errors() {
        let Some(read) = arch::kernels() else {
            // No vDSO is visible, for example under valgrind.
            return;
        };
        let mut time = library();
        // SAFETY: `time` is a live, writable timespec.
        assert_eq!(unsafe { read(libc::CLOCK_MONOTONIC, &mut time) }, 0);
        // SAFETY: `time` is a live, writable timespec; the clock doesn't exist, so it isn't
        // written.
        assert_eq!(unsafe { read(9999, &mut time) }, -libc::EINVAL);
    }
}
