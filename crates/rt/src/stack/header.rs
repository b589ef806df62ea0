//! One header per stack, out of line: a stack that overflows can't reach it, and looking up
//! an address never touches what lies there.

use std::ptr::null_mut;
use std::sync::atomic::{AtomicPtr, AtomicUsize};

use super::class::Class;
use super::error::StackError;
use super::trace::Traces;
use super::word::{Atom, AtomicWord, State, Word};

/// What is known of one stack. On a cache line of its own, so that threads that use
/// different stacks don't disturb each other.
#[derive(Debug)]
#[repr(align(64))]
pub struct Header<A: 'static> {
    /// Address, class and state.
    pub word: AtomicWord<A>,
    /// The next in the depot's list; meaningful in the state `Stored`, under its lock.
    pub(super) next: AtomicPtr<Header<A>>,
    /// The most bytes seen in use at a free, in debug mode.
    pub(super) peak: AtomicUsize,
    /// Who allocated and who freed it, in debug mode; null otherwise.
    pub(super) traces: AtomicPtr<Traces>,
}

impl<A: Atom> Header<A> {
    /// A header that serves no stack.
    pub fn empty() -> Self {
        Self {
            word: AtomicWord::new(Word::EMPTY),
            next: AtomicPtr::new(null_mut()),
            peak: AtomicUsize::new(0),
            traces: AtomicPtr::new(null_mut()),
        }
    }

    /// Takes the stack if it is a free one of `class` that a magazine knows.
    ///
    /// Any number of threads may try; one succeeds.
    #[inline]
    pub fn claim(&self, class: Class, to: State) -> Option<Word> {
        let seen = self.word.load();
        if seen.state() != Some(State::Kept) || seen.class() != class {
            return None;
        }
        let claimed = seen.with(to);
        self.word.swap_if(seen, claimed).ok().map(|()| claimed)
    }

    /// Gives the stack at `address` back: to `Kept`, or to `Moving` when it needs work first.
    /// Returns its word from now on.
    ///
    /// # Errors
    /// What is wrong with the free; then nothing was changed. Of several threads that free
    /// the same stack at the same time, one succeeds.
    #[inline]
    pub fn release(&self, address: usize, class: Class, to: State) -> Result<Word, StackError> {
        // Nothing is read before the swap, which tells what was there: a load that it had to
        // wait for would cost a third of a free.
        let used = Word::new(address, class, State::Used);
        let released = used.with(to);
        match self.word.swap_if(used, released) {
            Ok(()) => Ok(released),
            Err(found) => self.release_otherwise(found, used, to),
        }
    }

    /// A cold stack stays cold until it is allocated again, so the bit is kept.
    #[cold]
    fn release_otherwise(&self, found: Word, used: Word, to: State) -> Result<Word, StackError> {
        let cold = used.set_cold(true);
        let found = if found == cold {
            match self.word.swap_if(cold, cold.with(to)) {
                Ok(()) => return Ok(cold.with(to)),
                Err(found) => found,
            }
        } else {
            found
        };
        Err(refusal(found, used.address(), used.class()))
    }
}

/// Why the stack at `address` can't be freed when its word is `found`.
#[cold]
fn refusal(found: Word, address: usize, class: Class) -> StackError {
    if found.address() != address {
        return StackError::NotAStack(address);
    }
    match found.state() {
        Some(State::Gone) | None => StackError::NotAStack(address),
        Some(State::Used | State::Live) if found.class() != class => StackError::WrongClass {
            is: found.class().size(),
            named: class.size(),
        },
        Some(State::Live) => StackError::InUse(address),
        _ => StackError::NotInUse(address),
    }
}

/// Where the search for an address starts among `len` headers, a power of two.
#[inline]
fn home(address: usize, len: usize) -> usize {
    let hash = (address as u64 >> 12).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    // The top bits of the product are the mixed ones.
    (hash >> (64 - len.trailing_zeros())) as usize
}

/// The header that serves, or last served, the stack at `address`.
///
/// `headers` is a power of two long, at least 2. A bounded walk without a lock: headers are
/// filled and refilled, never emptied, and half of them stay empty.
#[inline]
pub fn find<A: Atom>(headers: &[Header<A>], address: usize) -> Option<&Header<A>> {
    let mask = headers.len() - 1;
    let start = home(address, headers.len());
    for step in 0..headers.len() {
        let header = &headers[(start + step) & mask];
        let word = header.word.load();
        if word.address() == address {
            return Some(header);
        }
        if word == Word::EMPTY {
            return None;
        }
    }
    None
}

