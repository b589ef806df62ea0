//! The threads that stand on stacks of the pool: a record of each, found by its handle.

use std::cell::UnsafeCell;
use std::ffi::c_void;
use std::ptr::{NonNull, null_mut};
use std::sync::atomic::{AtomicU32, Ordering};

use libc::pthread_t;
use punctual_rt::stack::{self, Class};
use punctual_rt::sys::map;

use crate::lock::Lock;
use crate::real;

/// What a thread runs, and on what.
pub(crate) struct Record {
    /// The next one in its bucket, or in the list that it is in otherwise.
    next: *mut Record,
    /// The next one of those that wait to be joined by us.
    next_ended: *mut Record,
    /// 0 until the thread or its creator has entered it into the map.
    pub(crate) thread: pthread_t,
    pub(crate) start: real::Start,
    pub(crate) argument: *mut c_void,
    /// The stack; 0 and no class for a thread on its own.
    pub(crate) base: usize,
    pub(crate) class: Option<Class>,
    pub(crate) detached: bool,
    /// It runs nothing of the program's any more but what else is run when a thread ends.
    ended: bool,
    /// Its creator looks at it no more: until then it isn't used again.
    created: bool,
    /// It was joined before that.
    gone: bool,
}

/// Buckets of the map: a few threads each in programs with hundreds.
const BUCKETS: usize = 256;

struct Threads {
    buckets: [*mut Record; BUCKETS],
    /// Detached ones that have ended or are about to.
    ended: *mut Record,
    free: *mut Record,
}

struct Shared(UnsafeCell<Threads>);

// SAFETY: used under LOCK alone.
unsafe impl Sync for Shared {}

static LOCK: Lock = Lock::new();
static SHARED: Shared = Shared(UnsafeCell::new(Threads {
    buckets: [null_mut(); BUCKETS],
    ended: null_mut(),
    free: null_mut(),
}));
/// The key under which each thread keeps its record; its destructor tells that a thread ends.
static KEY: AtomicU32 = AtomicU32::new(u32::MAX);

/// Makes the map ready.
pub(crate) fn set_up() {
    // SAFETY: called once, before there is a record.
    unsafe { LOCK.init() };
    let mut key = 0;
    // SAFETY: the place is live; the destructor is never unloaded, see build.rs.
    if unsafe { libc::pthread_key_create(&mut key, Some(ends)) } != 0 {
        crate::report::end("the C library has no key left for threads", "");
    }
    KEY.store(key, Ordering::Relaxed);
    // SAFETY: the handlers are never unloaded either.
    unsafe { libc::pthread_atfork(Some(before_fork), Some(after_fork), Some(in_child)) };
}

extern "C" fn before_fork() {
    LOCK.take();
}

extern "C" fn after_fork() {
    // SAFETY: taken before the fork.
    unsafe { LOCK.give_back() };
}

/// The other threads aren't here, and the pool takes their stacks back itself.
extern "C" fn in_child() {
    // SAFETY: the child has one thread. The lock can't be given back: the kernel knows its
    // holder by the parent's thread id.
    unsafe { LOCK.init() };
    with(|threads| {
        let mine = current();
        threads.ended = null_mut();
        for bucket in 0..BUCKETS {
            let mut record = std::mem::replace(&mut threads.buckets[bucket], null_mut());
            while let Some(found) = NonNull::new(record) {
                // SAFETY: records in the map are whole, and nobody else is here.
                let next = unsafe { (*found.as_ptr()).next };
                if found.as_ptr() == mine {
                    // SAFETY: the record is whole, and in no list just now.
                    unsafe { threads.insert(found) };
                } else {
                    // SAFETY: the record has left the map, and its thread ended with the fork.
                    unsafe { threads.put_away(found) };
                }
                record = next;
            }
        }
    });
}

