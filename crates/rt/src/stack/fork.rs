//! How the allocator handles a fork.
//!
//! The child has one thread and a copy of everything. The lock is held across the fork, so that
//! the copy is consistent. The magazines of threads that don't exist in the child lose nothing,
//! because magazines contain only hints. The copied pages are shared until they are written to,
//! and locked memory is not inherited, so the child prefaults each stack again before it
//! allocates it. In the parent the pages are shared too; they are unshared before fork() returns.

#![expect(unsafe_code, reason = "pthread_atfork")]

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
    // The pthread handle, because it is the same in the child.
    // SAFETY: pthread_self has no precondition.
    unsafe { libc::pthread_self() as usize }
}

/// Registers the handlers. Registering them twice is harmless; it happens in a child that was
/// forked while its parent was in this function. Without memory for them, the state at the moment
/// of the fork decides whether a child can use the allocator.
pub(super) fn set_up() {
    // SAFETY: the handlers are functions of this library, which is never unloaded while they are
    // registered: glibc removes the handlers of a library that is closed.
    unsafe { libc::pthread_atfork(Some(before), Some(in_parent), Some(in_child)) };
}

extern "C" fn before() {
    if FORKING.load(Ordering::Relaxed) != this_thread() {
        SHARED.lock_raw();
        FORKING.store(this_thread(), Ordering::Relaxed);
    }
}

/// Whether this is the first of the handlers that runs after the fork.
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

/// Unshares every page of every stack for this process: otherwise the first write to each page
/// faults. Stacks with running threads come first. Without the lock, which a real-time thread may
/// need: at worst a stack is unmapped meanwhile, and the call fails.
fn make_own_again() {
    // Older kernels would need a write to each page, which may be unmapped by now.
    if !map::knows_populate() {
        return;
    }
    let kept = map::errno();
    // At its memory limit, a cgroup would kill the program for the copies.
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
            // SAFETY: a stack of the table; populating doesn't change its content, so threads may
            // run on it meanwhile.
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
    // SAFETY: `before` took the lock on the only thread of this child. It can't be released,
    // because the kernel knows the owner by the parent's thread id.
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
            // Held by a thread that doesn't exist here: its progress is unknown.
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
