//! The allocator: magazines in front, the depot behind them, the kernel behind that.
#![expect(unsafe_code, reason = "opens and closes stacks")]

use std::ptr::NonNull;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use super::cache::{self, Cache, Spare};
use super::class::{CLASSES, Class};
use super::debug;
use super::error::StackError;
use super::lock::{Held, PiLock};
use super::magazine::{Depot, rounds};
use super::options::DebugOptions;
use super::region;
use super::setup::set_up;
use super::stats::Counts;
use super::table::{Slot, Table};
use super::word::{State, Word};
use crate::sys::cgroup::memory_left;
use crate::sys::map;

/// Every stack of the process.
pub(super) static TABLE: Table = Table::new();
/// The data that all threads share; the only lock of the allocator.
pub(super) static SHARED: PiLock<Shared> = PiLock::new(Shared {
    depot: Depot::new(),
    spare: Spare::new(),
});
/// Counts of the slow paths, by class.
pub(super) static COUNTS: [Counts; CLASSES] = [const { Counts::new() }; CLASSES];

/// The depot and the unused magazines.
pub(super) struct Shared {
    pub(super) depot: Depot<AtomicU64>,
    pub(super) spare: Spare,
}

/// The lowest address of a stack, as a pointer.
pub(super) fn base_of(word: Word) -> NonNull<u8> {
    NonNull::new(word.address() as *mut u8).unwrap_or(NonNull::dangling())
}

/// Allocates a stack.
#[inline]
pub(super) fn alloc(class: Class) -> Result<NonNull<u8>, StackError> {
    if let Some(cache) = cache::current()
        && let Some((header, word)) = cache.magazine(class).take(class)
    {
        if word.is_cold() {
            return hand_out(header, word);
        }
        return Ok(base_of(word));
    }
    alloc_slow(class)
}

#[cold]
fn alloc_slow(class: Class) -> Result<NonNull<u8>, StackError> {
    set_up();
    let to = if DebugOptions::in_force().any() {
        State::Moving
    } else {
        State::Used
    };
    // A stack may move from a magazine to the depot between the two searches, so search twice
    // before a real-time thread has to enter the kernel.
    for _ in 0..2 {
        if let Some((header, word)) = from_depot(class, to) {
            return hand_out(header, word);
        }
        if let Some((header, word)) = TABLE.steal(class, to) {
            COUNTS[class.index()].stolen.add(1);
            return hand_out(header, word);
        }
    }
    let (header, word) = or_make_room(class, || {
        take_memory(taken_by(class, 1))?;
        let base = region::map_stack(class)?;
        debug::fill_new(base, class);
        let word = Word::new(base.as_ptr() as usize, class, to);
        let header = publish(base, class, |header, _| header.word.store(word))?;
        Ok((header, word))
    })?;
    hand_out(header, word)
}

/// Calls `make` for a stack of `class`; when memory is short, frees stacks of other sizes and
/// calls it once more.
fn or_make_room<T>(
    class: Class,
    make: impl Fn() -> Result<T, StackError>,
) -> Result<T, StackError> {
    match make() {
        Err(short @ (StackError::NoMemory(_) | StackError::LockLimit)) => {
            if give_back_others(class) == 0 {
                return Err(short);
            }
            make()
        }
        done => done,
    }
}

/// The number of free stacks of each class that [`reserve`] has promised.
static PROMISED: [AtomicUsize; CLASSES] = [const { AtomicUsize::new(0) }; CLASSES];

/// Returns free stacks of other classes to the kernel, except the reserved ones, which a program
/// relies on. Returns how many.
fn give_back_others(class: Class) -> usize {
    let others = Class::all().filter(|other| *other != class);
    others
        .map(|other| {
            let promised = PROMISED[other.index()].load(Ordering::Relaxed);
            give_back_free(other, promised).unwrap_or(0)
        })
        .sum()
}

fn from_depot(class: Class, to: State) -> Option<(&'static Slot, Word)> {
    let mut shared = SHARED.lock();
    let cache = cache_of_caller(&mut shared);
    let found = shared.depot.take(class, to)?;
    if let Some(cache) = cache {
        shared.depot.refill(cache.magazine(class), class);
    }
    Some(found)
}

