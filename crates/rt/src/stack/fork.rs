//! What a fork means for the allocator.
//!
//! The child has one thread and a copy of everything. The lock is taken across the fork, so
//! that the copy is whole; the magazines of threads that are not there lose nothing, since
//! magazines hold hints alone. The copied pages are shared until they are written to, and
//! locked memory is not inherited, so every stack that the child hands out is made present
//! again first. In the parent they are shared too, and are made its own before fork() returns.

use std::sync::atomic::{AtomicUsize, Ordering};

use super::cache;
use super::options::DebugOptions;
use super::pool::{SHARED, TABLE, base_of, standing_on};
use super::report;
use super::table::Slot;
use super::word::{State, Word};
use crate::sys::cgroup::memory_left;
use crate::sys::map;

/// The thread that holds the lock across its fork; 0 when there is none.
static FORKING: AtomicUsize = AtomicUsize::new(0);

fn this_thread() -> usize {
    // The handle, for it is the same in the child.
    // SAFETY: pthread_self has no precondition.
    unsafe { libc::pthread_self() as usize }
}

/// Registers the handlers. They bear being registered twice, which happens in a child that
/// was forked while its parent was just here. Without memory for them a child is as safe as
/// the moment of its fork was.
pub(super) fn set_up() {
    // SAFETY: the handlers are functions of this library, which is never unloaded while
    // they are registered: glibc drops the handlers of a library that is closed.
    unsafe { libc::pthread_atfork(Some(before), Some(in_parent), Some(in_child)) };
}

extern "C" fn before() {
    if FORKING.load(Ordering::Relaxed) != this_thread() {
        SHARED.lock_raw();
        FORKING.store(this_thread(), Ordering::Relaxed);
    }
}

/// Whether this is the first of the handlers to see that the fork is done.
fn is_first() -> bool {
    FORKING.load(Ordering::Relaxed) == this_thread()
}

extern "C" fn in_parent() {
    if is_first() {
        FORKING.store(0, Ordering::Relaxed);
        // SAFETY: `before` took the lock on this thread.
        unsafe { SHARED.unlock_raw() };
        make_own_again();
    }
}

/// Makes every page of every stack this process' own again: until then the first write to each
/// is a fault. Those with threads come first. Without the lock, which a real-time thread may
/// want: at worst a stack is given back to the kernel meanwhile, and the call refused.
fn make_own_again() {
    // Older kernels would have each page written to, which by now may be unmapped.
    if !map::knows_populate() {
        return;
    }
    let kept = map::errno();
    // A control group at its limit ends the program for the copies.
    let mut left = memory_left().unwrap_or(u64::MAX);
    let turns: [fn(Option<State>) -> bool; 3] = [
        |state| state == Some(State::Live),
        |state| state == Some(State::Used),
        |state| matches!(state, Some(State::Kept | State::Stored)),
    ];
    for is_due in turns {
        let due = TABLE.stacks().filter(|(_, word)| is_due(word.state()));
        for (_, word) in due {
            let is_free = matches!(word.state(), Some(State::Kept | State::Stored));
            if is_free && word.is_cold() {
                continue;
            }
            let size = word.class().size() as u64;
            if left < 2 * size {
                break;
            }
            left -= size;
            // SAFETY: a stack of the table; its content isn't changed, so that threads may run
            // on it meanwhile.
            let _ = unsafe { map::populate(base_of(word), word.class().size()) };
        }
    }
    map::set_errno(kept);
}

extern "C" fn in_child() {
    if !is_first() {
        return;
    }
    FORKING.store(0, Ordering::Relaxed);
    report::after_fork();
    // SAFETY: `before` took the lock on the thread that is this child's only one. It can't
    // be released, since the kernel knows it by the parent's thread id.
    unsafe { SHARED.init() };
    let mut shared = SHARED.lock();
    shared.depot.clear();
    let watched = DebugOptions::in_force().any();
    for (header, word) in TABLE.stacks() {
        match word.state() {
            Some(State::Kept | State::Stored) => {
                shared.depot.store_own(header, word.set_cold(true))
            }
            Some(State::Live) if !watched && !runs_here(word) => {
                shared.depot.store_own(header, word.set_cold(true));
            }
            Some(State::Used | State::Live) => header.word.store(word.set_cold(true)),
            // In the hands of a thread that isn't here: nobody knows how far it had come.
            _ => forget(header, word),
        }
    }
    let mine = cache::current();
    if let Some(mine) = mine {
        mine.forget();
    }
    shared.spare.after_fork(mine);
}

fn runs_here(word: Word) -> bool {
    standing_on(word.address(), word.class())
}

fn forget(header: &'static Slot, word: Word) {
    header.word.store(word.with(State::Gone));
}
