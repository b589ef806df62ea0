//! Looking at stacks: where they lie, whose an address is, what of them is in memory.

use std::fs;
use std::mem::MaybeUninit;
use std::ptr::{NonNull, null_mut};
use std::time::Duration;

use super::cache;
use super::class::Class;
use super::debug::FRESH_FILL;
use super::error::StackError;
use super::options::DebugOptions;
use super::pool::TABLE;
use super::usage::first_other;
use super::word::State;
use crate::sys::map::{self, page_size};

/// The addresses of one stack, guards not counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bounds {
    /// The lowest address that may be used.
    pub low: usize,
    /// The first address above the stack.
    pub high: usize,
}

impl Bounds {
    /// Whether the byte at `address` is part of the stack.
    ///
    /// A real-time thread may call it: it is a comparison.
    pub fn contains(self, address: usize) -> bool {
        address >= self.low && address < self.high
    }

    /// The size in bytes.
    #[expect(clippy::len_without_is_empty, reason = "a stack is never empty")]
    pub fn len(self) -> usize {
        self.high - self.low
    }
}

/// Where the calling thread's stack lies; that of the primary thread down to its limit
/// (`RLIMIT_STACK`), present or not.
///
/// A real-time thread may call it after a first call while it was not yet one: that call may
/// allocate and read files, and for a thread that has used [`super::alloc`], [`super::free`]
/// or a [`super::Stack`] the answer is kept.
///
/// # Errors
/// [`StackError::System`] when the C library can't say.
pub fn bounds() -> Result<Bounds, StackError> {
    let cache = cache::current();
    if let Some((low, high)) = cache.map(|cache| cache.bounds.get())
        && high != 0
    {
        return Ok(Bounds { low, high });
    }
    let here = stack_pointer();
    let found = match locate(here) {
        Some(place) => place.bounds,
        None => bounds_from_c_library()?,
    };
    if let Some(cache) = cache
        && found.contains(here)
    {
        cache.bounds.set((found.low, found.high));
    }
    Ok(found)
}

/// An address in the caller's frame.
#[inline(never)]
fn stack_pointer() -> usize {
    let here = 0_u8;
    std::hint::black_box(&raw const here) as usize
}

fn bounds_from_c_library() -> Result<Bounds, StackError> {
    let mut attr = MaybeUninit::<libc::pthread_attr_t>::uninit();
    // SAFETY: pthread_self has no precondition.
    let this = unsafe { libc::pthread_self() };
    // SAFETY: the thread is the running one, and the attribute is filled on success.
    let got = unsafe { libc::pthread_getattr_np(this, attr.as_mut_ptr()) };
    if got != 0 {
        return Err(StackError::System(got));
    }
    let mut low = null_mut();
    let mut len = 0;
    // SAFETY: the attribute was filled above.
    unsafe { libc::pthread_attr_getstack(attr.as_ptr(), &mut low, &mut len) };
    // SAFETY: the attribute was filled above and is not used any more.
    unsafe { libc::pthread_attr_destroy(attr.as_mut_ptr()) };
    Ok(Bounds {
        low: low as usize,
        high: low as usize + len,
    })
}

/// Whether the byte at `address` is part of the calling thread's stack.
///
/// A real-time thread may call it where it may call [`bounds`].
pub fn contains(address: usize) -> bool {
    bounds().is_ok_and(|bounds| bounds.contains(address))
}

/// Where the stack of the thread `tid` of this process lies.
///
/// For another thread than the caller it is the stack of this allocator, or else the
/// mapping, that its stack pointer is in. Not for a real-time thread: it reads `/proc`.
///
/// # Errors
/// [`StackError::NoSuchThread`]; [`StackError::Running`] when the thread didn't block within
/// some 20 ms of looking, for the kernel tells the stack pointer of a blocked thread alone;
/// [`StackError::System`] when `/proc` can't be read (ptrace may be restricted).
pub fn bounds_of(tid: libc::pid_t) -> Result<Bounds, StackError> {
    // SAFETY: gettid has no precondition.
    if tid == unsafe { libc::gettid() } {
        return bounds();
    }
    let system = |error: std::io::Error| match error.raw_os_error() {
        Some(libc::ENOENT | libc::ESRCH) => StackError::NoSuchThread(tid),
        other => StackError::System(other.unwrap_or(libc::EIO)),
    };
    if tid <= 0 {
        return Err(StackError::NoSuchThread(tid));
    }
    for _ in 0..20 {
        let text = fs::read_to_string(format!("/proc/self/task/{tid}/syscall")).map_err(system)?;
        if let Some(pointer) = stack_pointer_in(&text) {
            if let Some(place) = locate(pointer) {
                return Ok(place.bounds);
            }
            let maps = fs::read_to_string("/proc/self/maps").map_err(system)?;
            return mapping_around(&maps, pointer)
                .map(|bounds| {
                    if is_primary(tid) {
                        to_limit(bounds)
                    } else {
                        bounds
                    }
                })
                .ok_or(StackError::NotMapped(pointer));
        }
        std::thread::sleep(Duration::from_millis(1));
    }
    Err(StackError::Running(tid))
}