/// Runs `body` with the lock held; it calls nothing of the program's and nothing that can be
/// cancelled.
fn with<R>(body: impl FnOnce(&mut Threads) -> R) -> R {
    LOCK.take();
    // SAFETY: under the lock this is the only reference.
    let result = body(unsafe { &mut *SHARED.0.get() });
    // SAFETY: taken above.
    unsafe { LOCK.give_back() };
    result
}

/// The calling thread's record, if it stands on a stack of the pool; null else, and while the
/// thread ends.
fn current() -> *mut Record {
    let key = KEY.load(Ordering::Relaxed);
    if key == u32::MAX {
        return null_mut();
    }
    // SAFETY: the key was made.
    unsafe { libc::pthread_getspecific(key) }.cast()
}

fn bucket_of(thread: pthread_t) -> usize {
    // Handles are addresses near the top of a stack: their low bits are alike.
    ((thread >> 12) ^ (thread >> 20)) as usize % BUCKETS
}

impl Threads {
    fn find(&self, thread: pthread_t) -> Option<NonNull<Record>> {
        let mut record = self.buckets[bucket_of(thread)];
        while let Some(found) = NonNull::new(record) {
            // SAFETY: records in the map are whole.
            if unsafe { (*record).thread } == thread {
                return Some(found);
            }
            // SAFETY: the record is in the map, and whole; the lock is held.
            record = unsafe { (*record).next };
        }
        None
    }

    /// Enters a new thread, unless that is done.
    ///
    /// # Safety
    /// The record is that thread's, and in no list or in the map.
    unsafe fn enter(&mut self, record: NonNull<Record>, thread: pthread_t) {
        // SAFETY: the record is whole, and read under the lock.
        if unsafe { record.as_ref() }.thread == 0 {
            // SAFETY: in no list, and used under the lock.
            unsafe { (*record.as_ptr()).thread = thread };
            // SAFETY: it is whole now.
            unsafe { self.insert(record) };
        }
    }

    /// # Safety
    /// The record is whole and in no list.
    unsafe fn insert(&mut self, record: NonNull<Record>) {
        // SAFETY: the record is whole, and read under the lock.
        let bucket = bucket_of(unsafe { record.as_ref() }.thread);
        // SAFETY: the record is in no list, so nobody else knows it yet.
        unsafe { (*record.as_ptr()).next = self.buckets[bucket] };
        self.buckets[bucket] = record.as_ptr();
    }

    fn remove(&mut self, thread: pthread_t) -> Option<NonNull<Record>> {
        let found = self.find(thread)?;
        let mut place: *mut *mut Record = &mut self.buckets[bucket_of(thread)];
        // SAFETY: `place` is the bucket or the `next` of a record in it, and `found` is there.
        while unsafe { *place } != found.as_ptr() {
            // SAFETY: `place` is the bucket or the `next` of a record in it, under the lock.
            let record = unsafe { *place };
            // SAFETY: the list goes on until `found`, so this is a record of it.
            place = unsafe { &raw mut (*record).next };
        }
        // SAFETY: the record was found in the map, and is whole.
        let next = unsafe { found.as_ref() }.next;
        // SAFETY: `place` is the bucket or the `next` of a record in it, under the lock.
        unsafe { *place = next };
        Some(found)
    }

    /// Keeps a record for the next thread.
    ///
    /// # Safety
    /// The record is in no list and nobody uses it any more.
    unsafe fn put_away(&mut self, record: NonNull<Record>) {
        // SAFETY: nobody uses the record any more, and it is written under the lock.
        unsafe { (*record.as_ptr()).next = self.free };
        self.free = record.as_ptr();
    }

    fn take_free(&mut self) -> Option<NonNull<Record>> {
        let found = NonNull::new(self.free)?;
        // SAFETY: records in the list are nobody else's.
        self.free = unsafe { found.as_ref() }.next;
        Some(found)
    }

