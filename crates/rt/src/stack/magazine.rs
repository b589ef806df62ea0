//! The stacks that a thread keeps for itself, and those that all threads share.
//!
//! A magazine is a list of *hints*: only each stack's state word is authoritative. A thread takes
//! a stack by claiming its word, so a stale hint, because another thread stole the stack or
//! because the process forked, costs one failed compare-and-swap and nothing more.

#![expect(unsafe_code, reason = "lists that run through the headers")]

use std::cell::Cell;
use std::ptr::null_mut;
use std::sync::atomic::Ordering;

use super::class::{CLASSES, Class};
use super::header::Header;
use super::word::{Atom, State, Word};

/// The largest number of stacks of one class that one thread keeps.
pub const ROUNDS: usize = 16;

/// The largest number of stacks of `class` that one thread keeps: 4 MB in total, at most
/// [`ROUNDS`].
#[inline]
pub fn rounds(class: Class) -> usize {
    const KEPT_BYTES: usize = 4 << 20;
    (KEPT_BYTES / class.size()).min(ROUNDS)
}

/// The free stacks of one class that one thread knows of.
#[derive(Debug)]
pub struct Magazine<A: 'static> {
    len: Cell<usize>,
    hints: [Cell<Option<Hint<A>>>; ROUNDS],
}

/// A stack that may still be free, and its word when it became free: with that known, the
/// claiming swap waits for no load.
#[derive(Debug)]
pub struct Hint<A: 'static> {
    header: &'static Header<A>,
    word: Word,
}

impl<A> Clone for Hint<A> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<A> Copy for Hint<A> {}

impl<A: Atom> Magazine<A> {
    /// An empty magazine.
    pub const fn new() -> Self {
        Self {
            len: Cell::new(0),
            hints: [const { Cell::new(None) }; ROUNDS],
        }
    }

    /// Claims a stack of `class`, the last freed first; drops the hints that fail.
    #[inline]
    pub fn take(&self, class: Class) -> Option<(&'static Header<A>, Word)> {
        while let Some(Hint { header, word }) = self.pop() {
            let used = word.with(State::Used);
            if header.word.swap_if(word, used).is_ok() {
                return Some((header, used));
            }
            if let Some(word) = Self::take_changed(header, class) {
                return Some((header, word));
            }
        }
        None
    }

    /// The stack's word has changed: it was stolen, reused, or became cold.
    #[cold]
    fn take_changed(header: &'static Header<A>, class: Class) -> Option<Word> {
        header.claim(class, State::Used)
    }

    /// The last hint, if there is one.
    #[inline]
    fn pop(&self) -> Option<Hint<A>> {
        let last = self.len.get().checked_sub(1)?;
        self.len.set(last);
        self.hints.get(last)?.get()
    }

    /// Adds a stack that became free with `word`; false when the magazine has `rounds` hints
    /// already.
    #[inline]
    pub fn push(&self, header: &'static Header<A>, word: Word, rounds: usize) -> bool {
        debug_assert_eq!(word.state(), Some(State::Kept));
        let len = self.len.get();
        match self.hints.get(len) {
            Some(place) if len < rounds => {
                place.set(Some(Hint { header, word }));
                self.len.set(len + 1);
                true
            }
            _ => false,
        }
    }

    /// The number of hints.
    pub fn len(&self) -> usize {
        self.len.get()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Drops all hints; the stacks stay free and can be stolen.
    pub fn clear(&self) {
        self.len.set(0);
    }
}

impl<A: Atom> Default for Magazine<A> {
    fn default() -> Self {
        Self::new()
    }
}

/// The free stacks that all threads share. Every method is called under the depot's lock.
#[derive(Debug)]
pub struct Depot<A: 'static> {
    lists: [List<A>; CLASSES],
}

#[derive(Debug)]
struct List<A: 'static> {
    head: Option<&'static Header<A>>,
    len: usize,
}

impl<A: Atom> Depot<A> {
    /// An empty depot.
    pub const fn new() -> Self {
        Self {
            lists: [const { List { head: None, len: 0 } }; CLASSES],
        }
    }

    /// The number of stacks of `class`.
    pub fn len(&self, class: Class) -> usize {
        self.lists[class.index()].len
    }

    /// Stores a stack that a magazine knew; false when another thread has claimed it.
    pub fn store(&mut self, header: &'static Header<A>) -> bool {
        let seen = header.word.load();
        if seen.state() != Some(State::Kept) {
            return false;
        }
        if header.word.swap_if(seen, seen.with(State::Stored)).is_err() {
            return false;
        }
        self.link(header, seen.class());
        true
    }