fn is_primary(tid: libc::pid_t) -> bool {
    // SAFETY: getpid has no precondition.
    tid == unsafe { libc::getpid() }
}

/// The primary stack's mapping, extended down to where it may grow.
fn to_limit(mapped: Bounds) -> Bounds {
    let mut limit = libc::rlimit {
        rlim_cur: 0,
        rlim_max: 0,
    };
    // SAFETY: getrlimit fills the struct it is given.
    unsafe { libc::getrlimit(libc::RLIMIT_STACK, &mut limit) };
    if limit.rlim_cur == libc::RLIM_INFINITY {
        return mapped;
    }
    let lowest = mapped.high.saturating_sub(limit.rlim_cur as usize) & !(page_size() - 1);
    Bounds {
        low: mapped.low.min(lowest),
        high: mapped.high,
    }
}

/// The stack pointer in a line of `/proc/.../syscall`: the last but one of its words.
fn stack_pointer_in(line: &str) -> Option<usize> {
    let word = line.split_ascii_whitespace().rev().nth(1)?;
    usize::from_str_radix(word.strip_prefix("0x")?, 16).ok()
}

/// The mapping in the text of `/proc/.../maps` that `address` is in.
fn mapping_around(maps: &str, address: usize) -> Option<Bounds> {
    maps.lines().find_map(|line| {
        let (range, _) = line.split_once(' ')?;
        let (low, high) = range.split_once('-')?;
        let low = usize::from_str_radix(low, 16).ok()?;
        let high = usize::from_str_radix(high, 16).ok()?;
        Some(Bounds { low, high }).filter(|bounds| bounds.contains(address))
    })
}

/// Which part of a guarded stack an address is in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part {
    /// The page below: a thread that touched it has overflowed its stack.
    LowerGuard,
    /// The stack itself.
    Stack,
    /// The page above: something ran over the end of what lies at the top.
    UpperGuard,
}

/// What [`locate`] found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place {
    /// The stack, its guards not counted.
    pub bounds: Bounds,
    /// Which part of it the address is in.
    pub part: Part,
    /// Whether the stack is handed out.
    pub in_use: bool,
}

/// The stack of this allocator that `address` is in or that it guards.
///
/// A real-time thread may call it, and a signal handler: no lock, no system call, but a walk
/// over all headers, some 4 ns for each. In a handler of SIGSEGV it tells an overflow from
/// other errors.
pub fn locate(address: usize) -> Option<Place> {
    let guard = page_size();
    TABLE.stacks().find_map(|(_, word)| {
        let low = word.address();
        let bounds = Bounds {
            low,
            high: low + word.class().size(),
        };
        let part = if bounds.contains(address) {
            Part::Stack
        } else if address < low && address >= low - guard {
            Part::LowerGuard
        } else if address >= bounds.high && address < bounds.high + guard {
            Part::UpperGuard
        } else {
            return None;
        };
        let in_use = matches!(word.state(), Some(State::Used | State::Live));
        Some(Place {
            bounds,
            part,
            in_use,
        })
    })
}

/// How much of a range is in memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Residency {
    /// Pages of the range.
    pub pages: usize,
    /// Those that are in memory now.
    pub resident: usize,
}

/// How many pages of `bounds` are in memory; a stack whose pages are all there can be used
/// without a page fault.
///
/// Not for a real-time thread: `mincore` waits behind every thread that maps memory, tens of
/// milliseconds in bad cases.
///
/// # Errors
/// [`StackError::NotMapped`] when part of the range is not mapped (the primary stack below
/// what it has grown to), [`StackError::NotAStack`] when it doesn't start at a page.
pub fn residency(bounds: Bounds) -> Result<Residency, StackError> {
    let len = bounds.high.saturating_sub(bounds.low);
    let resident = map::resident_pages(bounds.low, len).map_err(|errno| match errno {
        libc::ENOMEM => StackError::NotMapped(bounds.low),
        libc::EINVAL => StackError::NotAStack(bounds.low),
        other => StackError::System(other),
    })?;
    Ok(Residency {
        pages: len.div_ceil(page_size()),
        resident,
    })
}