    /// # Safety
    /// The record is in the map, detached, and not in this list.
    unsafe fn wait_for_end(&mut self, record: NonNull<Record>) {
        // SAFETY: the record is in the map, and not in this list; it is written under the lock.
        unsafe { (*record.as_ptr()).next_ended = self.ended };
        self.ended = record.as_ptr();
    }
}

/// A record to be filled; null when the kernel has no memory.
pub(crate) fn new_record(filled: Record) -> Option<NonNull<Record>> {
    /// Records made at a time; they are never given back.
    const CHUNK: usize = 64 << 10;
    let record = match with(Threads::take_free) {
        Some(record) => record,
        None => {
            let chunk = map::reserve(CHUNK).ok()?;
            // SAFETY: the chunk is new and nobody else's.
            unsafe { map::protect(chunk, CHUNK, map::Access::ReadWrite) }.ok()?;
            let first: NonNull<Record> = chunk.cast();
            let records = CHUNK / size_of::<Record>();
            with(|threads| {
                for index in 1..records {
                    // SAFETY: the index is within the chunk, which pages align.
                    let record = unsafe { first.add(index) };
                    // SAFETY: the memory is the record's; `put_away` sets the only field
                    // that is read before it is filled.
                    unsafe { threads.put_away(record) };
                }
            });
            first
        }
    };
    // SAFETY: the record is in no list, and nobody else's.
    unsafe { record.write(filled) };
    Some(record)
}