    /// Stores a stack that only the caller holds (`Moving`, or not yet published).
    pub fn store_own(&mut self, header: &'static Header<A>, word: Word) {
        header.word.store(word.with(State::Stored));
        self.link(header, word.class());
    }

    fn link(&mut self, header: &'static Header<A>, class: Class) {
        let list = &mut self.lists[class.index()];
        let next = list
            .head
            .map_or(null_mut(), |head| std::ptr::from_ref(head).cast_mut());
        header.next.store(next, Ordering::Relaxed);
        list.head = Some(header);
        list.len += 1;
    }

    /// Removes a stack, the last stored first, and puts it into the state `to`.
    pub fn take(&mut self, class: Class, to: State) -> Option<(&'static Header<A>, Word)> {
        let list = &mut self.lists[class.index()];
        let header = list.head?;
        // SAFETY: `next` of a stored header is null or a header that was linked before it, and
        // headers live for ever.
        list.head = unsafe { header.next.load(Ordering::Relaxed).as_ref() };
        list.len -= 1;
        let word = header.word.load_own().with(to);
        header.word.store(word);
        Some((header, word))
    }

    /// Moves some stacks to a magazine: at most half of its capacity, and at most a quarter of
    /// the depot's stacks, so that one thread doesn't empty the depot for the others.
    pub fn refill(&mut self, magazine: &Magazine<A>, class: Class) {
        let limit = (rounds(class) / 2).min(self.len(class) / 4);
        while magazine.len() < limit {
            let Some((header, word)) = self.take(class, State::Kept) else {
                return;
            };
            magazine.push(header, word, ROUNDS);
        }
    }

    /// Moves hints from a magazine to the depot until `keep` are left.
    pub fn drain(&mut self, magazine: &Magazine<A>, keep: usize) {
        while magazine.len() > keep {
            if let Some(hint) = magazine.pop() {
                self.store(hint.header);
            }
        }
    }

    /// Drops all lists, to be rebuilt after a fork.
    pub fn clear(&mut self) {
        *self = Self::new();
    }
}

impl<A: Atom> Default for Depot<A> {
    fn default() -> Self {
        Self::new()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::AtomicU64;

    type Model = Header<AtomicU64>;

    fn stacks(class: Class, count: usize) -> &'static [Model] {
        let headers: &'static [Model] = Vec::leak((0..count).map(|_| Header::empty()).collect());
        for (number, header) in headers.iter().enumerate() {
            header
                .word
                .store(Word::new((number + 1) << 20, class, State::Kept));
        }
        headers
    }

    #[test]
    fn a_magazine_is_last_in_first_out_and_bounded() {
        let class = Class::exact(1 << 20).unwrap();
        assert_eq!(rounds(class), 4);
        let magazine = Magazine::new();
        let headers = stacks(class, 5);
        for header in &headers[..4] {
            assert!(magazine.push(header, header.word.load(), rounds(class)));
        }
        assert!(!magazine.push(&headers[4], headers[4].word.load(), rounds(class)));
        assert_eq!(magazine.take(class).unwrap().1.address(), 4 << 20);
        assert_eq!(magazine.take(class).unwrap().1.address(), 3 << 20);
    }

    #[test]
    fn stale_hints_are_dropped() {
        let class = Class::exact(32 << 10).unwrap();
        let magazine = Magazine::new();
        let headers = stacks(class, 2);
        magazine.push(&headers[0], headers[0].word.load(), ROUNDS);
        magazine.push(&headers[1], headers[1].word.load(), ROUNDS);
        assert!(headers[1].claim(class, State::Used).is_some());
        assert_eq!(magazine.take(class).unwrap().1.address(), 1 << 20);
        assert!(magazine.take(class).is_none());
    }

    #[test]
    fn the_depot_links_each_stack_once() {
        let class = Class::exact(32 << 10).unwrap();
        let mut depot = Depot::new();
        let headers = stacks(class, 3);
        for header in headers {
            assert!(depot.store(header));
            assert!(!depot.store(header));
        }
        assert_eq!(depot.len(class), 3);
        let mut found = Vec::new();
        while let Some((_, word)) = depot.take(class, State::Used) {
            found.push(word.address() >> 20);
        }
        assert_eq!(found, [3, 2, 1]);
        assert_eq!(depot.len(class), 0);
    }

    #[test]
    fn a_refill_takes_at_most_a_quarter_of_the_depot() {
        let class = Class::exact(32 << 10).unwrap();
        let mut depot = Depot::new();
        for header in stacks(class, 12) {
            depot.store(header);
        }
        let magazine = Magazine::new();
        depot.refill(&magazine, class);
        assert_eq!((magazine.len(), depot.len(class)), (3, 9));
        depot.drain(&magazine, 0);
        assert_eq!((magazine.len(), depot.len(class)), (0, 12));
    }
}