fn cache_of_caller(shared: &mut Held<'_, Shared>) -> Option<&'static Cache> {
    match cache::current() {
        None if cache::in_use() => shared.spare.attach(),
        found => found,
    }
}

/// The last step of an allocation: the stack belongs to the caller and is made usable.
fn hand_out(header: &'static Slot, word: Word) -> Result<NonNull<u8>, StackError> {
    let base = base_of(word);
    let mut made_fit = Ok(());
    if word.state() == Some(State::Moving) {
        made_fit = debug::on_alloc(header, word);
    }
    if made_fit.is_ok() && word.is_cold() {
        // SAFETY: this thread claimed the stack, so no other thread uses its pages.
        made_fit = unsafe { map::populate(base, word.class().size()) };
    }
    if let Err(errno) = made_fit {
        SHARED.lock().depot.store_own(header, word);
        return Err(StackError::of_mapping(errno));
    }
    if word.state() == Some(State::Moving) {
        header.word.store(word.with(State::Used).set_cold(false));
    } else if word.is_cold() {
        // Fails only when another thread wrongly frees a stack that isn't in use yet.
        let _ = header.word.swap_if(word, word.set_cold(false));
    }
    Ok(base)
}

/// Adds a new stack to the table; `then` completes it under the lock.
///
/// Everything that the allocator may need soon, and that would need memory, is made here too.
fn publish(
    base: NonNull<u8>,
    class: Class,
    then: impl FnOnce(&'static Slot, &mut Shared),
) -> Result<&'static Slot, StackError> {
    let entered = enter(base, class, then);
    match entered {
        Ok(_) => COUNTS[class.index()].made.add(1),
        Err(_) => drop(region::unmap_stack(base, class)),
    }
    entered
}

fn enter(
    base: NonNull<u8>,
    class: Class,
    then: impl FnOnce(&'static Slot, &mut Shared),
) -> Result<&'static Slot, StackError> {
    // Moving, so that no thread can claim it before `then` has run.
    let word = Word::new(base.as_ptr() as usize, class, State::Moving);
    let mut shared = SHARED.lock();
    if cache::in_use() && shared.spare.is_short() {
        drop(shared);
        let chunk = cache::new_chunk()?;
        shared = SHARED.lock();
        shared.spare.adopt(chunk);
    }
    cache_of_caller(&mut shared);
    loop {
        if let Some(header) = TABLE.insert(word) {
            debug::attach(header);
            then(header, &mut shared);
            return Ok(header);
        }
        drop(shared);
        let section = TABLE.new_section()?;
        shared = SHARED.lock();
        TABLE.adopt(section);
    }
}

/// Whether the caller runs on the stack at `address`.
#[inline]
pub(super) fn standing_on(address: usize, class: Class) -> bool {
    let here = 0_u8;
    let here = std::hint::black_box((&raw const here) as usize);
    here.wrapping_sub(address) < class.size()
}

/// Frees a stack.
#[inline]
pub(super) fn free(address: usize, class: Class) -> Result<(), StackError> {
    let Some(cache) = cache::current() else {
        return free_slow(address, class);
    };
    let header = TABLE.find(address).ok_or(StackError::NotAStack(address))?;
    if standing_on(address, class) {
        return Err(refuse_standing(header, address, class));
    }
    let word = header.release(address, class, State::Kept)?;
    if !cache.magazine(class).push(header, word, rounds(class)) {
        spill(cache, header, word);
    }
    Ok(())
}

/// The error when the caller frees the stack that it runs on, which is always wrong.
#[cold]
fn refuse_standing(header: &'static Slot, address: usize, class: Class) -> StackError {
    let word = header.word.load();
    if word.class() == class {
        StackError::InUse(address)
    } else {
        StackError::WrongClass {
            is: word.class().size(),
            named: class.size(),
        }
    }
}

#[cold]
fn spill(cache: &'static Cache, header: &'static Slot, word: Word) {
    let class = word.class();
    let mut shared = SHARED.lock();
    shared.depot.drain(cache.magazine(class), rounds(class) / 2);
    cache.magazine(class).push(header, word, rounds(class));
}

#[cold]
fn free_slow(address: usize, class: Class) -> Result<(), StackError> {
    set_up();
    if DebugOptions::in_force().any() {
        return free_watched(address, class)
            .inspect_err(|&error| debug::refused(address, class.size(), error));
    }
    let header = TABLE.find(address).ok_or(StackError::NotAStack(address))?;
    if standing_on(address, class) {
        return Err(refuse_standing(header, address, class));
    }
    let word = header.release(address, class, State::Kept)?;
    let mut shared = SHARED.lock();
    let cache = cache_of_caller(&mut shared);
    let kept = cache.is_some_and(|cache| cache.magazine(class).push(header, word, rounds(class)));
    if !kept {
        shared.depot.store(header);
    }
    Ok(())
}

fn free_watched(address: usize, class: Class) -> Result<(), StackError> {
    let header = TABLE.find(address).ok_or(StackError::NotAStack(address))?;
    if standing_on(address, class) {
        return Err(refuse_standing(header, address, class));
    }
    let word = header.release(address, class, State::Moving)?;
    debug::on_free(header, word);
    SHARED.lock().depot.store_own(header, word);
    Ok(())
}

/// Takes over the stacks of a thread that ends.
pub(super) fn give_back(cache: &'static Cache) {
    let mut shared = SHARED.lock();
    for class in Class::all() {
        shared.depot.drain(cache.magazine(class), 0);
    }
    shared.spare.detach(cache);
}

/// Maps stacks until `count` of `class` are free.
pub(super) fn reserve(class: Class, count: usize) -> Result<(), StackError> {
    set_up();
    let missing = count.saturating_sub(free_now(class));
    // A cgroup at its limit kills a process instead of returning ENOMEM.
    if missing > 0 && memory_left().is_some_and(|left| left < taken_by(class, missing)) {
        return Err(StackError::NoMemory(libc::ENOMEM));
    }
    for _ in 0..missing {
        or_make_room(class, || {
            let base = region::map_stack(class)?;
            debug::fill_new(base, class);
            let word = Word::new(base.as_ptr() as usize, class, State::Moving);
            publish(base, class, |header, shared| {
                shared.depot.store_own(header, word)
            })
        })?;
    }
    PROMISED[class.index()].fetch_max(count, Ordering::Relaxed);
    Ok(())
}

/// Bytes that the last look at the control group leaves to new stacks: not each of them looks.
static CREDIT: AtomicU64 = AtomicU64::new(0);

/// Refuses a stack that the control group has no memory for: at its limit it kills a process instead of
/// returning ENOMEM.
fn take_memory(bytes: u64) -> Result<(), StackError> {
    /// The most that is taken without another look.
    const MOST: u64 = 64 << 20;
    /// What the kernel takes for the thread itself, and others meanwhile.
    const MARGIN: u64 = 2 << 20;
    let take = |credit: u64| credit.checked_sub(bytes);
    if CREDIT
        .fetch_update(Ordering::Relaxed, Ordering::Relaxed, take)
        .is_ok()
    {
        return Ok(());
    }
    let left = memory_left().unwrap_or(u64::MAX);
    if left < bytes.saturating_add(MARGIN) {
        return Err(StackError::NoMemory(libc::ENOMEM));
    }
    // An eighth: the nearer the limit, the more often it is read.
    CREDIT.store((left / 8).min(MOST), Ordering::Relaxed);
    Ok(())
}

/// The memory that `count` stacks need, including the kernel's for page tables and two mappings
/// each.
fn taken_by(class: Class, count: usize) -> u64 {
    let each = class.size() + class.size() / 256 + (8 << 10);
    (each as u64).saturating_mul(count as u64)
}

fn free_now(class: Class) -> usize {
    let free = |word: &Word| matches!(word.state(), Some(State::Kept | State::Stored));
    TABLE
        .stacks()
        .filter(|(_, word)| word.class() == class && free(word))
        .count()
}

/// Returns free stacks of `class` to the kernel until `keep` are left. Returns how many.
pub(super) fn trim(class: Class, keep: usize) -> Result<usize, StackError> {
    set_up();
    PROMISED[class.index()].fetch_min(keep, Ordering::Relaxed);
    give_back_free(class, keep)
}

fn give_back_free(class: Class, keep: usize) -> Result<usize, StackError> {
    let mut given = 0;
    for _ in keep..free_now(class) {
        // Removed from the table first and unmapped next: once unmapped, the kernel may reuse the
        // address for a new stack, which must not be found through this header.
        let stored = SHARED.lock().depot.take(class, State::Gone);
        let Some((header, word)) = stored.or_else(|| TABLE.steal(class, State::Gone)) else {
            break;
        };
        debug::before_unmap(header, word);
        let base = base_of(word);
        if let Err(error) = region::unmap_stack(base, class) {
            // The stack is still mapped and still ours. If its place in the table is taken by
            // now, only its address space is lost.
            let word = word.with(State::Moving);
            let _ = enter(base, class, |header, shared| {
                shared.depot.store_own(header, word)
            });
            return Err(error);
        }
        COUNTS[class.index()].unmapped.add(1);
        given += 1;
    }
    Ok(given)
}

/// Changes the state of a stack from `from`. Returns false when it is in another state.
pub(super) fn mark(address: usize, from: State, to: State) -> bool {
    let Some(header) = TABLE.find(address) else {
        return false;
    };
    let seen = header.word.load();
    seen.state() == Some(from) && header.word.swap_if(seen, seen.with(to)).is_ok()
}
