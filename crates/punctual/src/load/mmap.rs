//! Large areas mapped, touched, protected, given back and unmapped, by
//! threads that share an address space.

use std::io;
use std::ptr::NonNull;

use super::generator::{Amount, Generator, Parameter, Values};
use super::worker::Context;

/// The registry's entry.
pub(super) const GENERATOR: Generator = Generator {
    name: "mmap",
    unit: "pages",
    also: &["mappings"],
    description: "large areas mapped, touched, protected and unmapped",
    parameters: &[
        Parameter {
            key: "workers",
            description: "processes",
            default: Amount::PerCpu(1),
            least: 1,
            most: 4096,
        },
        Parameter {
            key: "threads",
            description: "threads in each, which share its address space",
            default: Amount::Fixed(2),
            least: 1,
            most: 1024,
        },
        Parameter {
            key: "bytes",
            description: "memory that each process maps at a time",
            default: Amount::Memory(64 << 20),
            least: 1 << 16,
            most: 1 << 40,
        },
    ],
    scratch: false,
    memory: |values: &Values| {
        let each = values["bytes"].max(values["threads"] << 16);
        values["workers"].saturating_mul(each)
    },
    run,
};

/// Work is counted this often while an area is touched.
const PAGES_AT_ONCE: usize = 256;

fn run(context: &Context<'_>) -> Result<(), String> {
    let page = page_size();
    let threads = context.size("threads");
    let each = context.size("bytes") / threads;
    let bytes = each.next_multiple_of(page).max(4 * page);
    context.crew(context.size("workers"), threads, |worker| {
        context.threads(threads, |thread| {
            let slot = context.slot(worker * threads + thread);
            context.board().arrive();
            loop {
                let mut area = Area::map(bytes).map_err(|error| failed("mmap", &error))?;
                for start in (0..bytes).step_by(PAGES_AT_ONCE * page) {
                    let end = (start + PAGES_AT_ONCE * page).min(bytes);
                    slot.add(area.touch(start, end, page));
                }
                // The second quarter becomes read-only and writable again:
                // mappings split and merge; the third is given back at once.
                let quarter = (bytes / 4) & !(page - 1);
                for protection in [libc::PROT_READ, libc::PROT_READ | libc::PROT_WRITE] {
                    area.protect(quarter, quarter, protection)
                        .map_err(|error| failed("mprotect", &error))?;
                }
                area.give_back(2 * quarter, quarter)
                    .map_err(|error| failed("madvise", &error))?;
                slot.add_also(0, 1);
            }
        })
    })
}

fn failed(call: &str, error: &io::Error) -> String {
    format!("{call} failed: {error}: give fewer bytes, or raise the limits of memory")
}

/// The size of a page.
pub(super) fn page_size() -> usize {
    // SAFETY: sysconf takes an integer and no pointer.
    let size = unsafe { libc::sysconf(libc::_SC_PAGESIZE) };
    usize::try_from(size).unwrap_or(4096)
}

/// Private anonymous memory that nothing but this value refers to.
struct Area {
    start: NonNull<u8>,
    bytes: usize,
}

impl Area {
    fn map(bytes: usize) -> io::Result<Self> {
        let protection = libc::PROT_READ | libc::PROT_WRITE;
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
        // SAFETY: a new mapping at an address that the kernel chooses touches
        // no memory of ours.
        let start = unsafe { libc::mmap(std::ptr::null_mut(), bytes, protection, flags, -1, 0) };
        if start == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        let start = NonNull::new(start.cast()).ok_or_else(io::Error::last_os_error)?;
        Ok(Area { start, bytes })
    }

    /// Writes to every page from `start` to `end`; how many they were.
    fn touch(&mut self, start: usize, end: usize, page: usize) -> u64 {
        assert!(end <= self.bytes, "within the area");
        for offset in (start..end).step_by(page) {
            // SAFETY: offset is below the area's size, asserted above.
            let byte = unsafe { self.start.add(offset) };
            // SAFETY: the byte is mapped, writable (protections are undone
            // before the next touch) and this value's alone.
            unsafe { byte.write_volatile(1) };
        }
        (end - start).div_ceil(page) as u64
    }

    fn part(&self, offset: usize, bytes: usize) -> *mut libc::c_void {
        assert!(offset + bytes <= self.bytes, "within the area");
        // SAFETY: offset is within the area, asserted above.
        unsafe { self.start.add(offset) }.as_ptr().cast()
    }

    fn protect(&mut self, offset: usize, bytes: usize, protection: i32) -> io::Result<()> {
        let part = self.part(offset, bytes);
        // SAFETY: the part is whole pages of this mapping, to which there are
        // no references: the memory is only ever reached through raw pointers.
        match unsafe { libc::mprotect(part, bytes, protection) } {
            0 => Ok(()),
            _ => Err(io::Error::last_os_error()),
        }
    }

    fn give_back(&mut self, offset: usize, bytes: usize) -> io::Result<()> {
        let part = self.part(offset, bytes);
        // SAFETY: as for protect; what is lost is read by nobody.
        match unsafe { libc::madvise(part, bytes, libc::MADV_DONTNEED) } {
            0 => Ok(()),
            _ => Err(io::Error::last_os_error()),
        }
    }
}

impl Drop for Area {
    fn drop(&mut self) {
        // SAFETY: this mapping of exactly this size was made by map, and
        // nothing refers to it any more.
        unsafe { libc::munmap(self.start.as_ptr().cast(), self.bytes) };
    }
}
