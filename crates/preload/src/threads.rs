//! The threads on stacks of the pool: one record for each, found by its handle.

use std::cell::UnsafeCell;
use std::ffi::c_void;
use std::ptr::{NonNull, null_mut};
use std::sync::atomic::{AtomicU32, Ordering};

use libc::pthread_t;
use punctual_rt::stack::{self, Class};
use punctual_rt::sys::map;

use crate::lock::Lock;
use crate::real;

/// The start routine of a thread, and its stack.
pub(crate) struct Record {
    /// The next record in its bucket, or in another list.
    next: *mut Record,
    /// The next of the records to be joined by this library.
    next_ended: *mut Record,
    /// 0 until the thread or its creator has inserted it into the map.
    pub(crate) thread: pthread_t,
    pub(crate) start: real::Start,
    pub(crate) argument: *mut c_void,
    /// The stack; 0 and no class for a thread on its own stack.
    pub(crate) base: usize,
    pub(crate) class: Option<Class>,
    pub(crate) detached: bool,
    /// The thread has ended, except for remaining destructors.
    ended: bool,
    /// Its creator doesn't access it any more: only then it may be reused.
    created: bool,
    /// It was joined before `created` was set.
    gone: bool,
}

/// Buckets of the map: a few threads each in programs with hundreds.
const BUCKETS: usize = 256;

struct Threads {
    buckets: [*mut Record; BUCKETS],
    /// Detached threads that have ended or are about to.
    ended: *mut Record,
    free: *mut Record,
}

struct Shared(UnsafeCell<Threads>);

// SAFETY: used only under LOCK.
unsafe impl Sync for Shared {}

static LOCK: Lock = Lock::new();
static SHARED: Shared = Shared(UnsafeCell::new(Threads {
    buckets: [null_mut(); BUCKETS],
    ended: null_mut(),
    free: null_mut(),
}));
/// The key of each thread's record; its destructor reports the end of the thread.
static KEY: AtomicU32 = AtomicU32::new(u32::MAX);

/// Initialises the map.
pub(crate) fn set_up() {
    // SAFETY: called once, before any record exists.
    unsafe { LOCK.init() };
    let mut key = 0;
    // SAFETY: the place is live; the destructor is never unloaded, see build.rs.
    if unsafe { libc::pthread_key_create(&mut key, Some(ends)) } != 0 {
        crate::report::end("the C library has no thread-specific key left", "");
    }
    KEY.store(key, Ordering::Relaxed);
    // SAFETY: the handlers are functions of this library, which is never unloaded.
    unsafe { libc::pthread_atfork(Some(before_fork), Some(after_fork), Some(in_child)) };
}

extern "C" fn before_fork() {
    LOCK.take();
}

extern "C" fn after_fork() {
    // SAFETY: `before_fork` locked it on this thread.
    unsafe { LOCK.give_back() };
}

/// The other threads don't exist in the child, and the pool recovers their stacks itself.
extern "C" fn in_child() {
    // SAFETY: the child has one thread. The lock can't be released: the kernel knows its holder
    // by the parent's thread id.
    unsafe { LOCK.init() };
    with(|threads| {
        let mine = current();
        threads.ended = null_mut();
        for bucket in 0..BUCKETS {
            let mut record = std::mem::replace(&mut threads.buckets[bucket], null_mut());
            while let Some(found) = NonNull::new(record) {
                // SAFETY: records in the map are valid, and no other thread exists.
                let next = unsafe { (*found.as_ptr()).next };
                if found.as_ptr() == mine {
                    // SAFETY: the record is valid, and was removed from its list.
                    unsafe { threads.insert(found) };
                } else {
                    // SAFETY: the record is valid, and was removed from the map.
                    unsafe { threads.put_away(found) };
                }
                record = next;
            }
        }
    });
}

/// Runs `body` under the lock; `body` calls no code of the program and no cancellation point.
fn with<R>(body: impl FnOnce(&mut Threads) -> R) -> R {
    LOCK.take();
    // SAFETY: under the lock this is the only reference.
    let result = body(unsafe { &mut *SHARED.0.get() });
    // SAFETY: locked above by this thread.
    unsafe { LOCK.give_back() };
    result
}

