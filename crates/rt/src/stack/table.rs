//! Every header, found by the address of its stack.
//!
//! The table grows by sections, each twice as long as the one before. A section never moves and
//! is never freed, so a search needs no lock and references to headers stay valid for ever.

#![expect(unsafe_code, reason = "headers in mappings of their own")]

use std::ptr::{NonNull, null_mut};
use std::slice;
use std::sync::atomic::{AtomicPtr, AtomicU64, AtomicUsize, Ordering};

use super::class::Class;
use super::error::StackError;
use super::header::{self, Header};
use super::word::{State, Word};
use crate::sys::map::{self, Access};

/// The header type outside of the model checker.
pub(super) type Slot = Header<AtomicU64>;

/// Headers in the first section, half of which serve stacks.
pub(super) const FIRST: usize = 1024;
/// Enough for 2^30 headers.
const SECTIONS: usize = 20;

/// All headers of the process.
pub(super) struct Table {
    sections: [AtomicPtr<Slot>; SECTIONS],
    /// The number of sections. Written under the depot's lock.
    count: AtomicUsize,
    /// Headers of each section that are not empty. Used under the depot's lock.
    filled: [AtomicUsize; SECTIONS],
}

/// A section that is not part of the table yet.
pub(super) struct NewSection {
    headers: NonNull<Slot>,
    index: usize,
}

impl Table {
    pub(super) const fn new() -> Self {
        Self {
            sections: [const { AtomicPtr::new(null_mut()) }; SECTIONS],
            count: AtomicUsize::new(0),
            filled: [const { AtomicUsize::new(0) }; SECTIONS],
        }
    }

    pub(super) const fn first_section(&'static self) -> *const AtomicPtr<Slot> {
        self.sections.as_ptr()
    }

    pub(super) const fn sections_counted(&'static self) -> *const AtomicUsize {
        &raw const self.count
    }

    fn section(&self, index: usize) -> &'static [Slot] {
        let start = self.sections[index].load(Ordering::Relaxed);
        // SAFETY: callers pass an index below `count`, which was loaded with Acquire after
        // the pointer was published; the section has this many headers, all initialised,
        // and lives for ever.
        unsafe { slice::from_raw_parts(start, FIRST << index) }
    }

    /// The sections, the newest and longest first.
    pub(super) fn sections(&self) -> impl Iterator<Item = &'static [Slot]> {
        let count = self.count.load(Ordering::Acquire);
        (0..count).rev().map(|index| self.section(index))
    }

    /// The header of the stack at exactly `address`. Takes no lock; a bounded walk.
    #[inline]
    pub(super) fn find(&self, address: usize) -> Option<&'static Slot> {
        self.sections()
            .find_map(|headers| header::find(headers, address))
    }

    /// Every header that serves a stack, with its word at the time of the visit.
    pub(super) fn stacks(&self) -> impl Iterator<Item = (&'static Slot, Word)> {
        self.known()
            .filter(|(_, word)| word.state() != Some(State::Gone))
    }

    /// Like [`Table::stacks`], and also headers whose last stack was returned to the kernel.
    pub(super) fn known(&self) -> impl Iterator<Item = (&'static Slot, Word)> {
        self.sections()
            .flatten()
            .map(|header| (header, header.word.load()))
            .filter(|(_, word)| word.state().is_some())
    }

    /// Claims any free stack of `class` that some thread's magazine knows.
    pub(super) fn steal(&self, class: Class, to: State) -> Option<(&'static Slot, Word)> {
        self.sections()
            .find_map(|headers| header::steal(headers, class, to))
    }

    /// Inserts a stack. The caller holds the depot's lock.
    ///
    /// `None` when there is no room: create a [`NewSection`] without the lock, then
    /// [`Table::adopt`] it.
    pub(super) fn insert(&self, word: Word) -> Option<&'static Slot> {
        let address = word.address();
        let header = self.find(address).or_else(|| self.vacancy(address))?;
        header.peak.store(0, Ordering::Relaxed);
        header.word.store(word);
        Some(header)
    }

    fn vacancy(&self, address: usize) -> Option<&'static Slot> {
        for index in (0..self.count.load(Ordering::Relaxed)).rev() {
            let headers = self.section(index);
            let Some((header, empty)) = header::vacancy(headers, address) else {
                continue;
            };
            if !empty {
                return Some(header);
            }
            let filled = self.filled[index].load(Ordering::Relaxed);
            if filled < headers.len() / 2 {
                self.filled[index].store(filled + 1, Ordering::Relaxed);
                return Some(header);
            }
        }
        None
    }

    /// Creates the next section, prefaulted. Maps memory.
    pub(super) fn new_section(&self) -> Result<NewSection, StackError> {
        let index = self.count.load(Ordering::Acquire);
        if index == SECTIONS {
            return Err(StackError::NoMemory(libc::ENOMEM));
        }
        let count = FIRST << index;
        let bytes = count * size_of::<Slot>();
        let headers: NonNull<Slot> = map_zeroed(bytes)?.cast();
        for number in 0..count {
            // SAFETY: number < count, and `bytes` is room for `count` headers.
            let place = unsafe { headers.add(number) };
            // SAFETY: the place is writable, aligned (it starts at a page) and unused.
            unsafe { place.write(Header::empty()) };
        }
        Ok(NewSection { headers, index })
    }

    /// Adds a section to the table. The caller holds the depot's lock.
    ///
    /// If another thread has added that section first, this one is left unused: at most one per
    /// thread and doubling.
    pub(super) fn adopt(&self, section: NewSection) {
        if self.count.load(Ordering::Relaxed) == section.index {
            self.sections[section.index].store(section.headers.as_ptr(), Ordering::Relaxed);
            self.count.store(section.index + 1, Ordering::Release);
        }
    }
}

/// Maps `bytes` of zeroed memory for ever, prefaulted.
pub(super) fn map_zeroed(bytes: usize) -> Result<NonNull<u8>, StackError> {
    let place = map::reserve(bytes).map_err(StackError::of_mapping)?;
    // SAFETY: the mapping was created above, and nothing else has its address yet.
    let opened = unsafe { map::protect(place, bytes, Access::ReadWrite) };
    // SAFETY: the new mapping, which is writable since the call above.
    let filled = opened.and_then(|()| unsafe { map::populate(place, bytes) });
    filled.map_err(|errno| {
        // SAFETY: the mapping was created above, and nothing else has its address.
        let _ = unsafe { map::unmap(place, bytes) };
        StackError::of_mapping(errno)
    })?;
    Ok(place)
}