/// Makes the calling thread's stack present, from where it stands `bytes` down; 0 means all
/// of it, for the primary thread to its limit. Returns the bytes that are present now.
///
/// For threads that were not given a stack of this allocator. Not for a real-time thread
/// that is on duty: call it once, before.
///
/// # Errors
/// [`StackError::NoMemory`]; [`StackError::LockLimit`] when the stack is locked and its
/// limit doesn't allow more. Part of it may be present then.
pub fn prefault(bytes: usize) -> Result<usize, StackError> {
    /// What the calls made here use themselves, amply.
    const OWN: usize = 64 << 10;
    let page = page_size();
    let bounds = bounds()?;
    let here = stack_pointer() & !(page - 1);
    if !bounds.contains(here) {
        return Err(StackError::NotMapped(here));
    }
    let wanted = if bytes == 0 { usize::MAX } else { bytes };
    let low = here
        .saturating_sub(wanted)
        .max(bounds.low)
        .next_multiple_of(page);
    // SAFETY: gettid has no precondition.
    let primary = is_primary(unsafe { libc::gettid() });
    if primary && here.saturating_sub(low) > OWN {
        grow(low)?;
    }
    if let Some(start) = NonNull::new(low as *mut u8)
        && low < here
    {
        // SAFETY: the range is this thread's own stack, mapped by now, below the page it
        // stands on; populating changes no byte of it.
        unsafe { map::populate(start, here - low) }.map_err(StackError::of_mapping)?;
    }
    Ok(here.saturating_sub(low))
}

/// Grows the mapping of the primary stack down to the page at `low`.
///
/// The kernel is made to write there rather than this thread, since it answers with an error
/// where a store would end in SIGSEGV.
fn grow(low: usize) -> Result<(), StackError> {
    // SAFETY: `low` is part of this thread's stack and far below all that is in use, so the
    // 16 bytes written there are nobody's.
    let done = unsafe { libc::syscall(libc::SYS_clock_gettime, libc::CLOCK_MONOTONIC, low) };
    if done == 0 {
        Ok(())
    } else {
        Err(StackError::LockLimit)
    }
}

/// The most bytes of a stack that were ever in use, from its top down, counted to the lowest
/// word that was written.
///
/// What was reserved but never written, and what was written with zeros, is not seen, so
/// give stacks some room above it. Counts since the stack was made, over all its users; with
/// `PUNCTUAL_STACK_DEBUG=guards`, since it was handed out. Not for a real-time thread: it
/// reads up to the whole stack, some 20 µs for 256 KB.
///
/// # Safety
/// The stack at `address` is not freed during the call.
///
/// # Errors
/// [`StackError::NotAStack`], [`StackError::NotInUse`].
pub unsafe fn high_water(address: usize) -> Result<usize, StackError> {
    let header = TABLE.find(address).ok_or(StackError::NotAStack(address))?;
    let word = header.word.load();
    match word.state() {
        Some(State::Used | State::Live) => {}
        Some(State::Gone) | None => return Err(StackError::NotAStack(address)),
        Some(_) => return Err(StackError::NotInUse(address)),
    }
    let size = word.class().size();
    let pattern = if DebugOptions::in_force().guards {
        FRESH_FILL
    } else {
        0
    };
    // SAFETY: a stack in use is mapped readable, and the caller keeps it so.
    Ok(size - unsafe { first_other(super::pool::base_of(word), size, pattern) })
}

/// The most bytes that any stack of `class` was seen to use, those in use now and, with
/// `PUNCTUAL_STACK_DEBUG=guards`, those freed since the start.
///
/// For sizing stacks. Not for a real-time thread: it reads all stacks of the class.
///
/// # Safety
/// No stack of the class is freed during the call.
pub unsafe fn high_water_of_class(class: Class) -> usize {
    let stacks = TABLE.stacks().filter(|(_, word)| word.class() == class);
    let seen = stacks.map(|(header, word)| {
        let freed = header.peak.load(std::sync::atomic::Ordering::Relaxed);
        // SAFETY: the caller keeps the stacks of the class from being freed.
        freed.max(unsafe { high_water(word.address()) }.unwrap_or(0))
    });
    seen.max().unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_stack_pointer_is_the_last_word_but_one() {
        let blocked = "0 0x3 0x7ff8d144d000 0x20000 0x7ff8 0xff 0x0 0x7ffe356fd2c8 0x7ff8d15c52ad";
        assert_eq!(stack_pointer_in(blocked), Some(0x7ffe_356f_d2c8));
        assert_eq!(
            stack_pointer_in("-1 0x7ffe356fd2c8 0x7ff8d15c52ad"),
            Some(0x7ffe_356f_d2c8)
        );
        assert_eq!(stack_pointer_in("running\n"), None);
        assert_eq!(stack_pointer_in(""), None);
    }

    #[test]
    fn the_mapping_around_an_address_is_found() {
        let maps = "1000-3000 rw-p 0 0 0\n3000-4000 ---p 0 0 0\n4000-6000 rw-p 0 0 0 [stack]\n";
        assert_eq!(
            mapping_around(maps, 0x4fff),
            Some(Bounds {
                low: 0x4000,
                high: 0x6000
            })
        );
        assert_eq!(mapping_around(maps, 0x6000), None);
        assert_eq!(mapping_around("rubbish\n\n", 0x6000), None);
    }
}