/// The calling thread's record, if it runs on a stack of the pool; else null, also while the
/// thread ends.
fn current() -> *mut Record {
    let key = KEY.load(Ordering::Relaxed);
    if key == u32::MAX {
        return null_mut();
    }
    // SAFETY: set_up created the key.
    unsafe { libc::pthread_getspecific(key) }.cast()
}

fn bucket_of(thread: pthread_t) -> usize {
    // Handles are addresses near the top of a stack, so their low bits are equal.
    ((thread >> 12) ^ (thread >> 20)) as usize % BUCKETS
}

impl Threads {
    fn find(&self, thread: pthread_t) -> Option<NonNull<Record>> {
        let mut record = self.buckets[bucket_of(thread)];
        while let Some(found) = NonNull::new(record) {
            // SAFETY: records in the map are valid.
            if unsafe { (*record).thread } == thread {
                return Some(found);
            }
            // SAFETY: records in the map are valid.
            record = unsafe { (*record).next };
        }
        None
    }

    /// Inserts a new thread, unless it was already inserted.
    ///
    /// # Safety
    /// The record belongs to that thread, and is in no list, or in the map.
    unsafe fn enter(&mut self, record: NonNull<Record>, thread: pthread_t) {
        // SAFETY: by contract the record is valid, and the lock is held.
        if unsafe { record.as_ref() }.thread == 0 {
            // SAFETY: it is in no list, and used under the lock.
            unsafe { (*record.as_ptr()).thread = thread };
            // SAFETY: the record is complete now, and in no list.
            unsafe { self.insert(record) };
        }
    }

    /// # Safety
    /// The record is complete and in no list.
    unsafe fn insert(&mut self, record: NonNull<Record>) {
        // SAFETY: by contract the record is complete.
        let bucket = bucket_of(unsafe { record.as_ref() }.thread);
        // SAFETY: by contract the record is in no list, so no other thread uses it yet.
        unsafe { (*record.as_ptr()).next = self.buckets[bucket] };
        self.buckets[bucket] = record.as_ptr();
    }

    fn remove(&mut self, thread: pthread_t) -> Option<NonNull<Record>> {
        let found = self.find(thread)?;
        let mut place: *mut *mut Record = &mut self.buckets[bucket_of(thread)];
        // SAFETY: `place` is the bucket or the `next` of a record in it, and `found` is in that
        // bucket.
        while unsafe { *place } != found.as_ptr() {
            // SAFETY: `place` is the bucket or the `next` of a record in it.
            let record = unsafe { *place };
            // SAFETY: the record was found in this bucket, so `place` points to a record before
            // the end.
            place = unsafe { &raw mut (*record).next };
        }
        // SAFETY: `place` points to the found record, which is valid.
        let next = unsafe { found.as_ref() }.next;
        // SAFETY: `place` is the bucket or the `next` of a record in it, under the lock.
        unsafe { *place = next };
        Some(found)
    }

    /// Keeps a record for a later thread.
    ///
    /// # Safety
    /// The record is in no list and nothing uses it any more.
    unsafe fn put_away(&mut self, record: NonNull<Record>) {
        // SAFETY: by contract nothing else uses the record.
        unsafe { (*record.as_ptr()).next = self.free };
        self.free = record.as_ptr();
    }

    fn take_free(&mut self) -> Option<NonNull<Record>> {
        let found = NonNull::new(self.free)?;
        // SAFETY: nothing else uses the records in this list.
        self.free = unsafe { found.as_ref() }.next;
        Some(found)
    }

    /// # Safety
    /// The record is in the map, detached, and not in this list.
    unsafe fn wait_for_end(&mut self, record: NonNull<Record>) {
        // SAFETY: by contract the record is in the map, so it is valid.
        unsafe { (*record.as_ptr()).next_ended = self.ended };
        self.ended = record.as_ptr();
    }
}

