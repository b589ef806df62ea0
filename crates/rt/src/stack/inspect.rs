//! Looking at stacks: whose an address is, what of them is in memory, how much was used.

use std::ptr::NonNull;

use super::bounds::{Bounds, bounds, is_primary, stack_pointer};
use super::class::Class;
use super::debug::FRESH_FILL;
use super::error::StackError;
use super::options::DebugOptions;
use super::pool::TABLE;
use super::usage::first_other;
use super::word::{State, Word};
use crate::sys::map::{self, page_size};
use crate::sys::maps::writable_down_to;

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
    /// Whether the stack is in use.
    pub in_use: bool,
}

/// The stack of this allocator that `address` is in or that it guards.
///
/// A real-time thread may call it, and a signal handler: no lock, no system call, but a walk
/// over all headers, some 4 ns for each. In a handler of SIGSEGV it tells an overflow from
/// other errors.
pub fn locate(address: usize) -> Option<Place> {
    TABLE.stacks().find_map(|(_, word)| {
        let part = Part::of(word, address)?;
        let in_use = matches!(word.state(), Some(State::Used | State::Live));
        Some(Place {
            bounds: Bounds::of(word),
            part,
            in_use,
        })
    })
}

impl Part {
    /// The part of the stack of a header's word that `address` is in, if it is in one.
    pub(super) fn of(word: Word, address: usize) -> Option<Self> {
        let (bounds, guard) = (Bounds::of(word), word.class().guard_size());
        if bounds.contains(address) {
            Some(Self::Stack)
        } else if address < bounds.low && address >= bounds.low - guard {
            Some(Self::LowerGuard)
        } else if address >= bounds.high && address < bounds.high + guard {
            Some(Self::UpperGuard)
        } else {
            None
        }
    }
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
/// of it, for the primary thread to its limit. Returns the bytes that are present now: fewer
/// where a page without access, the program's own guard, lies in between.
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
    match make_present(low, here) {
        // A page without access: what lies above it is the stack.
        Err(libc::EFAULT) => {
            let low = writable_down_to(low, here);
            make_present(low, here).map_err(StackError::of_mapping)?;
            Ok(here - low)
        }
        done => done
            .map(|()| here.saturating_sub(low))
            .map_err(StackError::of_mapping),
    }
}

/// Makes the pages of the calling thread's stack from `low` to `here` present.
fn make_present(low: usize, here: usize) -> Result<(), map::Errno> {
    match NonNull::new(low as *mut u8) {
        // SAFETY: the range is this thread's own stack, below the page it stands on; populating
        // changes no byte of it.
        Some(start) if low < here => unsafe { map::populate(start, here - low) },
        _ => Ok(()),
    }
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
/// `PUNCTUAL_STACK_DEBUG=guards`, since it was allocated. Not for a real-time thread: it
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