/// Takes a record back that never came into the map, or has left it.
pub(crate) fn drop_record(record: NonNull<Record>) {
    // SAFETY: the caller gives it up.
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

/// Starts a thread by `create`, which returns an error or the new thread's handle.
///
/// Without the lock: the C library allocates meanwhile, and a program's malloc may start threads
/// of its own. The thread and its creator both enter it, whoever comes first, so that it is in
/// the map when either goes on.
pub(crate) fn start(
    record: NonNull<Record>,
    create: impl FnOnce() -> Result<pthread_t, i32>,
) -> Result<(), i32> {
    let thread = create()?;
    let gone = with(|threads| {
        // SAFETY: the record is the thread's until it is `created`.
        unsafe { threads.enter(record, thread) };
        // SAFETY: the record is the thread's until it is `created`, and written under the lock.
        unsafe { (*record.as_ptr()).created = true };
        // SAFETY: the record is the thread's until that is seen, under this lock.
        unsafe { record.as_ref() }.gone
    });
    if gone {
        // SAFETY: it left the map when it was joined, and that left it to us.
        unsafe { settle(record) };
    }
    Ok(())
}

/// Makes `record` the calling thread's, so that its end is seen.
pub(crate) fn enter(record: *mut Record) {
    if let Some(record) = NonNull::new(record) {
        // SAFETY: the calling thread's own record, which its end alone takes away.
        with(|threads| unsafe { threads.enter(record, this_thread()) });
    }
    // SAFETY: the key was made; the value is given to `ends` when the thread ends.
    unsafe { libc::pthread_setspecific(KEY.load(Ordering::Relaxed), record.cast()) };
}

/// Runs on each thread of the pool when it ends, however that comes about. Other destructors
/// of the thread may run after this one, and it stands on its stack a while yet.
extern "C" fn ends(record: *mut c_void) {
    let Some(record) = NonNull::new(record.cast::<Record>()) else {
        return;
    };
    with(|threads| {
        // SAFETY: the thread's record is in the map until the thread is joined.
        unsafe { (*record.as_ptr()).ended = true };
        // SAFETY: the thread's record is in the map until the thread is joined.
        if unsafe { record.as_ref() }.detached {
            // SAFETY: it comes into the list here, or in `detach` after its end.
            unsafe { threads.wait_for_end(record) };
        }
    });
}

/// Whether the thread is one of the pool, and detached if so.
pub(crate) fn detached(thread: pthread_t) -> Option<bool> {
    let mine = current();
    // SAFETY: the caller's own record is in the map while it runs.
    if !mine.is_null() && unsafe { (*mine).thread } == thread && thread == this_thread() {
        // SAFETY: the caller's own record is in the map while it runs; the flag is set once.
        return Some(unsafe { (*mine).detached });
    }
    with(|threads| {
        threads
            .find(thread)
            // SAFETY: records in the map are whole.
            .map(|record| unsafe { record.as_ref() }.detached)
    })
}

fn this_thread() -> pthread_t {
    // SAFETY: pthread_self has no precondition.
    unsafe { libc::pthread_self() }
}

/// Remembers that nobody will join the thread. `None`: it isn't one of the pool; false: it
/// was detached already.
pub(crate) fn detach(thread: pthread_t) -> Option<bool> {
    with(|threads| {
        let mut record = threads.find(thread)?;
        // SAFETY: records in the map are whole, and used under the lock.
        let fields = unsafe { record.as_mut() };
        if fields.detached {
            return Some(false);
        }
        fields.detached = true;
        if fields.ended {
            // SAFETY: in the map, detached, and not in the list: it wasn't detached so far.
            unsafe { threads.wait_for_end(record) };
        }
        Some(true)
    })
}

/// Takes the stack of a thread back that was joined: it is gone for good.
pub(crate) fn joined(thread: pthread_t) {
    let record = with(|threads| {
        let record = threads.remove(thread)?;
        // SAFETY: it is whole, and used under the lock.
        let fields = unsafe { &mut *record.as_ptr() };
        fields.gone = true;
        fields.created.then_some(record)
    });
    if let Some(record) = record {
        // SAFETY: it has left the map, and its thread is gone; its creator is done with it.
        unsafe { settle(record) };
    }
}

/// # Safety
/// The record is in no list, and its thread is gone.
unsafe fn settle(record: NonNull<Record>) {
    // SAFETY: the record is in no list, so nobody else reads or writes it.
    let fields = unsafe { record.as_ref() };
    let (base, class) = (fields.base, fields.class);
    drop_record(record);
    if let Some(class) = class {
        free_stack(base, class);
    }
}

/// Gives a stack back to the pool that no thread runs on.
pub(crate) fn free_stack(base: usize, class: Class) {
    if let Some(place) = NonNull::new(base as *mut u8) {
        // A Java machine guards parts of its threads' stacks itself, and a thread that was
        // ended by force leaves it so.
        // SAFETY: the stack is ours, and nobody runs on it.
        let _ = unsafe { map::protect(place, class.size(), map::Access::ReadWrite) };
    }
    stack::set_live(base, false);
    // A stack that can't be freed stays as it is: it is in use, or not one.
    // SAFETY: no thread runs on it any more.
    let _ = unsafe { stack::free(base, class) };
}

/// Takes back the stacks of detached threads that have ended: nobody has lost them. Some end just
/// now, so a tenth of a second at most is waited for those.
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

/// Joins the detached threads that have ended, and takes their stacks back.
pub(crate) fn reap() {
    let mut record = with(|threads| std::mem::replace(&mut threads.ended, null_mut()));
    while let Some(found) = NonNull::new(record) {
        // SAFETY: records of that list are whole and in the map, and the list is ours now.
        let fields = unsafe { found.as_ref() };
        let (thread, next) = (fields.thread, fields.next_ended);
        // SAFETY: the record stays in the map until it is joined below; its creator sets the flag
        // under the lock.
        let created = with(|_| unsafe { found.as_ref() }.created);
        // Never waits, and is no cancellation point. Without the lock: it frees memory.
        // SAFETY: the thread is joinable for the C library, and joined by nobody else.
        if created && unsafe { real::pthread_tryjoin_np(thread, null_mut()) } == 0 {
            with(|threads| threads.remove(thread));
            // SAFETY: it has left the map, and its thread was joined.
            unsafe { settle(found) };
        } else {
            // SAFETY: it is in no such list.
            with(|threads| unsafe { threads.wait_for_end(found) });
        }
        record = next;
    }
}