/// Takes a record and fills it; `None` when the kernel has no memory.
pub(crate) fn new_record(filled: Record) -> Option<NonNull<Record>> {
    /// Records mapped at a time; they are never unmapped.
    const CHUNK: usize = 64 << 10;
    let record = match with(Threads::take_free) {
        Some(record) => record,
        None => {
            let chunk = map::reserve(CHUNK).ok()?;
            // SAFETY: the chunk is new, and nothing else has its address.
            unsafe { map::protect(chunk, CHUNK, map::Access::ReadWrite) }.ok()?;
            let first: NonNull<Record> = chunk.cast();
            let records = CHUNK / size_of::<Record>();
            with(|threads| {
                for index in 1..records {
                    // SAFETY: the index is within the chunk, which pages align.
                    let record = unsafe { first.add(index) };
                    // SAFETY: the record's memory is writable; `put_away` sets the only field
                    // that is read before the record is filled.
                    unsafe { threads.put_away(record) };
                }
            });
            first
        }
    };
    // SAFETY: the record is in no list, and nothing else uses it.
    unsafe { record.write(filled) };
    Some(record)
}

/// Takes back a record that was never in the map, or was removed from it.
pub(crate) fn drop_record(record: NonNull<Record>) {
    // SAFETY: the caller gives up the record, which is in no list.
    with(|threads| unsafe { threads.put_away(record) });
}

impl Record {
    /// A record of a thread that runs `start` on a stack of the pool, or on its own.
    pub(crate) fn new(
        start: real::Start,
        argument: *mut c_void,
        stack: Option<(usize, Class)>,
        detached: bool,
    ) -> Self {
        Self {
            next: null_mut(),
            next_ended: null_mut(),
            thread: 0,
            start,
            argument,
            base: stack.map_or(0, |(base, _)| base),
            class: stack.map(|(_, class)| class),
            detached,
            ended: false,
            created: false,
            gone: false,
        }
    }
}

/// Starts a thread with `create`, which returns an error or the new thread's handle.
///
/// Without the lock: the C library allocates meanwhile, and a program's malloc may start threads
/// of its own. The thread and its creator both insert the record, whichever is first, so that it
/// is in the map before either proceeds.
pub(crate) fn start(
    record: NonNull<Record>,
    create: impl FnOnce() -> Result<pthread_t, i32>,
) -> Result<(), i32> {
    let thread = create()?;
    let gone = with(|threads| {
        // SAFETY: the record can't be reused before `created` is set.
        unsafe { threads.enter(record, thread) };
        // SAFETY: the record can't be reused before `created` is set; under the lock.
        unsafe { (*record.as_ptr()).created = true };
        // SAFETY: the record can't be reused before `created` is set; under the lock.
        unsafe { record.as_ref() }.gone
    });
    if gone {
        // SAFETY: the join removed it from the map, and left it to the creator to reuse it.
        unsafe { settle(record) };
    }
    Ok(())
}

/// Makes `record` the calling thread's, so that the end of the thread is noticed.
pub(crate) fn enter(record: *mut Record) {
    if let Some(record) = NonNull::new(record) {
        // SAFETY: the calling thread's own record, which exists until the thread has ended.
        with(|threads| unsafe { threads.enter(record, this_thread()) });
    }
    // SAFETY: the key was created; the value is passed to `ends` when the thread ends.
    unsafe { libc::pthread_setspecific(KEY.load(Ordering::Relaxed), record.cast()) };
}

/// Runs on each thread of the pool when it ends, in any way. Other destructors of the thread may
/// run after it, on the same stack.
extern "C" fn ends(record: *mut c_void) {
    let Some(record) = NonNull::new(record.cast::<Record>()) else {
        return;
    };
    with(|threads| {
        // SAFETY: the thread's record is in the map until the thread is joined.
        unsafe { (*record.as_ptr()).ended = true };
        // SAFETY: the thread's record is in the map until the thread is joined.
        if unsafe { record.as_ref() }.detached {
            // SAFETY: it is added to the list here, or in `detach` after its end, but not twice.
            unsafe { threads.wait_for_end(record) };
        }
    });
}

/// Whether the thread is detached; `None` if it isn't one of the pool.
pub(crate) fn detached(thread: pthread_t) -> Option<bool> {
    let mine = current();
    // SAFETY: the caller's own record is in the map while it runs.
    if !mine.is_null() && unsafe { (*mine).thread } == thread && thread == this_thread() {
        // SAFETY: the caller's own record is in the map while it runs; a flag that is set once.
        return Some(unsafe { (*mine).detached });
    }
    with(|threads| {
        threads
            .find(thread)
            // SAFETY: records in the map are valid.
            .map(|record| unsafe { record.as_ref() }.detached)
    })
}

