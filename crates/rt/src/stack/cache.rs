//! Each thread's magazines, and how a thread gets and leaves them.
//!
//! A pthread key finds them, not thread-local storage: a shared library that is loaded late gets
//! its thread-local storage at the first use, from malloc, on any thread. A key's value lies in
//! the thread's own control block, and the memory behind it comes from a store that is filled
//! when stacks are created.

#![expect(unsafe_code, reason = "each thread's magazines, by pthread's keys")]

use std::cell::Cell;
use std::ffi::c_void;
use std::ptr::{NonNull, null_mut};
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use super::class::{CLASSES, Class};
use super::error::StackError;
use super::magazine::Magazine;
use super::pool;
use super::table;

/// One thread's free stacks.
pub(super) struct Cache {
    magazines: [Magazine<AtomicU64>; CLASSES],
    /// The bounds of the thread's own stack, (0, 0) until the first request.
    pub(super) bounds: Cell<(usize, usize)>,
    /// The next unused cache.
    next: Cell<*const Cache>,
    /// In the first cache of a chunk: the next chunk.
    next_chunk: Cell<*const Cache>,
}

impl Cache {
    const fn new() -> Self {
        Self {
            magazines: [const { Magazine::new() }; CLASSES],
            bounds: Cell::new((0, 0)),
            next: Cell::new(null_mut()),
            next_chunk: Cell::new(null_mut()),
        }
    }

    /// Drops every hint; the stacks stay free and can be stolen.
    pub(super) fn forget(&self) {
        for magazine in &self.magazines {
            magazine.clear();
        }
    }

    #[inline]
    pub(super) fn magazine(&self, class: Class) -> &Magazine<AtomicU64> {
        &self.magazines[class.index()]
    }
}

/// No key: the library is not set up, or runs without magazines.
const NO_KEY: u32 = u32::MAX;
static KEY: AtomicU32 = AtomicU32::new(NO_KEY);

/// Creates the key. Without one (all used), or with one whose value malloc would allocate,
/// threads use the depot each time.
pub(super) fn set_up() {
    /// glibc keeps the values of the first 32 keys in the thread's control block.
    const IN_CONTROL_BLOCK: libc::pthread_key_t = 32;
    if in_use() {
        return;
    }
    let mut key = 0;
    // SAFETY: the key is written before the call returns; the destructor accepts any value that
    // the key is set to, which are pointers to caches.
    if unsafe { libc::pthread_key_create(&mut key, Some(thread_ends)) } != 0 {
        return;
    }
    if key < IN_CONTROL_BLOCK {
        KEY.store(key, Ordering::Release);
    } else {
        // SAFETY: the key was made above and no thread has a value for it.
        unsafe { libc::pthread_key_delete(key) };
    }
}

/// The calling thread's magazines, if it has any.
#[inline]
pub(super) fn current() -> Option<&'static Cache> {
    let key = KEY.load(Ordering::Acquire);
    if key == NO_KEY {
        return None;
    }
    // SAFETY: the key exists for the life of the process.
    let value = unsafe { libc::pthread_getspecific(key) };
    // SAFETY: the key's value is null or a cache that `attach` gave to this thread alone; caches
    // live for ever.
    unsafe { value.cast::<Cache>().cast_const().as_ref() }
}

/// Whether threads have magazines at all.
pub(super) fn in_use() -> bool {
    KEY.load(Ordering::Acquire) != NO_KEY
}

/// The unused caches. Used under the depot's lock.
pub(super) struct Spare {
    free: *const Cache,
    chunks: *const Cache,
    /// The number of unused caches.
    len: usize,
}

// SAFETY: the pointers lead to memory that lives for ever and is accessed only under the depot's
// lock.
unsafe impl Send for Spare {}

/// Caches per mapping.
const CHUNK: usize = 64;
/// At this number of unused caches or fewer, a slow path maps more.
const FEW: usize = CHUNK / 4;

impl Spare {
    pub(super) const fn new() -> Self {
        Self {
            free: null_mut(),
            chunks: null_mut(),
            len: 0,
        }
    }

    pub(super) fn is_short(&self) -> bool {
        self.len < FEW
    }

    /// Gives the calling thread a cache, if one is left. No system call.
    pub(super) fn attach(&mut self) -> Option<&'static Cache> {
        let key = KEY.load(Ordering::Acquire);
        // SAFETY: unused caches live for ever and are linked under the lock that the caller
        // holds.
        let cache: &'static Cache = unsafe { self.free.as_ref() }?;
        // SAFETY: the key exists, and its value lies in the thread's control block.
        let set = unsafe { libc::pthread_setspecific(key, std::ptr::from_ref(cache).cast()) };
        if set != 0 {
            return None;
        }
        self.free = cache.next.get();
        self.len -= 1;
        Some(cache)
    }

    /// Takes back a cache whose thread has ended.
    pub(super) fn detach(&mut self, cache: &'static Cache) {
        cache.forget();
        cache.bounds.set((0, 0));
        cache.next.set(self.free);
        self.free = cache;
        self.len += 1;
    }

    /// Adds the caches of [`new_chunk`].
    pub(super) fn adopt(&mut self, chunk: NonNull<Cache>) {
        // SAFETY: new_chunk initialised CHUNK caches there, which live for ever and which nothing else
        // references.
        let caches: &'static [Cache] = unsafe { std::slice::from_raw_parts(chunk.as_ptr(), CHUNK) };
        caches[0].next_chunk.set(self.chunks);
        self.chunks = chunk.as_ptr();
        for cache in caches {
            self.detach(cache);
        }
    }

    /// In the child of a fork: every cache except `mine` is unused, because its thread doesn't
    /// exist here.
    pub(super) fn after_fork(&mut self, mine: Option<&'static Cache>) {
        self.free = null_mut();
        self.len = 0;
        let mut chunk = self.chunks;
        while !chunk.is_null() {
            // SAFETY: `chunks` links starts of chunks of CHUNK caches that live for ever,
            // and there is one thread in this process.
            let caches: &'static [Cache] = unsafe { std::slice::from_raw_parts(chunk, CHUNK) };
            for cache in caches {
                if !mine.is_some_and(|mine| std::ptr::eq(mine, cache)) {
                    self.detach(cache);
                }
            }
            chunk = caches[0].next_chunk.get();
        }
    }
}

/// Maps new caches. Called without the lock.
pub(super) fn new_chunk() -> Result<NonNull<Cache>, StackError> {
    let chunk: NonNull<Cache> = table::map_zeroed(CHUNK * size_of::<Cache>())?.cast();
    for number in 0..CHUNK {
        // SAFETY: number < CHUNK, and there is room for CHUNK caches.
        let place = unsafe { chunk.add(number) };
        // SAFETY: the place is writable, aligned (it starts at a page) and unused.
        unsafe { place.write(Cache::new()) };
    }
    Ok(chunk)
}

/// Called by the C library when a thread with a cache ends.
extern "C" fn thread_ends(value: *mut c_void) {
    // SAFETY: `attach` set the value for this thread, and the C library has already set the key's
    // value to null, so this is its last use.
    if let Some(cache) = unsafe { value.cast::<Cache>().cast_const().as_ref() } {
        pool::give_back(cache);
    }
}
