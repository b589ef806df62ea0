//! The state of one stack in one word, changed only by compare-and-swap.
//!
//! The word contains the address too, so a swap succeeds only on the intended stack: when the
//! header serves another stack by now, it fails.

use std::sync::atomic::{AtomicU64, Ordering};

use super::class::Class;

/// The state of a stack.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u64)]
pub enum State {
    /// Free, and some thread's magazine knows it. Any thread may claim it.
    Kept = 1,
    /// Free, and in the depot's list. Changed only under the depot's lock.
    Stored = 2,
    /// Allocated.
    Used = 3,
    /// Allocated, and a thread is known to run on it.
    Live = 4,
    /// Between two states: belongs to the thread that changed it.
    Moving = 5,
    /// Returned to the kernel.
    Gone = 6,
}

const CLASS_BITS: u64 = 0b111;
const STATE_SHIFT: u32 = 3;
const STATE_BITS: u64 = 0b111 << STATE_SHIFT;
const COLD_BIT: u64 = 1 << 6;
/// A page has 4,096 bytes or more, so these bits of an address are free for the state.
const ADDRESS_BITS: u64 = !0xfff;

/// One stack: its lowest address, class and state, and whether its pages may be absent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Word(u64);

impl Word {
    /// The word of a header that serves no stack.
    pub const EMPTY: Self = Self(0);

    /// The word of a stack at `address`, the start of a page.
    pub fn new(address: usize, class: Class, state: State) -> Self {
        debug_assert_eq!(address as u64 & !ADDRESS_BITS, 0);
        Self(address as u64 | class.index() as u64 | (state as u64) << STATE_SHIFT)
    }

    /// The lowest address of the stack; 0 in an empty word.
    #[inline]
    pub fn address(self) -> usize {
        (self.0 & ADDRESS_BITS) as usize
    }

    /// The class of the stack.
    #[inline]
    pub fn class(self) -> Class {
        // Seven classes in three bits: the eighth value is never written.
        Class::at((self.0 & CLASS_BITS) as usize)
    }

    /// The state, `None` in an empty word.
    #[inline]
    pub fn state(self) -> Option<State> {
        match (self.0 & STATE_BITS) >> STATE_SHIFT {
            1 => Some(State::Kept),
            2 => Some(State::Stored),
            3 => Some(State::Used),
            4 => Some(State::Live),
            5 => Some(State::Moving),
            6 => Some(State::Gone),
            _ => None,
        }
    }

    /// The same stack in another state.
    #[inline]
    #[must_use]
    pub fn with(self, state: State) -> Self {
        Self(self.0 & !STATE_BITS | (state as u64) << STATE_SHIFT)
    }

    /// Whether pages of the stack may be absent or shared with another process.
    #[inline]
    pub fn is_cold(self) -> bool {
        self.0 & COLD_BIT != 0
    }

    /// The same stack, cold or not.
    #[inline]
    #[must_use]
    pub fn set_cold(self, cold: bool) -> Self {
        Self(if cold {
            self.0 | COLD_BIT
        } else {
            self.0 & !COLD_BIT
        })
    }
}

/// The atomic operations that the protocol needs, so that a model checker can supply them.
pub trait Atom {
    /// Creates an atomic with the value `word`.
    fn new(word: u64) -> Self;
    /// The current word.
    fn load(&self, order: Ordering) -> u64;
    /// Replaces the word.
    fn store(&self, word: u64, order: Ordering);
    /// Replaces the word if it is `old`; else returns the current one. The orders are those of a
    /// success and of a failure.
    fn swap_if(&self, old: u64, new: u64, done: Ordering, refused: Ordering) -> Result<u64, u64>;
}

impl Atom for AtomicU64 {
    fn new(word: u64) -> Self {
        Self::new(word)
    }

    #[inline]
    fn load(&self, order: Ordering) -> u64 {
        self.load(order)
    }

    #[inline]
    fn store(&self, word: u64, order: Ordering) {
        self.store(word, order);
    }

    #[inline]
    fn swap_if(&self, old: u64, new: u64, done: Ordering, refused: Ordering) -> Result<u64, u64> {
        self.compare_exchange(old, new, done, refused)
    }
}

/// A [`Word`] that threads share.
#[derive(Debug)]
pub struct AtomicWord<A>(A);

impl<A: Atom> AtomicWord<A> {
    /// Creates a shared word with the value `word`.
    pub fn new(word: Word) -> Self {
        Self(A::new(word.0))
    }

    /// The current word; an acquire.
    #[inline]
    pub fn load(&self) -> Word {
        Word(self.0.load(Ordering::Acquire))
    }

    /// The current word, for a thread that alone may change it at this time.
    #[inline]
    pub fn load_own(&self) -> Word {
        Word(self.0.load(Ordering::Relaxed))
    }

    /// Replaces the word; only the caller may change it at this time.
    #[inline]
    pub fn store(&self, word: Word) {
        self.0.store(word.0, Ordering::Release);
    }

    /// Replaces the word if it is `old`; else returns the current one. A success acquires and
    /// releases: the stack's memory passes from its last holder to the next.
    #[inline]
    pub fn swap_if(&self, old: Word, new: Word) -> Result<(), Word> {
        let swapped = (self.0).swap_if(old.0, new.0, Ordering::AcqRel, Ordering::Acquire);
        swapped.map(drop).map_err(Word)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const STATES: [State; 6] = [
        State::Kept,
        State::Stored,
        State::Used,
        State::Live,
        State::Moving,
        State::Gone,
    ];

    #[test]
    fn a_word_stores_address_class_state_and_coldness_independently() {
        for class in Class::all() {
            for state in STATES {
                let word = Word::new(0x7fff_ffff_f000, class, State::Used).with(state);
                for word in [word, word.set_cold(true)] {
                    assert_eq!(word.address(), 0x7fff_ffff_f000);
                    assert_eq!(word.class(), class);
                    assert_eq!(word.state(), Some(state));
                }
                assert!(!word.is_cold());
                assert!(word.set_cold(true).is_cold());
                assert_eq!(word.set_cold(true).set_cold(false), word);
            }
        }
    }

    #[test]
    fn the_empty_word_has_no_state() {
        assert_eq!(Word::EMPTY.state(), None);
        assert_eq!(Word::EMPTY.address(), 0);
    }

    #[test]
    fn a_swap_fails_unless_the_whole_word_matches() {
        let class = Class::fitting(0).unwrap();
        let used = Word::new(0x1000, class, State::Used);
        let held = AtomicWord::<AtomicU64>::new(used);
        let other = Word::new(0x2000, class, State::Used);
        assert_eq!(held.swap_if(other, other.with(State::Kept)), Err(used));
        assert_eq!(held.swap_if(used, used.with(State::Kept)), Ok(()));
        assert_eq!(held.load(), used.with(State::Kept));
    }
}