/// A header that can serve a new stack at `address`, and whether it was empty.
///
/// Prefers one whose stack is gone. The caller holds the depot's lock.
pub fn vacancy<A: Atom>(headers: &[Header<A>], address: usize) -> Option<(&Header<A>, bool)> {
    let mask = headers.len() - 1;
    let start = home(address, headers.len());
    for step in 0..headers.len() {
        let header = &headers[(start + step) & mask];
        match header.word.load().state() {
            None => return Some((header, true)),
            Some(State::Gone) => return Some((header, false)),
            Some(_) => {}
        }
    }
    None
}

/// Claims any free stack of `class` that some thread's magazine knows.
///
/// So a stack is never lost in the magazine of a thread that sleeps, and what was reserved
/// is there for every thread. Takes no lock; a bounded walk.
pub fn steal<A: Atom>(
    headers: &'static [Header<A>],
    class: Class,
    to: State,
) -> Option<(&'static Header<A>, Word)> {
    headers
        .iter()
        .find_map(|header| header.claim(class, to).map(|word| (header, word)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::AtomicU64;

    fn table(len: usize) -> &'static [Header<AtomicU64>] {
        Vec::leak((0..len).map(|_| Header::empty()).collect())
    }

    fn class(size: usize) -> Class {
        Class::exact(size).unwrap()
    }

    #[test]
    fn what_was_put_in_is_found_and_nothing_else() {
        let headers = table(64);
        let small = class(32 << 10);
        for number in 1..=32_usize {
            let address = number * 0x9000;
            let (header, empty) = vacancy(headers, address).unwrap();
            assert!(empty);
            header.word.store(Word::new(address, small, State::Used));
        }
        for number in 1..=32_usize {
            let address = number * 0x9000;
            assert_eq!(
                find(headers, address).unwrap().word.load().address(),
                address
            );
            assert!(find(headers, address + 8).is_none());
            assert!(find(headers, address + 0x1000).is_none());
        }
        assert!(find(headers, 0x8000).is_none());
    }

    #[test]
    fn a_header_whose_stack_is_gone_serves_again() {
        let headers = table(8);
        let small = class(32 << 10);
        let (header, _) = vacancy(headers, 0x4000).unwrap();
        header.word.store(Word::new(0x4000, small, State::Gone));
        let (again, empty) = vacancy(headers, 0x4000).unwrap();
        assert!(std::ptr::eq(header, again) && !empty);
    }

    #[test]
    fn each_wrong_free_has_its_own_answer_and_changes_nothing() {
        let small = class(32 << 10);
        let big = class(2 << 20);
        let header = Header::<AtomicU64>::empty();
        let cases = [
            (
                State::Used,
                big,
                StackError::WrongClass {
                    is: 32 << 10,
                    named: 2 << 20,
                },
            ),
            (State::Live, small, StackError::InUse(0x4000)),
            (State::Kept, small, StackError::NotInUse(0x4000)),
            (State::Stored, small, StackError::NotInUse(0x4000)),
            (State::Moving, small, StackError::NotInUse(0x4000)),
            (State::Gone, small, StackError::NotAStack(0x4000)),
        ];
        for (state, named, answer) in cases {
            let word = Word::new(0x4000, small, state);
            header.word.store(word);
            assert_eq!(header.release(0x4000, named, State::Kept), Err(answer));
            assert_eq!(header.word.load(), word);
        }
    }

    #[test]
    fn one_claim_and_one_release_succeed() {
        let small = class(32 << 10);
        let header = Header::<AtomicU64>::empty();
        header.word.store(Word::new(0x4000, small, State::Kept));
        assert!(header.claim(class(64 << 10), State::Used).is_none());
        assert!(header.claim(small, State::Used).is_some());
        assert!(header.claim(small, State::Used).is_none());
        let free = Word::new(0x4000, small, State::Kept);
        assert_eq!(header.release(0x4000, small, State::Kept), Ok(free));
        assert_eq!(
            header.release(0x4000, small, State::Kept),
            Err(StackError::NotInUse(0x4000))
        );
    }
}