fn this_thread() -> pthread_t {
    // SAFETY: pthread_self has no precondition.
    unsafe { libc::pthread_self() }
}

/// Marks the thread as detached. `None`: it isn't one of the pool; false: it was already
/// detached.
pub(crate) fn detach(thread: pthread_t) -> Option<bool> {
    with(|threads| {
        let mut record = threads.find(thread)?;
        // SAFETY: records in the map are valid, and used under the lock.
        let fields = unsafe { record.as_mut() };
        if fields.detached {
            return Some(false);
        }
        fields.detached = true;
        if fields.ended {
            // SAFETY: in the map, detached, and not in the list: it wasn't detached before.
            unsafe { threads.wait_for_end(record) };
        }
        Some(true)
    })
}

/// Frees the stack of a thread that was joined and no longer exists.
pub(crate) fn joined(thread: pthread_t) {
    let record = with(|threads| {
        let record = threads.remove(thread)?;
        // SAFETY: it was in the map, so it is valid; used under the lock.
        let fields = unsafe { &mut *record.as_ptr() };
        fields.gone = true;
        fields.created.then_some(record)
    });
    if let Some(record) = record {
        // SAFETY: it was removed from the map, its thread has ended, and its creator is done with
        // it.
        unsafe { settle(record) };
    }
}

/// # Safety
/// The record is in no list, and its thread has ended.
unsafe fn settle(record: NonNull<Record>) {
    // SAFETY: by contract nothing uses the record any more.
    let fields = unsafe { record.as_ref() };
    let (base, class) = (fields.base, fields.class);
    drop_record(record);
    if let Some(class) = class {
        free_stack(base, class);
    }
}

/// Returns a stack that no thread runs on to the pool.
pub(crate) fn free_stack(base: usize, class: Class) {
    if let Some(place) = NonNull::new(base as *mut u8) {
        // A Java machine protects parts of its threads' stacks itself, and after a forced end of the thread
        // they stay protected.
        // SAFETY: the stack belongs to this library, and no thread runs on it.
        let _ = unsafe { map::protect(place, class.size(), map::Access::ReadWrite) };
    }
    stack::set_live(base, false);
    // A stack that can't be freed stays unchanged: it is in use, or not a stack.
    // SAFETY: no thread runs on it any more.
    let _ = unsafe { stack::free(base, class) };
}

/// Frees the stacks of detached threads that have ended, so that they aren't reported as leaks.
/// Waits at most a tenth of a second for threads that are ending.
pub(crate) extern "C" fn reap_at_exit() {
    let pause = libc::timespec {
        tv_sec: 0,
        tv_nsec: 1_000_000,
    };
    for _ in 0..100 {
        reap();
        if with(|threads| threads.ended.is_null()) {
            return;
        }
        // SAFETY: the struct is live.
        unsafe { libc::nanosleep(&pause, null_mut()) };
    }
}

/// Joins the detached threads that have ended, and frees their stacks.
pub(crate) fn reap() {
    let mut record = with(|threads| std::mem::replace(&mut threads.ended, null_mut()));
    while let Some(found) = NonNull::new(record) {
        // SAFETY: records of that list are in the map and valid, and this call has taken the
        // list.
        let fields = unsafe { found.as_ref() };
        let (thread, next) = (fields.thread, fields.next_ended);
        // SAFETY: the record is in the map; its creator sets the flag under the lock.
        let created = with(|_| unsafe { found.as_ref() }.created);
        // Never waits, and is no cancellation point. Without the lock: it frees memory.
        // SAFETY: the thread is joinable for the C library, and nothing else joins it.
        if created && unsafe { real::pthread_tryjoin_np(thread, null_mut()) } == 0 {
            with(|threads| threads.remove(thread));
            // SAFETY: it was removed from the map, and its thread was joined.
            unsafe { settle(found) };
        } else {
            // SAFETY: it was removed from this list above, and is in the map.
            with(|threads| unsafe { threads.wait_for_end(found) });
        }
        record = next;
    }
}
